//! What becomes of a request because of collision detection: it waits for the guard, or its claim is made beside its way to the backend.

use super::claim::{self, Claim, ClaimVerdict, OpenClaim};
use super::document::{CollisionRules, FINGERPRINT_HEADER};
use super::fingerprint::{BodyReader, ClaimedRequest, Fingerprint, OpenFingerprint};
use super::observation::{Observation, ObservedCaller};
use crate::body::Body;
use crate::codes::Reason;
use crate::exchange::{
    Awaits, Check, Decision, Effect, Exchange, HeaderMapKind, PauseEvent, PayloadDigest, RoutedRequest, TraceStep,
    no_segment,
};
use crate::headers::{FieldValue, Headers};
use crate::identity::Identity;
use crate::lookup::LookupAnswer;
use crate::policy::Route;
use crate::problem::Problem;
use crate::questions::PendingLookup;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::borrow::Cow;
use std::sync::Arc;

/// What a route asks of a request with a key.
#[derive(Default)]
pub(crate) struct CollisionChecks {
    /// What the request waits for
    pub(crate) check: Option<Box<dyn Check>>,
    /// The claim that is made beside its way, when its body has passed
    pub(crate) observed: Option<OpenClaim>,
}

impl CollisionChecks {
    /// The checks of a request. `body` is the whole body, if it is known already.
    ///
    /// # Errors
    /// The target has no object key for this request.
    pub(crate) fn of(
        route: &Route,
        decision: &Decision,
        request: &RoutedRequest<'_, '_>,
        body: Option<&Body<'_>>,
    ) -> Result<Self, Problem> {
        let Some(rules) = route.collision.as_deref() else { return Ok(Self::default()) };
        let Some(key) = decision.own_key() else { return Ok(Self::default()) };
        let fingerprint = open_fingerprint(rules, request);
        let comparison = match &rules.guard {
            Some((guard, target)) => {
                // Without an object key the request is refused when the path is rewritten.
                let address = target.handler_address(&request.matched.decoded(), &key.caller);
                let claim = |address| OpenClaim::new(Arc::clone(guard), &key.text, &address, fingerprint);
                match (address.map(claim), body) {
                    (observed, _) if !rules.waits => return Ok(Self { check: None, observed }),
                    (None, _) => return Err(no_segment()),
                    (Some(claim), Some(body)) => RequestComparison::Made(claim.with_whole_body(body)),
                    (Some(claim), None) => RequestComparison::Open(claim),
                }
            }
            None => match body {
                Some(body) => RequestComparison::Known(fingerprint.with_whole_body(body)),
                None => RequestComparison::Unknown(fingerprint),
            },
        };
        Ok(Self { check: Some(Box::new(comparison)), observed: None })
    }
}

/// A request that goes on if the first one with its key was the same, or with its fingerprint.
enum RequestComparison {
    /// The body is missing for a claim.
    Open(OpenClaim),
    /// The guard has to answer.
    Made(Claim),
    /// The body is missing for a fingerprint that the backend compares.
    Unknown(OpenFingerprint),
    /// The backend compares this fingerprint.
    Known(Fingerprint),
}

impl RequestComparison {
    /// The fingerprint that lacks the body.
    const fn fingerprint(&self) -> Option<&OpenFingerprint> {
        match self {
            Self::Open(claim) => Some(&claim.fingerprint),
            Self::Unknown(fingerprint) => Some(fingerprint),
            Self::Made(_) | Self::Known(_) => None,
        }
    }
}

impl Check for RequestComparison {
    fn awaits(&self, limit: u64) -> Awaits {
        match self.fingerprint() {
            Some(fingerprint) if fingerprint.needs_whole_body() => Awaits::Body { limit },
            None if matches!(self, Self::Made(_)) => Awaits::Call { limit },
            _ => Awaits::End { limit },
        }
    }

