//! One exchange, a request and its response, as a state machine: events in (headers, trailers), effects out (edits and
//! replies). No clock, no I/O, no host: the same code runs in the gateway, in `explain` and in tests.

mod answer;
mod caller;
mod clean;
mod paths;
mod recovery;
mod request;
mod response;
mod webhook;

use crate::headers::Headers;
use crate::identity::{Attributes, Identity};
use crate::lookup::{Answer, Ask, Given, Lookups};
use crate::policy::{Policy, Unmatched, recovery::Wait, routes::RouteId};
use crate::problem::Problem;
use crate::telemetry::{Case, Outcome, Record, key_in_logs};
use std::borrow::Cow;

/// Which headers an edit is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
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
        map: Map,
        /// Lower case
        name: &'a str,
        /// As it goes on the wire
        value: Cow<'a, [u8]>,
    },
    /// Remove every line with this name.
    Remove {
        /// Where
        map: Map,
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
pub enum Flow {
    /// To the next filter.
    Continue,
    /// Not at all: there is a reply.
    Replied,
    /// Only with the whole body, which goes to [`Exchange::request_body`]; the headers wait until then.
    AwaitBody {
        /// The longest body that may come, in bytes; a longer one goes to [`Exchange::body_too_large`].
        limit: u64,
    },
    /// Only with the answer to [`Exchange::question`], which goes to [`Exchange::answered`]; headers and body wait until
    /// then.
    AwaitLookup {
        /// As of [`Flow::AwaitBody`]: the body may come meanwhile.
        limit: u64,
    },
}

/// How an answer goes on after its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFlow {
    /// As it comes; where there is an [`Effect::Body`], with that body instead of its own.
    Stream,
    /// Only with the whole body, which goes to [`Exchange::response_body`]; the headers wait until then.
    AwaitBody {
        /// The longest body that is looked at, in bytes; a longer one goes to [`Exchange::response_body_too_large`].
        limit: u64,
    },
}

/// The state of one exchange.
#[derive(Debug, Default)]
pub struct Exchange {
    route: Option<RouteId>,
    policy: Option<&'static str>,
    case: Option<Case>,
    form: Option<crate::key::Form>,
    identity: Option<Identity>,
    /// The namespaced key.
    key: Option<String>,
    /// The signed caller that the request has still to be proved to come from.
    signer: Option<usize>,
    /// Whether a key, namespaced or in shadow mode as it came, reached the backend.
    keyed: bool,
    /// Whether the decision about the key is computed and not acted on.
    shadowed: bool,
    shadow_refusal: Option<Problem>,
    /// Set where a stored result is asked for.
    recovery: Option<Wait>,
    /// The answer's body that is waited for.
    awaited: Option<answer::Awaited>,
    /// Whether the answer's trailers go, whatever their names.
    without_trailers: bool,
    refusal: Option<Problem>,
    original_path: String,
    /// What a problem document does not tell.
    inner_reason: Option<&'static str>,
    source: Option<&'static str>,
    outcome: Outcome,
    invocation: Option<String>,
    /// What is being looked up, and what has been.
    found: Option<Box<webhook::Found>>,
}

impl Exchange {
    /// An exchange of which nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request's headers have come. Unless the flow is [`Flow::Replied`] the effects make them what the backend
    /// gets.
    pub fn request_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> Flow {
        let verdict = self.judge(policy, headers, attributes, effects);
        self.conclude(verdict, effects)
    }

    /// The whole body has come of a request that waits for it, and its headers still wait.
    pub fn request_body<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &[u8],
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> Flow {
        let verdict = match self.signer {
            Some(id) => self.judge_signed(id, policy, headers, body, now_unix_ms, effects).map(|()| Flow::Continue),
            None => self.judge_delivery(policy, headers, body, now_unix_ms, effects),
        };
        self.conclude(verdict, effects)
    }

