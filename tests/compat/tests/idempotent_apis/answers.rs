//! What an answer of an API is.

use e2e::raw::Reply;
use serde_json::Value;

/// Whether it is a problem document in the form of the gateway's own, which says when to come again.
fn is_problem(reply: &Reply, status: u16, code: &str, retry: &str, retry_after: &str) -> bool {
    let document = reply.json();
    let has = |member: &str, value: &str| document.get(member).and_then(Value::as_str) == Some(value);
    let is_text = |member: &str| document.get(member).is_some_and(Value::is_string);
    reply.status == status
        && reply.text_header("content-type") == Some("application/problem+json")
        && reply.text_header("cache-control") == Some("no-store")
        && reply.text_header("retry-after") == Some(retry_after)
        && reply.header("idempotent-replayed").is_none()
        && document.get("status") == Some(&status.into())
        && has("type", "about:blank")
        && has("code", code)
        && has("retry", retry)
        && ["title", "detail"].into_iter().all(is_text)
}

pub(super) fn is_in_flight(reply: &Reply) -> bool {
    is_problem(reply, 409, "idempotency_key_in_flight", "wait", "1")
}

pub(super) fn is_unavailable(reply: &Reply) -> bool {
    is_problem(reply, 503, "dependency_unavailable", "same_key", "5")
        && reply.text_header("idempotency-retry") == Some("same_key")
}

pub(super) fn is_new(reply: &Reply) -> bool {
    reply.status == 201 && reply.header("idempotent-replayed").is_none()
}

pub(super) fn is_replay(reply: &Reply) -> bool {
    reply.status == 201 && reply.text_header("idempotent-replayed") == Some("true")
}
