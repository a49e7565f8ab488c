//! Restate's durations and times, and how people read them.

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// A duration of Restate in seconds: `1d 2h`, `7days`, `PT93600S`. A part of a second counts as one.
pub(crate) fn seconds_of(text: &str) -> Option<u64> {
    let duration = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let more = i64::from(duration.subsec_nanos() > 0);
    u64::try_from(duration.as_secs().checked_add(more)?).ok()
}

/// The time when a result that was made at `completed_at` expires.
pub(crate) fn expiry(completed_at: &str, retention: &str) -> Option<Timestamp> {
    let seconds = i64::try_from(seconds_of(retention)?).ok()?;
    completed_at.parse::<Timestamp>().ok()?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// The seconds from a time until now; negative for one that is ahead.
pub(crate) fn age(time: &str, now: Timestamp) -> Option<i64> {
    time.parse::<Timestamp>().ok().map(|time| now.duration_since(time).as_secs())
}

/// Seconds in the two largest units that are not zero, such as `7d`, `1d 2h` or `45s`.
pub(crate) fn short(seconds: u64) -> String {
    let mut parts = Vec::new();
    let mut rest = seconds;
    for (unit, name) in [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")] {
        if rest >= unit {
            parts.push(format!("{}{name}", rest / unit));
        } else if !parts.is_empty() {
            break;
        }
        rest %= unit;
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Seconds exactly, such as `1d 2h 5s`.
pub(crate) fn exact(seconds: u64) -> String {
    let mut parts = Vec::new();
    let mut rest = seconds;
    for (unit, name) in [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")] {
        if rest >= unit {
            parts.push(format!("{}{name}", rest / unit));
        }
        rest %= unit;
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_restate_are_read() {
        let rows = [
            ("1d 2h", 93_600),
            ("2d", 172_800),
            ("PT172800S", 172_800),
            ("400d", 34_560_000),
            ("0s", 0),
            ("10m", 600),
            ("500ms", 1),
        ];
        for (text, seconds) in rows {
            assert_eq!(seconds_of(text), Some(seconds), "{text}");
        }
        for bad in ["", "soon", "-1d", "1 month"] {
            assert_eq!(seconds_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_are_printed() {
        let rows = [
            (0, "0s", "0s"),
            (45, "45s", "45s"),
            (93_605, "1d 2h", "1d 2h 5s"),
            (86_405, "1d", "1d 5s"),
            (604_800, "7d", "7d"),
        ];
        for (seconds, shortened, whole) in rows {
            assert_eq!((short(seconds).as_str(), exact(seconds).as_str()), (shortened, whole), "{seconds}");
        }
    }

    #[test]
    fn results_expire_after_their_retention() {
        let expires = expiry("2026-11-22T11:49:23.922Z", "PT172800S").unwrap();
        assert_eq!(expires.to_string(), "2026-11-24T11:49:23.922Z");
        assert_eq!(age("2026-11-22T11:49:23.922Z", expires), Some(172_800));
        assert_eq!(expiry("never", "PT1S"), None);
    }
}
