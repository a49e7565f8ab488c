//! The responses whose body is read: errors, from which stack traces are removed, Restate's response
//! to a one-way request, and successes whose `Location` names members of the body.

use super::answer_mapping::{answer_mapping, map_answer};
use super::clean;
use crate::backend::restate::Progress;
use crate::exchange::{
    BackendAnswer, Decision, Effect, Exchange, HeaderMapKind, Outcome, TrailerEdit, set, set_body, set_content,
    set_problem, set_retry_headers, set_status_of,
};
use crate::headers::{Headers, REPLAYED, RETRY, STATUS, distinct};
use crate::json::{Json, to_text};
use crate::lookup::LookupAnswer;
use crate::operations::is_invocation_id;
use crate::operations::set_operation;
use crate::policy::Policy;
use crate::policy::answer::Unmapped;
use crate::problem::{Problem, Retry};
use crate::questions::{OutputQuestion, call_name};
use serde::Serialize;

/// The longest error body that is read, in bytes. A problem document replaces a longer one.
pub(super) const ERROR_LIMIT: u64 = 65_536;
/// The longest response of a one-way target that is read, in bytes.
pub(super) const ONE_WAY_LIMIT: u64 = 4096;

/// `Idempotency-Status` of work that is under way.
pub(super) const PROCESSING: &str = "processing";
/// `Idempotency-Status` of a one-way request that came before, of whose work nobody knows how far it is.
const ACCEPTED: &str = "accepted";

/// The body of a response that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedBody {
    pub(super) kind: BodyKind,
    /// The longest body that is read, in bytes. [`Exchange::response_body_too_large`] handles a longer one if its length
    /// is known before it is waited for, else [`Exchange::response_body_lost`].
    pub limit: u64,
}

/// The kind of body that a response waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// The body of an error.
    Error {
        /// Its status
        status: u16,
        /// The retry advice of its headers
        retry: Option<Retry>,
    },
    /// The body of a one-way target's response.
    OneWay,
    /// The body of a success, whose members the route's `Location` needs. The body passes unchanged.
    Mapped,
}

/// What becomes of a body that was not read.
#[derive(Debug, Clone, Copy)]
pub enum UnreadBody {
    /// It is longer than [`AwaitedBody::limit`], and nothing has held it back, or all of it has come: it can pass.
    Passes,
    /// The gateway keeps it back: it can pass when the gateway gives it.
    IsKeptBack,
    /// It was dropped, since it has become longer than the limit while it came. The effects give the response another body.
    IsLost,
}

impl Exchange {
    /// Handles the whole body of a response that waits for it ([`super::ResponseFlow::AwaitBody`]). The effects edit
    /// its headers too. `Some`: the response waits for the answer to this question.
    pub fn response_body<'a>(
        &mut self,
        awaited: AwaitedBody,
        policy: &'a Policy,
        body: &[u8],
        effects: &mut Vec<Effect<'a>>,
    ) -> Option<OutputQuestion> {
        let decision = self.end_response_wait()?;
        self.read_hit(policy, body);
        let mut replaced = None;
        match awaited.kind {
            BodyKind::Error { status, retry } => match clean::error(body) {
                Ok(None) => {}
                Ok(Some(cleaned)) => set_content(cleaned, effects),
                // An empty body has nothing to hide.
                Err(_) if body.is_empty() => {}
                Err(_) => replaced = Some(Problem::backend_error(status, retry)),
            },
            BodyKind::OneWay => {
                let accepted = Accepted::read(body);
                let is_before = accepted == Accepted::Before;
                if decision.sends_key() && is_before {
                    self.outcome = Outcome::Replayed;
                    self.facts.answer = Some(BackendAnswer { outcome: Outcome::Replayed.name(), error: false });
                    set(REPLAYED, b"true".as_slice(), effects);
                    if let Some(question) = progress_question(self, policy, &decision) {
                        self.response_waits(decision, self.trailers);
                        return Some(question);
                    }
                    set(STATUS, ACCEPTED.as_bytes(), effects);
                }
                let status = if is_before { ACCEPTED } else { PROCESSING };
                accept(self, policy, &decision, accepted, status, effects);
            }
            BodyKind::Mapped => {
                if let Some(mapping) = answer_mapping(self, policy) {
                    map_answer(self, mapping, body, effects);
                }
                if let Some(mut mark) = self.replay_mark.take().filter(|_| !body.is_empty()) {
                    set_content(mark.pass(body), effects);
                }
            }
        }
        respond(self, decision, replaced, self.trailers, policy, effects);
        None
    }

    /// Handles a body that a response waits for, and that was not read.
    pub fn response_body_unread<'a>(
        &mut self,
        awaited: AwaitedBody,
        unread: UnreadBody,
        policy: &'a Policy,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let Some(decision) = self.end_response_wait() else { return };
        let mut replaced = None;
        match (awaited.kind, unread) {
            (BodyKind::Error { status, retry }, _) => replaced = Some(Problem::backend_error(status, retry)),
            (BodyKind::OneWay, _) => accept(self, policy, &decision, Accepted::Unknown, PROCESSING, effects),
            (BodyKind::Mapped, UnreadBody::Passes) => self.facts.unmapped = Some(Unmapped::TooLong),
            (BodyKind::Mapped, UnreadBody::IsKeptBack) => self.facts.unmapped = Some(Unmapped::KeptBack),
            (BodyKind::Mapped, UnreadBody::IsLost) => {
                // A backend that did not store the answer would run the request again.
                let is_stored = matches!(self.outcome, Outcome::Stored | Outcome::Replayed);
                let can_repeat = is_stored || decision.stored_result().is_some();
                let problem = Problem::answer_unavailable(can_repeat);
                set_status_of(&problem, effects);
                // The path of the operation gives the answer as it came, so nothing waits for its body there.
                set_operation(self, policy, &decision, effects);
                replaced = Some(problem);
            }
        }
        respond(self, decision, replaced, self.trailers, policy, effects);
    }

    /// Handles the answer to the question that the response waits for: it goes to the client and says how far the work is.
    /// Without an answer nothing could be asked.
    pub(crate) fn on_progress<'a>(
        &mut self,
        policy: &'a Policy,
        answer: Option<&LookupAnswer>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let Some(decision) = self.end_response_wait() else { return };
        let progress = match answer {
            Some(LookupAnswer::Output(progress)) => {
                self.facts.progress = Some(call_name(progress));
                progress.unwrap_or(Progress::Unknown)
            }
            _ => Progress::Unknown,
        };
        let status = match progress {
            Progress::Unknown => ACCEPTED,
            Progress::Processing => PROCESSING,
            Progress::Completed => "completed",
            Progress::Failed => "failed",
        };
        set(STATUS, status.as_bytes(), effects);
        if progress == Progress::Failed {
            set(RETRY, Retry::NewKey.name().as_bytes(), effects);
            set_retry_headers(policy, Retry::NewKey, effects);
        }
        accept(self, policy, &decision, Accepted::Before, status, effects);
        respond(self, decision, None, self.trailers, policy, effects);
    }

    /// Handles the response's trailers. Hidden names are removed. If the filter has replaced the body, or the response
    /// is an error of Restate, all trailers are removed.
    pub fn response_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        let backend = self.backend(policy);
        let is_removed = |name: &[u8]| self.trailers == TrailerEdit::Remove || backend.hides(name);
        let names = trailers.iter().map(|(name, _)| name).filter(|name| is_removed(name)).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::ResponseTrailers, name }));
    }
}

