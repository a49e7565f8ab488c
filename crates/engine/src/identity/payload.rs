//! The payload of a verified token in a header, as Envoy's `jwt_authn` (`forward_payload_header`) and Istio (`outputPayloadToHeader`) pass
//! it on: a JSON object in Base64URL (RFC 7515 section 3), with or without padding. JSON has types, so a number is never taken for a text.

use super::AttributeValue;
use crate::headers::{FieldValue, Headers};
use crate::json::cursor::child;
use crate::json::scan::{JsonScalar, Pointer, PointerResult, find};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A claim in the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadClaim {
    header: String,
    names: Vec<String>,
    at: Pointer,
}

impl PayloadClaim {
    /// The claim that the names lead to, in the payload in this header (lower case); `None` for more than eight names.
    pub fn new(header: String, names: Vec<String>) -> Option<Self> {
        Some(Self { at: Pointer::of_names(names.iter().cloned())?, header, names })
    }

    /// The header with the payload; lower case.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// The names of the members down to the value; digits for an item of a list.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The JSON pointer (RFC 6901) into the payload.
    pub fn pointer(&self) -> String {
        self.names.iter().fold(String::new(), |pointer, name| child(&pointer, name))
    }

    /// The values of claims that stand in one header. The payload is decoded once, and read in one pass.
    pub(super) fn read<const N: usize>(
        headers: &Headers<'_>,
        claims: [Option<&Self>; N],
    ) -> [AttributeValue<'static>; N] {
        let all = |value: AttributeValue<'static>| {
            claims.map(|claim| claim.map_or(AttributeValue::Absent, |_| value.clone()))
        };
        let Some(first) = claims.iter().flatten().next() else { return all(AttributeValue::Absent) };
        let text = match headers.field(&first.header) {
            FieldValue::Absent | FieldValue::One(b"") => return all(AttributeValue::Absent),
            FieldValue::One(value) => BASE64URL.decode(value).ok(),
            FieldValue::Many => None,
        };
        let is_object = |text: &Vec<u8>| text.trim_ascii_start().first() == Some(&b'{');
        let Some(text) = text.filter(is_object) else { return all(AttributeValue::Unusable) };
        let pointers: Vec<&Pointer> = claims.iter().flatten().map(|claim| &claim.at).collect();
        let Ok(found) = find(&text, &pointers) else { return all(AttributeValue::Unusable) };
        let mut found = found.into_iter().map(value);
        claims.map(|claim| claim.and_then(|_| found.next()).unwrap_or(AttributeValue::Absent))
    }
}

fn value(found: PointerResult<'_>) -> AttributeValue<'static> {
    match found {
        PointerResult::Missing | PointerResult::Value(JsonScalar::Null) => AttributeValue::Absent,
        PointerResult::Value(JsonScalar::Text(text)) => {
            let text = text.decode();
            if text.is_empty() {
                AttributeValue::Absent
            } else if std::str::from_utf8(&text).is_ok() {
                AttributeValue::Text(Cow::Owned(text.into_owned()))
            } else {
                // Half of a pair of surrogates. Readers differ in what they make of it.
                AttributeValue::Unusable
            }
        }
        PointerResult::Ambiguous | PointerResult::Several | PointerResult::Value(_) => AttributeValue::Unusable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};

    fn claim(names: &[&str]) -> PayloadClaim {
        PayloadClaim::new("x-payload".to_owned(), names.iter().map(ToString::to_string).collect()).unwrap()
    }

    fn read(lines: &[&str], names: &[&str]) -> AttributeValue<'static> {
        let lines: Vec<_> = lines.iter().map(|value| ("x-payload".as_bytes(), value.as_bytes())).collect();
        let [value] = PayloadClaim::read(&Headers::new(lines), [Some(&claim(names))]);
        value
    }

    fn text(text: &str) -> AttributeValue<'static> {
        AttributeValue::Text(Cow::Owned(text.as_bytes().to_vec()))
    }

    #[test]
    fn claims_have_their_types() {
        let payload = r#" {"sub": "al\u0069ce", "n": 7, "t": true, "none": null, "": "e", "list": ["a", {"b": "c"}], "empty": "",
            "https://x/t": "url", "a": {"b": {"c": "deep"}}, "twice": "1", "twice": "1", "half": "\ud800", "ä": "ö?>~"}"#;
        for encoded in [BASE64_URL_SAFE.encode(payload), BASE64_URL_SAFE_NO_PAD.encode(payload)] {
            for (names, expected) in [
                (&["sub"][..], text("alice")),
                (&["https://x/t"], text("url")),
                (&["a", "b", "c"], text("deep")),
                (&["list", "0"], text("a")),
                (&["list", "1", "b"], text("c")),
                (&[""], text("e")),
                (&["ä"], text("ö?>~")),
                (&["empty"], AttributeValue::Absent),
                (&["none"], AttributeValue::Absent),
                (&["missing"], AttributeValue::Absent),
                (&["sub", "more"], AttributeValue::Absent),
                (&["n"], AttributeValue::Unusable),
                (&["t"], AttributeValue::Unusable),
                (&["list"], AttributeValue::Unusable),
                (&["a"], AttributeValue::Unusable),
                (&["twice"], AttributeValue::Unusable),
                (&["half"], AttributeValue::Unusable),
            ] {
                assert_eq!(read(&[&encoded], names), expected, "{names:?}");
            }
        }
    }

    #[test]
    fn several_claims_are_read_in_their_order() {
        let encoded = BASE64_URL_SAFE_NO_PAD.encode(r#"{"b": "B", "a": "A"}"#);
        let headers = Headers::new(vec![(&b"x-payload"[..], encoded.as_bytes())]);
        let (a, b, c) = (claim(&["a"]), claim(&["b"]), claim(&["c"]));
        let absent = AttributeValue::Absent;
        assert_eq!(PayloadClaim::read(&headers, [Some(&b), None, Some(&a)]), [text("B"), absent.clone(), text("A")]);
        assert_eq!(PayloadClaim::read(&headers, [Some(&c), Some(&a)]), [absent, text("A")]);
    }

    #[test]
    fn a_header_without_a_payload_has_no_claims() {
        assert_eq!(read(&[], &["sub"]), AttributeValue::Absent);
        assert_eq!(read(&[""], &["sub"]), AttributeValue::Absent);
        let good = BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":"a"}"#);
        assert_eq!(read(&[&good], &["sub"]), text("a"));
        let twice = format!("{good},{good}");
        for bad in [&[good.as_str(), &good][..], &[&twice], &["="], &["alice"], &[r#"{"sub":"a"}"#], &[" "]] {
            assert_eq!(read(bad, &["sub"]), AttributeValue::Unusable, "{bad:?}");
        }
        for payload in ["null", r#"["a"]"#, r#""sub""#, r#"{"sub":"a""#, r#"{"sub":"a"}x"#, "{\"sub\":\"\u{1}\"}"] {
            let encoded = BASE64_URL_SAFE_NO_PAD.encode(payload);
            assert_eq!(read(&[&encoded], &["0"]), AttributeValue::Unusable, "{payload}");
        }
        // In the other alphabet two characters are different.
        let payload = r#"{"sub":"a","?":"??>~~"}"#;
        assert_eq!(read(&[&BASE64_URL_SAFE.encode(payload)], &["sub"]), text("a"));
        assert_eq!(read(&[&BASE64_STANDARD.encode(payload)], &["sub"]), AttributeValue::Unusable);
    }
}
