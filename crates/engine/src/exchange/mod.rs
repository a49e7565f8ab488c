//! One exchange, a request and its response, as a state machine. Its inputs are events (headers, bodies, trailers,
//! lookup results), its outputs are effects (edits and replies). It has no clock, no I/O and no host, so the same code
//! runs in the gateway, in `explain` and in tests.

mod accessors;
mod answer_mapping;
mod api_key;
mod checks;
mod clean;
mod decision;
mod edits;
mod forward;
mod handler_hit;
mod keys;
mod matched_route;
mod operation;
mod outcome;
mod recovery;
mod refusal;
mod request;
mod request_head;
mod response;
mod response_body;
mod signed_caller;
mod telemetry_fields;
mod trace;
mod waiting;
mod webhook;

use crate::body::Body;
use crate::collision::{BodyReader, Observation};
use crate::headers::Headers;
use crate::identity::{Attributes, KeyHolder};
use crate::lookup::{LookupAnswer, LookupRequest, OutputQuestion, PendingLookup};
use crate::policy::{Policy, Unmatched, routes::RouteId};
use crate::problem::{CallerProtocol, Code, Problem, Reason};
use crate::waits::{WaitPlace, Waits};
use checks::BackendChecks;
use decision::Decision;
use recovery::PendingRecovery;
use response_body::AwaitedBody;
use signed_caller::WaitingSigned;
use std::borrow::Cow;
use std::sync::Arc;
use webhook::WaitingDelivery;

use telemetry_fields::TelemetryFields;

pub use outcome::{Case, Outcome};
pub(crate) use telemetry_fields::{BackendAnswer, KeyPresence, PayloadDigest};
pub use trace::{Trace, TraceEvent, TraceStep};
pub use waiting::Waiter;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFlow {
    /// It goes to the next filter.
    Continue,
    /// It ends here: the effects hold a reply.
    Replied,
    /// It waits for the whole body, which goes to [`Exchange::request_body`]. The host keeps [`Exchange::kept_lines`] until
    /// then.
    AwaitBody {
        /// The longest allowed body, in bytes. [`Exchange::body_too_large`] handles a longer one.
        limit: u64,
    },
    /// It waits for the end of its body, and then `Exchange::request_ended` decides. Of the body only what
    /// `Exchange::body_reader` gives is needed, so the host reads it in parts and keeps no copy. The host keeps
    /// [`Exchange::kept_lines`] until then.
    AwaitEnd {
        /// As in [`RequestFlow::AwaitBody`].
        limit: u64,
    },
    /// It waits for a call. Today every call is a lookup: [`Exchange::pending_lookup`] is its request, and
    /// [`Exchange::on_lookup_answer`] takes its answer. The host keeps [`Exchange::kept_lines`] and the body until
    /// then.
    AwaitCall {
        /// As in [`RequestFlow::AwaitBody`], since the body may come during the call.
        limit: u64,
    },
    /// It waits for the lookup of its caller, as for [`RequestFlow::AwaitCall`]. Nothing of it was edited, and nothing has to be
    /// kept of it.
    AwaitCaller {
        /// Whether it waits for its whole body, too, as in [`RequestFlow::AwaitBody`]: the route may need it. Otherwise the
        /// host reads nothing of the body until the request goes on, so that a body can have any length.
        limit: Option<u64>,
    },
    /// Its caller is known, and it is evaluated again: [`Exchange::request_headers`] with all of its headers.
    Again,
}

impl RequestFlow {
    /// Whether the request waits, and goes on with what was kept of it.
    pub const fn waits(self) -> bool {
        matches!(self, Self::AwaitBody { .. } | Self::AwaitEnd { .. } | Self::AwaitCall { .. })
    }
}

/// How the response continues after its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFlow {
    /// It passes as it comes; if there is an [`Effect::Body`], with that body.
    Stream,
    /// It passes as it comes, and the whole body goes to `Exchange::read_hit` when it has passed.
    Observe {
        /// The longest body that is read, in bytes
        limit: u64,
    },
    /// It waits for the whole body, which goes to [`Exchange::response_body`]. The host keeps the headers until then.
    AwaitBody {
        /// The longest body that is read, in bytes. [`Exchange::response_body_too_large`] handles a longer one if its length
        /// is known before it is waited for, else [`Exchange::response_body_lost`].
        limit: u64,
    },
}

