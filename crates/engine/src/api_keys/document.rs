//! API keys in the document: the registry of an identity source (`unkey`), and what a route asks of API keys.

use crate::json::cursor::{Issues, JsonCursor, ObjectCursor};
use crate::policy::document::header_names::parse_api_key_header;
use crate::policy::document::stores::{Lifetimes, Unkey, read_registry, unkey};
use crate::policy::members::{Flag, Integer, Text, members};
use std::sync::Arc;

members! {
    /// The registry of API keys (Unkey), and where requests have their keys. Tenant, project and subject are JSON pointers into `data` of
    /// the reply to `keys.verifyKey`. A document has one such source, in its `identity`. Every request then needs a caller, also one that
    /// no route declares; a route's `api_key` changes that.
    key_registry = "keyRegistry", "API keys",
        also [unkey::CLUSTER, unkey::AUTHORITY, unkey::ROOT_KEY, unkey::TIMEOUT_MS];

    /// The header with the API key; in `authorization` it stands behind `Bearer`. Not `cookie`, `content-type` or `x-request-id`. It is
    /// removed before every backend, but for a `generic` one whose `keep_headers` names it.
    HEADER: Text<String> { parse: parse_api_key_header } = "header", "Header", required "",
        schema r##"{"$ref": "#/$defs/apiKeyHeader", "examples": ["x-api-key", "authorization"]}"##;

    /// How every API key begins. What begins otherwise is not sent to the registry, and the next source is asked. Write it where the header
    /// has tokens, too.
    PREFIX: Text<String> { parse: parse_key_prefix } = "prefix", "Prefix",
        schema r#"{"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,64}$", "examples": ["sk_live_"]}"#;

    /// How long the filter uses what Unkey said of a key, in seconds; a refusal at most 10. A revoked key works for so long, and as long
    /// again where Unkey answers from its own cache.
    CACHE_TTL_S: Integer { least: 1, most: 60, default: 30 } = "cache_ttl_s", "Lifetime";
}

members! {
    /// What the route asks of API keys, where a source of the document's `identity` has `unkey`.
    route_api_key = "routeApiKey", "API key";

    /// Whether every request needs a caller: an API key, or a value of another source. With `false` only one whose key or `target` needs
    /// a caller does; an API key that is not valid is refused all the same. Preflight requests never need one.
    REQUIRED: Flag { default: true } = "required", "Required";

    /// The permissions that an API key needs, as a query of Unkey: names, `AND`, `OR` and parentheses. Callers of other sources are not
    /// asked.
    PERMISSIONS: Text<Arc<str>> { parse: parse_permissions } = "permissions", "Permissions",
        schema r#"{"type": "string", "minLength": 1, "maxLength": 1000, "pattern": "^[A-Za-z0-9 ()._:*/-]*[A-Za-z0-9()._:*/-][A-Za-z0-9 ()._:*/-]*$", "examples": ["refunds.create"]}"#;
}

/// The registry of API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRegistry {
    /// Where it is
    pub unkey: Unkey,
    /// Its JSON pointer in the document
    pub pointer: String,
    /// The members of its replies that are tenant, project and subject
    pub members: [Option<Vec<String>>; 3],
}

/// An `api_key` object: what a route asks of API keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ApiKeyRules {
    /// The permissions that a key needs, as a query of the registry
    pub permissions: Option<Arc<str>>,
    /// Whether a request may come without a caller
    pub is_optional: bool,
}

impl ApiKeyRules {
    pub(crate) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let fields = route_api_key::OBJECT.read(at, issues)?;
        let permissions = route_api_key::PERMISSIONS.read(&fields, issues);
        Some(Self { permissions, is_optional: !route_api_key::REQUIRED.read(&fields, issues) })
    }
}

/// The lifetimes of what is known about API keys.
const KEY_LIFETIMES: Lifetimes = Lifetimes { positive: key_registry::CACHE_TTL_S, stale_s: 0 };

/// Reads the registry of API keys from `unkey` of an identity source; `inline`: the document may contain credentials.
#[inline(never)]
pub(crate) fn read_key_registry(fields: &ObjectCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Unkey> {
    read_registry(fields, &KEY_LIFETIMES, inline, issues)
}

/// Parses the beginning of every API key.
fn parse_key_prefix(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected the beginning of the keys, 1 to 64 characters of A-Z a-z 0-9 . _ ~ -, such as `sk_live_`"
            .to_owned())
    }
}

/// Parses a query of permissions. Unkey takes 1 to 1,000 characters (its OpenAPI description, `V2KeysVerifyKeyRequestBody`).
fn parse_permissions(text: &str) -> Result<Arc<str>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ()._:*/-".contains(&byte);
    if (1..=1000).contains(&text.trim().len()) && text.bytes().all(plain) {
        Ok(Arc::from(text.trim()))
    } else {
        Err("expected permissions of 1 to 1000 characters, such as `refunds.create` or `a.read AND (b.read OR b.write)`"
            .to_owned())
    }
}
