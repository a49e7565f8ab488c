//! The responses whose body is read: errors, from which stack traces are removed, Restate's response
//! to a one-way request, and successes whose `Location` names members of the body.

use super::decision::Decision;
use super::edits::{set, set_body, set_content, set_problem, set_retry_headers, set_status_of};
use super::{BackendAnswer, Effect, Exchange, HeaderMapKind, Outcome, State, TrailerEdit, clean};
use crate::headers::{Headers, REPLAYED, RETRY, STATUS, distinct};
use crate::json::{Json, to_text};
use crate::lookup::{LookupAnswer, OutputQuestion, Progress, call_name};
use crate::policy::Policy;
use crate::policy::answer::Unmapped;
use crate::policy::operations::is_invocation_id;
use crate::problem::{Problem, Retry};
use serde::Serialize;

/// The longest error body that is read, in bytes. A problem document replaces a longer one.
pub(super) const ERROR_LIMIT: u64 = 65_536;
/// The longest response of a one-way target that is read, in bytes.
pub(super) const ONE_WAY_LIMIT: u64 = 4096;

/// `Idempotency-Status` of work that is under way.
pub(super) const PROCESSING: &str = "processing";
/// `Idempotency-Status` of a one-way request that came before, of whose work nobody knows how far it is.
const ACCEPTED: &str = "accepted";

/// The kind of body that the exchange waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedBody {
    /// The body of an error with this status; the retry advice comes from its headers.
    Error(u16, Option<Retry>),
    /// The body of a one-way target's response.
    OneWay,
    /// The body of a success, whose members the route's `Location` needs. The body passes unchanged.
    Mapped,
}

/// What becomes of a body that was not read.
#[derive(Clone, Copy)]
enum UnreadBody {
    /// It can pass to the client.
    Passes,
    /// It can pass to the client, when the gateway gives it.
    IsKeptBack,
    /// It was dropped.
    IsLost,
}

