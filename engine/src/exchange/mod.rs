//! One exchange, a request and its response, as a state machine: events in (headers, trailers), effects out (edits and
//! replies). No clock, no I/O, no host: the same code runs in the gateway, in `explain` and in tests.

mod caller;
mod clean;
mod edits;
mod paths;
mod recovery;
mod request;
mod response;
mod response_body;
mod webhook;

use crate::headers::Headers;
use crate::identity::{Attributes, Identity};
use crate::lookup::{FakeStores, LookupRequest, LookupResult, Lookups};
use crate::policy::{Policy, Route, Unmatched, recovery::Wait, routes::RouteId};
use crate::problem::Problem;
use crate::telemetry::{Case, Outcome, Record, key_in_logs};
use request::KeyLines;
use response_body::AwaitedBody;
use std::borrow::Cow;
use webhook::DeliveryLookup;

/// Which headers an edit is about.
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

/// Something for the host to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Leave one line with this name and value, whatever was there.
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
    /// Put this in the place of the answer's whole body; its headers are set apart.
    Body(Vec<u8>),
    /// Answer the request with a problem document and forward nothing.
    Reply(Problem),
}

/// How the exchange goes on after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFlow {
    /// To the next filter.
    Continue,
    /// Not at all: there is a reply.
    Replied,
    /// Only with the whole body, which goes to [`Exchange::request_body`]; the headers wait until then.
    AwaitBody {
        /// The longest body that may come, in bytes; a longer one goes to [`Exchange::body_too_large`].
        limit: u64,
    },
    /// Only with the result of a call. Today every call is a lookup: [`Exchange::pending_lookup`] says which, and its result
    /// goes to [`Exchange::on_lookup_result`]. Headers and body wait until then.
    AwaitCall {
        /// As of [`RequestFlow::AwaitBody`]: the body may come meanwhile.
        limit: u64,
    },
}

/// How an answer goes on after its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFlow {
    /// As it comes; where there is an [`Effect::Body`], with that body instead of its own.
    Stream,
    /// Only with the whole body, which goes to [`Exchange::response_body`]; the headers wait until then.
    AwaitBody {
        /// The longest body that is looked at, in bytes; a longer one goes to [`Exchange::response_body_too_large`].
        limit: u64,
    },
}

/// One request and its response.
#[derive(Debug, Default)]
pub struct Exchange {
    state: State,
    facts: Facts,
}

/// How far an exchange has come. What may come next follows from it.
#[derive(Debug, Default)]
enum State {
    /// The request's headers have not come.
    #[default]
    Begun,
    /// The request waits for its whole body; the signed caller of this index has to have signed it.
    AwaitsSignedBody(usize),
    /// A webhook's delivery waits for its whole body, and where something has to be looked up for it, for that before.
    AwaitsDelivery(Box<DeliveryLookup>),
    /// The request was decided on and goes to the backend.
    Forwarded(Decision),
    /// The response's headers have come, and its whole body is waited for.
    AwaitsResponseBody(Decision, AwaitedBody, TrailerRule),
    /// The response goes to the client; where the filter has replaced its error, with this problem.
    Responded(Decision, Option<Problem>, TrailerRule),
    /// The request was refused. The decision is empty unless it was made before.
    Refused(Decision, Problem),
}

/// What was decided about a request that is not refused.
#[derive(Debug, Default)]
struct Decision {
    /// The caller, as far as the route needs one.
    identity: Option<Identity>,
    /// The namespaced key; in shadow mode the one that is not set.
    key: Option<String>,
    /// What becomes of the `Idempotency-Key` lines.
    lines: KeyLines,
    /// Whether a key, namespaced or in shadow mode as it came, reaches the backend.
    keyed: bool,
    /// In shadow mode, the verdict that is not acted on.
    shadow: Option<ShadowVerdict>,
    /// How a stored result is asked for, on a recovery path.
    recovery: Option<Wait>,
}

/// What would have become of a request's key without shadow mode.
#[derive(Debug)]
enum ShadowVerdict {
    /// It would have been rewritten, or there was nothing to do.
    Forward,
    /// The request would have been refused.
    Refuse(Problem),
}

/// What becomes of a response's trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailerRule {
    /// Names that no client sees are removed.
    Clean,
    /// All of them are removed: they belong to a body that the client does not get, or to an error of Restate's.
    Remove,
}

/// What logs and metrics tell of an exchange. No decision depends on it.
#[derive(Debug, Default)]
struct Facts {
    policy: Option<&'static str>,
    case: Option<Case>,
    form: Option<crate::key::Form>,
    source: Option<&'static str>,
    original_path: String,
    /// What a problem document does not tell.
    reason: Option<&'static str>,
    outcome: Outcome,
    invocation: Option<String>,
    route: Option<RouteId>,
}

