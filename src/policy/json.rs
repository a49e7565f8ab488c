//! JSON as it was written: members in order, and a member that stands twice in one object is an error, since no two
//! readers agree which of them counts.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number that is an integer of 0 or more.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// A string
    String(String),
    /// An array
    Array(Vec<Json>),
    /// An object; no name twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses one JSON text (RFC 8259).
    ///
    /// # Errors
    /// A sentence with line and column.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// What kind of value this is, for error messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(u64::try_from(value).map_or(Json::Number(value as f64), Json::Integer))
    }

    /// `1.0` is the integer 1 (RFC 8259 section 6 knows numbers only), up to where doubles are exact.
    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        const EXACT: f64 = (1_u64 << 53) as f64;
        let integer = value.fract() == 0.0 && (0.0..=EXACT).contains(&value);
        Ok(if integer { Json::Integer(value as u64) } else { Json::Number(value) })
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        let mut names = BTreeSet::new();
        while let Some((name, value)) = members.next_entry::<String, Json>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("the member `{name}` stands twice in one object")));
            }
            object.push((name, value));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_stand_once() {
        let json = Json::parse(br#"{"b": [1, 1.0, 1e30, -1, 0.5, true, null, "x"], "a": {}}"#).unwrap();
        let items = vec![
            Json::Integer(1),
            Json::Integer(1),
            Json::Number(1e30),
            Json::Number(-1.0),
            Json::Number(0.5),
            Json::Bool(true),
            Json::Null,
            Json::String("x".into()),
        ];
        assert_eq!(json, Json::Object(vec![("b".into(), Json::Array(items)), ("a".into(), Json::Object(vec![]))]));
        let twice = Json::parse(b"{\"a\": {\"mode\": 1,\n \"m\\u006fde\": 2}}").unwrap_err();
        assert!(twice.contains("`mode` stands twice") && twice.contains("line 2"), "{twice}");
        for bad in ["", "{", "[1,]", "{} {}", "nul", "\"\u{1}\""] {
            assert!(Json::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Json::parse("[".repeat(100_000).as_bytes()).is_err(), "deep nesting is refused, not a crash");
    }
}
