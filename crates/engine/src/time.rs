//! The clock; and parses the timestamps of deliveries and checks their age.

/// The clock of a gateway.
pub trait Clock {
    /// Unix time in milliseconds.
    fn now_unix_ms(&self) -> u64;
}

/// The format of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Unix time in seconds
    Seconds,
    /// Unix time in milliseconds
    Milliseconds,
    /// `2025-10-09T08:53:20.618908427Z`
    Rfc3339,
    /// `Thu, 09 Oct 2025 08:53:20 GMT` (RFC 9110 section 5.6.7)
    HttpDate,
}

/// A timestamp outside its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampError {
    /// Too old
    Expired,
    /// Too far ahead
    Future,
}

/// The allowed distance of a timestamp from now, in seconds, bounds included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) unit: Unit,
    pub(super) max_age_s: u32,
    pub(super) max_ahead_s: u32,
}

impl Window {
    /// Whether `time` lies in the window around `now`, both in Unix milliseconds.
    pub(super) fn check(self, time: i64, now: u64) -> Result<(), TimestampError> {
        let mut now = i64::try_from(now).unwrap_or(i64::MAX);
        if self.unit == Unit::Seconds {
            // The sender's clock has whole seconds only.
            now -= now % 1000;
        }
        let age = now.saturating_sub(time);
        if age > i64::from(self.max_age_s) * 1000 {
            Err(TimestampError::Expired)
        } else if age < -i64::from(self.max_ahead_s) * 1000 {
            Err(TimestampError::Future)
        } else {
            Ok(())
        }
    }
}

/// Parses a timestamp into Unix milliseconds.
pub(crate) fn parse(unit: Unit, text: &[u8]) -> Option<i64> {
    match unit {
        // With at most 15 digits of seconds or 18 of milliseconds, an `i64` cannot overflow.
        Unit::Seconds => number(text, 1..=15).map(|seconds| seconds * 1000),
        Unit::Milliseconds => number(text, 1..=18),
        Unit::Rfc3339 => rfc_3339(text),
        Unit::HttpDate => http_date(text),
    }
}

