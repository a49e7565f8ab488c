//! The JSON Schema of a route's keys (docs/contract.md section 3), and which keys another schema takes.

use super::references::References;
use crate::lints::diagnostics::tree::SpannedNode;
use edge_idempotency_engine::key::{KeyCharset, KeyFormat, KeyRules, MAX_LENGTH, read_as};
use edge_idempotency_engine::uuid::Uuid;
use regex_lite::Regex;
use serde_json::{Map, Value, json};

/// Keys of unreserved characters that do not begin with `t-`. It needs no look-ahead, which many languages do not have.
const UNRESERVED: &str = "^([A-Za-su-z0-9._~-][A-Za-z0-9._~-]*|t([A-Za-z0-9._~][A-Za-z0-9._~-]*)?)$";
/// The same for visible characters, in the bare form, which does not begin with a quote.
const VISIBLE: &str = "^([!#-+.-su-~-][!-+.-~-]*|t([!-+.-~][!-+.-~-]*)?)$";
const UUID: &str = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$";
const UUID7: &str = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$";
const ULID: &str = "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$";

/// Keys of usual forms, and texts that are no keys for one of the rules each.
const SAMPLES: [&str; 11] = [
    "8e03978e-40d5-43e8-bc93-6894a57f9324",
    "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
    "01FWHE4YDGFK1SHH6W1G60EECF",
    "refund.1001",
    "order:1001",
    "1001",
    "t-1001",
    "refund 1001",
    "a,b",
    "k",
    "é",
];
/// How deep schemas within schemas are read.
const MAX_DEPTH: usize = 8;
/// How many schemas within a schema are read for a key.
const MAX_SCHEMAS: usize = 1_000;

/// The rules for the keys of a route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySchema<'r> {
    rules: Option<&'r KeyRules>,
}

/// What another schema takes, compared with the rules of a route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaVerdict {
    /// Every key that was tried, and that the schema takes, is a key of the route.
    Fits,
    /// The schema takes a text that the filter refuses: the text, and the reason of the refusal.
    TakesMore(String, &'static str),
    /// The schema refuses every key of the route that was tried.
    TakesNone,
    /// The command cannot read this pattern of the schema.
    Unreadable(String),
}

impl<'r> KeySchema<'r> {
    /// The schema for the rules of a route; `None` if the grammar is all.
    pub(crate) const fn new(rules: Option<&'r KeyRules>) -> Self {
        Self { rules }
    }

