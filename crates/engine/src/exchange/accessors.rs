//! What others may ask an exchange: telemetry, `explain` and tests. Nothing here changes it.

use super::decision::{Decision, EnforcedDecision};
use super::{BackendAnswer, Case, Exchange, KeyPresence, Outcome, PayloadDigest, Stage, State};
use crate::backend::Backend;
use crate::headers::Headers;
use crate::identity::{Identity, IdentitySource, KeyHolder};
use crate::policy::answer::Unmapped;
use crate::policy::operations::Operations;
use crate::policy::routes::RouteId;
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::{CallerProtocol, Problem, Reason};
use crate::provider::Provider;
use crate::uuid::Uuid;

/// The endpoint of requests for operations. The name of an endpoint of a policy cannot begin so.
const OPERATIONS: &str = "_operations";

impl Exchange {
    /// The decision, if there is one yet.
    pub(super) const fn decision(&self) -> Option<&Decision> {
        match &self.state {
            State::Begun
            | State::AwaitsCaller(_)
            | State::AwaitsSignedBody(_)
            | State::AwaitsDelivery(_)
            | State::AwaitsInvocation(_)
            | State::AwaitsChecks(_) => None,
            State::Forwarded(decision)
            | State::Acknowledged(decision)
            | State::AwaitsResponseBody(decision, ..)
            | State::AwaitsProgress(decision, ..)
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

    /// The reason of a refusal for logs, in more detail than the caller gets. Without a refusal: why the request
    /// does not wait for its result.
    pub fn reason(&self) -> Option<Reason> {
        self.telemetry.reason.or_else(|| match self.problem() {
            Some(problem) => problem.reason,
            None => self.telemetry.forwarded_reason,
        })
    }

    /// The refusal of the request, or the one that has no effect in shadow mode, or the problem in the place of the backend's
    /// error.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        let shadow = self.shadow().flatten();
        match (&self.state, shadow) {
            (State::Responded(..), Some(problem)) => Some(problem),
            _ => self.refusal().or(shadow),
        }
    }

    /// The decision that had no effect in shadow mode. `None`: not in shadow mode. `Some(None)`: the request would have
    /// been forwarded. `Some(Some(problem))`: it would have been refused.
    pub fn shadow(&self) -> Option<Option<&Problem>> {
        match self.decision()?.shadowed()? {
            EnforcedDecision::Keyed(_) | EnforcedDecision::Unkeyed(_) => Some(None),
            EnforcedDecision::Refused(problem, _) => Some(Some(problem)),
        }
    }

    /// Whether the backend gets a key of the client, so that it knows the request when it comes again.
    pub(crate) fn sends_key(&self) -> bool {
        self.decision().is_some_and(Decision::sends_key)
    }

    /// The namespaced key. In shadow mode the request does not carry it.
    pub fn key(&self) -> Option<&str> {
        self.decision()?.key()
    }

    /// The verified identity of the caller, or of the webhook's binding, if it is known.
    pub fn identity(&self) -> Option<&Identity> {
        let decided = self.decision().and_then(Decision::identity);
        decided.or(self.telemetry.verified_identity.as_deref())
    }

    /// The lookups that the request needed: for each its store and its result.
    pub fn lookups(&self) -> &[(&'static str, &'static str)] {
        &self.telemetry.lookups
    }

    /// Which attempt the client says the request is, at most 100.
    pub(crate) const fn attempt(&self) -> Option<u8> {
        self.telemetry.attempt
    }

    /// The digest of the payload, if it was computed for another purpose than logs.
    pub(crate) const fn payload(&self) -> Option<&PayloadDigest> {
        self.telemetry.payload.as_ref()
    }

    /// Whether the backend replayed a stored response.
    pub(crate) fn is_replayed(&self) -> bool {
        self.telemetry.outcome == Outcome::Replayed
    }

    /// The matched route.
    pub(super) fn route<'p>(&self, policy: &'p Policy) -> Option<&'p Route> {
        policy.route(self.route_id?)
    }

    /// The backend of the request.
    pub(super) fn backend<'p>(&self, policy: &'p Policy) -> &'p Backend {
        if self.telemetry.is_operation {
            return policy.backend_of_operations();
        }
        policy.backend_of(self.route(policy))
    }

    /// The operations of the request's backend.
    pub(super) fn operations<'p>(&self, policy: &'p Policy) -> Option<&'p Operations> {
        policy.operations().filter(|_| std::ptr::eq(self.backend(policy), policy.backend_of_operations()))
    }

    /// What is known about the key of a request in Case A.
    pub(crate) const fn key_presence(&self) -> KeyPresence {
        match (self.telemetry.key_read, self.telemetry.key_syntax) {
            (false, _) => KeyPresence::Unread,
            (true, None) => KeyPresence::Absent,
            (true, Some(form)) => KeyPresence::Sent(form),
        }
    }

    /// The place of the key: `header`, or what the identifier of a delivery was made of.
    pub(crate) const fn source_name(&self) -> Option<&'static str> {
        self.telemetry.source
    }

    /// The provider of a delivery.
    pub fn provider_name(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// The name of the signed caller.
    pub fn signer<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        policy.callers().get(self.signed_caller?).map(|caller| caller.name.as_str())
    }

    /// What verifies the request: the provider of a delivery, or the signature of a signed caller.
    pub(super) fn verifier<'p>(&self, policy: &'p Policy) -> Option<&'p Provider> {
        match self.signed_caller {
            Some(caller) => policy.callers().get(caller).map(|caller| &caller.signature),
            None => policy.provider(self.provider.as_deref()?),
        }
    }

    /// The backend's answer to a request with a key.
    pub(crate) const fn answer(&self) -> Option<BackendAnswer> {
        self.telemetry.answer
    }

    /// The result of the question how far the work of a repeated one-way request is, as metrics write it.
    pub(crate) const fn progress(&self) -> Option<&'static str> {
        self.telemetry.progress
    }

    /// Why the backend's answer passes as it came although the route maps its answers.
    pub(crate) const fn unmapped(&self) -> Option<Unmapped> {
        self.telemetry.unmapped
    }

    /// Whether the handler deduplicates, so that the filter makes no key.
    pub(crate) fn leaves_keys_to_handler(&self) -> bool {
        self.telemetry.policy == Some(PolicyKind::HandlerInternalC.name())
    }

    /// Whether a handler reported that it had deduplicated the request.
    pub(crate) const fn handler_hit(&self) -> bool {
        self.telemetry.handler_hit
    }

    /// How far the exchange is.
    pub(crate) const fn stage(&self) -> Stage {
        match &self.state {
            State::Begun
            | State::AwaitsCaller(_)
            | State::AwaitsSignedBody(_)
            | State::AwaitsDelivery(_)
            | State::AwaitsInvocation(_)
            | State::AwaitsChecks(_) => Stage::Undecided,
            State::Forwarded(_)
            | State::Acknowledged(_)
            | State::AwaitsResponseBody(..)
            | State::AwaitsProgress(..)
            | State::Refused(..) => Stage::RequestDecided,
            State::Responded(..) => Stage::ResponseDecided,
        }
    }

    /// The sources that the identity of this request's caller is read from, for `explain`. A webhook has none, since its
    /// identity comes from its binding; nor has a request whose path no route has.
    pub fn identity_sources<'p>(&self, policy: &'p Policy, headers: &Headers<'_>) -> &'p [IdentitySource] {
        if self.telemetry.is_operation {
            return &policy.identity_of(None).sources;
        }
        let Some(route) = self.route(policy).filter(|route| route.webhook.is_none()) else { return &[] };
        match policy.signer(route, headers) {
            Some(caller) => policy.caller_source(caller).map(std::slice::from_ref).unwrap_or_default(),
            None => &policy.identity_of(Some(route)).sources,
        }
    }

    /// What the registry says of the request's API key.
    pub fn key_holder(&self) -> Option<&KeyHolder> {
        self.holder.as_deref()
    }

    /// The case, if it is known.
    pub const fn case(&self) -> Option<Case> {
        self.telemetry.case
    }

    /// The outcome so far.
    pub(crate) const fn outcome(&self) -> Outcome {
        self.telemetry.outcome
    }

    /// Whether the request is a delivery that was acknowledged without a call.
    pub fn is_acknowledged(&self) -> bool {
        self.telemetry.outcome == Outcome::Acknowledged
    }

    /// The outcome as the record writes it.
    pub(crate) fn logged_outcome(&self) -> &'static str {
        match self.telemetry.answer {
            // An answer that is neither stored nor replayed is that of a forwarded request.
            Some(answer) if answer.outcome != "passed" && self.telemetry.outcome != Outcome::Rejected => answer.outcome,
            _ => self.telemetry.outcome.name(),
        }
    }

    /// The id of the invocation in Restate.
    pub(crate) fn invocation(&self) -> Option<&str> {
        self.telemetry.invocation.as_deref()
    }

    /// The path as the client sent it, without its query, if logs show it.
    pub(crate) fn sent_path(&self) -> Option<&str> {
        self.telemetry.sent_path.as_deref()
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
        self.route_id
    }

    /// Whether the path is a recovery path.
    pub const fn is_recovery(&self) -> bool {
        self.telemetry.is_recovery
    }

    /// The gateway's id of the request.
    pub(crate) fn request_id(&self) -> Option<Uuid> {
        Uuid::parse(&self.telemetry.request_id?)
    }

    /// What the client expects of an answer.
    pub const fn protocol(&self) -> CallerProtocol {
        self.protocol
    }

    /// Whether the path is that of an operation.
    pub const fn is_operation(&self) -> bool {
        self.telemetry.is_operation
    }

    /// The endpoint of the matched route, or what stands for it in a request for an operation.
    pub fn endpoint<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        if self.telemetry.is_operation {
            return Some(OPERATIONS);
        }
        self.route(policy).map(|route| route.endpoint.as_str())
    }

    /// The name of the policy that applied.
    pub const fn policy_name(&self) -> Option<&'static str> {
        self.telemetry.policy
    }
}
