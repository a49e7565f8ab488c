//! Dynamic metadata as a JSON object, for gateways that hand it over so.

use super::{AttributeValue, MetadataPath};
use crate::json::Json;
use std::borrow::Cow;

/// A JSON object whose members are values of dynamic metadata. The name of a member is the beginning of a path, its segments joined
/// by `:`, as Envoy writes paths (`%DYNAMIC_METADATA(NAMESPACE:MEMBER:…)%`). JSON has types, so a number is no text.
#[derive(Debug)]
pub struct MetadataJson<'t>(Json<'t>);

impl<'t> MetadataJson<'t> {
    /// Reads the object; `None` if it is none.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        Json::parse(text).ok().filter(|json| matches!(json, Json::Object(_))).map(Self)
    }

    /// The value at a path: in the member that [`MetadataPath::operator`] names, the rest of the path.
    pub fn value(&self, path: &MetadataPath) -> AttributeValue<'_> {
        let (Some((name, rest)), Json::Object(members)) = (path.operator(), &self.0) else {
            return AttributeValue::Absent;
        };
        let found = members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
        match found.and_then(|value| rest.iter().try_fold(value, |value, segment| member(value, segment))) {
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

    #[test]
    fn a_path_leads_to_a_value_of_its_type() {
        let text = br#"{
            "jwt:p:sub": "alice", "jwt:p:number": 5, "jwt:p:none": null, "jwt:p:list": ["a", "b"], "jwt:p:empty": "",
            "jwt:q": {"https://example.com/tenant": "acme", "sub": "long", "deep": {"er": [{"x": "y"}]}}, "jwt:q:deep:er": [{"x": "y"}],
            "jwt:q:sub": "longer", "jwt:p:object": {"a": "b"}, "jwt": {"a:b": "inside"}, "jwt:a:b": "beside"
        }"#;
        let object = MetadataJson::parse(text).unwrap();
        let value = |path: &[&str]| object.value(&MetadataPath::new(path.iter().map(ToString::to_string).collect()));
        let text = |text: &'static str| AttributeValue::Text(Cow::Borrowed(text.as_bytes()));
        for (path, expected) in [
            (&["jwt", "p", "sub"][..], text("alice")),
            (&["jwt", "p", "number"], AttributeValue::Unusable),
            (&["jwt", "p", "object"], AttributeValue::Unusable),
            (&["jwt", "p", "list"], AttributeValue::Unusable),
            (&["jwt", "p", "list", "1"], text("b")),
            (&["jwt", "p", "none"], AttributeValue::Absent),
            (&["jwt", "p", "missing"], AttributeValue::Absent),
            (&["jwt", "p"], AttributeValue::Absent),
            (&["jwt", "a:b"], text("inside")),
            (&["jwt", "a", "b"], text("beside")),
            (&["jwt", "p", "sub", "more"], AttributeValue::Absent),
            (&["jwt", "p", "empty"], text("")),
            (&["jwt", "q", "https://example.com/tenant"], text("acme")),
            (&["jwt", "q", "sub"], text("longer")),
            (&["jwt", "q", "deep", "er", "0", "x"], text("y")),
            (&["jwt", "q"], AttributeValue::Unusable),
        ] {
            assert_eq!(value(path), expected, "{path:?}");
        }
    }

    #[test]
    fn a_text_that_is_no_object_without_duplicates_is_none() {
        for text in [&b""[..], b"[]", b"null", b"{", b"\xff", br#"{"a": "x", "a": "y"}"#] {
            assert!(MetadataJson::parse(text).is_none(), "{text:?}");
        }
    }
}
