//! One exchange, a request and its answer: what is known of it, and what was decided. It has no clock, no I/O and no host, so the same
//! code runs in the gateway, in `explain` and in tests.
//!
//! A request goes through phases, each with a file: its head is read (`head`), its route is found (`route`), its caller is known
//! (`caller`), its key is decided (`key`, `decision`), its checks are done (`crate::checks`), and it is edited for the backend (`send`). Where it
//! has to wait, a [`Pause`] says for what, and keeps what the request goes on with. The order of the phases is that of
//! `events::request`.

mod answer;
mod body_key;
mod caller;
mod decision;
mod facts;
mod head;
mod key;
mod outcome;
mod pause;
mod refusal;
mod route;
mod send;
mod trace;
mod view;

use crate::api_keys::KeyHolder;
use crate::collision::Observation;
use crate::identity::Identity;
use crate::json::set_true::SetTrue;
use crate::policy::Policy;
use crate::policy::route_table::RouteId;
use crate::problem::{CallerProtocol, Code, Problem};
use crate::recovery::Wait;
use crate::uuid::Uuid;
use crate::waits::{WaitPlace, Waits};
use facts::Facts;
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use answer::{
    AnswerAction, bound_retry_after, set, set_body, set_content, set_problem, set_retry_headers, set_status_of,
};
pub(crate) use body_key::{await_body_key, reads_body_key};
pub(crate) use caller::{Caller, wider_scope};
pub(crate) use decision::{CallerKey, Decision};
pub(crate) use facts::{BackendAnswer, KeyPresence, PayloadDigest};
pub(crate) use head::{EditedLines, IncomingRequest, RequestHead, RequestLine};
pub(crate) use key::{KeyInBody, KeyReading, decide_key};
pub use outcome::{Case, Outcome};
pub use pause::{Awaits, Pause, PauseEvent, Resumed, Waiter};
pub(crate) use pause::{Check, Continuation, KeptRequest, UnverifiedRequest};
pub(crate) use refusal::{body_can_be_awaited, misplaced_slash, no_segment, only_finite, only_get};
pub(crate) use route::{MatchedRoute, RoutedRequest, refuse_dots};
pub(crate) use send::send;
pub use trace::{Trace, TraceEvent, TraceStep};

/// The header map that an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderMapKind {
    /// The request's headers
    Request,
    /// The request's trailers
    RequestTrailers,
    /// The response's headers
    Response,
    /// The response's trailers
    ResponseTrailers,
}

/// An operation for the host. The host carries out effects in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Replace all lines with this name by one line with this value.
    Set {
        /// Where
        map: HeaderMapKind,
        /// Lower case
        name: &'a str,
        /// As it goes on the wire
        value: Cow<'a, [u8]>,
    },
    /// Remove every line with this name.
    Remove {
        /// Where
        map: HeaderMapKind,
        /// As it came
        name: &'a [u8],
    },
    /// Replace the whole body of the response. Separate effects set its headers.
    Body(Vec<u8>),
    /// Reply with a problem document. The request is not forwarded.
    Reply(Box<Problem>),
    /// Acknowledge a delivery with this sentence. It is not forwarded.
    Acknowledge(String),
}

/// How the request continues after an event.
#[derive(Debug)]
pub enum RequestFlow {
    /// It goes to the next filter.
    Continue,
    /// It ends here: the effects hold a reply.
    Replied,
    /// It waits.
    Paused(Pause),
    /// Its caller is known, or its body, and it is evaluated again: [`Exchange::request_headers`] with all of its headers.
    Again,
}

impl RequestFlow {
    /// What the request waits for, if it waits.
    pub const fn awaits(&self) -> Option<Awaits> {
        if let Self::Paused(pause) = self { Some(pause.awaits()) } else { None }
    }
}

