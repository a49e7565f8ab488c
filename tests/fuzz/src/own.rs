//! Providers described for a target, and deliveries to them.

use crate::FuzzedLines;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Delivery, Identifier, NoIdentifier, Provider};
use serde_json::{Value, json};
use testkit::signatures::digest_key;

/// What deliveries to these providers are signed with.
pub(crate) const SECRET: &[u8] = b"fuzz-secret-of-32-bytes-or-so-xx";

/// A token in a header: what verifies without any reading of the body.
pub(crate) fn token_schemes() -> Value {
    json!([{"algorithm": "token", "signature": {"header": "x-token"}}])
}

/// The provider `own`, by its file.
pub(crate) fn provider(file: &Value) -> Provider {
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "routes": [{"endpoint": "hook", "path": "/h", "policy": "HANDLER_INTERNAL_C",
                    "webhook": {"provider": "own", "id": "wh_01JFUZZ"}}],
        "webhooks": {"static": {}, "providers": {"own": file}},
    });
    let policy = Policy::from_json(document.to_string().as_bytes()).unwrap();
    policy.provider("own").unwrap().clone()
}

/// Calls `then` with a delivery of these lines and this body.
pub(crate) fn deliver<T>(lines: &FuzzedLines, url: &[u8], body: &[u8], then: impl FnOnce(&Delivery<'_>) -> T) -> T {
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect());
    then(&Delivery { method: b"POST", url, headers: &headers, body: &Body::of(body) })
}

/// The identifier of a delivery that brings its token.
pub(crate) fn identifier(
    provider: &Provider,
    content_type: &str,
    body: &[u8],
) -> Result<Option<Identifier>, NoIdentifier> {
    let lines =
        vec![(b"x-token".to_vec(), SECRET.to_vec()), (b"content-type".to_vec(), content_type.as_bytes().to_vec())];
    deliver(&lines, b"https://h/", body, |delivery| {
        let verified = provider.verify(delivery, &[SECRET], 0).unwrap();
        provider.identifier(delivery, &verified)
    })
}

/// The raw key that an identifier of a single slot is to become; `None` where the text needs a mark of its own before
/// it is digested.
pub(crate) fn expected_key(text: &[u8]) -> Option<String> {
    let unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    if text.contains(&0) {
        return None;
    }
    Some(match std::str::from_utf8(text) {
        Ok(literal) if text.len() <= 255 && !text.starts_with(b"~") && text.iter().all(unreserved) => {
            format!("own-{literal}")
        }
        _ => digest_key("own", &[text]),
    })
}
