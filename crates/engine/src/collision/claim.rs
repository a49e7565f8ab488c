//! A claim: the guard service is called with the fingerprint of a request under a key of the guard, and returns the
//! fingerprint of the first claim under that key, because Restate answers every later call with the stored answer.

use super::fingerprint::{BodyReader, OpenFingerprint, VERSION, prefixed};
use crate::backend::GuardService;
use crate::body::Body;
use crate::call::{Call, CallReply};
use crate::codes::Reason;
use crate::json::{Json, to_text};
use crate::policy::HandlerAddress;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// The guard as metrics name it.
pub(crate) const STORE: &str = "guard";

/// A claim whose fingerprint still lacks the body.
#[derive(Debug)]
pub(crate) struct OpenClaim {
    guard: Arc<GuardService>,
    key: String,
    pub(super) fingerprint: OpenFingerprint,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Where the claim is made
    pub(crate) guard: Arc<GuardService>,
    /// The key at the guard: 43 characters of `A-Z a-z 0-9 _ -`
    pub key: String,
    /// The fingerprint of the request: `A-Z a-z 0-9 _ - .`
    pub fingerprint: String,
}

/// What comes of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimVerdict {
    /// The first claim under the key had the same fingerprint, or this is the first claim.
    Match,
    /// The first claim had another fingerprint.
    Mismatch,
    /// The fingerprints could not be compared; the reason.
    Unknown(Reason),
}

impl ClaimVerdict {
    /// The verdict as metrics write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Mismatch => "mismatch",
            Self::Unknown(reason) => reason.name(),
        }
    }
}

impl OpenClaim {
    /// The claim of a request for the operation at `address`, under a namespaced key.
    pub(super) fn new(
        guard: Arc<GuardService>,
        namespaced: &str,
        address: &HandlerAddress<'_>,
        fingerprint: OpenFingerprint,
    ) -> Self {
        Self { guard, key: claim_key(namespaced, address), fingerprint }
    }

    /// The claim with the body that was read.
    pub(super) fn with_body(self, body: BodyReader) -> Claim {
        Claim { guard: self.guard, key: self.key, fingerprint: self.fingerprint.with_body(body).to_string() }
    }

    /// The claim with the whole body.
    pub(super) fn with_whole_body(self, body: &Body<'_>) -> Claim {
        Claim { guard: self.guard, key: self.key, fingerprint: self.fingerprint.with_whole_body(body).to_string() }
    }
}

/// The key of a claim at the guard: the digest of the namespaced key, and of service, object key and handler. Every field has
/// its length before it, and the first byte says whether there is an object key (docs/contract.md section 6).
pub fn claim_key(namespaced: &str, address: &HandlerAddress<'_>) -> String {
    let mut digest = Sha256::new();
    let HandlerAddress { service, object_key, handler } = address;
    digest.update([if object_key.is_some() { 2 } else { 1 }]);
    for field in [Some(service.as_bytes()), object_key.as_deref(), Some(handler.as_bytes())] {
        field.into_iter().for_each(|field| prefixed(&mut digest, field));
    }
    prefixed(&mut digest, namespaced.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(digest.finalize())
}

/// The call that makes a claim.
pub(crate) fn call(claim: &Claim) -> Call {
    let guard = &claim.guard;
    let headers = vec![
        (":method", "POST".to_owned()),
        (":path", guard.path.clone()),
        (":authority", guard.authority.clone()),
        ("accept", "application/json".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("idempotency-key", claim.key.clone()),
    ];
    let body = to_text(&claim.fingerprint).into_bytes();
    Call { cluster: guard.cluster.clone(), headers, body, timeout_ms: guard.timeout_ms }
}

/// Reads the reply to [`call`]: the fingerprint of the first claim.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn read(reply: &CallReply<'_>) -> Result<Box<str>, Reason> {
    let body = match (reply.status, reply.body) {
        (Some(200), Some(body)) => body,
        (None | Some(429 | 500..), _) => return Err(Reason::GuardFailed),
        (Some(_), _) => return Err(Reason::GuardMalformed),
    };
    match Json::parse(body) {
        Ok(Json::String(first)) => Ok(first.into()),
        _ => Err(Reason::GuardMalformed),
    }
}

impl Claim {
    /// Compares the fingerprint with that of the first claim, in constant time. Fingerprints of different versions, those of
    /// `raw` and `json`, and those with different headers, say nothing about each other. `first`: as [`read`] gives it.
    pub(crate) fn verdict(&self, first: &Result<Box<str>, Reason>) -> ClaimVerdict {
        let first = match first {
            Ok(first) => first,
            Err(reason) => return ClaimVerdict::Unknown(*reason),
        };
        if kind(first) != kind(&self.fingerprint) {
            ClaimVerdict::Unknown(Reason::GuardIncomparable)
        } else if bool::from(first.as_bytes().ct_eq(self.fingerprint.as_bytes())) {
            ClaimVerdict::Match
        } else {
            ClaimVerdict::Mismatch
        }
    }
}

/// Whether the fingerprint was made for `json`, and the tag of its headers; `None` for one of another version.
fn kind(fingerprint: &str) -> Option<(bool, &str)> {
    let form = fingerprint.strip_prefix(VERSION)?.split_once('.')?.0;
    match form.split_at_checked(1)? {
        ("r", tag) => Some((false, tag)),
        ("j" | "x", tag) => Some((true, tag)),
        _ => None,
    }
}
