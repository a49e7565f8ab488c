//! The responses whose body is read: errors, from which stack traces and file paths are removed, Restate's response
//! to a one-way request, and successes whose `Location` names members of the body.

use super::edits::{REPLAYED, is_hidden, set, set_body, set_content, set_problem};
use super::{AnswerFact, Decision, Effect, Exchange, HeaderMapKind, State, TrailerEdit, clean};
use crate::headers::{Headers, distinct};
use crate::json::{Json, to_text};
use crate::policy::Policy;
use crate::policy::answer::Unshaped;
use crate::problem::{Problem, Retry};
use crate::telemetry::Outcome;
use serde::Serialize;

/// The longest error body that is read, in bytes. A problem document replaces a longer one.
pub(super) const ERROR_LIMIT: u64 = 65_536;
/// The longest response of a one-way target that is read, in bytes.
pub(super) const ONE_WAY_LIMIT: u64 = 4096;

/// The kind of body that the exchange waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedBody {
    /// The body of an error with this status; the retry advice comes from its headers.
    Error(u16, Option<Retry>),
    /// The body of a one-way target's response.
    OneWay,
    /// The body of a success, whose members the route's `Location` needs. The body passes unchanged.
    Shaped,
}

impl Exchange {
    /// Handles the whole body of a response that waits for it ([`super::ResponseFlow::AwaitBody`]). The effects edit
    /// its headers too.
    pub fn response_body<'a>(&mut self, policy: &'a Policy, body: &[u8], effects: &mut Vec<Effect<'a>>) {
        let Some((decision, awaited, trailers)) = self.take_awaited() else { return };
        let mut replaced = None;
        match awaited {
            AwaitedBody::Error(status, retry) => match clean::error(body) {
                Ok(None) => {}
                Ok(Some(cleaned)) => set_content(cleaned, effects),
                // An empty body has nothing to hide.
                Err(_) if body.is_empty() => {}
                Err(_) => replaced = Some(Problem::backend_error(status, retry)),
            },
            AwaitedBody::OneWay => {
                if decision.keyed && policy.restate() && was_accepted_before(body) {
                    self.facts.outcome = Outcome::Replayed;
                    self.facts.answer = Some(AnswerFact { outcome: Outcome::Replayed.name(), error: false });
                    set(REPLAYED, b"true".as_slice(), effects);
                }
                set_body(processing(self.processed(policy, &decision)), effects);
            }
            AwaitedBody::Shaped => {
                if let Some(shape) = self.answer_shape(policy) {
                    self.shape(shape, body, effects);
                }
            }
        }
        self.respond(decision, replaced, trailers, policy, effects);
    }

    /// The operation id in the body of a one-way target's response.
    fn processed<'d>(&'d self, policy: &Policy, decision: &'d Decision) -> Option<&'d str> {
        if policy.operations().is_some() { decision.operation.as_deref() } else { self.facts.invocation.as_deref() }
    }

    /// Handles a body that is longer than the limit of [`super::ResponseFlow::AwaitBody`].
    pub fn response_body_too_large<'a>(&mut self, policy: &'a Policy, effects: &mut Vec<Effect<'a>>) {
        let Some((decision, awaited, trailers)) = self.take_awaited() else { return };
        let mut replaced = None;
        match awaited {
            AwaitedBody::Error(status, retry) => replaced = Some(Problem::backend_error(status, retry)),
            AwaitedBody::OneWay => set_body(processing(self.processed(policy, &decision)), effects),
            AwaitedBody::Shaped => self.leave_unshaped(Unshaped::TooLong),
        }
        self.respond(decision, replaced, trailers, policy, effects);
    }

    /// Handles the response's trailers. Hidden names are removed. If the filter has replaced the body, or the response
    /// is an error of Restate, all trailers are removed.
    pub fn response_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        let without_trailers = matches!(
            self.state,
            State::Responded(_, _, TrailerEdit::Remove) | State::AwaitsResponseBody(_, _, TrailerEdit::Remove)
        );
        let is_removed = |name: &[u8]| without_trailers || is_hidden(policy, name);
        let names = trailers.iter().map(|(name, _)| name).filter(|name| is_removed(name)).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::ResponseTrailers, name }));
    }

    /// Ends the wait for the response's body.
    fn take_awaited(&mut self) -> Option<(Decision, AwaitedBody, TrailerEdit)> {
        match std::mem::take(&mut self.state) {
            State::AwaitsResponseBody(decision, body, trailers) => Some((decision, body, trailers)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Passes the response to the client, with a problem document as its body if there is one.
    fn respond<'a>(
        &mut self,
        decision: Decision,
        replaced: Option<Problem>,
        trailers: TrailerEdit,
        policy: &'a Policy,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let replaced = replaced.map(|problem| self.about_request(problem));
        if let Some(problem) = &replaced {
            set_problem(policy, problem, effects);
        }
        let trailers = if replaced.is_some() { TrailerEdit::Remove } else { trailers };
        self.state = State::Responded(decision, replaced, trailers);
    }
}

/// Whether the body is `{"invocationId": "…", "status": "PreviouslyAccepted"}`: an earlier request with this key
/// started the work.
fn was_accepted_before(body: &[u8]) -> bool {
    Json::parse(body).is_ok_and(|body| body.at(&["status"]).and_then(Json::text) == Some("PreviouslyAccepted"))
}

/// The body that reports work in progress.
pub(super) fn processing(operation: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Processing<'p> {
        #[serde(skip_serializing_if = "Option::is_none")]
        operation_id: Option<&'p str>,
        status: &'p str,
    }
    to_text(&Processing { operation_id: operation, status: "processing" }).into_bytes()
}
