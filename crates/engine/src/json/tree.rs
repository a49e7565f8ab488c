//! A JSON text as a tree with the members in order. A duplicate member is an error, since parsers disagree about which
//! one counts.

use crate::headers::sorted;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;
use std::borrow::Cow;
use std::fmt;

/// A JSON value. `serde_json::Value` does not fit: it keeps the last one of duplicate members, and it needs a hash map
/// to keep the order. Strings without escapes are parts of the text, because a policy of 10,000 routes has 80,000 strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json<'t> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number; see [`Json::integer`]
    Number(Number),
    /// A string
    String(Cow<'t, str>),
    /// An array
    Array(Vec<Json<'t>>),
    /// An object without duplicate members
    Object(Vec<(Cow<'t, str>, Json<'t>)>),
}

/// A parse error. Its display is a sentence with the line (from 1) and the number of bytes read in it.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonError {
    /// Whether the error is a duplicate member.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.0.is_data()
    }

    /// The line (from 1) and the number of bytes read in it.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.0.line(), self.0.column())
    }
}

/// The number of members up to which each name is compared with each other one.
const FEW_MEMBERS: usize = 8;

/// The first name that stands in an object twice.
fn duplicate<'n>(members: &'n [(Cow<'_, str>, Json<'_>)]) -> Option<&'n str> {
    if members.len() <= FEW_MEMBERS {
        let mut rest = members.iter();
        while let Some((name, _)) = rest.next() {
            if rest.as_slice().iter().any(|(other, _)| other == name) {
                return Some(name);
            }
        }
        return None;
    }
    // Names of headers are sorted as bytes, too, so the module has the code only once.
    let names: Vec<&[u8]> = sorted(members.iter().map(|(name, _)| name.as_bytes()).collect());
    let twice = names.iter().zip(names.iter().skip(1)).find(|(name, next)| name == next);
    twice.and_then(|(name, _)| std::str::from_utf8(name).ok())
}

impl<'t> Json<'t> {
    /// Parses one JSON text (RFC 8259) in UTF-8. Values are nested at most 127 deep, and numbers are those of binary64.
    ///
    /// # Errors
    /// [`JsonError`] if the text is not JSON, is nested more deeply, or has a duplicate member.
    #[inline(never)]
    pub fn parse(bytes: &'t [u8]) -> Result<Self, JsonError> {
        serde_json::from_slice(bytes).map_err(JsonError)
    }

    /// A copy that needs no text.
    pub fn detached(&self) -> Json<'static> {
        let text = |text: &Cow<'t, str>| Cow::Owned(text.as_ref().to_owned());
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Number(number) => Json::Number(number.clone()),
            Self::String(value) => Json::String(text(value)),
            Self::Array(items) => Json::Array(items.iter().map(Json::detached).collect()),
            Self::Object(members) => {
                Json::Object(members.iter().map(|(name, value)| (text(name), value.detached())).collect())
            }
        }
    }

    /// What kind of value this is, for error messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// The number, if it is an integer of 0 or more, in any spelling (`1.0`, `1e3`).
    pub fn integer(&self) -> Option<u64> {
        const END: f64 = 18_446_744_073_709_551_616.0;
        let Self::Number(number) = self else { return None };
        let whole = |number: f64| (number.fract() == 0.0 && (0.0..END).contains(&number)).then_some(number as u64);
        number.as_u64().or_else(|| number.as_f64().and_then(whole))
    }

    /// The string, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The value at a path of member names, if there is one.
    pub(crate) fn at(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |json, name| {
            let Self::Object(members) = json else { return None };
            members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
        })
    }
}