/// What is known of one request and its answer, and what was decided.
#[derive(Debug)]
pub struct Exchange {
    stage: Stage,
    /// The decision about the request, if there is one yet
    decision: Option<Decision>,
    /// The problem that refused the request, or that replaced the backend's error
    problem: Option<Box<Problem>>,
    /// How the answer's trailers are edited
    pub(crate) trailers: TrailerEdit,
    pub(crate) place: Place,
    /// The name of the policy that applies
    pub(crate) policy_name: Option<&'static str>,
    pub(crate) verifier: Verifier,
    /// What the registry says of the request's API key
    pub(crate) holder: Option<Arc<KeyHolder>>,
    /// What was found in the body, if it may hold the key and has been read
    pub(crate) body_key: Option<Box<KeyInBody>>,
    /// Whether the body may hold the key and is not read, since there is no memory for the wait
    pub(crate) leaves_body: bool,
    /// What the client expects of an answer
    pub(crate) protocol: CallerProtocol,
    /// The text of the gateway's id of the request, which problem documents repeat if it is a UUID
    pub(crate) request_id: Option<[u8; Uuid::TEXT_LENGTH]>,
    /// The values of the path's parameters, decoded, if the route's `Location` needs them
    pub(crate) path_values: Vec<Vec<u8>>,
    /// What checks the request beside its way to the backend
    pub(crate) observation: Option<Box<Observation>>,
    /// The id of the invocation in Restate
    pub(crate) invocation: Option<String>,
    /// The operation id that the client sees, if the policy has operations and it is known
    pub(crate) operation: Option<String>,
    pub(crate) outcome: Outcome,
    /// Whether a handler reported that it had deduplicated the request
    pub(crate) handler_hit: bool,
    /// What marks the answer's body as a replay
    pub(crate) replay_mark: Option<Box<SetTrue>>,
    /// Who waits for results, this request included
    waits: Waits,
    /// The place of this request among them, which it keeps until it ends
    wait_place: Option<Box<WaitPlace>>,
    pub(crate) facts: Facts,
    /// What was looked at and found; `None` in gateways
    #[cfg(feature = "trace")]
    trace: Option<Box<Trace>>,
}

/// Where a request leads, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// No route has it, or nobody has looked.
    #[default]
    Unknown,
    /// A route
    Route(RouteId),
    /// The stored result of a request on this route
    Recovery(RouteId),
    /// An operation
    Operation,
}

/// Who signs a request.
#[derive(Debug, Default)]
pub(crate) enum Verifier {
    /// Nobody
    #[default]
    Nobody,
    /// The provider of a delivery
    Provider(Box<str>),
    /// The signed caller with this index
    Caller(usize),
}

/// How a response's trailers are edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TrailerEdit {
    /// Hidden names are removed.
    #[default]
    Clean,
    /// All of them are removed, since they belong to a replaced body or to an error of Restate.
    Remove,
}

/// How far an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Stage {
    /// The request is not decided yet.
    #[default]
    Undecided,
    /// The request goes to the backend.
    RequestDecided,
    /// The request was refused or acknowledged: the response is the filter's own.
    RequestEnded,
    /// The response has come, and waits for its body or for an answer.
    ResponseBegun,
    /// The response is decided, too.
    ResponseDecided,
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

impl Exchange {
    /// An exchange before its first event.
    pub fn new() -> Self {
        Self::sharing(Waits::default())
    }

    /// As [`Exchange::new`], for a request that shares the places of requests that wait with others.
    #[inline]
    pub(crate) fn sharing(waits: Waits) -> Self {
        Self {
            stage: Stage::Undecided,
            decision: None,
            problem: None,
            trailers: TrailerEdit::Clean,
            place: Place::Unknown,
            policy_name: None,
            verifier: Verifier::Nobody,
            holder: None,
            body_key: None,
            leaves_body: false,
            protocol: CallerProtocol::default(),
            request_id: None,
            path_values: Vec::new(),
            observation: None,
            invocation: None,
            operation: None,
            outcome: Outcome::Forwarded,
            handler_hit: false,
            replay_mark: None,
            waits,
            wait_place: None,
            facts: Facts::default(),
            #[cfg(feature = "trace")]
            trace: None,
        }
    }

