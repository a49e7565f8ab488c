//! The few answers whose body is looked at: errors, which are cleaned of what they tell about the backend, and what a
//! one-way target says of a request that it has taken over.

use super::edits::{REPLAYED, is_hidden, set, set_body, set_content};
use super::{Effect, Exchange, HeaderMapKind, clean};
use crate::headers::{Headers, distinct};
use crate::json::{Json, to_text};
use crate::policy::Policy;
use crate::problem::{Problem, Retry};
use crate::telemetry::Outcome;
use serde::Serialize;

/// The longest error that is looked at, in bytes. A longer one is not passed on.
pub(super) const ERROR_LIMIT: u64 = 65_536;
/// The longest answer of a one-way target, in bytes.
pub(super) const ONE_WAY_LIMIT: u64 = 4096;

/// A body that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedBody {
    /// That of an error with this status, and the advice that its headers give.
    Error(u16, Option<Retry>),
    /// That of a one-way target.
    OneWay,
}

impl Exchange {
    /// The whole body has come of an answer that waits for it, and its headers still wait.
    pub fn response_body(&mut self, policy: &Policy, body: &[u8], effects: &mut Vec<Effect<'_>>) {
        match self.awaited.take() {
            Some(AwaitedBody::Error(status, retry)) => match clean::error(body) {
                Ok(None) => {}
                Ok(Some(cleaned)) => set_content(cleaned, effects),
                // There is nothing to hide.
                Err(_) if body.is_empty() => {}
                Err(_) => self.put_in_place(policy, Problem::backend_error(status, retry), effects),
            },
            Some(AwaitedBody::OneWay) => {
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
    pub fn response_body_too_large(&mut self, policy: &Policy, effects: &mut Vec<Effect<'_>>) {
        match self.awaited.take() {
            Some(AwaitedBody::Error(status, retry)) => {
                self.put_in_place(policy, Problem::backend_error(status, retry), effects);
            }
            Some(AwaitedBody::OneWay) => set_body(processing(self.invocation.as_deref()), effects),
            None => {}
        }
    }

    /// The answer's trailers have come: what no client sees as a header it does not see as a trailer either. An error of
    /// Restate's, and what the filter has put in an answer's place, has none.
    pub fn response_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        let gone = |name: &[u8]| self.without_trailers || is_hidden(policy, name);
        let names = trailers.iter().map(|(name, _)| name).filter(|name| gone(name)).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::ResponseTrailers, name }));
    }

    /// Puts a problem document in the place of an answer's body.
    pub(super) fn put_in_place(&mut self, policy: &Policy, problem: Problem, effects: &mut Vec<Effect<'_>>) {
        let docs_url = policy.docs_url.as_deref();
        for (name, value) in problem.headers(docs_url) {
            set(name, value.into_bytes(), effects);
        }
        set_content(problem.document(docs_url).into_bytes(), effects);
        self.without_trailers = true;
        self.refusal = Some(problem);
    }
}

/// `{"invocationId": "…", "status": "PreviouslyAccepted"}`: the work was taken over when the key came first.
fn was_accepted_before(body: &[u8]) -> bool {
    Json::parse(body).is_ok_and(|body| body.at(&["status"]).and_then(Json::text) == Some("PreviouslyAccepted"))
}

/// What is told of work under way.
pub(super) fn processing(operation: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Processing<'p> {
        #[serde(skip_serializing_if = "Option::is_none")]
        operation_id: Option<&'p str>,
        status: &'p str,
    }
    to_text(&Processing { operation_id: operation, status: "processing" }).into_bytes()
}
