//! One exchange, a request and its response, as a state machine. Its inputs are events (headers, bodies, trailers,
//! lookup results), its outputs are effects (edits and replies). It has no clock, no I/O and no host, so the same code
//! runs in the gateway, in `explain` and in tests.

mod caller;
mod clean;
mod edits;
mod keys;
mod observed;
mod operation;
mod paths;
mod recovery;
mod request;
mod response;
mod response_body;
mod shaping;
mod webhook;

use crate::headers::Headers;
use crate::identity::{Attributes, Identity, IdentitySource};
use crate::key::Form;
use crate::lookup::{FakeStores, LookupAnswer, Lookups, PendingLookup};
use crate::policy::answer::Unshaped;
use crate::policy::{Policy, PolicyKind, Route, Unmatched, recovery::Wait, routes::RouteId};
use crate::problem::Problem;
use crate::telemetry::{Case, Outcome, Record};
use crate::uuid::Uuid;
use recovery::PendingRecovery;
use request::KeyLines;
use response_body::AwaitedBody;
use std::borrow::Cow;
use webhook::DeliveryLookup;

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
    Reply(Problem),
}

/// How the request continues after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFlow {
    /// It goes to the next filter.
    Continue,
    /// It ends here: the effects hold a reply.
    Replied,
    /// It waits for the whole body, which goes to [`Exchange::request_body`]. The host keeps the headers until then.
    AwaitBody {
        /// The longest allowed body, in bytes. [`Exchange::body_too_large`] handles a longer one.
        limit: u64,
    },
    /// It waits for a call. Today every call is a lookup: [`Exchange::pending_lookup`] is its request, and
    /// [`Exchange::on_lookup_answer`] takes its answer. The host keeps headers and body until then.
    AwaitCall {
        /// As in [`RequestFlow::AwaitBody`], since the body may come during the call.
        limit: u64,
    },
}

/// How the response continues after its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFlow {
    /// It passes as it comes; if there is an [`Effect::Body`], with that body.
    Stream,
    /// It waits for the whole body, which goes to [`Exchange::response_body`]. The host keeps the headers until then.
    AwaitBody {
        /// The longest body that is read, in bytes. [`Exchange::response_body_too_large`] handles a longer one.
        limit: u64,
    },
}

/// One request and its response.
#[derive(Debug, Default)]
pub struct Exchange {
    state: State,
    facts: Facts,
    /// The values of the path's parameters, decoded, if the route's `Location` needs them
    path_values: Vec<Vec<u8>>,
}

/// The state of an exchange.
#[derive(Debug, Default)]
enum State {
    /// The request's headers have not come yet.
    #[default]
    Begun,
    /// The request waits for its whole body. Its signature has to be that of the signed caller with this index.
    AwaitsSignedBody(usize),
    /// A webhook delivery waits for a lookup, or for its whole body.
    AwaitsDelivery(Box<DeliveryLookup>),
    /// A recovery request waits for the id of its invocation, or for its whole body.
    AwaitsInvocation(Box<PendingRecovery>),
    /// The request goes to the backend.
    Forwarded(Decision),
    /// The response's headers have come, and the exchange waits for its whole body.
    AwaitsResponseBody(Decision, AwaitedBody, TrailerEdit),
    /// The response goes to the client. The problem is there if it replaces an error of the backend.
    Responded(Decision, Option<Problem>, TrailerEdit),
    /// The request was refused. The decision is empty if the refusal came before it.
    Refused(Decision, Problem),
}

/// The decision about a request that is forwarded.
#[derive(Debug, Default)]
struct Decision {
    /// The caller's identity, if the route needs one.
    identity: Option<Identity>,
    /// The namespaced key, also in shadow mode, where the request keeps the client's.
    key: Option<String>,
    /// The edit of the `Idempotency-Key` lines.
    lines: KeyLines,
    /// Whether the backend gets a key: a namespaced one, or in shadow mode the client's.
    keyed: bool,
    /// In shadow mode, the decision that has no effect.
    shadow: Option<ShadowDecision>,
    /// If the request asks for a stored result, whether to wait for it.
    recovery: Option<Wait>,
    /// Whether it asks by an operation id.
    is_operation: bool,
    /// The operation id that the client sees, if the policy has operations and it is known.
    operation: Option<String>,
}

