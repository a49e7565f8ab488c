//! API keys as credentials: where a request has its key, and what the registry says of its holder (docs/contract.md
//! section 3). The registry is asked by [`crate::lookup`].

use crate::attribute_value::AttributeValue;
use crate::codes::Reason;
use crate::headers::Headers;
use crate::json::cursor::child;
use std::fmt;

/// The longest API key, in bytes. Unkey takes no longer one (its OpenAPI description, `V2KeysVerifyKeyRequestBody`).
const MAX_API_KEY: usize = 512;
/// The longest text of the registry's reply that can be a part of an identity, in bytes. No part has as many.
pub(crate) const MAX_HOLDER_TEXT: usize = 512;

/// Where requests have their API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyPlace {
    /// The header; lower case. In `authorization` the key stands behind the scheme `Bearer` (RFC 6750 section 2.1).
    pub header: String,
    /// How every key begins; empty if a key can begin in any way.
    pub prefix: String,
}

/// An API key. `Debug` does not show it (invariant I6).
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Box<str>);

impl ApiKey {
    /// A key; `None` if it is no 1 to 512 visible ASCII characters without a comma.
    pub fn new(text: &str) -> Option<Self> {
        let is_key_byte = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        let is_key = (1..=MAX_API_KEY).contains(&text.len()) && text.bytes().all(is_key_byte);
        is_key.then(|| Self(text.into()))
    }

    /// The key's text.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl ApiKeyPlace {
    /// The API key of a request; `None` if it has none. A text that does not begin as keys do is none.
    ///
    /// # Errors
    /// [`Reason::ApiKeyMalformed`]: there are several lines of the header, whatever the others hold, or the key is no 1 to 512 visible ASCII characters without a comma.
    pub(crate) fn find(&self, headers: &Headers<'_>) -> Result<Option<ApiKey>, Reason> {
        let lines = || headers.iter().filter(|(name, _)| *name == self.header.as_bytes()).map(|(_, value)| value);
        let Some(key) = lines().find_map(|value| self.key_in(value.trim_ascii())) else { return Ok(None) };
        let key = std::str::from_utf8(key).ok().filter(|_| lines().nth(1).is_none()).and_then(ApiKey::new);
        key.map(Some).ok_or(Reason::ApiKeyMalformed)
    }

    /// What stands in the place of the key; `None` if that is empty, or is no key of this source.
    fn key_in<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        const SCHEME: &[u8] = b"bearer ";
        let key = if self.is_bearer() {
            let (scheme, key) = value.split_at_checked(SCHEME.len())?;
            scheme.eq_ignore_ascii_case(SCHEME).then(|| key.trim_ascii())?
        } else {
            value
        };
        (!key.is_empty() && key.starts_with(self.prefix.as_bytes())).then_some(key)
    }

    /// Whether the key stands behind the scheme `Bearer`.
    pub fn is_bearer(&self) -> bool {
        self.header == "authorization"
    }
}

/// A member of what the registry says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMember {
    /// The header with the API key; lower case.
    pub header: String,
    /// The names of the members down to the value, below `data` of the reply.
    pub names: Vec<String>,
}

impl KeyMember {
    /// The JSON pointer (RFC 6901).
    pub fn pointer(&self) -> String {
        self.names.iter().fold(String::new(), |pointer, name| child(&pointer, name))
    }

    /// Reads a JSON pointer to a member; `None` for another text, and for the whole reply.
    pub(crate) fn parse_pointer(text: &str) -> Option<Vec<String>> {
        let names = text.strip_prefix('/')?.split('/');
        names.map(|name| Some(unescaped(name)).filter(|name| !name.is_empty())).collect()
    }
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

/// What the registry says of the holder of an API key: the values of tenant, project and subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHolder(pub(crate) [AttributeValue<'static>; 3]);

impl KeyHolder {
    /// The values of tenant, project and subject.
    pub const fn values(&self) -> &[AttributeValue<'static>; 3] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(header: &str, prefix: &str, lines: &[(&str, &str)]) -> Result<Option<String>, Reason> {
        let place = ApiKeyPlace { header: header.to_owned(), prefix: prefix.to_owned() };
        let lines = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        place.find(&Headers::new(lines)).map(|key| key.map(|key| key.expose().to_owned()))
    }

    #[test]
    fn a_key_stands_in_its_header() {
        let header = |value: &str| found("x-api-key", "sk_", &[("x-api-key", value)]);
        assert_eq!(header("sk_1"), Ok(Some("sk_1".to_owned())));
        assert_eq!(header(" sk_1\t"), Ok(Some("sk_1".to_owned())));
        for none in ["", "pk_1", "SK_1", "Bearer sk_1"] {
            assert_eq!(header(none), Ok(None), "{none}");
        }
        for bad in ["sk_ 1", "sk_1,sk_2", "sk_é", "sk_\u{7f}"] {
            assert_eq!(header(bad), Err(Reason::ApiKeyMalformed), "{bad}");
        }
        assert!(header(&format!("sk_{}", "k".repeat(509))).is_ok());
        assert_eq!(header(&format!("sk_{}", "k".repeat(510))), Err(Reason::ApiKeyMalformed));
        let twice = [("x-api-key", "sk_1"), ("x-api-key", "sk_1")];
        assert_eq!(found("x-api-key", "sk_", &twice), Err(Reason::ApiKeyMalformed));
        let with_another = [("x-api-key", "zzz"), ("x-api-key", "sk_1")];
        assert_eq!(found("x-api-key", "sk_", &with_another), Err(Reason::ApiKeyMalformed));
        assert_eq!(found("x-api-key", "sk_", &[("x-api-key", "zzz"), ("x-api-key", "yyy")]), Ok(None));
        assert_eq!(found("x-api-key", "", &[("x_api_key", "sk_1")]), Ok(None));
    }

    #[test]
    fn a_bearer_token_is_a_key_if_it_begins_as_keys_do() {
        let bearer = |value: &str| found("authorization", "sk_", &[("authorization", value)]);
        for key in ["Bearer sk_1", "bearer   sk_1 ", "BEARER sk_1"] {
            assert_eq!(bearer(key), Ok(Some("sk_1".to_owned())), "{key}");
        }
        for none in ["sk_1", "Bearer", "Bearer ", "Bearer eyJhbGciOi", "Basic sk_1", "Bearersk_1"] {
            assert_eq!(bearer(none), Ok(None), "{none}");
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", ApiKey("planted".into())), "ApiKey(…)");
    }

    #[test]
    fn pointers_have_one_spelling() {
        for (text, names) in
            [("/a", vec!["a"]), ("/identity/externalId", vec!["identity", "externalId"]), ("/a~1b~0", vec!["a/b~"])]
        {
            let read = KeyMember::parse_pointer(text).unwrap();
            assert_eq!(read, names);
            assert_eq!(KeyMember { header: String::new(), names: read }.pointer(), text);
        }
        for bad in ["", "a", "/", "/a/", "//a"] {
            assert_eq!(KeyMember::parse_pointer(bad), None, "{bad}");
        }
    }
}
