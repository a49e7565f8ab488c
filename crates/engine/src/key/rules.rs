//! A policy's rules for clients' keys: their characters, a format, a pattern, a greatest age
//! (docs/contract.md section 3). A rule refuses a key or leaves it unchanged.

use super::grammar::{KeyError, KeyGrammar, RawKey};
use super::place::KeyPlace;
use crate::uuid::Uuid;
use regex_lite::Regex;
use std::borrow::Cow;

/// How far the time of a key may lie ahead of the clock, in milliseconds: 5 minutes.
const MAX_AHEAD_MS: u64 = 5 * 60 * 1000;

/// The characters of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyCharset {
    /// RFC 3986's unreserved characters
    #[default]
    Unreserved,
    /// Every visible ASCII character except the comma
    Visible,
}

impl KeyCharset {
    /// The sets and their names in policy documents.
    pub(crate) const WORDS: [(&'static str, Self); 2] = [("unreserved", Self::Unreserved), ("visible", Self::Visible)];

    /// The grammar of clients' keys with these characters.
    pub const fn grammar(self) -> &'static KeyGrammar {
        match self {
            Self::Unreserved => &KeyGrammar::CLIENT,
            Self::Visible => &KeyGrammar::VISIBLE,
        }
    }
}

/// The format of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyFormat {
    /// Every key of the grammar
    #[default]
    Any,
    /// A UUID of any version (RFC 9562)
    Uuid,
    /// A UUID version 7 (RFC 9562 section 5.7), which holds its time
    Uuid7,
    /// A ULID (<https://github.com/ulid/spec>), which holds its time
    Ulid,
}

impl KeyFormat {
    /// The formats and their names in policy documents.
    pub(crate) const WORDS: [(&'static str, Self); 4] =
        [("any", Self::Any), ("uuid", Self::Uuid), ("uuid7", Self::Uuid7), ("ulid", Self::Ulid)];

    /// Whether keys of this format hold the time at which they were made.
    pub(crate) const fn holds_time(self) -> bool {
        matches!(self, Self::Uuid7 | Self::Ulid)
    }

    /// The time in a key, in Unix milliseconds; `Some(None)` if the format has no time, `None` if the key does not have
    /// the format.
    fn time(self, key: &[u8]) -> Option<Option<u64>> {
        match self {
            Self::Any => Some(None),
            Self::Uuid => Uuid::parse(key).map(|_| None),
            Self::Uuid7 => Uuid::parse(key)?.time_of_version_7().map(Some),
            Self::Ulid => ulid_time(key).map(Some),
        }
    }
}

/// The time of a ULID in Unix milliseconds: its first ten characters. `None` if the text is not 26 characters of
/// Crockford's base 32 (any case, without I, L, O and U), or is more than 128 bits long.
fn ulid_time(text: &[u8]) -> Option<u64> {
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if text.len() != 26 || !matches!(text, [b'0'..=b'7', ..]) {
        return None;
    }
    let mut time = 0;
    for (index, byte) in text.iter().enumerate() {
        let digit = ALPHABET.iter().position(|known| *known == byte.to_ascii_uppercase())?;
        if index < 10 {
            time = time << 5 | digit as u64;
        }
    }
    Some(time)
}

/// The greatest age of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxAge {
    /// In seconds
    pub seconds: u64,
    /// As the policy document writes it, for example `24h`
    pub text: String,
}

/// The rules for the keys of one route.
#[derive(Debug, Clone, Default)]
pub struct KeyRules {
    /// Where keys are, beside `Idempotency-Key`
    pub from: Vec<KeyPlace>,
    /// The characters
    pub charset: KeyCharset,
    /// The format
    pub format: KeyFormat,
    /// A regular expression that has to match somewhere in the key
    pub pattern: Option<Regex>,
    /// The greatest age; only with a format that holds a time
    pub max_age: Option<MaxAge>,
}

impl KeyRules {
    /// Checks format, pattern and age, in this order. Characters are checked where the header is read
    /// ([`super::read_as`]). `now_unix_ms` is called only if there is a greatest age; without it (`None`) the age is not checked.
    ///
    /// # Errors
    /// [`KeyError::Format`], [`KeyError::Pattern`], [`KeyError::Ahead`] or [`KeyError::Expired`].
    pub fn check(&self, key: &RawKey<'_>, now_unix_ms: Option<&dyn Fn() -> u64>) -> Result<(), KeyError> {
        let time = self.format.time(key.as_str().as_bytes()).ok_or(KeyError::Format)?;
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(key.as_str())) {
            return Err(KeyError::Pattern);
        }
        let (Some(time), Some(max_age), Some(now_unix_ms)) = (time, &self.max_age, now_unix_ms) else {
            return Ok(());
        };
        let now = now_unix_ms();
        if time > now.saturating_add(MAX_AHEAD_MS) {
            return Err(KeyError::Ahead);
        }
        let age = now.saturating_sub(time);
        if age > max_age.seconds.saturating_mul(1000) { Err(KeyError::Expired) } else { Ok(()) }
    }

    /// Whether a key can be in the body.
    pub(crate) fn reads_body(&self) -> bool {
        self.from.iter().any(|place| place.member.is_some())
    }

    /// The places of keys, for a client that sent none.
    #[inline(never)]
    pub(crate) fn places(&self) -> String {
        let places: Vec<String> = self.from.iter().map(KeyPlace::described).collect();
        format!("the Idempotency-Key header, {}", places.join(", "))
    }

