//! A caller that signs its requests: the whole request is verified over the exact bytes received, and then is Case A
//! with the caller's own subject and key grammar (docs/contract.md section 7).

use super::request::{MatchedRoute, RequestHead};
use super::webhook::{body_can_be_awaited, public_url};
use super::{Effect, Exchange, RequestFlow, State};
use crate::headers::{FieldValue, Headers};
use crate::identity::{Identity, IdentityError, IdentityPart, Project, Tenant};
use crate::policy::document::{Caller, CallerHeaders, Secret};
use crate::policy::path::{NormalPath, split_query};
use crate::policy::{Policy, Route};
use crate::problem::Problem;
use crate::provider::{Delivery, VerifyError};
use crate::telemetry::Case;

impl Policy {
    /// The signed caller of the route whose signature a request brings, as an index; the first of several.
    pub(super) fn signer(&self, route: &Route, headers: &Headers<'_>) -> Option<usize> {
        self.signers(route, headers).next()
    }

    fn signers(&self, route: &Route, headers: &Headers<'_>) -> impl Iterator<Item = usize> {
        let signed = |id: &usize| self.callers().get(*id).is_some_and(|caller| caller.signature.is_signed(headers));
        route.callers.iter().copied().filter(signed)
    }
}

impl Exchange {
    /// The headers of a signed request have come: what can be refused without its body is.
    pub(super) fn await_signed(
        &mut self,
        id: usize,
        matched: &MatchedRoute<'_, '_>,
        headers: &Headers<'_>,
    ) -> Result<RequestFlow, Problem> {
        self.facts.case = Some(Case::A);
        let limit = matched.route.map_or(0, |route| route.max_body_bytes);
        body_can_be_awaited(headers, limit)?;
        self.state = State::AwaitsSignedBody(id);
        Ok(RequestFlow::AwaitBody { limit })
    }

    /// The whole signed request is there.
    pub(super) fn verify_signed_request<'a>(
        &mut self,
        id: usize,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &[u8],
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let head = RequestHead::read(policy, headers);
        let (raw_path, _) = split_query(head.target);
        let path = NormalPath::parse(raw_path).map_err(Problem::path_ambiguous)?;
        let waiting = self.route(policy).zip(policy.callers().get(id));
        let ((route, caller), names) = waiting.zip(policy.caller_headers()).ok_or_else(Problem::policy_invalid)?;
        let matched = MatchedRoute::of(route, route.template.values(path.as_str()).unwrap_or_default());

        if policy.signers(route, headers).count() > 1 {
            return Err(self.unverified(VerifyError::AmbiguousHeader));
        }
        let url = public_url(policy, headers, &head);
        let delivery = Delivery { method: head.method, url: &url, headers, body };
        let secrets = caller.secrets.iter().filter_map(|secret| match secret {
            Secret::Value(value) => Some(value.as_slice()),
            Secret::Env(_) => None,
        });
        let verified = caller.signature.verify(&delivery, &secrets.collect::<Vec<_>>(), now_unix_ms);
        verified.map_err(|refused| self.unverified(refused))?;

        let resolve = || identity(caller, names, matched.wider_scope(), headers);
        let decision = self.apply_key_policy(policy, &head, &matched, &caller.keys, &resolve)?;
        // In shadow mode, too: a text with parts that cannot be could be another request's as well.
        resolve().map(drop).map_err(Problem::identity)?;
        self.forward(decision, policy, &head, &path, &matched, effects)
    }

    fn unverified(&mut self, refused: VerifyError) -> Problem {
        self.facts.reason = Some(refused.reason());
        if refused.is_receivers_fault() { Problem::dependency_unavailable() } else { Problem::signature_invalid() }
    }
}

/// Tenant and project as they were signed, with the caller's own subject.
#[inline(never)]
fn identity(
    caller: &Caller,
    names: &CallerHeaders,
    wider: Option<Project>,
    headers: &Headers<'_>,
) -> Result<Identity, IdentityError> {
    let signed = |part, name| match headers.field(name) {
        FieldValue::One(value) => Ok(value),
        FieldValue::Absent => Err(IdentityError::Missing(part)),
        FieldValue::Many => Err(IdentityError::Invalid(part)),
    };
    let tenant = signed(IdentityPart::Tenant, &names.tenant)?;
    let project = signed(IdentityPart::Project, &names.project)?;
    let named = Project::parse(project).map_err(|_| IdentityError::Invalid(IdentityPart::Project))?;
    Ok(Identity {
        tenant: Tenant::parse(tenant).map_err(|_| IdentityError::Invalid(IdentityPart::Tenant))?,
        // Also where it is not used: its alphabet is what sets it apart from the text beside it.
        project: wider.unwrap_or(named),
        subject: caller.subject.clone(),
    })
}