    fn lookup(&self) -> Option<PendingLookup<'_>> {
        match self {
            Self::Made(claim) => Some(PendingLookup::Claim(claim)),
            _ => None,
        }
    }

    fn body_reader(&self) -> Option<BodyReader> {
        self.fingerprint()?.body_reader()
    }

    fn take(
        self: Box<Self>,
        exchange: &mut Exchange,
        event: PauseEvent<'_>,
        effects: &mut Vec<Effect<'_>>,
    ) -> Result<Option<Box<dyn Check>>, Problem> {
        let next = match (*self, event) {
            (Self::Open(claim), PauseEvent::Body { body, .. }) => Self::Made(claim.with_whole_body(body)),
            (Self::Open(claim), PauseEvent::End(Some(body))) => Self::Made(claim.with_body(body)),
            (Self::Made(claim), PauseEvent::Answer(LookupAnswer::FirstClaim(first))) => {
                return compare(exchange, claim, &first).map(|()| None);
            }
            // The body comes during the call.
            (made @ Self::Made(_), PauseEvent::Body { .. } | PauseEvent::End(_)) => made,
            (Self::Unknown(fingerprint), PauseEvent::Body { body, .. }) => {
                return Ok(hand_on(exchange, &fingerprint.with_whole_body(body), effects));
            }
            (Self::Unknown(fingerprint), PauseEvent::End(Some(body))) => {
                return Ok(hand_on(exchange, &fingerprint.with_body(body), effects));
            }
            (Self::Known(fingerprint), PauseEvent::Body { .. } | PauseEvent::End(_)) => {
                return Ok(hand_on(exchange, &fingerprint, effects));
            }
            // The host has read no body for the fingerprint, or this is the answer to another call.
            (Self::Open(_) | Self::Made(_) | Self::Unknown(_) | Self::Known(_), _) => {
                return Err(Problem::internal_error());
            }
        };
        Ok(Some(Box::new(next)))
    }
}

/// Sets the header from which the backend learns the fingerprint, a structured field (RFC 8941): `sha-256=:…:`.
fn hand_on(
    exchange: &mut Exchange,
    fingerprint: &Fingerprint,
    effects: &mut Vec<Effect<'_>>,
) -> Option<Box<dyn Check>> {
    exchange.facts.payload = Some(PayloadDigest::Compared(fingerprint.to_string()));
    let value = Cow::Owned(format!("sha-256=:{}:", BASE64_STANDARD.encode(fingerprint.digest)).into_bytes());
    effects.push(Effect::Set { map: HeaderMapKind::Request, name: FINGERPRINT_HEADER, value });
    None
}

/// Refuses a request whose key was used with another request, and one that cannot be compared. `first`: the fingerprint of the first claim
/// under its key.
fn compare(exchange: &mut Exchange, claim: Claim, first: &Result<Box<str>, Reason>) -> Result<(), Problem> {
    let verdict = claim.verdict(first);
    exchange.begin(TraceStep::Stores);
    exchange.note_lookup(claim::STORE, verdict.name());
    exchange.facts.payload = Some(PayloadDigest::Compared(claim.fingerprint));
    match verdict {
        ClaimVerdict::Match => Ok(()),
        ClaimVerdict::Mismatch => Err(Problem::key_reused()),
        ClaimVerdict::Unknown(reason) => Err(exchange.with_reason(reason, Problem::backend_check_failed())),
    }
}

/// The fingerprint of a request, without its body.
fn open_fingerprint(rules: &CollisionRules, request: &RoutedRequest<'_, '_>) -> OpenFingerprint {
    let RoutedRequest { line, path, headers, .. } = *request;
    let content_types = headers.iter().filter(|(name, _)| *name == b"content-type").map(|(_, value)| value);
    let claimed = ClaimedRequest {
        method: line.method,
        path,
        query: line.query.unwrap_or_default(),
        content_types: content_types.collect(),
        headers,
        compared: &rules.compared,
    };
    OpenFingerprint::of(&claimed, rules.json)
}

impl Observation {
    /// The observation of a request; `None` if its body has no end, because it asks for an upgraded connection.
    pub(crate) fn of_request(
        claim: OpenClaim,
        route: &Route,
        caller: &Identity,
        headers: &Headers<'_>,
        body: Option<&Body<'_>>,
    ) -> Option<Box<Self>> {
        if headers.field("upgrade") != FieldValue::Absent {
            return None;
        }
        let caller = ObservedCaller {
            tenant: caller.tenant.as_str().to_owned(),
            project: caller.project.as_str().to_owned(),
            endpoint: route.endpoint.clone(),
        };
        Some(Box::new(Self::new(claim, body, route.max_body_bytes, caller)))
    }
}
