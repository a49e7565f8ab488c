//! Signed callers: the signature is verified over the exact bytes of the whole request. Then the request is Case A,
//! with the subject and the key grammar of the caller (docs/contract.md section 7).

use super::keys::KeyReading;
use super::matched_route::RoutedRequest;
use super::refusal::body_can_be_awaited;
use super::request_head::EditedLines;
use super::trace::{TraceEvent, TraceStep};
use super::waiting::UnverifiedRequest;
use super::webhook::{secret_values, texts};
use super::{Case, Effect, Exchange, RequestFlow, State};
use crate::body::Body;
use crate::headers::{FieldValue, Headers};
use crate::identity::{Identity, IdentityFault, IdentityRefusal, IdentitySource, Project, Tenant};
use crate::policy::document::{CallerHeaders, SignedCaller};
use crate::policy::{Policy, Route};
use crate::problem::Problem;
use crate::provider::{Delivery, IdentifierHeaders, Provider, VerifyError};
use std::borrow::Cow;

impl Policy {
    /// The index of the first signed caller of the route whose signature header the request has.
    pub(super) fn signer(&self, route: &Route, headers: &Headers<'_>) -> Option<usize> {
        self.signers(route, headers).next()
    }

    fn signers(&self, route: &Route, headers: &Headers<'_>) -> impl Iterator<Item = usize> {
        let signed = |id: &usize| self.callers().get(*id).is_some_and(|caller| caller.signature.is_signed(headers));
        route.callers.iter().copied().filter(signed)
    }
}

impl SignedCaller {
    fn secret_values(&self, now_unix_ms: u64) -> Vec<Cow<'_, [u8]>> {
        secret_values(&self.secrets, now_unix_ms)
    }
}

/// A request of a signed caller, which waits for its whole body.
#[derive(Debug)]
pub(super) struct WaitingSigned {
    /// The caller, as an index
    pub(super) caller: usize,
    pub(super) request: UnverifiedRequest,
}

impl Exchange {
    /// Makes the checks of a signed request that need no body, and waits for the body. Nothing waits that cannot be
    /// verified.
    pub(super) fn await_signed(
        &mut self,
        id: usize,
        policy: &Policy,
        request: &RoutedRequest<'_, '_>,
        authority: &[u8],
        now_unix_ms: &dyn Fn() -> u64,
    ) -> Result<RequestFlow, Problem> {
        self.telemetry.case = Some(Case::A);
        self.signed_caller = Some(id);
        self.begin(TraceStep::Signature);
        let RoutedRequest { matched, headers, .. } = *request;
        let limit = matched.route.map_or(0, |route| route.max_body_bytes);
        body_can_be_awaited(headers, limit).inspect_err(|_| self.begin(TraceStep::Body))?;
        let (route, caller) = matched.route.zip(policy.callers().get(id)).ok_or_else(Problem::internal_error)?;
        if policy.signers(route, headers).count() > 1 {
            return Err(self.unverified(VerifyError::AmbiguousHeader, Problem::signature_invalid));
        }
        let head = Delivery { method: b"", url: b"", headers, body: &Body::of(b"") };
        let secrets = caller.secret_values(now_unix_ms());
        let checked = caller.signature.check_head(&head, Some(&texts(&secrets)), now_unix_ms);
        checked.map_err(|error| self.unverified(error, Problem::signature_invalid))?;
        let request = UnverifiedRequest::of(policy, request, authority);
        self.state = State::AwaitsSignedBody(Box::new(WaitingSigned { caller: id, request }));
        Ok(RequestFlow::AwaitBody { limit })
    }

    /// Verifies a whole signed request and forwards it.
    pub(super) fn verify_signed_request<'a>(
        &mut self,
        waiting: WaitingSigned,
        policy: &'a Policy,
        headers: &Headers<'a>,
        (body, now_unix_ms): (&Body<'_>, u64),
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let WaitingSigned { caller: id, request: unverified } = waiting;
        let route = self.known_route(policy)?;
        let (caller, header_names) =
            policy.callers().get(id).zip(policy.caller_headers()).ok_or_else(Problem::internal_error)?;

        let url = unverified.url(policy);
        let delivery = Delivery { method: unverified.request.line().method, url: &url, headers, body };
        let verified = caller.signature.verify(&delivery, &texts(&caller.secret_values(now_unix_ms)), now_unix_ms);
        verified.map_err(|error| self.unverified(error, Problem::signature_invalid))?;
        self.note(|| TraceEvent::Verified);
        let mut edited = EditedLines::of_kept(headers);
        self.strip_unsigned(&mut edited, policy, headers);
        let matched = unverified.request.matched(route);

        let source = policy.caller_source(id).ok_or_else(Problem::internal_error)?;
        let resolve = || identity(caller, (header_names, source), matched.wider_scope(), headers);
        let keys = KeyReading::of_caller(&caller.keys);
        let decision = self.apply_key_policy(policy, &edited, &matched, &keys, &resolve);
        // Shadow mode checks the identity too: with malformed parts, the signed text could fit another request as well.
        let identity = resolve().map(|identity| self.telemetry.verified_identity = Some(Box::new(identity)));
        let decision = decision?;
        identity.map_err(|why| {
            self.begin(TraceStep::Identity);
            Problem::identity(&why)
        })?;
        let request = unverified.request.routed(&matched, &edited, headers);
        self.forward_when_ready(policy, decision, &request, Some(body), effects)
    }

    /// Removes from a verified request of a signed caller what looks like a header that its signature covers. Other requests stay
    /// as they are.
    pub(super) fn strip_unsigned<'a>(&self, edited: &mut EditedLines<'a>, policy: &'a Policy, headers: &Headers<'a>) {
        let Some(caller) = self.signed_caller.and_then(|caller| policy.callers().get(caller)) else { return };
        let signature = &caller.signature;
        let kept = |name: &[u8]| signature.kept_header(name, &Provider::VERIFIED_CALLER, IdentifierHeaders::All);
        edited.strip_unverified(self.backend(policy), signature, &kept, headers);
    }
}

/// The identity: tenant and project from the signed headers, and the subject of the caller. The `source` says for a refusal
/// where they stand.
#[inline(never)]
fn identity<'p>(
    caller: &SignedCaller,
    (header_names, source): (&CallerHeaders, &'p IdentitySource),
    wider: Option<Project>,
    headers: &Headers<'_>,
) -> Result<Identity, IdentityRefusal<'p>> {
    let signed = |name| match headers.field(name) {
        FieldValue::One(value) => Ok(value),
        FieldValue::Absent => Err(IdentityFault::Missing),
        FieldValue::Many => Err(IdentityFault::NotOneString),
    };
    let tenant = signed(&header_names.tenant).and_then(|value| Tenant::parse(value).map_err(IdentityFault::Malformed));
    // The project is parsed even if a wider scope replaces it: its alphabet separates it from the rest of the signed
    // text.
    let project =
        signed(&header_names.project).and_then(|value| Project::parse(value).map_err(IdentityFault::Malformed));
    match (tenant, project) {
        (Ok(tenant), Ok(named)) => {
            Ok(Identity { tenant, project: wider.unwrap_or(named), subject: caller.subject.clone() })
        }
        (tenant, project) => {
            let faults = [tenant.err(), project.err(), None];
            Err(IdentityRefusal::new(std::slice::from_ref(source), faults))
        }
    }
}
