//! The `key` object: a policy's rules for clients' keys (docs/contract.md section 3).

use super::header_names::{check_few, parse_key_header};
use super::texts::{check_pointer, parse_duration};
use crate::headers::IDEMPOTENCY_KEY;
use crate::json::cursor::{Issues, JsonCursor};
use crate::json::scan::Pointer;
use crate::key::{KeyCharset, KeyFormat, KeyPlace, KeyRules, MaxAge};
use crate::policy::members::{Choice, Custom, Text, members};
use regex_lite::{Regex, RegexBuilder};

members! {
    /// These rules are about clients' keys, on REQUIRED_A and ACCEPTED routes without `webhook`. On a route it takes the place of the
    /// document's `key` as a whole.
    key_rules = "keyRules", "Rules for keys",
        schema r#"{"if": {"required": ["charset"], "properties": {"charset": {"const": "visible"}}}, "then": {"properties": {"format": {"const": "any"}}}}"#;

    /// Where a key may be, beside the header `Idempotency-Key`, which is always read: names of headers, and JSON pointers to members of
    /// a JSON body, at most 4. Places that hold a key have to hold the same one. The backend gets the namespaced key in
    /// `Idempotency-Key` and the body as it came. A header of this list reaches no backend as a client sent it, except in shadow mode. With
    /// a pointer the filter waits for the body, up to `max_body_bytes`, in shadow mode only where `Content-Length` fits. Signed callers
    /// and webhooks are not concerned.
    FROM: Custom {} = "from", "Places of keys",
        schema r##"{"type": "array", "minItems": 1, "maxItems": 4, "uniqueItems": true, "items": {"$ref": "#/$defs/keyPlace"}, "examples": [["/idempotency_key"], ["paypal-request-id"]]}"##;

    /// The characters of keys. `unreserved`: `A-Z a-z 0-9 . _ ~ -`. `visible`: every visible ASCII character but the comma, for keys such
    /// as `order:123`, `a/b` or base64; only with `format` `any`. A value
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
            from: key_rules::FROM.at(&fields, issues).map(|at| read_places(&at, issues)).unwrap_or_default(),
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

/// The most places: each of them is looked for in every request.
const MAX_PLACES: usize = 4;

#[inline(never)]
fn read_places(at: &JsonCursor<'_>, issues: &mut Issues) -> Vec<KeyPlace> {
    let names = at.list(issues, parse_place).unwrap_or_default();
    if at.items(issues).is_some_and(|items| items.is_empty()) {
        issues.add(&at.pointer, "name a place, or leave the member out");
    }
    check_few(at, &names, MAX_PLACES, issues);
    let places = names.into_iter().filter(|name| name != IDEMPOTENCY_KEY);
    places.map(|name| KeyPlace { member: Pointer::parse(&name, false), name }).collect()
}

fn parse_place(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        check_pointer(text)
    } else if text.eq_ignore_ascii_case(IDEMPOTENCY_KEY) {
        Ok(IDEMPOTENCY_KEY.to_owned())
    } else {
        parse_key_header(text)
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