impl Exchange {
    /// An exchange of which nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request's headers have come. Unless the flow is [`RequestFlow::Replied`] the effects make them what the backend
    /// gets.
    pub fn request_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let verdict = self.evaluate_request(policy, headers, attributes, effects);
        self.flow_of(verdict, effects)
    }

    /// The whole body has come of a request that waits for it, and its headers still wait.
    pub fn request_body<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &[u8],
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> RequestFlow {
        let verdict = match self.state {
            State::AwaitsSignedBody(caller) => {
                self.verify_signed_request(caller, policy, headers, body, now_unix_ms, effects)
            }
            State::AwaitsDelivery(_) => self.verify_delivery(policy, headers, body, now_unix_ms, effects),
            // No host hands over a body that nothing waits for.
            _ => Err(Problem::policy_invalid()),
        };
        self.flow_of(verdict, effects)
    }

    /// A request of which everything is there: headers, body, and what stores hold. As the three that it is made of.
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
                    let asked = lookups.as_mut().zip(self.pending_lookup());
                    let answer = asked.map(|(lookups, ask)| stores.look_up(lookups, ask, now_unix_ms));
                    self.on_lookup_result(policy, answer.unwrap_or(LookupResult::Unavailable("lookup_lost")), effects)
                }
                RequestFlow::Continue | RequestFlow::Replied => return flow,
            };
        }
    }

    /// The lookup that the request waits for.
    pub fn pending_lookup(&self) -> Option<&LookupRequest> {
        match &self.state {
            State::AwaitsDelivery(delivery) => delivery.pending.as_ref(),
            _ => None,
        }
    }

    /// The result of [`Exchange::pending_lookup`] has come. The flow may be to await another call.
    pub fn on_lookup_result(
        &mut self,
        policy: &Policy,
        result: LookupResult,
        effects: &mut Vec<Effect<'_>>,
    ) -> RequestFlow {
        let verdict = self.take_lookup_result(policy, result);
        self.flow_of(verdict, effects)
    }

    /// More of a body has come than the request may have.
    pub fn body_too_large(&mut self, limit: u64, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        self.flow_of(Err(Problem::body_too_large(limit)), effects)
    }

    /// The request has to wait, and the gateway has no room left for what it would keep meanwhile.
    pub fn no_room_to_wait(&mut self, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        self.facts.reason = Some("waiting_full");
        self.flow_of(Err(Problem::dependency_unavailable()), effects)
    }

    fn flow_of(&mut self, verdict: Result<RequestFlow, Problem>, effects: &mut Vec<Effect<'_>>) -> RequestFlow {
        verdict.unwrap_or_else(|problem| {
            effects.clear();
            effects.push(Effect::Reply(problem.clone()));
            self.facts.outcome = Outcome::Rejected;
            let decision = match std::mem::take(&mut self.state) {
                State::Forwarded(decision) => decision,
                _ => Decision::default(),
            };
            self.state = State::Refused(decision, problem);
            RequestFlow::Replied
        })
    }

    /// What was decided, if anything was.
    const fn decision(&self) -> Option<&Decision> {
        match &self.state {
            State::Begun | State::AwaitsSignedBody(_) | State::AwaitsDelivery(_) => None,
            State::Forwarded(decision)
            | State::AwaitsResponseBody(decision, ..)
            | State::Responded(decision, ..)
            | State::Refused(decision, _) => Some(decision),
        }
    }

    /// The refusal, if the request was refused, or the problem that was told in place of the backend's own error.
    pub const fn refusal(&self) -> Option<&Problem> {
        match &self.state {
            State::Refused(_, problem) | State::Responded(_, Some(problem), _) => Some(problem),
            _ => None,
        }
    }

    /// Why the request was refused, in more detail than its caller is told; for logs.
    pub fn reason(&self) -> Option<&'static str> {
        self.facts.reason.or_else(|| self.told().and_then(|problem| problem.reason))
    }

    /// The refusal, or the one that shadow mode does not act on.
    fn told(&self) -> Option<&Problem> {
        self.refusal().or_else(|| self.shadow().flatten())
    }

    /// In shadow mode, the verdict that was not acted on: a refusal, or none where the key would have been rewritten
    /// or nothing done. `None` where nothing was in shadow.
    pub fn shadow(&self) -> Option<Option<&Problem>> {
        match self.decision()?.shadow.as_ref()? {
            ShadowVerdict::Forward => Some(None),
            ShadowVerdict::Refuse(problem) => Some(Some(problem)),
        }
    }

    /// The namespaced key; in shadow mode the one that was not set.
    pub fn key(&self) -> Option<&str> {
        self.decision()?.key.as_deref()
    }

    /// The caller, if the exchange needed one.
    fn identity(&self) -> Option<&Identity> {
        self.decision()?.identity.as_ref()
    }

    /// The route that the request led to.
    fn route<'p>(&self, policy: &'p Policy) -> Option<&'p Route> {
        policy.route(self.facts.route?)
    }

    /// The form in which the caller sent the key.
    pub const fn key_form(&self) -> Option<crate::key::Form> {
        self.facts.form
    }

    /// The case.
    pub const fn case(&self) -> Option<Case> {
        self.facts.case
    }

    /// What there is to tell about the exchange so far.
    pub fn record<'r>(&'r self, policy: &'r Policy) -> Record<'r> {
        let facts = &self.facts;
        Record {
            case: facts.case.map(Case::name),
            key: self.key().and_then(|key| key_in_logs(policy.key_in_logs(), key)),
            source: facts.source,
            policy: facts.policy,
            outcome: facts.outcome.name(),
            code: self.told().map(|problem| problem.code.name()),
            reason: self.reason(),
            invocation: facts.invocation.as_deref(),
            cache_hit: match facts.outcome {
                Outcome::Replayed => Some(true),
                Outcome::Stored => Some(false),
                Outcome::Forwarded | Outcome::Rejected => None,
            },
            tenant: self.identity().map(|identity| identity.tenant.as_str()),
            project: self.identity().map(|identity| identity.project.as_str()),
            endpoint: self.endpoint(policy),
            original_path: Some(facts.original_path.as_str()).filter(|path| !path.is_empty()),
        }
    }

    /// The endpoint that the request led to.
    pub fn endpoint<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        self.route(policy).map(|route| route.endpoint.as_str())
    }

    /// The policy that decided.
    pub const fn policy_name(&self) -> Option<&'static str> {
        self.facts.policy
    }
}

const fn unmatched_name(unmatched: Unmatched) -> &'static str {
    match unmatched {
        Unmatched::Reject => "REJECT",
        Unmatched::Prohibited => "PROHIBITED",
        Unmatched::HandlerInternalC => "HANDLER_INTERNAL_C",
    }
}