/// What the filter would have done with a request's key without shadow mode.
#[derive(Debug)]
enum ShadowDecision {
    /// The request would have been forwarded, with its key rewritten if it has one.
    Forward,
    /// The request would have been refused.
    Refuse(Problem),
}

/// How a response's trailers are edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailerEdit {
    /// Hidden names are removed.
    Clean,
    /// All of them are removed, since they belong to a replaced body or to an error of Restate.
    Remove,
}

/// Facts for logs, metrics and problem documents. No decision depends on them.
#[derive(Debug, Default)]
struct Facts {
    policy: Option<&'static str>,
    case: Option<Case>,
    /// Whether the request's key lines were read
    key_read: bool,
    /// The form of the key lines, valid or not
    form: Option<Form>,
    /// The provider of a delivery
    provider: Option<Box<str>>,
    /// The signed caller, as an index
    caller: Option<usize>,
    /// The verified identity where the decision has none: the request was refused, or would be without shadow mode
    verified_identity: Option<Box<Identity>>,
    /// The lookups that the request needed: their stores and results, as metrics write them
    lookups: Vec<(&'static str, &'static str)>,
    /// Which attempt the client says the request is
    attempt: Option<u8>,
    /// The backend's answer to a request with a key
    answer: Option<AnswerFact>,
    /// Whether a handler reported that it had deduplicated the request
    handler_hit: bool,
    /// Why the backend's answer keeps its status 200 although the route shapes its answers
    unshaped: Option<Unshaped>,
    source: Option<&'static str>,
    /// The path as the client sent it, without its query, if logs show it
    sent_path: Option<String>,
    /// Whether the path is a recovery path of the route
    is_recovery: bool,
    /// Whether the path is that of an operation
    is_operation: bool,
    /// The detailed reason, which the problem document does not show.
    reason: Option<&'static str>,
    outcome: Outcome,
    invocation: Option<String>,
    route: Option<RouteId>,
    /// The gateway's id of the request, which problem documents repeat.
    request_id: Option<Uuid>,
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

/// What is known about the key of a request in Case A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFact {
    /// The request was decided without a look at its key.
    Unread,
    /// It has no key.
    Absent,
    /// It has a key, valid or not.
    Sent(Form),
}

/// The backend's answer to a request with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerFact {
    /// `stored`, `replayed`, `processing`, `recovered` or `passed`
    pub(crate) outcome: &'static str,
    /// Whether its status is 400 or higher
    pub(crate) error: bool,
}