    /// The `detail` of the problem document for a refused key: the rule that was broken, and never the key. The pattern
    /// and the limits are the API's own text.
    #[inline(never)]
    pub fn detail(&self, why: KeyError) -> Cow<'static, str> {
        match (why, &self.pattern, &self.max_age) {
            (KeyError::Charset, ..) if self.charset == KeyCharset::Visible => {
                "The idempotency key holds a space, a comma, a control character or a character outside ASCII.".into()
            }
            (KeyError::Format, ..) => match self.format {
                KeyFormat::Any | KeyFormat::Uuid => "The idempotency key is not a UUID (RFC 9562).",
                KeyFormat::Uuid7 => "The idempotency key is not a UUID version 7 (RFC 9562).",
                KeyFormat::Ulid => "The idempotency key is not a ULID: 26 characters of Crockford's base 32.",
            }
            .into(),
            (KeyError::Pattern, Some(pattern), _) => {
                format!("The idempotency key does not match the pattern of this operation's keys: {pattern}").into()
            }
            (KeyError::Expired, _, Some(max_age)) => format!(
                "The idempotency key is older than {}, so the result of its first request may be gone. Find out whether \
                 that request took effect before you send a new one with a new key.",
                max_age.text
            )
            .into(),
            _ => why.detail().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9562, appendix A.6, and a ULID of the same millisecond.
    const UUID7: &str = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F";
    const ULID: &str = "01FWHE4YDGFK1SHH6W1G60EECF";
    const TIME: u64 = 0x017F_22E2_79B0;

    fn check(rules: &KeyRules, key: &str, now: u64) -> Result<(), KeyError> {
        rules.check(&RawKey::parse(key.as_bytes()).unwrap(), Some(&|| now))
    }

    #[test]
    fn formats_take_their_own_form_in_any_case() {
        for (format, fine, bad) in [
            (KeyFormat::Any, vec!["a", UUID7], vec![]),
            (KeyFormat::Uuid, vec![UUID7, "8e03978e-40d5-43e8-bc93-6894a57f9324"], vec!["a", ULID]),
            (
                KeyFormat::Uuid7,
                vec![UUID7, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"],
                vec!["8e03978e-40d5-43e8-bc93-6894a57f9324", "017F22E2-79B0-7CC3-18C4-DC0C0C07398F", ULID],
            ),
            (
                KeyFormat::Ulid,
                vec![ULID, "01fwhe4ydgfk1shh6w1g60eecf", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"],
                vec![
                    "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
                    "01FWHE4YDGFK1SHH6W1G60EECI",
                    "01FWHE4YDGFK1SHH6W1G60EECU",
                    "01FWHE4YDGFK1SHH6W1G60EEC",
                    "01FWHE4YDGFK1SHH6W1G60EECFF",
                    UUID7,
                ],
            ),
        ] {
            let rules = KeyRules { format, ..KeyRules::default() };
            for key in fine {
                assert_eq!(check(&rules, key, 0), Ok(()), "{format:?} {key}");
            }
            for key in bad {
                assert_eq!(check(&rules, key, 0), Err(KeyError::Format), "{format:?} {key}");
            }
        }
    }

    #[test]
    fn an_age_is_measured_from_the_key_s_own_time() {
        let max_age = Some(MaxAge { seconds: 60, text: "60s".to_owned() });
        for (format, key) in [(KeyFormat::Uuid7, UUID7), (KeyFormat::Ulid, ULID)] {
            let rules = KeyRules { format, max_age: max_age.clone(), ..KeyRules::default() };
            for (now, expected) in [
                (TIME, Ok(())),
                (TIME + 60_000, Ok(())),
                (TIME + 60_001, Err(KeyError::Expired)),
                (u64::MAX, Err(KeyError::Expired)),
                (TIME - 300_000, Ok(())),
                (TIME - 300_001, Err(KeyError::Ahead)),
                (0, Err(KeyError::Ahead)),
            ] {
                assert_eq!(check(&rules, key, now), expected, "{key} at {now}");
            }
            assert_eq!(rules.check(&RawKey::parse(key.as_bytes()).unwrap(), None), Ok(()));
            let without = KeyRules { max_age: None, ..rules };
            let never = || -> u64 { panic!("the clock was read") };
            assert_eq!(without.check(&RawKey::parse(key.as_bytes()).unwrap(), Some(&never)), Ok(()));
        }
    }

    #[test]
    fn details_name_the_rule() {
        let rules = KeyRules {
            from: Vec::new(),
            charset: KeyCharset::Unreserved,
            format: KeyFormat::Ulid,
            pattern: Some(Regex::new("^refund[.]").unwrap()),
            max_age: Some(MaxAge { seconds: 60, text: "60s".to_owned() }),
        };
        for (why, words) in [
            (KeyError::Format, "not a ULID"),
            (KeyError::Pattern, "keys: ^refund[.]"),
            (KeyError::Expired, "older than 60s"),
            (KeyError::Ahead, "5 minutes in the future"),
            (KeyError::Charset, "outside A-Z"),
        ] {
            assert!(rules.detail(why).contains(words), "{why:?}");
        }
        let visible = KeyRules { charset: KeyCharset::Visible, ..rules };
        assert!(visible.detail(KeyError::Charset).contains("a space, a comma"));
    }
}