fn number(text: &[u8], length: std::ops::RangeInclusive<usize>) -> Option<i64> {
    if !length.contains(&text.len()) {
        return None;
    }
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn two(text: [u8; 2], range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    number(&text, 2..=2).filter(|value| range.contains(value))
}

fn rfc_3339(text: &[u8]) -> Option<i64> {
    let ([y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T' | b't', rest @ ..], zone) = split_zone(text)? else {
        return None;
    };
    let ([h1, h2, b':', n1, n2, b':', s1, s2], fraction) = rest.split_first_chunk::<8>()? else { return None };
    let date = days(number(&[*y1, *y2, *y3, *y4], 4..=4)?, two([*m1, *m2], 1..=12)?, two([*d1, *d2], 1..=31)?)?;
    let clock = seconds([*h1, *h2], [*n1, *n2], [*s1, *s2])?;
    let milliseconds = match fraction {
        [] => 0,
        [b'.', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            digits.iter().chain(b"00").take(3).fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
        }
        _ => return None,
    };
    Some((date * 86_400 + clock - zone) * 1000 + milliseconds)
}

/// Splits off the zone. Returns the rest and the offset in seconds.
fn split_zone(text: &[u8]) -> Option<(&[u8], i64)> {
    if let [rest @ .., b'Z' | b'z'] = text {
        return Some((rest, 0));
    }
    let (rest, [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]) = text.split_last_chunk::<6>()? else { return None };
    let offset = two([*h1, *h2], 0..=23)? * 3600 + two([*m1, *m2], 0..=59)? * 60;
    Some((rest, if *sign == b'-' { -offset } else { offset }))
}

fn http_date(text: &[u8]) -> Option<i64> {
    const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let (weekday, rest) = text.split_first_chunk::<3>()?;
    let ([b',', b' ', d1, d2, b' '], rest) = rest.split_first_chunk::<5>()? else { return None };
    let (month, rest) = rest.split_first_chunk::<3>()?;
    let ([b' ', y1, y2, y3, y4, b' '], rest) = rest.split_first_chunk::<6>()? else { return None };
    let [h1, h2, b':', n1, n2, b':', s1, s2, b' ', b'G', b'M', b'T'] = rest else { return None };
    DAYS.iter().find(|known| **known == weekday)?;
    let month = MONTHS.iter().zip(1..).find(|(known, _)| **known == month)?.1;
    let date = days(number(&[*y1, *y2, *y3, *y4], 4..=4)?, month, two([*d1, *d2], 1..=31)?)?;
    Some((date * 86_400 + seconds([*h1, *h2], [*n1, *n2], [*s1, *s2])?) * 1000)
}

/// Seconds of the day; a leap second counts as the one before it.
fn seconds(hour: [u8; 2], minute: [u8; 2], second: [u8; 2]) -> Option<i64> {
    Some(two(hour, 0..=23)? * 3600 + two(minute, 0..=59)? * 60 + two(second, 0..=60)?.min(59))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; `None` for a day that its month does not have.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > length {
        return None;
    }
    // Years begin in March here, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = |year: i64| year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    Some(before(year) + (153 * month + 2) / 5 + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_times_are_digits_only() {
        assert_eq!(parse(Unit::Seconds, b"1760000000"), Some(1_760_000_000_000));
        assert_eq!(parse(Unit::Milliseconds, b"1760000000123"), Some(1_760_000_000_123));
        assert_eq!(parse(Unit::Seconds, b"999999999999999"), Some(999_999_999_999_999_000));
        for bad in ["", "-1", "+1", "1.0", "1e3", " 1", "0x1", "1_0", "99999999999999999999", "1760000000s"] {
            assert_eq!(parse(Unit::Seconds, bad.as_bytes()), None, "{bad}");
            assert_eq!(parse(Unit::Milliseconds, bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn rfc_3339_with_fractions_and_zones() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2025-10-09T08:53:20Z", 1_760_000_000_000),
            ("2025-10-09T08:53:20.618908427Z", 1_760_000_000_618),
            ("2025-10-09t08:53:20.5z", 1_760_000_000_500),
            ("2020-01-01T00:00:00-07:00", 1_577_862_000_000),
            ("2020-01-01T00:00:00+05:30", 1_577_817_000_000),
            ("2000-02-29T23:59:60Z", 951_868_799_000),
            ("1969-12-31T23:59:59Z", -1000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] {
            assert_eq!(parse(Unit::Rfc3339, text.as_bytes()), Some(expected), "{text}");
        }
        for bad in [
            "",
            "Z",
            "1616648967",
            "2025-10-09",
            "2025-10-09T08:53:20",
            "2025-10-09 08:53:20Z",
            "2025-10-09T08:53Z",
            "2025-10-09T08:53:20.Z",
            "2025-10-09T08:53:20,5Z",
            "2025-10-09T24:00:00Z",
            "2025-13-09T08:53:20Z",
            "2025-00-09T08:53:20Z",
            "2025-02-29T08:53:20Z",
            "1900-02-29T08:53:20Z",
            "2025-04-31T08:53:20Z",
            "2025-10-09T08:53:20+0530",
            "2025-10-09T08:53:20+05:60",
            "2025-10-09T08:53:20+é",
        ] {
            assert_eq!(parse(Unit::Rfc3339, bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn http_dates() {
        assert_eq!(parse(Unit::HttpDate, b"Thu, 09 Oct 2025 08:53:20 GMT"), Some(1_760_000_000_000));
        for bad in
            ["", "Thu, 9 Oct 2025 08:53:20 GMT", "Thursday, 09-Oct-25 08:53:20 GMT", "Thu, 09 Oct 2025 08:53:20 UTC"]
        {
            assert_eq!(parse(Unit::HttpDate, bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn the_window_s_bounds_are_inside() {
        let window = |unit| Window { unit, max_age_s: 300, max_ahead_s: 60 };
        let time = 1_760_000_000_000;
        for (unit, now, expected) in [
            (Unit::Seconds, 1_760_000_300_000, Ok(())),
            (Unit::Seconds, 1_760_000_300_999, Ok(())),
            (Unit::Seconds, 1_760_000_301_000, Err(TimestampError::Expired)),
            (Unit::Milliseconds, 1_760_000_300_000, Ok(())),
            (Unit::Milliseconds, 1_760_000_300_001, Err(TimestampError::Expired)),
            (Unit::Seconds, 1_759_999_940_000, Ok(())),
            (Unit::Seconds, 1_759_999_939_999, Err(TimestampError::Future)),
            (Unit::Milliseconds, 1_759_999_939_999, Err(TimestampError::Future)),
            (Unit::Seconds, 0, Err(TimestampError::Future)),
            (Unit::Seconds, u64::MAX, Err(TimestampError::Expired)),
        ] {
            assert_eq!(window(unit).check(time, now), expected, "{unit:?} {now}");
        }
    }
}