    /// Whether the request waits for its result: only if the policy lets requests wait, and the caller has a place left.
    pub(crate) fn granted(&mut self, policy: &Policy, wait: Wait, caller: &Identity) -> Wait {
        if wait == Wait::Output || policy.recovery_wait_ms == 0 {
            return Wait::Output;
        }
        match self.waits.begin(caller) {
            Ok(place) => {
                self.wait_place = Some(Box::new(place));
                Wait::Attach
            }
            Err(reason) => {
                self.facts.forwarded_reason = Some(reason);
                Wait::Output
            }
        }
    }

    /// What checks the request beside its way to the backend. The host gives it the body as it passes.
    pub(crate) const fn take_observation(&mut self) -> Option<Box<Observation>> {
        self.observation.take()
    }

    /// The request goes to the backend, as it was decided.
    pub(crate) fn forwarded(&mut self, decision: Decision) {
        self.decision = Some(decision);
        self.stage = Stage::RequestDecided;
    }

    /// The delivery ends here, and counts as taken.
    pub(crate) fn acknowledged(&mut self, decision: Decision) {
        self.decision = Some(decision);
        self.stage = Stage::RequestEnded;
        self.outcome = Outcome::Acknowledged;
    }

    /// Keeps a decision, which telemetry shows if the request is refused.
    pub(crate) fn keep(&mut self, decision: Decision) {
        self.decision = Some(decision);
    }

    /// What is known of a request that waited, and waits no longer: a refusal keeps it for telemetry.
    pub(crate) fn end_pause(&mut self, pause: Pause) {
        if self.stage == Stage::Undecided {
            self.decision = pause.into_decision();
        }
    }

    /// Refuses the request. Returns the problem with the id of the request. The host calls this too if it cannot carry out
    /// what was decided.
    pub(crate) fn refuse(&mut self, problem: Problem) -> Problem {
        let problem = self.about_request(problem);
        if self.problem.is_none() {
            self.note(|| TraceEvent::Refused(Box::new(problem.clone())));
        }
        // The response may have begun before the request has ended.
        if self.stage >= Stage::ResponseBegun {
            return problem;
        }
        let is_conflict = problem.code == Code::KeyInFlight;
        self.outcome = if is_conflict { Outcome::Conflict } else { Outcome::Rejected };
        self.decision.get_or_insert_default();
        self.problem = Some(Box::new(problem.clone()));
        self.stage = Stage::RequestEnded;
        problem
    }

    /// The problem with the id of the request, if the request has one.
    pub(crate) fn about_request(&self, problem: Problem) -> Problem {
        Problem { instance: self.request_id(), ..problem }
    }

    /// The flow of a result: a refusal takes the place of all effects.
    pub(crate) fn flow_of(
        &mut self,
        result: Result<RequestFlow, Problem>,
        effects: &mut Vec<Effect<'_>>,
    ) -> RequestFlow {
        result.unwrap_or_else(|problem| {
            effects.clear();
            effects.push(Effect::Reply(Box::new(self.refuse(problem))));
            RequestFlow::Replied
        })
    }

    /// The response has come for a request that was forwarded, or for one that the gateway has ended while it waited. `None`: it is one
    /// of the filter's own, and passes.
    pub(crate) fn begin_response(&mut self) -> Option<Decision> {
        match self.stage {
            Stage::RequestDecided => {}
            Stage::Undecided => {
                self.outcome = Outcome::Rejected;
                self.decision = None;
            }
            _ => return None,
        }
        self.stage = Stage::ResponseBegun;
        Some(self.decision.take().unwrap_or_default())
    }

    /// The response waits.
    pub(crate) fn response_waits(&mut self, decision: Decision, trailers: TrailerEdit) {
        (self.decision, self.trailers) = (Some(decision), trailers);
    }

    /// The decision about a request whose response waited and waits no longer; `None` if none did.
    pub(crate) fn end_response_wait(&mut self) -> Option<Decision> {
        self.decision.take_if(|_| self.stage == Stage::ResponseBegun)
    }

    /// The response goes to the client. The problem is there if it replaces an error of the backend.
    pub(crate) fn responded(&mut self, decision: Decision, problem: Option<Problem>, trailers: TrailerEdit) {
        (self.decision, self.trailers, self.stage) = (Some(decision), trailers, Stage::ResponseDecided);
        self.problem = problem.map(Box::new);
    }
}