/// One request and its response.
#[derive(Debug)]
pub struct Exchange {
    state: State,
    /// The matched route
    route_id: Option<RouteId>,
    /// The provider of a delivery
    provider: Option<Box<str>>,
    /// The signed caller, as an index
    signed_caller: Option<usize>,
    telemetry: TelemetryFields,
    /// What the registry says of the request's API key
    holder: Option<Arc<KeyHolder>>,
    /// What the client expects of an answer
    protocol: CallerProtocol,
    /// The values of the path's parameters, decoded, if the route's `Location` needs them
    path_values: Vec<Vec<u8>>,
    /// What checks the request beside its way to the backend
    observation: Option<Box<Observation>>,
    /// The operation id that the client sees, if the policy has operations and it is known
    operation: Option<String>,
    /// Who waits for results, this request included
    waits: Waits,
    /// The place of this request among them, which it keeps until it ends
    wait_place: Option<Box<WaitPlace>>,
    /// What was looked at and found; `None` in gateways
    #[cfg(feature = "trace")]
    trace: Option<Box<Trace>>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of an exchange.
#[derive(Debug, Default)]
enum State {
    /// The request's headers have not come yet, or are to be evaluated again.
    #[default]
    Begun,
    /// The request waits for what the registry says of its API key.
    AwaitsCaller(Box<LookupRequest>),
    /// The request waits for its whole body. Its signature has to be that of a signed caller.
    AwaitsSignedBody(Box<WaitingSigned>),
    /// A webhook delivery waits for a lookup, or for its whole body.
    AwaitsDelivery(Box<WaitingDelivery>),
    /// A recovery request waits for the id of its invocation, or for its whole body.
    AwaitsInvocation(Box<PendingRecovery>),
    /// The request is decided, and waits for checks before it goes to the backend.
    AwaitsChecks(Box<BackendChecks>),
    /// The request goes to the backend.
    Forwarded(Decision),
    /// The delivery was acknowledged, and does not go to the backend.
    Acknowledged(Decision),
    /// The response's headers have come, and the exchange waits for its whole body.
    AwaitsResponseBody(Decision, AwaitedBody, TrailerEdit),
    /// The response of a one-way target waits for the answer how far the work is.
    AwaitsProgress(Decision, Box<OutputQuestion>, TrailerEdit),
    /// The response goes to the client. The problem is there if it replaces an error of the backend.
    Responded(Decision, Option<Box<Problem>>, TrailerEdit),
    /// The request was refused. The decision is empty if the refusal came before it.
    Refused(Decision, Box<Problem>),
}

/// How a response's trailers are edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailerEdit {
    /// Hidden names are removed.
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
    /// The request was forwarded or refused.
    RequestDecided,
    /// The response is decided, too.
    ResponseDecided,
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
            waits,
            state: State::default(),
            route_id: None,
            provider: None,
            signed_caller: None,
            telemetry: TelemetryFields::default(),
            holder: None,
            protocol: CallerProtocol::default(),
            path_values: Vec::new(),
            observation: None,
            operation: None,
            wait_place: None,
            #[cfg(feature = "trace")]
            trace: None,
        }
    }

    /// Handles the request's headers. If the flow is [`RequestFlow::Continue`], the effects turn them into the headers
    /// for the backend. If the request waits, they are the edits that are made before the wait, and what follows is decided
    /// on [`Exchange::kept_lines`].
    #[inline(never)]
    pub fn request_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = self.evaluate_request(policy, headers, attributes, effects);
        let flow = self.flow_of(result, effects);
        if self.stage() == Stage::RequestDecided && self.identity().is_none() {
            self.identify(policy, headers, attributes);
        }
        if flow.waits() {
            self.edit_before_wait(policy, headers, effects);
        }
        flow
    }

    /// Handles the whole body of a request that waits for it ([`RequestFlow::AwaitBody`]). The effects edit its
    /// headers.
    pub fn request_body<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &Body<'_>,
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = match std::mem::take(&mut self.state) {
            State::AwaitsSignedBody(waiting) => {
                self.verify_signed_request(*waiting, policy, headers, (body, now_unix_ms), effects)
            }
            State::AwaitsDelivery(waiting) => {
                self.verify_delivery(waiting, policy, headers, (body, now_unix_ms), effects)
            }
            State::AwaitsInvocation(pending) => self.forward_recovery(*pending, policy, effects),
            State::AwaitsChecks(pending) => self.on_whole_body(pending, policy, headers, body, effects),
            other => self.no_such_event(other),
        };
        self.flow_of(result, effects)
    }

    /// The lookup that the request, or its response, waits for.
    pub fn pending_lookup(&self) -> Option<PendingLookup<'_>> {
        match &self.state {
            State::AwaitsCaller(request) => Some(PendingLookup::Store(request)),
            State::AwaitsDelivery(delivery) => delivery.pending.as_ref().map(PendingLookup::Store),
            State::AwaitsInvocation(recovery) => recovery.pending().map(PendingLookup::Invocation),
            State::AwaitsChecks(pending) => pending.lookup(),
            State::AwaitsProgress(_, question, _) => Some(PendingLookup::Output(question)),
            _ => None,
        }
    }

    /// Handles the answer to [`Exchange::pending_lookup`] of a request. The flow may be [`RequestFlow::AwaitCall`] again.
    pub fn on_lookup_answer(
        &mut self,
        policy: &Policy,
        answer: LookupAnswer,
        effects: &mut Vec<Effect<'_>>,
    ) -> RequestFlow {
        let result = match (std::mem::take(&mut self.state), answer) {
            (State::AwaitsChecks(pending), LookupAnswer::FirstClaim(first)) => {
                self.on_first_claim(pending, policy, &first)
            }
            (State::AwaitsChecks(pending), LookupAnswer::Output(progress)) => {
                self.on_in_flight(pending, policy, progress)
            }
            (State::AwaitsInvocation(pending), LookupAnswer::Invocation(id)) => self.on_invocation(pending, policy, id),
            (State::AwaitsDelivery(waiting), LookupAnswer::Binding(binding)) => {
                self.on_binding(waiting, policy, binding)
            }
            (State::AwaitsDelivery(waiting), LookupAnswer::Secrets(secrets)) => {
                self.on_secrets(waiting, policy, secrets)
            }
            (State::AwaitsCaller(_), LookupAnswer::Holder(holder)) => self.on_holder(policy, holder),
            (other, _) => self.no_such_event(other),
        };
        self.flow_of(result, effects)
    }

    /// Refuses an event for which the request does not wait. A host makes none.
    fn no_such_event(&mut self, state: State) -> Result<RequestFlow, Problem> {
        self.state = state;
        Err(Problem::internal_error())
    }

    /// What reads the body of a request that waits for its end; `None` if nothing of the body is needed.
    pub(crate) fn body_reader(&self) -> Option<BodyReader> {
        match &self.state {
            State::AwaitsChecks(pending) => pending.body_reader(),
            _ => None,
        }
    }

    /// Handles the end of a request that waits for it ([`RequestFlow::AwaitEnd`]). `body` has read the whole body. The
    /// effects edit the request's headers.
    pub(crate) fn request_ended<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: Option<BodyReader>,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = match std::mem::take(&mut self.state) {
            State::AwaitsChecks(pending) => self.on_request_end(pending, policy, headers, body, effects),
            other => self.no_such_event(other),
        };
        self.flow_of(result, effects)
    }

    /// What checks the request beside its way to the backend. The host gives it the body as it passes.
    pub(crate) const fn take_observation(&mut self) -> Option<Box<Observation>> {
        self.observation.take()
    }

    /// Refuses a body that is longer than the route's limit of `limit` bytes.
    pub fn body_too_large(&mut self, limit: u64, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        self.begin(TraceStep::Body);
        self.flow_of(Err(Problem::body_too_large(limit)), effects)
    }

    /// Refuses a request that has to wait, because the waiting requests use all of the memory that they may use. `reason`
    /// says which of them.
    pub(crate) fn no_memory_to_wait(&mut self, reason: Reason, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        let problem = self.because(reason, Problem::dependency_unavailable());
        self.flow_of(Err(problem), effects)
    }

    fn flow_of(&mut self, result: Result<RequestFlow, Problem>, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        result.unwrap_or_else(|problem| {
            effects.clear();
            effects.push(Effect::Reply(Box::new(self.refuse(problem))));
            RequestFlow::Replied
        })
    }

    /// Refuses the request. Returns the problem with the id of the request. The host calls this too if it cannot carry out
    /// what was decided.
    pub(crate) fn refuse(&mut self, problem: Problem) -> Problem {
        let problem = self.about_request(problem);
        if !matches!(self.state, State::Refused(..)) {
            self.note(|| TraceEvent::Refused(Box::new(problem.clone())));
        }
        let decision = match std::mem::take(&mut self.state) {
            State::Forwarded(decision) | State::Acknowledged(decision) | State::Refused(decision, _) => decision,
            State::AwaitsChecks(pending) => pending.decision,
            State::AwaitsInvocation(recovery) => Decision::Unkeyed(Some(recovery.key.caller)),
            State::Begun | State::AwaitsCaller(_) | State::AwaitsSignedBody(_) | State::AwaitsDelivery(_) => {
                Decision::default()
            }
            // The response has begun before the request has ended.
            answered @ (State::AwaitsResponseBody(..) | State::AwaitsProgress(..) | State::Responded(..)) => {
                self.state = answered;
                return problem;
            }
        };
        let is_conflict = problem.code == Code::KeyInFlight;
        self.telemetry.outcome = if is_conflict { Outcome::Conflict } else { Outcome::Rejected };
        self.state = State::Refused(decision, Box::new(problem.clone()));
        problem
    }

    /// The problem with the id of the request, if the request has one.
    pub(crate) fn about_request(&self, problem: Problem) -> Problem {
        Problem { instance: self.request_id(), ..problem }
    }
}

const fn unmatched_name(unmatched: Unmatched) -> &'static str {
    match unmatched {
        Unmatched::Reject => "REJECT",
        Unmatched::Prohibited => "PROHIBITED",
        Unmatched::HandlerInternalC => "HANDLER_INTERNAL_C",
    }
}
