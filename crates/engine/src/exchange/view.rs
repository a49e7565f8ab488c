//! What others may ask an exchange: telemetry, `explain` and tests. Nothing here changes it.

use super::decision::{Decision, EnforcedDecision};
use super::{BackendAnswer, Case, Exchange, KeyPresence, Outcome, PayloadDigest, Place, Stage, Verifier};
use crate::api_keys::KeyHolder;
use crate::backend::Backend;
use crate::identity::Identity;
use crate::operations::Operations;
use crate::policy::answer::Unmapped;
use crate::policy::route_table::RouteId;
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::{CallerProtocol, Problem, Reason};
use crate::provider::Provider;
use crate::signed_callers::SignedCaller;
use crate::uuid::Uuid;

/// The endpoint of requests for operations. The name of an endpoint of a policy cannot begin so.
const OPERATIONS: &str = "_operations";

impl Exchange {
    /// The decision, if there is one yet.
    pub(crate) const fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The problem that refused the request, or that replaced the backend's error.
    pub fn refusal(&self) -> Option<&Problem> {
        self.problem.as_deref()
    }

    /// The reason of a refusal for logs, in more detail than the caller gets. Without a refusal: why the request
    /// does not wait for its result.
    pub fn reason(&self) -> Option<Reason> {
        self.facts.reason.or_else(|| match self.problem() {
            Some(problem) => problem.reason,
            None => self.facts.forwarded_reason,
        })
    }

    /// The refusal of the request, or the one that has no effect in shadow mode, or the problem in the place of the backend's
    /// error.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        let shadow = self.shadow().flatten();
        match shadow {
            Some(problem) if self.stage == Stage::ResponseDecided => Some(problem),
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
        decided.or(self.facts.verified_identity.as_ref())
    }

    /// The lookups that the request needed: for each its store and its result.
    pub fn lookups(&self) -> &[(&'static str, &'static str)] {
        &self.facts.lookups
    }

    /// Which attempt the client says the request is, at most 100.
    pub(crate) const fn attempt(&self) -> Option<u8> {
        self.facts.attempt
    }

    /// The digest of the payload, if it was computed for another purpose than logs.
    pub(crate) const fn payload(&self) -> Option<&PayloadDigest> {
        self.facts.payload.as_ref()
    }

    /// Whether the backend replayed a stored response.
    pub(crate) fn is_replayed(&self) -> bool {
        self.outcome == Outcome::Replayed
    }

