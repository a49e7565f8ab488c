//! What logs, metrics and problem documents tell about an exchange beside the decision.

use super::matched_route::wider_scope;
use super::{Case, Exchange, Outcome};
use crate::headers::Headers;
use crate::identity::{self, Attributes, Identity, IdentitySource, Rules};
use crate::key::KeySyntax;
use crate::policy::answer::Unmapped;
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::{Problem, Reason};
use crate::uuid::Uuid;

/// What logs, metrics and problem documents tell about the exchange. Clients see two of them in other places as well: the
/// invocation in the answer of a one-way target, and the outcome in the retry advice when an answer is lost.
#[derive(Debug, Default)]
pub(super) struct TelemetryFields {
    pub(super) policy: Option<&'static str>,
    pub(super) case: Option<Case>,
    /// Whether the request's key lines were read
    pub(super) key_read: bool,
    /// The syntax of the key lines, valid or not
    pub(super) key_syntax: Option<KeySyntax>,
    /// The verified identity where the decision needs none, or the request was refused
    pub(super) verified_identity: Option<Box<Identity>>,
    /// The lookups that the request needed: their stores and results, as metrics write them
    pub(super) lookups: Vec<(&'static str, &'static str)>,
    /// The result of the question how far the work of a repeated one-way request is
    pub(super) progress: Option<&'static str>,
    /// Which attempt the client says the request is
    pub(super) attempt: Option<u8>,
    /// The digest of the payload, if it was computed for another purpose
    pub(super) payload: Option<PayloadDigest>,
    /// The backend's answer to a request with a key
    pub(super) answer: Option<BackendAnswer>,
    /// Whether a handler reported that it had deduplicated the request
    pub(super) handler_hit: bool,
    /// Why the backend's answer passes as it came although the route maps its answers
    pub(super) unmapped: Option<Unmapped>,
    pub(super) source: Option<&'static str>,
    /// The path as the client sent it, without its query, if logs show it
    pub(super) sent_path: Option<String>,
    /// Whether the path is a recovery path of the route
    pub(super) is_recovery: bool,
    /// Whether the path is that of an operation
    pub(super) is_operation: bool,
    /// The detailed reason, which the problem document does not show.
    pub(super) reason: Option<Reason>,
    /// Why a forwarded request does not wait for its result
    pub(super) forwarded_reason: Option<Reason>,
    pub(super) outcome: Outcome,
    /// The id of the invocation in Restate
    pub(super) invocation: Option<String>,
    /// The text of the gateway's id of the request, which problem documents repeat if it is a UUID
    pub(super) request_id: Option<[u8; Uuid::TEXT_LENGTH]>,
}

/// A digest of the payload that was computed for another purpose than logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PayloadDigest {
    /// The fingerprint of a request whose claim was compared before the request was decided
    Compared(String),
    /// The fingerprint of a request whose body passed when it was decided
    Observed(String),
    /// The SHA-256 of the body of a delivery whose key is bound to its body
    Body([u8; 32]),
}

/// What is known about the key of a request in Case A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPresence {
    /// The request was decided without a look at its key.
    Unread,
    /// It has no key.
    Absent,
    /// It has a key, valid or not.
    Sent(KeySyntax),
}

/// The backend's answer to a request with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackendAnswer {
    /// `stored`, `replayed`, `processing`, `recovered` or `passed`
    pub(crate) outcome: &'static str,
    /// Whether its status is 400 or higher
    pub(crate) error: bool,
}

impl Exchange {
    /// Notes the fingerprint of a request whose claim nobody waits for.
    pub(crate) fn note_observed(&mut self, fingerprint: &str) {
        self.telemetry.payload = Some(PayloadDigest::Observed(fingerprint.to_owned()));
    }

    /// Reads the identity of a request that was decided without one, by the rules of its route: its record has it.
    #[inline(never)]
    pub(super) fn identify(&mut self, policy: &Policy, headers: &Headers<'_>, attributes: &dyn Attributes) {
        let route = self.route(policy);
        // Who sends a webhook or a signed request is known when its signature is verified, and not before.
        let is_signed = |route: &Route| route.webhook.is_some() || policy.signer(route, headers).is_some();
        if self.problem().is_some_and(Problem::is_about_identity) || route.is_some_and(is_signed) {
            return;
        }
        let rules = policy.identity_of(route);
        // If the route needs no identity, its headers may be the client's own.
        let needs_identity =
            route.is_some_and(|route| matches!(route.policy, PolicyKind::RequiredA | PolicyKind::Accepted));
        if !needs_identity && rules.sources.iter().any(IdentitySource::has_header) {
            return;
        }
        let scope = route.and_then(|route| wider_scope(route.scope));
        let holder = self.holder.as_deref();
        let rules_of_scope = Rules { scope, reserved: policy.reserved_subjects(), holder };
        let identity = identity::resolve(&rules.sources, &rules_of_scope, headers, attributes);
        self.telemetry.verified_identity = identity.ok().map(Box::new);
    }
}