    /// The schema as JSON. Every key that it takes passes the rules, but for the age of a key and a pattern that is left out.
    pub(crate) fn to_json(self) -> Value {
        let format = self.rules.map(|rules| rules.format).unwrap_or_default();
        let (pattern, least, most) = match (format, self.rules.map(|rules| rules.charset).unwrap_or_default()) {
            (KeyFormat::Uuid, _) => (UUID, 36, 36),
            (KeyFormat::Uuid7, _) => (UUID7, 36, 36),
            (KeyFormat::Ulid, _) => (ULID, 26, 26),
            (KeyFormat::Any, KeyCharset::Unreserved) => (UNRESERVED, 1, MAX_LENGTH),
            (KeyFormat::Any, KeyCharset::Visible) => (VISIBLE, 1, MAX_LENGTH),
        };
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("string"));
        if matches!(format, KeyFormat::Uuid | KeyFormat::Uuid7) {
            schema.insert("format".to_owned(), json!("uuid"));
        }
        schema.insert("minLength".to_owned(), json!(least));
        schema.insert("maxLength".to_owned(), json!(most));
        match self.own_pattern().filter(|own| is_portable(own)) {
            None => schema.insert("pattern".to_owned(), json!(pattern)),
            Some(own) => schema.insert("allOf".to_owned(), json!([{"pattern": pattern}, {"pattern": own}])),
        };
        Value::Object(schema)
    }

    /// The pattern of the policy, if the schema goes without it, because JSON Schema cannot say the same.
    pub(crate) fn pattern_left_out(self) -> Option<&'r str> {
        self.own_pattern().filter(|own| !is_portable(own))
    }

    fn own_pattern(self) -> Option<&'r str> {
        Some(self.rules?.pattern.as_ref()?.as_str())
    }

    /// Whether the filter takes a key; the reason if it does not. A pattern that no schema can have does not count.
    fn refuses(self, key: &str) -> Option<&'static str> {
        let mut rules = self.rules.cloned().unwrap_or_default();
        rules.pattern = rules.pattern.filter(|own| is_portable(own.as_str()));
        let read = read_as(rules.charset.grammar(), [key.as_bytes()]);
        let checked = match &read {
            Ok(Some((key, _))) => rules.check(key, None),
            Ok(None) => return Some("empty"),
            Err(error) => Err(*error),
        };
        checked.err().map(|error| error.reason().name())
    }

    /// Compares a schema of a description, and the examples beside it, by keys that are tried with both.
    pub(crate) fn compare<'t>(
        self,
        references: &References<'t>,
        schema: Option<&'t SpannedNode>,
        examples: &[&str],
    ) -> SchemaVerdict {
        let long = ["k".repeat(MAX_LENGTH), "k".repeat(MAX_LENGTH + 1)];
        let of_schema = schema.map(|schema| written_values(references, schema)).unwrap_or_default();
        let tried = of_schema.into_iter().chain(examples.iter().copied());
        let tried = tried.chain(SAMPLES).chain(long.iter().map(String::as_str)).chain([""]);
        let mut fits = false;
        for key in tried {
            match schema.map_or(Ok(true), |schema| SchemaReader::new(references, key).takes(schema, MAX_DEPTH)) {
                Err(pattern) => return SchemaVerdict::Unreadable(pattern),
                Ok(false) => {}
                Ok(true) => match self.refuses(key) {
                    Some(reason) => return SchemaVerdict::TakesMore(shortened(key), reason),
                    None => fits = true,
                },
            }
        }
        // A pattern of the policy may take none of the keys that were tried.
        let has_own_pattern = self.rules.is_some_and(|rules| rules.pattern.is_some());
        if fits || has_own_pattern { SchemaVerdict::Fits } else { SchemaVerdict::TakesNone }
    }
}

/// Whether a pattern of a policy means the same in ECMA-262, which JSON Schema has: it has no groups of other kinds.
fn is_portable(pattern: &str) -> bool {
    let mut letters = pattern.chars();
    let (mut plain, mut escapes) = (String::new(), String::new());
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            escapes.extend(letters.next());
            plain.push(' ');
        } else {
            plain.push(letter);
        }
    }
    let special = plain.matches("(?").count();
    special == plain.matches("(?:").count()
        && !["[[:", "&&"].iter().any(|one| plain.contains(one))
        && !pattern.contains("\\x{")
        && !escapes.contains(['A', 'z'])
}

fn shortened(key: &str) -> String {
    if key.len() > 60 { format!("{} characters", key.chars().count()) } else { format!("`{key}`") }
}

/// The values that a schema writes as examples.
fn written_values<'t>(references: &References<'t>, schema: &'t SpannedNode) -> Vec<&'t str> {
    let Ok(schema) = references.resolve(schema) else { return Vec::new() };
    let one = ["example", "default", "const"].into_iter().filter_map(|name| references.text(schema.node, name));
    let list = ["examples", "enum"].into_iter().filter_map(|name| references.get(schema.node, name));
    one.chain(list.flat_map(|list| list.items()).filter_map(SpannedNode::text)).collect()
}

/// Reads whether a schema takes a text.
struct SchemaReader<'r, 't> {
    references: &'r References<'t>,
    key: &'r str,
    /// How many schemas are still read
    left: usize,
}

impl<'r, 't> SchemaReader<'r, 't> {
    const fn new(references: &'r References<'t>, key: &'r str) -> Self {
        Self { references, key, left: MAX_SCHEMAS }
    }