    /// The matched route.
    pub(crate) fn route<'p>(&self, policy: &'p Policy) -> Option<&'p Route> {
        policy.route(self.route_index()?)
    }

    /// The backend of the request.
    pub(crate) fn backend<'p>(&self, policy: &'p Policy) -> &'p Backend {
        match self.place {
            Place::Operation => policy.backend_of_operations(),
            _ => policy.backend_of(self.route(policy)),
        }
    }

    /// The operations of the request's backend.
    pub(crate) fn operations<'p>(&self, policy: &'p Policy) -> Option<&'p Operations> {
        policy.operations().filter(|_| std::ptr::eq(self.backend(policy), policy.backend_of_operations()))
    }

    /// What is known about the key of a request in Case A.
    pub(crate) const fn key_presence(&self) -> KeyPresence {
        self.facts.key
    }

    /// The place of the key: `header`, or what the identifier of a delivery was made of.
    pub(crate) const fn source_name(&self) -> Option<&'static str> {
        self.facts.source
    }

    /// The provider of a delivery.
    pub fn provider_name(&self) -> Option<&str> {
        if let Verifier::Provider(name) = &self.verifier { Some(name) } else { None }
    }

    /// The signed caller.
    pub(crate) fn signed_caller<'p>(&self, policy: &'p Policy) -> Option<&'p SignedCaller> {
        if let Verifier::Caller(caller) = self.verifier { policy.callers().get(caller) } else { None }
    }

    /// The header with the request's API key, if its backend gets it: the registry was asked about it.
    pub(crate) fn kept_key_header<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        let place = policy.identity_of(self.route(policy)).api_keys().filter(|_| self.holder.is_some())?;
        let backend = self.backend(policy);
        let keeps = backend.abilities().gets_credentials && backend.keeps_header(place.header.as_bytes());
        keeps.then_some(place.header.as_str())
    }

    /// The name of the signed caller.
    pub fn signer<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        self.signed_caller(policy).map(|caller| caller.name.as_str())
    }

    /// What verifies the request: the provider of a delivery, or the signature of a signed caller.
    pub(crate) fn verifier<'p>(&self, policy: &'p Policy) -> Option<&'p Provider> {
        match &self.verifier {
            Verifier::Nobody => None,
            Verifier::Provider(name) => policy.provider(name),
            Verifier::Caller(_) => self.signed_caller(policy).map(|caller| &caller.signature),
        }
    }

    /// The backend's answer to a request with a key.
    pub(crate) const fn answer(&self) -> Option<BackendAnswer> {
        self.facts.answer
    }

    /// The result of the question how far the work of a repeated one-way request is, as metrics write it.
    pub(crate) const fn progress(&self) -> Option<&'static str> {
        self.facts.progress
    }

    /// Why the backend's answer passes as it came although the route maps its answers.
    pub(crate) const fn unmapped(&self) -> Option<Unmapped> {
        self.facts.unmapped
    }

    /// Whether the handler deduplicates, so that the filter makes no key.
    pub(crate) fn leaves_keys_to_handler(&self) -> bool {
        self.policy_name == Some(PolicyKind::HandlerInternalC.name())
    }

    /// Whether a handler reported that it had deduplicated the request.
    pub(crate) const fn handler_hit(&self) -> bool {
        self.handler_hit
    }

    /// How far the exchange is, as telemetry counts it.
    pub(crate) const fn stage(&self) -> Stage {
        match self.stage {
            Stage::RequestEnded | Stage::ResponseBegun => Stage::RequestDecided,
            stage => stage,
        }
    }

    /// What the registry says of the request's API key.
    pub fn key_holder(&self) -> Option<&KeyHolder> {
        self.holder.as_deref()
    }

    /// The case, if it is known.
    pub const fn case(&self) -> Option<Case> {
        self.facts.case
    }

    /// The outcome so far.
    pub(crate) const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the request is a delivery that was acknowledged without a call.
    pub fn is_acknowledged(&self) -> bool {
        self.outcome == Outcome::Acknowledged
    }

    /// The outcome as the record writes it.
    pub(crate) fn logged_outcome(&self) -> &'static str {
        match self.facts.answer {
            // An answer that is neither stored nor replayed is that of a forwarded request.
            Some(answer) if answer.outcome != "passed" && self.outcome != Outcome::Rejected => answer.outcome,
            _ => self.outcome.name(),
        }
    }

    /// The id of the invocation in Restate.
    pub(crate) fn invocation(&self) -> Option<&str> {
        self.invocation.as_deref()
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
        match self.place {
            Place::Route(id) | Place::Recovery(id) => Some(id),
            Place::Unknown | Place::Operation => None,
        }
    }

    /// Whether the path is a recovery path.
    pub const fn is_recovery(&self) -> bool {
        matches!(self.place, Place::Recovery(_))
    }

    /// The gateway's id of the request.
    pub(crate) fn request_id(&self) -> Option<Uuid> {
        Uuid::parse(&self.request_id?)
    }

    /// What the client expects of an answer.
    pub const fn protocol(&self) -> CallerProtocol {
        self.protocol
    }

    /// Whether the path is that of an operation.
    pub const fn is_operation(&self) -> bool {
        matches!(self.place, Place::Operation)
    }

    /// The endpoint of the matched route, or what stands for it in a request for an operation.
    pub fn endpoint<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        if self.is_operation() {
            return Some(OPERATIONS);
        }
        self.route(policy).map(|route| route.endpoint.as_str())
    }

    /// The name of the policy that applied.
    pub const fn policy_name(&self) -> Option<&'static str> {
        self.policy_name
    }
}