impl Exchange {
    /// Handles the whole body of a response that waits for it ([`super::ResponseFlow::AwaitBody`]). The effects edit
    /// its headers too.
    pub fn response_body<'a>(&mut self, policy: &'a Policy, body: &[u8], effects: &mut Vec<Effect<'a>>) {
        let Some((decision, awaited, trailers)) = self.end_body_wait() else { return };
        self.read_hit(policy, body);
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
                let accepted = Accepted::read(body);
                let is_before = accepted == Accepted::Before;
                if decision.sends_key() && is_before {
                    self.telemetry.outcome = Outcome::Replayed;
                    self.telemetry.answer = Some(BackendAnswer { outcome: Outcome::Replayed.name(), error: false });
                    set(REPLAYED, b"true".as_slice(), effects);
                    if let Some(question) = self.progress_question(policy, &decision) {
                        self.state = State::AwaitsProgress(decision, Box::new(question), trailers);
                        return;
                    }
                    set(STATUS, ACCEPTED.as_bytes(), effects);
                }
                let status = if is_before { ACCEPTED } else { PROCESSING };
                self.accept(&decision, (accepted, status), policy, effects);
            }
            AwaitedBody::Mapped => {
                if let Some(mapping) = self.answer_mapping(policy) {
                    self.map_answer(mapping, body, effects);
                }
            }
        }
        self.respond(decision, replaced, trailers, policy, effects);
    }

    /// The question how far the work of an earlier one-way request is; `None` if the policy names no cluster to ask, or the
    /// response no invocation. The sender of a webhook only looks at the status, and in shadow mode nothing is asked.
    fn progress_question(&self, policy: &Policy, decision: &Decision) -> Option<OutputQuestion> {
        let is_asked = decision.shadowed().is_none() && self.route(policy)?.webhook.is_none();
        let store = self.backend(policy).invocations.as_ref().filter(|_| is_asked)?;
        let id = self.telemetry.invocation.as_deref().filter(|id| is_invocation_id(id))?;
        Some(OutputQuestion::of_invocation(store, id))
    }

    /// Handles the answer to [`Exchange::pending_lookup`] of a response: it goes to the client and says how far the work is.
    /// Without an answer nothing could be asked.
    pub(crate) fn on_progress<'a>(
        &mut self,
        policy: &'a Policy,
        answer: Option<&LookupAnswer>,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let (decision, trailers) = match std::mem::take(&mut self.state) {
            State::AwaitsProgress(decision, _, trailers) => (decision, trailers),
            other => {
                self.state = other;
                return;
            }
        };
        let progress = match answer {
            Some(LookupAnswer::Output(progress)) => {
                self.telemetry.progress = Some(call_name(progress));
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
        self.accept(&decision, (Accepted::Before, status), policy, effects);
        self.respond(decision, None, trailers, policy, effects);
    }

    /// Tells the client of a one-way target that the request is accepted, how far its work is, and the operation id in headers
    /// and body.
    ///
    /// A request without a key has an operation only if the invocation is its own: an invocation that was there before, as
    /// a workflow's can be, may be another caller's.
    fn accept<'a>(
        &mut self,
        decision: &Decision,
        (accepted, status): (Accepted, &str),
        policy: &'a Policy,
        effects: &mut Vec<Effect<'a>>,
    ) {
        if !decision.sends_key() && accepted != Accepted::New {
            self.operation = None;
        }
        self.set_operation(policy, decision, effects);
        let untagged = self.telemetry.invocation.as_deref().filter(|_| self.operations(policy).is_none());
        set_body(status_body(self.operation.as_deref().or(untagged), status), effects);
    }

    /// Handles a body that is longer than the limit of [`super::ResponseFlow::AwaitBody`], and that nothing has held back
    /// or all of which has come.
    pub fn response_body_too_large<'a>(&mut self, policy: &'a Policy, effects: &mut Vec<Effect<'a>>) {
        self.response_body_unread(UnreadBody::Passes, policy, effects);
    }

    /// Handles a body that the gateway keeps back.
    pub(crate) fn response_body_kept_back<'a>(&mut self, policy: &'a Policy, effects: &mut Vec<Effect<'a>>) {
        self.response_body_unread(UnreadBody::IsKeptBack, policy, effects);
    }

    /// Handles a body that cannot pass, since it has become longer than the limit while it came. The effects give the response
    /// another body.
    pub fn response_body_lost<'a>(&mut self, policy: &'a Policy, effects: &mut Vec<Effect<'a>>) {
        self.response_body_unread(UnreadBody::IsLost, policy, effects);
    }

    fn response_body_unread<'a>(&mut self, unread: UnreadBody, policy: &'a Policy, effects: &mut Vec<Effect<'a>>) {
        let Some((decision, awaited, trailers)) = self.end_body_wait() else { return };
        let mut replaced = None;
        match (awaited, unread) {
            (AwaitedBody::Error(status, retry), _) => replaced = Some(Problem::backend_error(status, retry)),
            (AwaitedBody::OneWay, _) => self.accept(&decision, (Accepted::Unknown, PROCESSING), policy, effects),
            (AwaitedBody::Mapped, UnreadBody::Passes) => self.leave_unmapped(Unmapped::TooLong),
            (AwaitedBody::Mapped, UnreadBody::IsKeptBack) => self.leave_unmapped(Unmapped::KeptBack),
            (AwaitedBody::Mapped, UnreadBody::IsLost) => {
                // A backend that did not store the answer would run the request again.
                let is_stored = matches!(self.telemetry.outcome, Outcome::Stored | Outcome::Replayed);
                let can_repeat = is_stored || decision.stored_result().is_some();
                let problem = Problem::answer_unavailable(can_repeat);
                set_status_of(&problem, effects);
                // The path of the operation gives the answer as it came, so nothing waits for its body there.
                self.set_operation(policy, &decision, effects);
                replaced = Some(problem);
            }
        }
        self.respond(decision, replaced, trailers, policy, effects);
    }

    /// Handles the response's trailers. Hidden names are removed. If the filter has replaced the body, or the response
    /// is an error of Restate, all trailers are removed.
    pub fn response_trailers<'a>(&mut self, policy: &'a Policy, trailers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
        let without_trailers = matches!(
            self.state,
            State::Responded(_, _, TrailerEdit::Remove)
                | State::AwaitsResponseBody(_, _, TrailerEdit::Remove)
                | State::AwaitsProgress(_, _, TrailerEdit::Remove)
        );
        let backend = self.backend(policy);
        let is_removed = |name: &[u8]| without_trailers || backend.hides(name);
        let names = trailers.iter().map(|(name, _)| name).filter(|name| is_removed(name)).collect();
        let removed = distinct(names).into_iter();
        effects.extend(removed.map(|name| Effect::Remove { map: HeaderMapKind::ResponseTrailers, name }));
    }

    /// Ends the wait for the response's body.
    fn end_body_wait(&mut self) -> Option<(Decision, AwaitedBody, TrailerEdit)> {
        match std::mem::take(&mut self.state) {
            State::AwaitsResponseBody(decision, body, trailers) => Some((decision, body, trailers)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Passes the response to the client, with a problem document as its body if there is one.
    pub(super) fn respond<'a>(
        &mut self,
        decision: Decision,
        replaced: Option<Problem>,
        trailers: TrailerEdit,
        policy: &'a Policy,
        effects: &mut Vec<Effect<'a>>,
    ) {
        let replaced = replaced.map(|problem| self.about_request(problem));
        if let Some(problem) = &replaced {
            set_problem(policy, problem, self.protocol, effects);
        }
        let trailers = if replaced.is_some() { TrailerEdit::Remove } else { trailers };
        self.state = State::Responded(decision, replaced.map(Box::new), trailers);
    }
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