/// Whether a text is JSON, with or without duplicate members.
pub(crate) fn is_json(parsed: &Result<Json, JsonError>) -> bool {
    parsed.as_ref().map_or_else(JsonError::is_duplicate, |_| true)
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        // serde_json refuses numbers beyond binary64, so `from_f64` does not fail.
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut members: Vec<(Cow<'de, str>, Json<'de>)> = Vec::new();
        while let Some((name, value)) = access.next_entry()? {
            // A name is read as a value is, which borrows it from the text. It is always a string.
            if let Json::String(name) = name {
                members.push((name, value));
            }
        }
        match duplicate(&members) {
            Some(name) => {
                Err(A::Error::custom(format_args!("the member `{name}` stands twice in the object that ends")))
            }
            None => Ok(Json::Object(members)),
        }
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => serializer.collect_map(members.iter().map(|(name, value)| (name, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_stand_once() {
        let json = Json::parse(br#" {"b": [1, -1, true, false, null, "x\u00e9", [ ]] , "a": { }} "#).unwrap();
        let items = vec![
            Json::Number(1_u64.into()),
            Json::Number((-1_i64).into()),
            Json::Bool(true),
            Json::Bool(false),
            Json::Null,
            Json::String("xé".into()),
            Json::Array(vec![]),
        ];
        assert_eq!(json, Json::Object(vec![("b".into(), Json::Array(items)), ("a".into(), Json::Object(vec![]))]));
    }

    #[test]
    fn duplicates_are_found_among_few_members_and_among_many() {
        for count in [2, FEW_MEMBERS, FEW_MEMBERS + 1, 50] {
            let object = |names: &[String]| {
                let members: Vec<String> = names.iter().map(|name| format!("\"{name}\": 1")).collect();
                format!("{{{}}}", members.join(", "))
            };
            let mut names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
            assert!(Json::parse(object(&names).as_bytes()).is_ok(), "{count}");
            names[count - 1] = "m\\u0030".to_owned();
            let error = Json::parse(object(&names).as_bytes()).unwrap_err();
            assert!(error.is_duplicate() && error.to_string().starts_with("the member `m0` stands twice"), "{error}");
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, expected) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("\n [1,\n  nul]", "expected ident at line 3 column 6"),
            ("{} {}", "trailing characters at line 1 column 4"),
            ("[1,]", "trailing comma at line 1 column 4"),
            ("[1 2]", "expected `,` or `]` at line 1 column 4"),
            ("{\"a\": 1", "EOF while parsing an object at line 1 column 7"),
            ("{\"a\": 1,}", "trailing comma at line 1 column 9"),
            ("{\"a\" 1}", "expected `:` at line 1 column 6"),
            ("[\"\\ud800\"]", "unexpected end of hex escape at line 1 column 9"),
            (
                "{\"a\": {\"mode\": 1,\n \"x\": 0, \"m\\u006fde\": 2}}",
                "the member `mode` stands twice in the object that ends at line 2 column 24",
            ),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(Json::parse(b"\"\xff\"").is_err() && Json::parse(b"\"\x01\"").is_err());
    }

    #[test]
    fn integers_are_numbers_however_they_are_written() {
        let largest = u64::MAX.to_string();
        for (text, expected) in [
            ("0", Some(0)),
            ("-0.0e5", Some(0)),
            ("0e999999999999", Some(0)),
            ("1.0", Some(1)),
            ("1.50e1", Some(15)),
            ("1500E-2", Some(15)),
            ("1e19", Some(10_000_000_000_000_000_000)),
            (&largest, Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1e20", None),
            ("1e308", None),
            ("1e-1", None),
            ("1e-300", None),
            ("0.5", None),
            ("-1", None),
        ] {
            let json = Json::parse(text.as_bytes()).unwrap();
            assert_eq!((json.kind(), json.integer()), ("a number", expected), "{text}");
        }
        // Binary64 holds no number this large, and takes one this small for 0 (RFC 8259 section 6).
        assert!(Json::parse(b"1e999999999999").is_err());
        assert_eq!(Json::parse(b"1e-999999999999").unwrap().integer(), Some(0));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(127).as_bytes()).is_ok());
        assert!(Json::parse(nested(128).as_bytes()).unwrap_err().to_string().starts_with("recursion limit"));
        assert!(Json::parse("{\"a\":".repeat(100_000).as_bytes()).is_err());
    }
}
