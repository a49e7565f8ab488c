//! The `key` object: a policy's rules for clients' keys (docs/contract.md section 3).

use super::parse_duration;
use crate::json::cursor::{Issues, JsonCursor};
use crate::key::{KeyCharset, KeyError, KeyFormat, KeyRules, MAX_LENGTH, MaxAge};
use regex_lite::{Regex, RegexBuilder};
use std::borrow::Cow;

/// The longest pattern, in characters.
const MAX_PATTERN_LENGTH: usize = 256;
/// The largest compiled pattern, in bytes. It bounds the time of a match, too: with the worst pattern of this size the
/// longest key takes a few milliseconds.
const MAX_PATTERN_SIZE: usize = 16 << 10;

impl KeyRules {
    /// Reads a `key` object. `None` if a member is invalid.
    #[inline(never)]
    pub(crate) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let fields = at.fields(&["charset", "format", "pattern", "min_length", "max_age", "examples"], issues)?;
        let before = issues.0.len();
        let rules = Self {
            charset: fields.choice("charset", &KeyCharset::WORDS, issues).unwrap_or_default(),
            format: fields.choice("format", &KeyFormat::WORDS, issues).unwrap_or_default(),
            pattern: fields.parse("pattern", issues, parse_pattern),
            min_length: fields
                .integer("min_length", 1..=MAX_LENGTH as u64, issues)
                .and_then(|length| length.try_into().ok())
                .unwrap_or(1),
            max_age: fields.parse("max_age", issues, |text| {
                parse_duration(text).map(|seconds| MaxAge { seconds, text: text.to_owned() })
            }),
        };
        if issues.0.len() > before {
            // What relates members would only repeat the issue.
            fields.list("examples", issues, |_| Ok(()));
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
        if let Some(length) = rules.format.length().filter(|length| rules.min_length > *length) {
            let message = format!("no key can fit: every key of this format has {length} characters");
            issues.add(format!("{}/min_length", at.pointer), message);
        }
        fields.list("examples", issues, |example| {
            rules.check_example(example).map_err(|why| {
                let detail =
                    if why == KeyError::Pattern { "it does not match `pattern`".into() } else { rules.detail(why) };
                format!("this example is refused: {detail}")
            })
        });
        Some(rules)
    }

    /// Checks an example by all rules except its age, since a document is older every day.
    fn check_example(&self, example: &str) -> Result<(), KeyError> {
        let key = self.charset.grammar().parse_from(self.min_length, Cow::Borrowed(example.as_bytes()))?;
        self.check(&key, None)
    }
}

fn parse_pattern(text: &str) -> Result<Regex, String> {
    if text.chars().count() > MAX_PATTERN_LENGTH {
        return Err("a pattern has at most 256 characters".to_owned());
    }
    let compiled = RegexBuilder::new(text).size_limit(MAX_PATTERN_SIZE).build();
    compiled.map_err(|error| format!("this regular expression cannot be used: {error}"))
}
