//! Signed callers: the signature is verified over the exact bytes of the whole request. Then the request is Case A,
//! with the subject and the key grammar of the caller (docs/contract.md section 7).

use super::document::{CallerHeaders, SignedCaller};
use crate::body::Body;
use crate::checks::forward_when_ready;
use crate::exchange::{
    Awaits, Caller, Case, Continuation, EditedLines, Effect, Exchange, KeyReading, Pause, PauseEvent, RequestFlow,
    Resumed, RoutedRequest, TraceEvent, TraceStep, UnverifiedRequest, Verifier, body_can_be_awaited, decide_key,
};
use crate::headers::{FieldValue, Headers};
use crate::identity::{Identity, IdentityFault, IdentityRefusal, IdentitySource, Project, Tenant};
use crate::policy::Policy;
use crate::policy::document::secret_values;
use crate::problem::Problem;
use crate::provider::{Delivery, VerifyError};
use std::sync::Arc;

/// A request of a signed caller, which waits for its whole body.
struct WaitingSigned {
    /// The caller, as an index
    caller: usize,
    request: UnverifiedRequest,
}

/// Makes the checks of a signed request that need no body, and waits for the body. Nothing waits that cannot be
/// verified. `caller`: its index.
pub(crate) fn await_signed(
    exchange: &mut Exchange,
    caller: usize,
    policy: &Policy,
    request: &RoutedRequest<'_, '_>,
    authority: &[u8],
    now_unix_ms: &dyn Fn() -> u64,
) -> Result<RequestFlow, Problem> {
    exchange.facts.case = Some(Case::A);
    exchange.verifier = Verifier::Caller(caller);
    exchange.begin(TraceStep::Signature);
    let RoutedRequest { matched, headers, .. } = *request;
    let limit = matched.route.map_or(0, |route| route.max_body_bytes);
    body_can_be_awaited(headers, limit).inspect_err(|_| exchange.begin(TraceStep::Body))?;
    let (route, signed) = matched.route.zip(policy.callers().get(caller)).ok_or_else(Problem::internal_error)?;
    if policy.signers(route, headers).count() > 1 {
        return Err(exchange.unverified(VerifyError::AmbiguousHeader, Problem::signature_invalid));
    }
    let head = Delivery { method: b"", url: b"", headers, body: &Body::of(b"") };
    let secrets = secret_values(&signed.secrets, now_unix_ms());
    let checked = signed.signature.check_head(&head, Some(&secrets.as_slices()), now_unix_ms);
    checked.map_err(|error| exchange.unverified(error, Problem::signature_invalid))?;
    let waiting = WaitingSigned { caller, request: UnverifiedRequest::of(policy, request, authority) };
    Ok(Pause::until(Awaits::Body { limit }, waiting))
}

impl Continuation for WaitingSigned {
    fn sender(&self, policy: &Policy) -> Arc<str> {
        let name = policy.callers().get(self.caller).map(|caller| caller.signature.name()).unwrap_or_default();
        // No webhook id has a colon.
        format!("caller:{name}").into()
    }

    fn carried_bytes(&self) -> usize {
        self.request.counted()
    }

    /// Verifies the whole request and forwards it.
    fn resume<'a>(
        self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let Resumed { policy, headers, event: PauseEvent::Body { body, now_unix_ms } } = resumed else {
            return Err(Problem::internal_error());
        };
        let Self { caller: id, request: unverified } = *self;
        let route = exchange.known_route(policy)?;
        let (caller, header_names) =
            policy.callers().get(id).zip(policy.caller_headers()).ok_or_else(Problem::internal_error)?;

        let url = unverified.url(policy);
        let delivery = Delivery { method: unverified.request.line().method, url: &url, headers, body };
        let secrets = secret_values(&caller.secrets, now_unix_ms);
        let verified = caller.signature.verify(&delivery, &secrets.as_slices(), now_unix_ms);
        verified.map_err(|error| exchange.unverified(error, Problem::signature_invalid))?;
        exchange.note(|| TraceEvent::Verified);
        let mut edited = EditedLines::of_kept(headers);
        edited.strip_unsigned(exchange, policy, headers);
        let matched = unverified.request.matched(route);

        let source = policy.caller_source(id).ok_or_else(Problem::internal_error)?;
        let resolved = identity(caller, header_names, source, matched.wider_scope(), headers);
        let known = Caller::Signed(resolved);
        let keys = KeyReading::of_caller(&caller.keys);
        let request = unverified.request.routed(&matched, &edited, headers);
        let decision = decide_key(exchange, policy, &request, &keys, &known);
        // Shadow mode checks the identity too: with malformed parts, the signed text could fit another request as well.
        let identity = known.resolve().map(|identity| exchange.facts.verified_identity = Some(identity));
        let decision = decision?;
        identity.map_err(|why| {
            exchange.begin(TraceStep::Identity);
            Problem::identity(&why)
        })?;
        forward_when_ready(exchange, policy, decision, &request, Some(body), effects)
    }
}

/// The identity: tenant and project from the signed headers, and the subject of the caller. The `source` says for a refusal
/// where they stand.
fn identity<'p>(
    caller: &SignedCaller,
    header_names: &CallerHeaders,
    source: &'p IdentitySource,
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