/// The question how far the work of an earlier one-way request is; `None` if the policy names no cluster to ask, or the
/// response no invocation. The sender of a webhook only looks at the status, and in shadow mode nothing is asked.
fn progress_question(exchange: &Exchange, policy: &Policy, decision: &Decision) -> Option<OutputQuestion> {
    let is_asked = decision.shadowed().is_none() && exchange.route(policy)?.webhook.is_none();
    let store = exchange.backend(policy).invocations.as_ref().filter(|_| is_asked)?;
    let id = exchange.invocation.as_deref().filter(|id| is_invocation_id(id))?;
    Some(OutputQuestion::of_invocation(store, id))
}

/// Tells the client of a one-way target that the request is accepted, how far its work is, and the operation id in headers
/// and body.
///
/// A request without a key has an operation only if the invocation is its own: an invocation that was there before, as
/// a workflow's can be, may be another caller's.
fn accept<'a>(
    exchange: &mut Exchange,
    policy: &'a Policy,
    decision: &Decision,
    accepted: Accepted,
    status: &str,
    effects: &mut Vec<Effect<'a>>,
) {
    if !decision.sends_key() && accepted != Accepted::New {
        exchange.operation = None;
    }
    set_operation(exchange, policy, decision, effects);
    let untagged = exchange.invocation.as_deref().filter(|_| exchange.operations(policy).is_none());
    set_body(status_body(exchange.operation.as_deref().or(untagged), status), effects);
}

/// Passes the response to the client, with a problem document as its body if there is one.
pub(super) fn respond<'a>(
    exchange: &mut Exchange,
    decision: Decision,
    replaced: Option<Problem>,
    trailers: TrailerEdit,
    policy: &'a Policy,
    effects: &mut Vec<Effect<'a>>,
) {
    let replaced = replaced.map(|problem| exchange.about_request(problem));
    if let Some(problem) = &replaced {
        set_problem(policy, problem, exchange.protocol, effects);
    }
    let trailers = if replaced.is_some() { TrailerEdit::Remove } else { trailers };
    exchange.responded(decision, replaced, trailers);
}

/// Which request started the work of a one-way target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepted {
    /// This one
    New,
    /// An earlier one
    Before,
    /// The body does not tell it.
    Unknown,
}

impl Accepted {
    /// Reads Restate's body `{"invocationId": "…", "status": "Accepted" | "PreviouslyAccepted"}`.
    fn read(body: &[u8]) -> Self {
        let body = Json::parse(body).ok();
        match body.as_ref().and_then(|body| body.at(&["status"])).and_then(Json::text) {
            Some("Accepted") => Self::New,
            Some("PreviouslyAccepted") => Self::Before,
            _ => Self::Unknown,
        }
    }
}

/// The body that reports how far the work is.
pub(super) fn status_body(operation: Option<&str>, status: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct StatusBody<'p> {
        #[serde(skip_serializing_if = "Option::is_none")]
        operation_id: Option<&'p str>,
        status: &'p str,
    }
    to_text(&StatusBody { operation_id: operation, status }).into_bytes()
}