    /// Whether the schema takes the text. A schema that is not read takes everything.
    ///
    /// # Errors
    /// A pattern that cannot be read.
    fn takes(&mut self, schema: &'t SpannedNode, depth: usize) -> Result<bool, String> {
        let (Some(depth), Some(left)) = (depth.checked_sub(1), self.left.checked_sub(1)) else { return Ok(true) };
        self.left = left;
        let (references, key) = (self.references, self.key);
        // What is in another file is not known.
        let Ok(schema) = references.resolve(schema) else { return Ok(true) };
        let schema = schema.node;
        let number = |name: &str| references.text(schema, name).and_then(|text| text.parse::<f64>().ok());
        let length = f64::from(u32::try_from(key.chars().count()).unwrap_or(u32::MAX));
        if number("minLength").is_some_and(|least| length < least)
            || number("maxLength").is_some_and(|most| length > most)
        {
            return Ok(false);
        }
        if references.text(schema, "format") == Some("uuid") && Uuid::parse(key.as_bytes()).is_none() {
            return Ok(false);
        }
        if references.get(schema, "type").is_some_and(|kind| !has_type(kind, key)) {
            return Ok(false);
        }
        if let Some(pattern) = references.text(schema, "pattern") {
            // regex-lite has no look-ahead; this one is the usual way to say that a key does not begin with `t-`.
            let readable = pattern.replacen("(?!t-)", "", 1);
            let regex = Regex::new(&readable).map_err(|_| pattern.to_owned())?;
            if !regex.is_match(key) || readable.len() < pattern.len() && key.starts_with("t-") {
                return Ok(false);
            }
        }
        let list = |name: &str| references.get(schema, name).map(SpannedNode::items).unwrap_or_default();
        let is_other = |value: &SpannedNode| value.text() != Some(key);
        if references.get(schema, "const").is_some_and(is_other)
            || references.get(schema, "enum").is_some() && list("enum").iter().all(is_other)
        {
            return Ok(false);
        }
        if let Some(not) = references.get(schema, "not").filter(|not| references.resolve(not).is_ok())
            && self.takes(not, depth)?
        {
            return Ok(false);
        }
        for one in list("allOf") {
            if !self.takes(one, depth)? {
                return Ok(false);
            }
        }
        for list in [list("anyOf"), list("oneOf")] {
            let mut any = list.is_empty();
            for one in list {
                any |= self.takes(one, depth)?;
            }
            if !any {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a text is the value of a header with this `type`, a text or a list of texts.
fn has_type(kind: &SpannedNode, key: &str) -> bool {
    let is = |kind: &SpannedNode| match kind.text() {
        Some("integer") => key.parse::<i64>().is_ok(),
        Some("number") => key.parse::<f64>().is_ok(),
        Some("boolean") => ["true", "false"].contains(&key),
        Some("null") => false,
        _ => true,
    };
    if kind.items().is_empty() { is(kind) } else { kind.items().iter().any(is) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::yaml;

    fn rules(charset: KeyCharset, format: KeyFormat, pattern: Option<&str>) -> KeyRules {
        KeyRules {
            from: Vec::new(),
            charset,
            format,
            pattern: pattern.map(|text| Regex::new(text).unwrap()),
            max_age: None,
        }
    }

    fn all_rules() -> Vec<KeyRules> {
        vec![
            KeyRules::default(),
            rules(KeyCharset::Visible, KeyFormat::Any, None),
            rules(KeyCharset::Unreserved, KeyFormat::Uuid, None),
            rules(KeyCharset::Unreserved, KeyFormat::Uuid7, None),
            rules(KeyCharset::Unreserved, KeyFormat::Ulid, None),
            rules(KeyCharset::Unreserved, KeyFormat::Any, Some("[.]")),
        ]
    }

    fn compare(rules: &KeyRules, schema: &str, examples: &[&str]) -> SchemaVerdict {
        let tree = yaml::read(schema).unwrap();
        KeySchema::new(Some(rules)).compare(&References::new(&tree), Some(&tree), examples)
    }

    /// For every text of one to three characters of interest the schema and the engine say the same.
    #[test]
    fn the_schema_takes_what_the_filter_takes() {
        let letters = ["t", "-", "s", "u", "A", "9", ".", "~", "_", ":", "/", "!", "#", "+", ",", "\"", " ", "é", "\\"];
        for rules in all_rules() {
            let schema = KeySchema::new(Some(&rules)).to_json().to_string();
            let tree = yaml::read(&schema).unwrap();
            let references = References::new(&tree);
            let mut texts: Vec<String> = letters.iter().map(|&letter| letter.to_owned()).collect();
            for one in letters {
                for other in letters {
                    texts.push(format!("{one}{other}"));
                    texts.extend(letters.map(|last| format!("{one}{other}{last}")));
                    texts.push(format!("{one}{other}abcdefghij"));
                }
            }
            texts.extend(SAMPLES.map(str::to_owned));
            texts.push("k".repeat(255));
            texts.push("k".repeat(256));
            for text in texts {
                // Spaces around a value are no part of it, and a quote begins the other form of the key.
                if text.starts_with([' ', '"']) || text.ends_with(' ') {
                    continue;
                }
                let schema_takes = SchemaReader::new(&references, &text).takes(&tree, MAX_DEPTH).unwrap();
                assert_eq!(schema_takes, KeySchema::new(Some(&rules)).refuses(&text).is_none(), "{text:?} {schema}");
            }
        }
    }

    #[test]
    fn the_own_schema_fits_and_others_are_told_by_an_example() {
        for rules in all_rules() {
            let schema = KeySchema::new(Some(&rules)).to_json().to_string();
            assert_eq!(compare(&rules, &schema, &[]), SchemaVerdict::Fits, "{schema}");
        }
        let any = KeyRules::default();
        let uuid = rules(KeyCharset::Unreserved, KeyFormat::Uuid, None);
        let more = |key: &str, reason| SchemaVerdict::TakesMore(key.to_owned(), reason);
        for (rules, schema, expected) in [
            (&any, "{type: string, format: uuid}", SchemaVerdict::Fits),
            (&any, "{type: string}", more("`order:1001`", "charset")),
            (&any, "{pattern: '^[a-z0-9-]*$'}", more("`t-1001`", "reserved_prefix")),
            (&any, "{pattern: '^(?!t-)[A-Za-z0-9._~-]{1,255}$'}", SchemaVerdict::Fits),
            (&any, "{pattern: '^(?!t-)[A-Za-z0-9._~-]+$'}", more("256 characters", "length")),
            (&any, "{pattern: '^(?=.*x)'}", SchemaVerdict::Unreadable("^(?=.*x)".to_owned())),
            (&any, "{pattern: '^[0-9]{20}$'}", SchemaVerdict::TakesNone),
            (&any, "{pattern: '^(?!t-)[A-Za-z0-9._~-]+$', maxLength: 255.0}", SchemaVerdict::Fits),
            (&any, "{pattern: '^[A-Za-z0-9._~-]{1,255}$', not: {pattern: '^t-'}}", SchemaVerdict::Fits),
            (&any, "{const: abc}", SchemaVerdict::Fits),
            (&any, "{const: a b}", more("`a b`", "charset")),
            (&any, "{type: integer}", SchemaVerdict::Fits),
            (&any, "{type: [integer, 'null']}", SchemaVerdict::Fits),
            (&any, "{type: [integer, string]}", more("`order:1001`", "charset")),
            (&any, "{format: uuid, example: t-1}", SchemaVerdict::Fits),
            (&any, "{enum: [a b]}", more("`a b`", "charset")),
            (&any, "{anyOf: [{format: uuid}, {enum: [k]}]}", SchemaVerdict::Fits),
            (&uuid, "{pattern: '^[A-Za-z0-9._~-]{8,36}$'}", more("`01FWHE4YDGFK1SHH6W1G60EECF`", "format")),
        ] {
            assert_eq!(compare(rules, schema, &[]), expected, "{schema}");
        }
        assert_eq!(compare(&any, "{maxLength: 3}", &["a/b"]), more("`a/b`", "charset"));
        assert_eq!(
            KeySchema::new(None).compare(&References::new(&yaml::read("a: b").unwrap()), None, &[]),
            more("`order:1001`", "charset")
        );
    }

    /// A schema that contains itself twelve times has an end.
    #[test]
    fn a_schema_within_itself_is_read_in_part() {
        let tree = yaml::read(&format!("allOf: [{}]\n", ["{$ref: '#'}"; 12].join(", "))).unwrap();
        let verdict = KeySchema::new(None).compare(&References::new(&tree), Some(&tree), &[]);
        assert_eq!(verdict, SchemaVerdict::TakesMore("`order:1001`".to_owned(), "charset"));
    }

    #[test]
    fn a_pattern_of_another_dialect_is_left_out() {
        for (pattern, expected) in [
            ("^refund[.]", true),
            ("^(?:a|b)", true),
            ("(?i)abc", false),
            ("[[:alpha:]]", false),
            (r"^a\(?b", true),
            (r"\Aa", false),
            (r"\\A", true),
        ] {
            assert_eq!(is_portable(pattern), expected, "{pattern}");
        }
    }
}
