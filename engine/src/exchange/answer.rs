//! The few answers whose body is looked at: errors, which are cleaned of what they tell about the backend, and what a
//! one-way target says of a request that it has taken over.

use super::response::REPLAYED;
use super::{Effect, Exchange, Map, clean};
use crate::json::Object;
use crate::policy::Policy;
use crate::provider::json;
use crate::telemetry::Outcome;
use std::borrow::Cow;

/// The longest error that is looked at, in bytes. A longer one is not passed on.
pub(super) const ERROR_LIMIT: u64 = 65_536;
/// The longest answer of a one-way target, in bytes.
pub(super) const ONE_WAY_LIMIT: u64 = 4096;

/// A body that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// That of an error with this status.
    Error(u16),
    /// That of a one-way target.
    OneWay,
}

impl Exchange {
    /// The whole body has come of an answer that waits for it, and its headers still wait.
    pub fn response_body(&mut self, policy: &Policy, body: &[u8], effects: &mut Vec<Effect<'_>>) {
        match self.awaited.take() {
            Some(Awaited::Error(status)) => match clean::error(body) {
                Ok(None) => {}
                Ok(Some(cleaned)) => set_content(cleaned, effects),
                Err(_) if body.is_empty() => {}
                Err(_) => set_content(unreadable(status), effects),
            },
            Some(Awaited::OneWay) => {
                if self.keyed && policy.restate && was_accepted_before(body) {
                    self.outcome = Outcome::Replayed;
                    set(REPLAYED, b"true".as_slice(), effects);
                }
                set_body(processing(self.invocation.as_deref()), effects);
            }
            None => {}
        }
    }

    /// More of an answer's body has come than is looked at.
    pub fn response_body_too_large(&mut self, effects: &mut Vec<Effect<'_>>) {
        match self.awaited.take() {
            Some(Awaited::Error(status)) => set_content(unreadable(status), effects),
            Some(Awaited::OneWay) => set_body(processing(self.invocation.as_deref()), effects),
            None => {}
        }
    }
}

/// `{"invocationId": "…", "status": "PreviouslyAccepted"}`: the work was taken over when the key came first.
fn was_accepted_before(body: &[u8]) -> bool {
    let status = json::members(body).ok().into_iter().flatten().find(|(name, _)| name.is("status"));
    status.is_some_and(|(_, value)| value == br#""PreviouslyAccepted""#)
}

/// What is told of work under way.
pub(super) fn processing(operation: Option<&str>) -> Vec<u8> {
    let mut body = Object::new();
    body.text_if("operation_id", operation);
    body.text("status", "processing");
    body.finish().into_bytes()
}

/// What is left of an error that cannot be cleaned.
fn unreadable(status: u16) -> Vec<u8> {
    let mut body = Object::new();
    body.number("code", status.into());
    body.text("message", "The error has no description that can be shown.");
    body.finish().into_bytes()
}

/// A header of the answer.
#[inline(never)]
pub(super) fn set<'a>(name: &'a str, value: impl Into<Cow<'a, [u8]>>, effects: &mut Vec<Effect<'a>>) {
    effects.push(Effect::Set { map: Map::Response, name, value: value.into() });
}

/// A JSON body of the filter's own.
pub(super) fn set_body(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    set("content-type", b"application/json".as_slice(), effects);
    set_content(body, effects);
}

/// Another body, of the same type and not encoded.
pub(super) fn set_content(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    effects.push(Effect::Remove { map: Map::Response, name: b"content-encoding" });
    set("content-length", body.len().to_string().into_bytes(), effects);
    effects.push(Effect::Body(body));
}
