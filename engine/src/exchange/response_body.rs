//! The few answers whose body is looked at: errors, which are cleaned of what they tell about the backend, and what a
//! one-way target says of a request that it has taken over.

use super::edits::{REPLAYED, is_hidden, set, set_body, set_content, set_problem};
use super::{Decision, Effect, Exchange, HeaderMapKind, State, TrailerRule, clean};
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
        let Some((decision, awaited, trailers)) = self.take_awaited() else { return };
        let mut replaced = None;
        match awaited {
            AwaitedBody::Error(status, retry) => match clean::error(body) {
                Ok(None) => {}
                Ok(Some(cleaned)) => set_content(cleaned, effects),
                // There is nothing to hide.
                Err(_) if body.is_empty() => {}
                Err(_) => replaced = Some(Problem::backend_error(status, retry)),
            },
            AwaitedBody::OneWay => {
                if decision.keyed && policy.restate() && was_accepted_before(body) {
                    self.facts.outcome = Outcome::Replayed;
                    set(REPLAYED, b"true".as_slice(), effects);
                }
                set_body(processing(self.facts.invocation.as_deref()), effects);
            }
        }
        self.respond(decision, replaced, trailers, policy, effects);
    }

    /// More of an answer's body has come than is looked at.
    pub fn response_body_too_large(&mut self, policy: &Policy, effects: &mut Vec<Effect<'_>>) {
        let Some((decision, awaited, trailers)) = self.take_awaited() else { return };
        let mut replaced = None;
        match awaited {
            AwaitedBody::Error(status, retry) => replaced = Some(Problem::backend_error(status, retry)),
            AwaitedBody::OneWay => set_body(processing(self.facts.invocation.as_deref()), effects),
        }
        self.respond(decision, replaced, trailers, policy, effects);
    }

    /// The answer's trailers have come: what no client sees as a header it does not see as a trailer either. An error of
    /// Restate's, and what the filter has put in an answer's place, has none.
    pub fn response_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        let without_trailers = matches!(
            self.state,
            State::Responded(_, _, TrailerRule::Remove) | State::AwaitsResponseBody(_, _, TrailerRule::Remove)
        );
        let gone = |name: &[u8]| without_trailers || is_hidden(policy, name);
        let names = trailers.iter().map(|(name, _)| name).filter(|name| gone(name)).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::ResponseTrailers, name }));
    }

    /// Ends the wait for the answer's body.
    fn take_awaited(&mut self) -> Option<(Decision, AwaitedBody, TrailerRule)> {
        match std::mem::take(&mut self.state) {
            State::AwaitsResponseBody(decision, body, trailers) => Some((decision, body, trailers)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Lets the answer go to the client; with a problem document in the place of its body, if there is one.
    fn respond(
        &mut self,
        decision: Decision,
        replaced: Option<Problem>,
        trailers: TrailerRule,
        policy: &Policy,
        effects: &mut Vec<Effect<'_>>,
    ) {
        if let Some(problem) = &replaced {
            set_problem(policy, problem, effects);
        }
        let trailers = if replaced.is_some() { TrailerRule::Remove } else { trailers };
        self.state = State::Responded(decision, replaced, trailers);
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
