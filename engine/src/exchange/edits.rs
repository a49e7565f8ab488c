//! Edits of an answer: headers and bodies that are set, and names that no client sees.

use super::{Effect, HeaderMapKind};
use crate::policy::Policy;
use crate::problem::Problem;
use std::borrow::Cow;

/// Says that an answer was given before.
pub(super) const REPLAYED: &str = "idempotent-replayed";
/// Says what became of the key.
pub(super) const STATUS: &str = "idempotency-status";
/// Says what a caller can do about an error.
pub(super) const RETRY: &str = "idempotency-retry";

/// A header of the answer.
#[inline(never)]
pub(super) fn set<'a>(name: &'a str, value: impl Into<Cow<'a, [u8]>>, effects: &mut Vec<Effect<'a>>) {
    effects.push(Effect::Set { map: HeaderMapKind::Response, name, value: value.into() });
}

/// A JSON body of the filter's own.
pub(super) fn set_body(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    set("content-type", b"application/json".as_slice(), effects);
    set_content(body, effects);
}

/// A problem document in the place of a body.
pub(super) fn set_problem(policy: &Policy, problem: &Problem, effects: &mut Vec<Effect<'_>>) {
    let docs_url = policy.docs_url();
    for (name, value) in problem.headers(docs_url) {
        set(name, value.into_bytes(), effects);
    }
    set_content(problem.document(docs_url).into_bytes(), effects);
}

/// Another body, of the same type and not encoded.
pub(super) fn set_content(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    effects.push(Effect::Remove { map: HeaderMapKind::Response, name: b"content-encoding" });
    set("content-length", body.len().to_string().into_bytes(), effects);
    effects.push(Effect::Body(body));
}

/// Whether no client sees a line of this name as the backend sent it.
pub(super) fn is_hidden(policy: &Policy, name: &[u8]) -> bool {
    // Only the filter speaks of keys where it knows the backend's own signs.
    let marks = [REPLAYED, STATUS, RETRY];
    policy.hide().contains(name)
        || policy.operation_id().as_ref().is_some_and(|id| id.from.as_bytes() == name)
        || is_replay_header(policy, name)
        || policy.restate() && marks.iter().any(|mark| mark.as_bytes() == name)
}

pub(super) fn is_replay_header(policy: &Policy, name: &[u8]) -> bool {
    policy.replay_headers().iter().any(|known| known.as_bytes() == name)
}
