//! The `key` object: a policy's rules for clients' keys (docs/contract.md section 3).

use super::texts::parse_duration;
use crate::json::cursor::{Issues, JsonCursor};
use crate::key::{KeyCharset, KeyFormat, KeyRules, MaxAge};
use crate::policy::members::{Choice, Text, members};
use regex_lite::{Regex, RegexBuilder};

members! {
    /// These rules are about clients' keys: their characters, and what else they need. On a route it takes the place of the document's
    /// `key` as a whole. Keys of signed callers and identifiers of webhooks are not concerned.
    key_rules = "keyRules", "Rules for keys",
        schema r#"{"if": {"required": ["charset"], "properties": {"charset": {"const": "visible"}}}, "then": {"properties": {"format": {"const": "any"}}}}"#;

    /// The characters of keys. `unreserved` is `A-Z a-z 0-9 . _ ~ -`. `visible` is every visible ASCII character except the comma, for
    /// clients that have keys such as `order:123`, `a/b` or base64; a key of other characters is refused with reason `charset`. In both
    /// cases a key may be sent bare or as a Structured Field string, has at most 255 characters, and does not begin with `t-`. A value that
    /// begins with `"` is always read as a Structured Field string, in which `\"` stands for a quote and `\\` for a backslash.
    CHARSET: Choice<KeyCharset> { words: &KeyCharset::WORDS } = "charset", "Characters";

    /// The form of every key: any key of the grammar, a UUID (RFC 9562), a UUID version 7, or a ULID; letters in upper or lower case. A key
    /// of another form is refused with reason `format`.
    FORMAT: Choice<KeyFormat> { words: &KeyFormat::WORDS } = "format", "Format";

    /// A regular expression that has to match somewhere in the key; `^` and `$` make it match the whole key, and `^.{16,}$` asks for 16
    /// characters. It has no look-around and no
    /// back-references, at most 256 characters, and at most 16 KiB when it is compiled. Clients see it in the refusal (reason `format`).
    ///
    PATTERN: Text<Regex> { parse: parse_pattern } = "pattern", "Pattern",
        schema r#"{"type": "string", "maxLength": 256, "examples": ["^refund[.][0-9a-f-]{36}$"]}"#;

    /// A key whose own time is longer ago is refused with reason `expired`, a key whose time is more than 5 minutes ahead with reason
    /// `format`. Needs the format `uuid7` or `ulid`. It must not be longer than the retention of the target's service
    /// (`/retention/services`), so that no retry comes after the result is gone. Where clients' clocks may be ahead, leave 5 minutes
    /// between the two.
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
