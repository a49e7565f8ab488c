//! A body for a test delivery: JSON or a form, with what the provider's identifier and signature need.

use super::provider::{IdentifierFile, SchemeFile};
use serde_json::{Map, Value};

/// A body and its content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeliveryBody {
    pub(super) bytes: Vec<u8>,
    pub(super) content_type: &'static str,
}

pub(super) const JSON: &str = "application/json";
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

impl DeliveryBody {
    /// A body of the user's own.
    pub(super) fn given(bytes: Vec<u8>) -> Self {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        let is_form = !is_json && bytes.contains(&b'=') && !bytes.iter().any(u8::is_ascii_whitespace);
        let content_type = if is_json {
            JSON
        } else if is_form {
            FORM
        } else {
            "text/plain"
        };
        Self { bytes, content_type }
    }

    /// A body with an identifier where the provider has it.
    pub(super) fn made(scheme: &SchemeFile, identifiers: &[&IdentifierFile], id: &str) -> Self {
        let first_form = identifiers.iter().find_map(|identifier| identifier.form.first());
        let has_json = identifiers.iter().any(|identifier| identifier.json.is_some());
        if scheme.template.contains("{sorted_form}") && !has_json {
            let fields: Vec<String> = match first_form {
                Some(names) => names.iter().map(|name| format!("{name}={id}")).collect(),
                None => vec![format!("event={id}")],
            };
            return Self { bytes: fields.join("&").into_bytes(), content_type: FORM };
        }
        let mut body = Value::Null;
        // The identifier comes last, so that nothing replaces it.
        for pointer in json_parts(&scheme.template) {
            set(&mut body, pointer, "test".into());
        }
        if let Some(identifier) = identifiers.iter().find(|identifier| identifier.json.is_some()) {
            let value = match identifier.kind.as_deref() {
                Some("integer") => id.parse::<u64>().map_or_else(|_| id.into(), Value::from),
                _ => id.into(),
            };
            set(&mut body, identifier.json.as_deref().unwrap_or_default(), value);
        }
        if body.is_null() {
            body = serde_json::json!({"type": "test"});
        }
        Self { bytes: body.to_string().into_bytes(), content_type: JSON }
    }
}

/// The pointers of a template's `{json:/pointer}` and `{json?:/pointer}`.
fn json_parts(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').filter_map(|part| {
        let (name, _) = part.split_once('}')?;
        name.strip_prefix("json:").or_else(|| name.strip_prefix("json?:"))
    })
}

/// Sets the value at a JSON pointer (RFC 6901), and makes the objects and arrays on the way. `0` in a place without a value
/// makes an array.
pub(super) fn set(body: &mut Value, pointer: &str, value: Value) {
    let mut place = body;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if place.is_null() || place.is_string() {
            *place = if token == "0" { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
        }
        place = match place {
            Value::Array(items) => {
                if items.is_empty() {
                    items.push(Value::Null);
                }
                match items.first_mut() {
                    Some(first) => first,
                    None => return,
                }
            }
            Value::Object(members) => members.entry(token).or_insert(Value::Null),
            _ => return,
        };
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_make_what_is_missing_on_their_way() {
        let mut body = Value::Null;
        set(&mut body, "/a/0/b~1c", "x".into());
        set(&mut body, "/a/0/d", 7.into());
        assert_eq!(body.to_string(), r#"{"a":[{"b/c":"x","d":7}]}"#);
        let mut list = Value::Null;
        set(&mut list, "/0/id", "x".into());
        assert_eq!(list.to_string(), r#"[{"id":"x"}]"#);
    }

    #[test]
    fn the_content_type_follows_from_the_body() {
        for (body, expected) in
            [("{}", JSON), ("[1]", JSON), ("a=1&b=2", FORM), ("a = b", "text/plain"), ("", "text/plain")]
        {
            assert_eq!(DeliveryBody::given(body.as_bytes().to_vec()).content_type, expected, "{body}");
        }
    }
}
