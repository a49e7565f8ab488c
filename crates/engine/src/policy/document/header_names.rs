//! The names of headers that members of the policy have: which names each member may have, and which already have a meaning.

use crate::headers::IDEMPOTENCY_KEY;
use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::{OPERATION_ID, REWRITE_MARK};

/// Parses the beginning of the headers that carry path parameters. Every header that begins so is removed from clients'
/// requests, so the beginning has to be particular.
pub(super) fn parse_prefix(text: &str) -> Result<String, String> {
    const TAKEN: [&str; 6] = ["x-edge-", "x-envoy-", "x-forwarded-", "x-http-", "x-request-", "x-restate-"];
    let words = text.strip_prefix("x-").and_then(|rest| rest.strip_suffix('-'));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !words.is_some_and(|words| words.split('-').all(is_word)) {
        Err("expected the beginning of a header name in lower case, such as `x-path-`".to_owned())
    } else if TAKEN.iter().any(|taken| text.starts_with(taken)) {
        Err(format!("headers that begin with `{text}` already have a meaning: choose another beginning"))
    } else {
        Ok(text.to_owned())
    }
}

/// The beginnings of headers that have a meaning of their own
pub(super) const MEANT_FAMILIES: [&str; 12] = [
    "accept",
    "access-control-",
    "content-",
    "if-",
    "proxy-",
    "sec-",
    "x-b3-",
    "x-edge-",
    "x-envoy-",
    "x-forwarded-",
    "x-http-",
    "x-restate-",
];
/// Headers that have a meaning of their own
pub(super) const MEANT: [&str; 24] = [
    IDEMPOTENCY_KEY,
    "authorization",
    "cache-control",
    "connection",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "range",
    "referer",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-api-key",
    "x-method-override",
    "x-request-id",
];

/// Parses the name of a request header that nothing else uses, for a namespaced key.
pub(super) fn parse_key_header(text: &str) -> Result<String, String> {
    parse_free_name(text, DROPPED, &MEANT_FAMILIES, &MEANT, ", such as `x-idempotency-key`")
}

/// The beginnings of names that no fingerprint has: keys, what Restate knows, and what proxies write.
pub(super) const UNCOMPARED_FAMILIES: [&str; 6] =
    ["idempotency-", "idempotent-", "x-restate-", "x-forwarded-", "x-envoy-", "x-b3-"];

/// Headers that no fingerprint has: those of the connection, credentials, what is new in each attempt, and what is in it anyway.
pub(super) const UNCOMPARED: [&str; 22] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-api-key",
    REWRITE_MARK,
    "x-request-id",
    "x-retry-attempt",
];

/// Parses the name of a request header that can be a part of a request's meaning.
pub(crate) fn parse_fingerprint_header(text: &str) -> Result<String, String> {
    let name = parse_header_name(text)?;
    if name.contains('_') {
        Err(SAME_AS_HYPHEN.to_owned())
    } else if name == "content-type" {
        Err("every fingerprint has `content-type`: remove it from this list".to_owned())
    } else if UNCOMPARED.contains(&name.as_str()) || UNCOMPARED_FAMILIES.iter().any(|family| name.starts_with(family)) {
        Err(format!(
            "`{name}` says nothing of what the client wants: credentials, keys, and headers of connections, proxies and attempts \
             may differ between two attempts at the same request. Name headers such as `if-match`"
        ))
    } else {
        Ok(name)
    }
}

/// The most headers in a list: each of them is one more edit of an error, or lines that a waiting request keeps.
const MAX_HEADER_NAMES: usize = 8;

/// Reads a list of a few header names, each of them once.
#[inline(never)]
pub(crate) fn read_header_names(
    at: &JsonCursor<'_>,
    parse: fn(&str) -> Result<String, String>,
    issues: &mut Issues,
) -> Vec<String> {
    let names = at.list(issues, parse).unwrap_or_default();
    check_few(at, &names, MAX_HEADER_NAMES, issues);
    names
}

/// Reports a list that is too long, or has an item twice.
#[inline(never)]
pub(crate) fn check_few(at: &JsonCursor<'_>, items: &[String], most: usize, issues: &mut Issues) {
    if items.len() > most {
        issues.add(&at.pointer, format!("the list may have at most {most} items"));
    }
    for (index, item) in items.iter().enumerate() {
        if items.iter().take(index).any(|other| other == item) {
            issues.add(&at.pointer, format!("`{item}` is in the list twice"));
        }
    }
}

/// Parses a header name into lower case. RFC 9110 allows `*` in a name, but here it is a mistake.
pub(super) fn parse_header_name(text: &str) -> Result<String, String> {
    if crate::headers::is_field_name(text) && !text.contains('*') {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected a header name".to_owned())
    }
}

/// What to do about `_` in the name of a header that a request brings
const DROPPED: &str = "write the header with - instead of _: many servers and proxies drop names with _";
/// What to do about `_` in the name of a header that the gateway compares
const SAME_AS_HYPHEN: &str =
    "write the header with - instead of _: `_` counts as `-`, and many proxies drop such names";

/// Parses a header name without `_` that has no other meaning: `underscore` says why it has no `_`, `instead` names an example.
fn parse_free_name(
    text: &str,
    underscore: &str,
    families: &[&str],
    taken: &[&str],
    instead: &str,
) -> Result<String, String> {
    let name = parse_header_name(text)?;
    if name.contains('_') {
        Err(underscore.to_owned())
    } else if families.iter().any(|family| name.starts_with(family)) || taken.contains(&name.as_str()) {
        Err(format!("`{name}` already has a meaning: choose another header{instead}"))
    } else {
        Ok(name)
    }
}

/// The beginnings of response headers that have a meaning of their own
pub(super) const RETRY_FAMILIES: [&str; 4] = ["idempotency-", "idempotent-", "content-", "access-control-"];
/// Response headers that have a meaning of their own
pub(super) const RETRY_TAKEN: [&str; 14] = [
    "allow",
    "cache-control",
    "connection",
    "date",
    "link",
    "location",
    "retry-after",
    "set-cookie",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
    OPERATION_ID,
    REWRITE_MARK,
];

/// Parses the name of a response header that nothing else uses.
pub(super) fn parse_retry_header(text: &str) -> Result<String, String> {
    parse_free_name(text, SAME_AS_HYPHEN, &RETRY_FAMILIES, &RETRY_TAKEN, ", such as `x-should-retry`")
}

/// Headers that carry no API key, beside those of [`IDENTITY_TAKEN`]
pub(super) const NO_API_KEYS: [&str; 3] = ["cookie", "x-request-id", "content-type"];

/// Parses the name of the header with API keys.
pub(crate) fn parse_api_key_header(text: &str) -> Result<String, String> {
    match parse_identity_header(text)? {
        name if NO_API_KEYS.contains(&name.as_str()) => {
            Err(format!("`{name}` already has a meaning: choose another header, such as `x-api-key`"))
        }
        name => Ok(name),
    }
}

/// Headers that carry no part of an identity
pub(super) const IDENTITY_TAKEN: [&str; 6] =
    [IDEMPOTENCY_KEY, REWRITE_MARK, "host", "content-length", "transfer-encoding", "connection"];

/// Parses the name of a header that may carry a part of an identity.
pub(super) fn parse_identity_header(text: &str) -> Result<String, String> {
    parse_free_name(text, DROPPED, &[], &IDENTITY_TAKEN, "")
}
