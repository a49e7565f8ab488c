//! The `key` object: a policy's rules for clients' keys (docs/contract.md section 3).

use super::texts::parse_duration;
use crate::json::cursor::{Issues, JsonCursor};
use crate::key::{KeyCharset, KeyFormat, KeyRules, MaxAge};
use crate::policy::members::{Choice, Text, members};
use regex_lite::{Regex, RegexBuilder};

members! {
    /// These rules are about clients' keys, on REQUIRED_A and ACCEPTED routes without `webhook`. On a route it takes the place of the
    /// document's `key` as a whole.
    key_rules = "keyRules", "Rules for keys",
        schema r#"{"if": {"required": ["charset"], "properties": {"charset": {"const": "visible"}}}, "then": {"properties": {"format": {"const": "any"}}}}"#;

    /// The characters of keys. `unreserved`: `A-Z a-z 0-9 . _ ~ -`. `visible`: every visible ASCII character but the comma, for keys such
    /// as `order:123`, `a/b` or base64; only with `format` `any`. A key has at most 255 characters and does not begin with `t-`. A value
    /// that begins with `"` is always a Structured Field string, with `\"` for a quote and `\\` for a backslash.
    CHARSET: Choice<KeyCharset> { words: &KeyCharset::WORDS } = "charset", "Characters";

    /// The form of every key: any, a UUID (RFC 9562), a UUID version 7, or a ULID, in upper or lower case. Else it is refused with reason
    /// `format`.
    FORMAT: Choice<KeyFormat> { words: &KeyFormat::WORDS } = "format", "Format";

    /// A regular expression that has to match somewhere in the key; `^` and `$` make it match the whole. No look-around, no
    /// back-references, at most 256 characters and 16 KiB compiled. Clients see it in the refusal (reason `format`).
    PATTERN: Text<Regex> { parse: parse_pattern } = "pattern", "Pattern",
        schema r#"{"type": "string", "maxLength": 256, "examples": ["^refund[.][0-9a-f-]{36}$"]}"#;

    /// The greatest age of a key by its own time (`uuid7` or `ulid`). An older one is refused with reason `expired`, one more than 5
    /// minutes ahead with `format`. At most the retention of the target's service.
    MAX_AGE: Text<MaxAge> { parse: parse_age } = "max_age", "Greatest age",
        schema r##"{"$ref": "#/$defs/duration", "examples": ["24h"]}"##;

}

/// The longest pattern, in characters.
const MAX_PATTERN_LENGTH: usize = 256;
/// The largest compiled pattern, in bytes. It bounds the time of a match, too: with the worst pattern of this size the
/// longest key takes a few milliseconds.
const MAX_PATTERN_SIZE: usize = 16 << 10;

impl KeyRules {
    /// Reads a `key` object. `None` if a member is invalid.
    #[inline(never)]
    pub(crate) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let fields = key_rules::OBJECT.read(at, issues)?;
        let before = issues.0.len();
        let rules = Self {
            charset: key_rules::CHARSET.read(&fields, issues),
            format: key_rules::FORMAT.read(&fields, issues),
            pattern: key_rules::PATTERN.read(&fields, issues),
            max_age: key_rules::MAX_AGE.read(&fields, issues),
        };
        if issues.0.len() > before {
            return None;
        }
        if rules.max_age.is_some() && !rules.format.holds_time() {
            let message = "`max_age` needs keys that hold their time: set `format` to `uuid7` or `ulid`";
            issues.add(format!("{}/max_age", at.pointer), message);
        }
        if rules.charset != KeyCharset::Unreserved && rules.format != KeyFormat::Any {
            let message = "keys of this format have letters, digits and `-` only: leave `charset` or `format` out";
            issues.add(format!("{}/charset", at.pointer), message);
        }
        Some(rules)
    }
}

fn parse_age(text: &str) -> Result<MaxAge, String> {
    parse_duration(text).map(|seconds| MaxAge { seconds, text: text.to_owned() })
}

fn parse_pattern(text: &str) -> Result<Regex, String> {
    if text.chars().count() > MAX_PATTERN_LENGTH {
        return Err("a pattern has at most 256 characters".to_owned());
    }
    let compiled = RegexBuilder::new(text).size_limit(MAX_PATTERN_SIZE).build();
    compiled.map_err(|error| format!("this regular expression cannot be used: {error}"))
}