    /// A request of which everything is there: headers, body, and what stores hold. As the three that it is made of.
    pub fn whole_request<'a>(
        &mut self,
        policy: &'a Policy,
        (headers, body): (&Headers<'a>, &[u8]),
        attributes: &'a dyn Attributes,
        stores: &Given,
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> Flow {
        let mut lookups = Lookups::of(policy);
        let mut flow = self.request_headers(policy, headers, attributes, effects);
        loop {
            flow = match flow {
                Flow::AwaitBody { limit } if body.len() as u64 > limit => self.body_too_large(limit, effects),
                Flow::AwaitBody { .. } => self.request_body(policy, headers, body, now_unix_ms, effects),
                Flow::AwaitLookup { .. } => {
                    let asked = lookups.as_mut().zip(self.question());
                    let answer = asked.map(|(lookups, ask)| stores.look_up(lookups, ask, now_unix_ms));
                    self.answered(policy, answer.unwrap_or(Answer::Unavailable("lookup_lost")), effects)
                }
                Flow::Continue | Flow::Replied => return flow,
            };
        }
    }

    /// What a request that awaits a lookup wants to know.
    pub fn question(&self) -> Option<&Ask> {
        self.found.as_ref()?.ask.as_ref()
    }

    /// The answer to [`Exchange::question`] has come. The flow may be to await another.
    pub fn answered(&mut self, policy: &Policy, answer: Answer, effects: &mut Vec<Effect<'_>>) -> Flow {
        let verdict = self.take_answer(policy, answer);
        self.conclude(verdict, effects)
    }

    /// More of a body has come than the request may have.
    pub fn body_too_large(&mut self, limit: u64, effects: &mut Vec<Effect<'_>>) -> Flow {
        self.conclude(Err(Problem::body_too_large(limit)), effects)
    }

    /// The request has to wait, and the gateway has no room left for what it would keep meanwhile.
    pub fn no_room_to_wait(&mut self, effects: &mut Vec<Effect<'_>>) -> Flow {
        self.inner_reason = Some("waiting_full");
        self.conclude(Err(Problem::dependency_unavailable()), effects)
    }

    fn conclude(&mut self, verdict: Result<Flow, Problem>, effects: &mut Vec<Effect<'_>>) -> Flow {
        verdict.unwrap_or_else(|problem| {
            effects.clear();
            effects.push(Effect::Reply(problem.clone()));
            self.outcome = Outcome::Rejected;
            self.refusal = Some(problem);
            Flow::Replied
        })
    }

    /// The refusal, if the request was refused, or the problem that was told in place of the backend's own error.
    pub const fn refusal(&self) -> Option<&Problem> {
        self.refusal.as_ref()
    }

    /// Why the request was refused, in more detail than its caller is told; for logs.
    pub fn reason(&self) -> Option<&'static str> {
        let refusal = self.refusal.as_ref().or(self.shadow_refusal.as_ref());
        self.inner_reason.or_else(|| refusal.and_then(|problem| problem.reason))
    }

    /// In shadow mode, the verdict that was not acted on: a refusal, or none where the key would have been rewritten
    /// or nothing done. `None` where nothing was in shadow.
    pub const fn shadow(&self) -> Option<Option<&Problem>> {
        if self.shadowed { Some(self.shadow_refusal.as_ref()) } else { None }
    }

    /// The namespaced key; in shadow mode the one that was not set.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The form in which the caller sent the key.
    pub const fn key_form(&self) -> Option<crate::key::Form> {
        self.form
    }

    /// The case.
    pub const fn case(&self) -> Option<Case> {
        self.case
    }

    /// What there is to tell about the exchange so far.
    pub fn record<'r>(&'r self, policy: &'r Policy) -> Record<'r> {
        let refusal = self.refusal.as_ref().or(self.shadow_refusal.as_ref());
        Record {
            case: self.case.map(Case::name),
            key: self.key.as_deref().and_then(|key| key_in_logs(policy.key_in_logs, key)),
            source: self.source,
            policy: self.policy,
            outcome: self.outcome.name(),
            code: refusal.map(|problem| problem.code.name()),
            reason: self.reason(),
            invocation: self.invocation.as_deref(),
            cache_hit: match self.outcome {
                Outcome::Replayed => Some(true),
                Outcome::Stored => Some(false),
                Outcome::Forwarded | Outcome::Rejected => None,
            },
            tenant: self.identity.as_ref().map(|identity| identity.tenant.as_str()),
            project: self.identity.as_ref().map(|identity| identity.project.as_str()),
            endpoint: self.endpoint(policy),
            original_path: Some(self.original_path.as_str()).filter(|path| !path.is_empty()),
        }
    }

    /// The endpoint that the request led to.
    pub fn endpoint<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        policy.route(self.route?).map(|route| route.endpoint.as_str())
    }

    /// The policy that decided.
    pub const fn policy_name(&self) -> Option<&'static str> {
        self.policy
    }
}

const fn unmatched_name(unmatched: Unmatched) -> &'static str {
    match unmatched {
        Unmatched::Reject => "REJECT",
        Unmatched::Prohibited => "PROHIBITED",
        Unmatched::HandlerInternalC => "HANDLER_INTERNAL_C",
    }
}