impl Exchange {
    /// An exchange before its first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles the request's headers. If the flow is [`RequestFlow::Continue`], the effects turn them into the headers
    /// for the backend.
    pub fn request_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = self.evaluate_request(policy, headers, attributes, effects);
        let flow = self.flow_of(result, effects);
        if self.problem().is_some() && self.identity().is_none() {
            self.identify(policy, headers, attributes);
        }
        flow
    }

    /// Handles the whole body of a request that waits for it ([`RequestFlow::AwaitBody`]). The effects edit its
    /// headers.
    pub fn request_body<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &[u8],
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let result = match self.state {
            State::AwaitsSignedBody(caller) => {
                self.verify_signed_request(caller, policy, headers, body, now_unix_ms, effects)
            }
            State::AwaitsDelivery(_) => self.verify_delivery(policy, headers, body, now_unix_ms, effects),
            State::AwaitsInvocation(_) => self.forward_recovery(policy, headers, effects),
            // A host calls this only after `AwaitBody`.
            _ => Err(Problem::policy_invalid()),
        };
        self.flow_of(result, effects)
    }

    /// Handles a whole request at once, with the content of the stores. The result is the same as that of
    /// [`Exchange::request_headers`], [`Exchange::on_lookup_answer`] and [`Exchange::request_body`] in turn.
    pub fn whole_request<'a>(
        &mut self,
        policy: &'a Policy,
        (headers, body): (&Headers<'a>, &[u8]),
        attributes: &'a dyn Attributes,
        stores: &FakeStores,
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let mut lookups = Lookups::of(policy);
        let mut flow = self.request_headers(policy, headers, attributes, effects);
        loop {
            flow = match flow {
                RequestFlow::AwaitBody { limit } if body.len() as u64 > limit => self.body_too_large(limit, effects),
                RequestFlow::AwaitBody { .. } => self.request_body(policy, headers, body, now_unix_ms, effects),
                RequestFlow::AwaitCall { .. } => {
                    let result = match self.pending_lookup() {
                        Some(PendingLookup::Invocation(body)) => Some(stores.look_up_invocation(body).into()),
                        Some(PendingLookup::Store(request)) => {
                            lookups.as_mut().map(|lookups| stores.look_up(lookups, request, now_unix_ms))
                        }
                        None => None,
                    };
                    self.on_lookup_answer(policy, result.unwrap_or_else(LookupAnswer::lost), effects)
                }
                RequestFlow::Continue | RequestFlow::Replied => return flow,
            };
        }
    }

    /// The lookup that the request waits for.
    pub fn pending_lookup(&self) -> Option<PendingLookup<'_>> {
        match &self.state {
            State::AwaitsDelivery(delivery) => delivery.pending.as_ref().map(PendingLookup::Store),
            State::AwaitsInvocation(recovery) => recovery.pending().map(PendingLookup::Invocation),
            _ => None,
        }
    }

    /// Handles the answer to [`Exchange::pending_lookup`]. The flow may be [`RequestFlow::AwaitCall`] again.
    pub fn on_lookup_answer(
        &mut self,
        policy: &Policy,
        answer: LookupAnswer,
        effects: &mut Vec<Effect<'_>>,
    ) -> RequestFlow {
        let lookup = self.pending_lookup().map(|lookup| (lookup.store_name(), answer.name()));
        self.facts.lookups.extend(lookup);
        let result = match self.state {
            State::AwaitsInvocation(_) => self.take_invocation(policy, answer.result),
            _ => self.take_lookup_result(policy, answer.result),
        };
        self.flow_of(result, effects)
    }

    /// Refuses a body that is longer than the route's limit of `limit` bytes.
    pub fn body_too_large(&mut self, limit: u64, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        self.flow_of(Err(Problem::body_too_large(limit)), effects)
    }

    /// Refuses a request that has to wait, because the waiting requests use all of the memory that they may use.
    pub fn no_room_to_wait(&mut self, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        self.facts.reason = Some("waiting_full");
        self.flow_of(Err(Problem::dependency_unavailable()), effects)
    }

    fn flow_of(&mut self, result: Result<RequestFlow, Problem>, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        result.unwrap_or_else(|problem| {
            effects.clear();
            effects.push(Effect::Reply(self.refuse(problem)));
            RequestFlow::Replied
        })
    }

    /// Refuses the request. Returns the problem with the id of the request. The host calls this too if it cannot carry out
    /// what was decided.
    pub(crate) fn refuse(&mut self, problem: Problem) -> Problem {
        let problem = self.about_request(problem);
        let decision = match std::mem::take(&mut self.state) {
            State::Forwarded(decision) | State::Refused(decision, _) => decision,
            State::AwaitsInvocation(recovery) => Decision { identity: Some(recovery.identity), ..Decision::default() },
            State::Begun | State::AwaitsSignedBody(_) | State::AwaitsDelivery(_) => Decision::default(),
            // The response has begun before the request has ended.
            answered @ (State::AwaitsResponseBody(..) | State::Responded(..)) => {
                self.state = answered;
                return problem;
            }
        };
        self.facts.outcome = Outcome::Rejected;
        self.state = State::Refused(decision, problem.clone());
        problem
    }

    /// The problem with the id of the request, if the request has one.
    pub(crate) fn about_request(&self, problem: Problem) -> Problem {
        Problem { instance: self.facts.request_id, ..problem }
    }

    /// The decision, if there is one yet.
    const fn decision(&self) -> Option<&Decision> {
        match &self.state {
            State::Begun | State::AwaitsSignedBody(_) | State::AwaitsDelivery(_) | State::AwaitsInvocation(_) => None,
            State::Forwarded(decision)
            | State::AwaitsResponseBody(decision, ..)
            | State::Responded(decision, ..)
            | State::Refused(decision, _) => Some(decision),
        }
    }

    /// The problem that refused the request, or that replaced the backend's error.
    pub const fn refusal(&self) -> Option<&Problem> {
        match &self.state {
            State::Refused(_, problem) | State::Responded(_, Some(problem), _) => Some(problem),
            _ => None,
        }
    }

    /// The reason of a refusal for logs, in more detail than the caller gets.
    pub fn reason(&self) -> Option<&'static str> {
        self.facts.reason.or_else(|| self.problem().and_then(|problem| problem.reason))
    }

    /// The refusal of the request, or the one that has no effect in shadow mode, or the problem in the place of the backend's
    /// error.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match (&self.state, self.shadow().flatten()) {
            (State::Responded(..), Some(problem)) => Some(problem),
            _ => self.refusal().or_else(|| self.shadow().flatten()),
        }
    }

    /// The decision that had no effect in shadow mode. `None`: not in shadow mode. `Some(None)`: the request would have
    /// been forwarded. `Some(Some(problem))`: it would have been refused.
    pub fn shadow(&self) -> Option<Option<&Problem>> {
        match self.decision()?.shadow.as_ref()? {
            ShadowDecision::Forward => Some(None),
            ShadowDecision::Refuse(problem) => Some(Some(problem)),
        }
    }

    /// The namespaced key. In shadow mode the request does not carry it.
    pub fn key(&self) -> Option<&str> {
        self.decision()?.key.as_deref()
    }

    /// The verified identity of the caller, or of the webhook's binding: if the decision needed one, or if the request was
    /// refused, or would be without shadow mode.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        let decided = self.decision().and_then(|decision| decision.identity.as_ref());
        decided.or(self.facts.verified_identity.as_deref())
    }

    /// The lookups that the request needed: for each its store and its result.
    pub(crate) fn lookups(&self) -> &[(&'static str, &'static str)] {
        &self.facts.lookups
    }

    /// Which attempt the client says the request is, at most 100.
    pub(crate) const fn attempt(&self) -> Option<u8> {
        self.facts.attempt
    }

    /// Whether the backend replayed a stored response.
    pub(crate) fn is_replayed(&self) -> bool {
        self.facts.outcome == Outcome::Replayed
    }

    /// The matched route.
    fn route<'p>(&self, policy: &'p Policy) -> Option<&'p Route> {
        policy.route(self.facts.route?)
    }

    /// What is known about the key of a request in Case A.
    pub(crate) const fn key_fact(&self) -> KeyFact {
        match (self.facts.key_read, self.facts.form) {
            (false, _) => KeyFact::Unread,
            (true, None) => KeyFact::Absent,
            (true, Some(form)) => KeyFact::Sent(form),
        }
    }

    /// The place of the key: `header`, or what the identifier of a delivery was made of.
    pub(crate) const fn source_name(&self) -> Option<&'static str> {
        self.facts.source
    }

    /// The provider of a delivery.
    pub(crate) fn provider_name(&self) -> Option<&str> {
        self.facts.provider.as_deref()
    }

    /// The name of the signed caller.
    pub(crate) fn signer<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        policy.callers().get(self.facts.caller?).map(|caller| caller.name.as_str())
    }

    /// The backend's answer to a request with a key.
    pub(crate) const fn answer(&self) -> Option<AnswerFact> {
        self.facts.answer
    }

    /// Why the backend's answer is not shaped although the route asks for it.
    pub(crate) const fn unshaped(&self) -> Option<Unshaped> {
        self.facts.unshaped
    }

    /// Whether the handler deduplicates, so that the filter makes no key.
    pub(crate) fn leaves_keys_to_handler(&self) -> bool {
        self.facts.policy == Some(PolicyKind::HandlerInternalC.name())
    }

    /// Whether a handler reported that it had deduplicated the request.
    pub(crate) const fn handler_hit(&self) -> bool {
        self.facts.handler_hit
    }

    /// How far the exchange is.
    pub(crate) const fn stage(&self) -> Stage {
        match &self.state {
            State::Begun | State::AwaitsSignedBody(_) | State::AwaitsDelivery(_) | State::AwaitsInvocation(_) => {
                Stage::Undecided
            }
            State::Forwarded(_) | State::AwaitsResponseBody(..) | State::Refused(..) => Stage::RequestDecided,
            State::Responded(..) => Stage::ResponseDecided,
        }
    }

    /// The sources that the identity of this request's caller is read from, for `explain`. A webhook has none, since its
    /// identity comes from its binding; nor has a request whose path no route has.
    pub fn identity_sources<'p>(&self, policy: &'p Policy, headers: &Headers<'_>) -> &'p [IdentitySource] {
        if self.facts.is_operation {
            return &policy.identity_of(None).sources;
        }
        let Some(route) = self.route(policy).filter(|route| route.webhook.is_none()) else { return &[] };
        match policy.signer(route, headers) {
            Some(caller) => policy.caller_source(caller).map(std::slice::from_ref).unwrap_or_default(),
            None => &policy.identity_of(Some(route)).sources,
        }
    }

    /// The case, if it is known.
    pub const fn case(&self) -> Option<Case> {
        self.facts.case
    }

    /// The record of the exchange for logs.
    pub const fn record<'r>(&'r self, policy: &'r Policy) -> Record<'r> {
        Record::of(self, policy)
    }

    /// The outcome so far.
    pub(crate) const fn outcome(&self) -> Outcome {
        self.facts.outcome
    }

    /// The outcome as the record writes it.
    pub(crate) fn logged_outcome(&self) -> &'static str {
        match self.facts.answer {
            // An answer that is neither stored nor replayed is that of a forwarded request.
            Some(answer) if answer.outcome != "passed" && self.facts.outcome != Outcome::Rejected => answer.outcome,
            _ => self.facts.outcome.name(),
        }
    }

    /// The id of the invocation in Restate.
    pub(crate) fn invocation(&self) -> Option<&str> {
        self.facts.invocation.as_deref()
    }

    /// The path as the client sent it, without its query, if logs show it.
    pub(crate) fn sent_path(&self) -> Option<&str> {
        self.facts.sent_path.as_deref()
    }

    /// What shadow mode has found: `rewrite` if the key would have been rewritten, `refuse` if the request would have
    /// been refused.
    pub(crate) fn shadow_verdict(&self) -> Option<&'static str> {
        match self.shadow()? {
            Some(_) => Some("refuse"),
            None => self.key().map(|_| "rewrite"),
        }
    }

    /// The index of the matched route.
    pub(crate) const fn route_index(&self) -> Option<RouteId> {
        self.facts.route
    }

    /// Whether the path is a recovery path.
    pub(crate) const fn is_recovery(&self) -> bool {
        self.facts.is_recovery
    }

    /// The gateway's id of the request.
    pub(crate) const fn request_id(&self) -> Option<Uuid> {
        self.facts.request_id
    }

    /// Whether the path is that of an operation.
    pub(crate) const fn is_operation(&self) -> bool {
        self.facts.is_operation
    }

    /// The endpoint of the matched route, or what stands for it in a request for an operation.
    pub fn endpoint<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        if self.facts.is_operation {
            return Some(OPERATIONS);
        }
        self.route(policy).map(|route| route.endpoint.as_str())
    }

    /// The name of the policy that applied.
    pub const fn policy_name(&self) -> Option<&'static str> {
        self.facts.policy
    }
}

/// The endpoint of requests for operations. The name of an endpoint of a policy cannot begin so.
const OPERATIONS: &str = "_operations";

const fn unmatched_name(unmatched: Unmatched) -> &'static str {
    match unmatched {
        Unmatched::Reject => "REJECT",
        Unmatched::Prohibited => "PROHIBITED",
        Unmatched::HandlerInternalC => "HANDLER_INTERNAL_C",
    }
}
