//! Edits of a response: headers and bodies that are set, and header names that are hidden from clients.

use super::{Effect, HeaderMapKind};
use crate::policy::Policy;
use crate::problem::Problem;
use std::borrow::Cow;

/// Marks a replayed response.
pub(super) const REPLAYED: &str = "idempotent-replayed";
/// The status of the request's key.
pub(super) const STATUS: &str = "idempotency-status";
/// The retry advice of an error.
pub(super) const RETRY: &str = "idempotency-retry";

/// Sets a header of the response.
#[inline(never)]
pub(super) fn set<'a>(name: &'a str, value: impl Into<Cow<'a, [u8]>>, effects: &mut Vec<Effect<'a>>) {
    effects.push(Effect::Set { map: HeaderMapKind::Response, name, value: value.into() });
}

/// Replaces the body by JSON.
pub(super) fn set_body(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    set("content-type", b"application/json".as_slice(), effects);
    set_content(body, effects);
}

/// Replaces the body by a problem document.
pub(super) fn set_problem(policy: &Policy, problem: &Problem, effects: &mut Vec<Effect<'_>>) {
    let docs_url = policy.docs_url();
    for (name, value) in problem.headers(docs_url) {
        set(name, value.into_bytes(), effects);
    }
    set_content(problem.document(docs_url).into_bytes(), effects);
}

/// Replaces the body by one of the same content type, without content encoding.
pub(super) fn set_content(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    effects.push(Effect::Remove { map: HeaderMapKind::Response, name: b"content-encoding" });
    set("content-length", body.len().to_string().into_bytes(), effects);
    effects.push(Effect::Body(body));
}

/// Whether header lines of the backend with this name are hidden from clients.
pub(super) fn is_hidden(policy: &Policy, name: &[u8]) -> bool {
    // With Restate the filter sets these headers itself, so the backend's own are hidden.
    let marks = [REPLAYED, STATUS, RETRY];
    policy.hide().contains(name)
        || policy.operation_id().as_ref().is_some_and(|id| id.from.as_bytes() == name)
        || policy.restate() && marks.iter().any(|mark| mark.as_bytes() == name)
}

pub(super) fn is_replay_header(policy: &Policy, name: &[u8]) -> bool {
    policy.replay_headers().iter().any(|known| known.as_bytes() == name)
}
