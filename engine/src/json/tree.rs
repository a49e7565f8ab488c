//! A JSON text as a tree: members in order, and a member that stands twice in one object is an error, since no two
//! readers agree which of them counts.

use super::lex::{JsonScalar, Text, scalar, skip_space, string};

/// Deeper nesting is refused: reading calls itself once a level.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number that is an integer of 0 or more, however it is written (`1.0`, `1e3`)
    Integer(u64),
    /// Any other number
    Number,
    /// A string
    String(String),
    /// An array
    Array(Vec<Json>),
    /// An object; no name twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses one JSON text (RFC 8259) in UTF-8.
    ///
    /// # Errors
    /// A sentence with line and column, counted from 1, the column in bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { text: bytes, rest: skip_space(bytes) };
        match reader.value(MAX_DEPTH) {
            Ok(value) if reader.rest.is_empty() => Ok(value),
            Ok(_) => Err(reader.at("more than one value begins")),
            Err(what) => Err(reader.at(&what)),
        }
    }

    /// What kind of value this is, for error messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Number => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// What is left to read of a text; space has been skipped.
struct Reader<'b> {
    text: &'b [u8],
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn at(&self, what: &str) -> String {
        let before = self.text.get(..self.text.len() - self.rest.len()).unwrap_or_default();
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
        format!("{what} at line {}, column {}", lines + 1, column + 1)
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if let [open @ (b'{' | b'['), after @ ..] = self.rest {
            let Some(depth) = depth.checked_sub(1) else { return Err("nested too deeply".to_owned()) };
            self.rest = skip_space(after);
            return if *open == b'{' { self.object(depth) } else { self.array(depth) };
        }
        let (value, after) = scalar(self.rest).ok_or("this is no JSON value")?;
        let json = match value {
            JsonScalar::Text(text) => Json::String(decode(text)?),
            JsonScalar::Number(text) => integer(text).map_or(Json::Number, Json::Integer),
            JsonScalar::Boolean(text) => Json::Bool(text == b"true"),
            // A scalar is no container.
            JsonScalar::Null | JsonScalar::Container => Json::Null,
        };
        self.rest = skip_space(after);
        Ok(json)
    }

    fn array(&mut self, depth: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        while self.goes_on(b']', items.is_empty())? {
            items.push(self.value(depth)?);
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut members = Vec::new();
        while self.goes_on(b'}', members.is_empty())? {
            let (name, after) = self.rest.strip_prefix(b"\"").and_then(string).ok_or("expected a member's name")?;
            let name = decode(name)?;
            self.rest = skip_space(after);
            self.rest = skip_space(self.rest.strip_prefix(b":").ok_or("expected a colon")?);
            members.push((name, self.value(depth)?));
        }
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.iter().zip(names.iter().skip(1)).find(|(name, next)| name == next) {
            Some((name, _)) => Err(format!("the member `{name}` stands twice in the object that ends")),
            None => Ok(Json::Object(members)),
        }
    }

    /// Whether another item begins, and not the container's `end`; the comma before it has been read.
    fn goes_on(&mut self, end: u8, first: bool) -> Result<bool, String> {
        match self.rest {
            [byte, after @ ..] if *byte == end => {
                self.rest = skip_space(after);
                Ok(false)
            }
            _ if first => Ok(true),
            [b',', after @ ..] => {
                self.rest = skip_space(after);
                Ok(true)
            }
            _ => Err(format!("expected `,` or `{}`", char::from(end))),
        }
    }
}

fn decode(text: Text<'_>) -> Result<String, String> {
    String::from_utf8(text.decode().into_owned())
        .map_err(|_| "half a surrogate pair (`\\ud800`) in a string".to_owned())
}

/// A number (RFC 8259 section 6) that is an integer of 0 or more; `None` for another one.
fn integer(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut value: u64 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if value == 0 {
        return Some(0);
    }
    if whole.starts_with('-') {
        return None;
    }
    let places = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    for _ in 0..places {
        value = value.checked_mul(10)?;
    }
    for _ in places..0 {
        value = value.is_multiple_of(10).then_some(value / 10)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_stand_once() {
        let json = Json::parse(br#" {"b": [1, -1, true, false, null, "x\u00e9", [ ]] , "a": { }} "#).unwrap();
        let items = vec![
            Json::Integer(1),
            Json::Number,
            Json::Bool(true),
            Json::Bool(false),
            Json::Null,
            Json::String("xé".into()),
            Json::Array(vec![]),
        ];
        assert_eq!(json, Json::Object(vec![("b".into(), Json::Array(items)), ("a".into(), Json::Object(vec![]))]));
    }

    #[test]
    fn errors_say_where() {
        for (text, expected) in [
            ("", "this is no JSON value at line 1, column 1"),
            ("\n [1,\n  nul]", "this is no JSON value at line 3, column 3"),
            ("{} {}", "more than one value begins at line 1, column 4"),
            ("[1,]", "this is no JSON value at line 1, column 4"),
            ("[1 2]", "expected `,` or `]` at line 1, column 4"),
            ("{\"a\": 1", "expected `,` or `}` at line 1, column 8"),
            ("{\"a\": 1,}", "expected a member's name at line 1, column 9"),
            ("{\"a\" 1}", "expected a colon at line 1, column 6"),
            ("[\"\\ud800\"]", "half a surrogate pair (`\\ud800`) in a string at line 1, column 2"),
            (
                "{\"a\": {\"mode\": 1,\n \"x\": 0, \"m\\u006fde\": 2}}",
                "the member `mode` stands twice in the object that ends at line 2, column 25",
            ),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap_err(), expected, "{text}");
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
            ("1e999999999999", None),
            ("1e-1", None),
            ("1e-999999999999", None),
            ("0.5", None),
            ("-1", None),
        ] {
            assert_eq!(Json::parse(text.as_bytes()), Ok(expected.map_or(Json::Number, Json::Integer)), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(Json::parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err().starts_with("nested too deeply"));
        assert!(Json::parse("{\"a\":".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn agrees_with_serde_json_on_what_json_is() {
        // Every text of up to six of these tokens.
        let tokens = ["{", "}", "[", "]", ":", ",", "\"a\"", "1"];
        for count in 0..=6_u32 {
            for number in 0..(tokens.len() as u64).pow(count) {
                let (mut text, mut left) = (String::new(), number);
                for _ in 0..count {
                    text.push_str(tokens[(left % tokens.len() as u64) as usize]);
                    left /= tokens.len() as u64;
                }
                let expected = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                assert_eq!(Json::parse(text.as_bytes()).is_ok(), expected, "{text:?}");
            }
        }
    }
}
