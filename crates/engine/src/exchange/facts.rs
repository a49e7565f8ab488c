//! What logs and metrics tell about an exchange beside the decision.

use super::{Case, Exchange};
use crate::identity::Identity;
use crate::key::KeySyntax;
use crate::policy::answer::Unmapped;
use crate::problem::Reason;

/// What only telemetry tells about the exchange. Decisions write it and never read it.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) case: Option<Case>,
    /// What is known about the key lines
    pub(crate) key: KeyPresence,
    /// The verified identity where the decision needs none, or the request was refused
    pub(crate) verified_identity: Option<Identity>,
    /// The lookups that the request needed: their stores and results, as metrics write them
    pub(crate) lookups: Vec<(&'static str, &'static str)>,
    /// The result of the question how far the work of a repeated one-way request is
    pub(crate) progress: Option<&'static str>,
    /// Which attempt the client says the request is
    pub(crate) attempt: Option<u8>,
    /// The digest of the payload, if it was computed for another purpose
    pub(crate) payload: Option<PayloadDigest>,
    /// The backend's answer to a request with a key
    pub(crate) answer: Option<BackendAnswer>,
    /// Why the backend's answer passes as it came although the route maps its answers
    pub(crate) unmapped: Option<Unmapped>,
    /// The place of the key: `header`, or what the identifier of a delivery was made of
    pub(crate) source: Option<&'static str>,
    /// The path as the client sent it, without its query, if logs show it
    pub(crate) sent_path: Option<String>,
    /// The detailed reason, which the problem document does not show.
    pub(crate) reason: Option<Reason>,
    /// Why a forwarded request does not wait for its result
    pub(crate) forwarded_reason: Option<Reason>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum KeyPresence {
    /// The request was decided without a look at its key.
    #[default]
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
        self.facts.payload = Some(PayloadDigest::Observed(fingerprint.to_owned()));
    }
}
