//! A namespace of dynamic metadata as JSON, for gateways that hand it over so.

use super::{AttributeValue, MetadataPath};
use crate::json::Json;
use std::borrow::Cow;

/// What Envoy's operator `%DYNAMIC_METADATA(NAMESPACE)%` writes: the namespace as a JSON object, or `-` if there is none. JSON has types,
/// so a number is no text.
#[derive(Debug)]
pub struct MetadataJson<'t>(Content<'t>);

#[derive(Debug)]
enum Content<'t> {
    Object(Json<'t>),
    Absent,
    /// A text that is neither
    Unreadable,
}

impl<'t> MetadataJson<'t> {
    /// Reads what the operator has written.
    pub fn parse(text: &'t [u8]) -> Self {
        Self(match Json::parse(text) {
            Ok(object @ Json::Object(_)) => Content::Object(object),
            _ if text == b"-" => Content::Absent,
            _ => Content::Unreadable,
        })
    }

    /// The value at a path into this namespace.
    pub fn value(&self, path: &MetadataPath) -> AttributeValue<'_> {
        let object = match &self.0 {
            Content::Object(object) => object,
            Content::Absent => return AttributeValue::Absent,
            Content::Unreadable => return AttributeValue::Unusable,
        };
        match path.segments().iter().skip(1).try_fold(object, |value, segment| member(value, segment)) {
            None | Some(Json::Null) => AttributeValue::Absent,
            Some(Json::String(text)) => AttributeValue::Text(Cow::Borrowed(text.as_bytes())),
            Some(_) => AttributeValue::Unusable,
        }
    }
}

/// A member of an object, or an item of an array by its index.
fn member<'v>(value: &'v Json<'_>, segment: &str) -> Option<&'v Json<'v>> {
    match value {
        Json::Object(members) => members.iter().find(|(name, _)| name == segment).map(|(_, value)| value),
        Json::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(members: &[&str]) -> MetadataPath {
        MetadataPath::new(["jwt_authn"].iter().chain(members).map(ToString::to_string).collect())
    }

    #[test]
    fn a_path_leads_to_a_value_of_its_type() {
        let text = br#"{
            "p": {"sub": "alice", "number": 5, "none": null, "list": ["a", "b"], "empty": "", "object": {"a": "b"}, "text": "{\"a\": \"b\"}"},
            "q": {"https://example.com/tenant": "acme", "deep": {"er": [{"x": "y"}]}}, "a:b": "beside"
        }"#;
        let object = MetadataJson::parse(text);
        let text = |text: &'static str| AttributeValue::Text(Cow::Borrowed(text.as_bytes()));
        for (members, expected) in [
            (&["p", "sub"][..], text("alice")),
            (&["p", "number"], AttributeValue::Unusable),
            (&["p", "object"], AttributeValue::Unusable),
            (&["p", "text"], text("{\"a\": \"b\"}")),
            (&["p", "text", "a"], AttributeValue::Absent),
            (&["p", "list"], AttributeValue::Unusable),
            (&["p", "list", "1"], text("b")),
            (&["p", "none"], AttributeValue::Absent),
            (&["p", "missing"], AttributeValue::Absent),
            (&["p"], AttributeValue::Unusable),
            (&["a:b"], text("beside")),
            (&["a", "b"], AttributeValue::Absent),
            (&["p", "sub", "more"], AttributeValue::Absent),
            (&["p", "empty"], text("")),
            (&["q", "https://example.com/tenant"], text("acme")),
            (&["q", "deep", "er", "0", "x"], text("y")),
            (&[], AttributeValue::Unusable),
        ] {
            assert_eq!(object.value(&path(members)), expected, "{members:?}");
        }
    }

    #[test]
    fn a_text_that_is_no_object_without_duplicates_has_no_value() {
        for text in [&b""[..], b"[]", b"null", b"{", b"\xff", br#"{"a": "x", "a": "y"}"#, b"alice", b"--", b"- "] {
            assert_eq!(MetadataJson::parse(text).value(&path(&["a"])), AttributeValue::Unusable, "{text:?}");
        }
        assert_eq!(MetadataJson::parse(b"-").value(&path(&["a"])), AttributeValue::Absent);
    }
}
