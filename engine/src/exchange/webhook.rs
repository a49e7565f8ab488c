//! Case B: a webhook delivery of a third party. It is forwarded only if its signature fits the exact bytes received.
//! Then its identifier becomes the key, in the namespace of the webhook's binding (docs/contract.md section 5,
//! invariant I4).

use super::request::{MatchedRoute, RequestHead};
use super::{Decision, Effect, Exchange, RequestFlow, State};
use crate::headers::{FieldValue, Headers};
use crate::identity::Identity;
use crate::key;
use crate::lookup::{LookupRequest, LookupResult, StoreKind};
use crate::policy::document::{Binding, Secret, WebhookBlock, is_webhook_id};
use crate::policy::path::{NormalPath, split_query};
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::{Problem, Reason};
use crate::provider::{
    Delivery, Identifier, IdentifierHeaders, KeyScope, NoIdentifier, Provider, Verified, VerifyError, body_digest,
};
use crate::telemetry::Case;
use std::sync::Arc;

/// The lookups of a delivery and their results.
#[derive(Debug, Default)]
pub(super) struct DeliveryLookup {
    /// The lookup that the delivery waits for; `None` if it waits for its body.
    pub(super) pending: Option<LookupRequest>,
    /// The provider that the route or its path names.
    pub(super) provider: String,
    /// The webhook id, when it is known that there is such a webhook, and empty before.
    pub(super) webhook_id: Arc<str>,
    binding: Option<Arc<Binding>>,
    secrets: Option<Arc<Vec<Secret>>>,
    /// Why the delivery cannot be verified whatever its body is. It waits only until it is known whether there is such a
    /// webhook, so that the answer to an unknown id stays the same.
    pub(super) unverifiable: Option<VerifyError>,
    /// The error of the first verification, during the lookup of newer secrets.
    first_error: Option<VerifyError>,
}

impl DeliveryLookup {
    /// Requests the lookup of a binding's secrets; `force_refresh` if the cached ones did not verify.
    fn look_up_secrets(&mut self, binding: &Binding, force_refresh: bool) {
        let key = format!("{}:{}:{}", binding.tenant.as_str(), binding.project.as_str(), binding.provider);
        self.pending = Some(LookupRequest { kind: StoreKind::Secrets, key: key.into(), force_refresh });
    }
}

/// A webhook id with its binding, its secrets and its provider.
struct BoundWebhook<'p, 'r> {
    id: &'r str,
    binding: &'p Binding,
    secrets: &'p [Secret],
    provider: &'p Provider,
}

impl BoundWebhook<'_, '_> {
    /// Verifies the signature with each of the secrets.
    fn verify(&self, delivery: &Delivery<'_>, now_unix_ms: u64) -> Result<Verified, VerifyError> {
        self.provider.verify(delivery, &secret_values(self.secrets), now_unix_ms)
    }

    /// The namespaced key of a delivery. If the identifier makes it too long, it has a digest of the identifier
    /// instead.
    fn key(
        &self,
        identity: &Identity,
        identifier: &Identifier,
        verified: &Verified,
        body: &[u8],
    ) -> Result<String, Problem> {
        let scope = self.binding.key_scope.unwrap_or(self.provider.key_scope);
        let webhook_id = (scope == KeyScope::Webhook).then_some(self.id);
        let bound = self.binding.bind_body.unwrap_or_else(|| self.provider.binds_body(verified, identifier));
        let digest = bound.then(|| body_digest(body));
        key::encode(identity, &self.provider.raw_key(identifier, webhook_id, digest.as_ref()))
            .or_else(|_| key::encode(identity, &self.provider.digest_key(identifier, webhook_id, digest.as_ref())))
            .map_err(|_| Problem::transport_translation_failed())
    }
}

impl Exchange {
    /// Makes the checks of a delivery that need no body. Then the delivery waits for a lookup or its body. What cannot be
    /// verified waits for no body, and nothing of it is kept.
    pub(super) fn await_delivery(
        &mut self,
        policy: &Policy,
        block: &WebhookBlock,
        matched: &MatchedRoute<'_, '_>,
        headers: &Headers<'_>,
        now_unix_ms: &dyn Fn() -> u64,
    ) -> Result<RequestFlow, Problem> {
        self.facts.case = Some(Case::B);
        let limit = matched.route.map_or(0, |route| route.max_body_bytes);
        let (id, provider) = webhook_id_and_provider(block, matched).ok_or_else(Problem::webhook_unknown)?;
        let static_binding = policy.binding(id);
        let is_bound = match static_binding {
            Some(binding) => binding.provider == provider,
            None => policy.unkey().is_some() && is_webhook_id(id),
        };
        self.facts.provider = Some(provider.into());
        let provider_rules = policy.provider(provider).filter(|_| is_bound).ok_or_else(Problem::webhook_unknown)?;
        body_can_be_awaited(headers, limit)?;
        if is_encoded(headers) && provider_rules.parses_body() {
            return Err(Problem::unsupported_content_encoding());
        }
        let listed = static_binding.filter(|binding| !binding.secrets.is_empty() || policy.openbao().is_none());
        let secrets = listed.map(|binding| secret_values(&binding.secrets));
        let head = Delivery { method: b"", url: b"", headers, body: b"" };
        let unverifiable = provider_rules.check_head(&head, secrets.as_deref(), now_unix_ms).err();
        if let (Some(error), Some(_)) = (unverifiable, static_binding) {
            return Err(self.verification_problem(error));
        }
        let webhook_id = static_binding.map(|_| id.into()).unwrap_or_default();
        let mut delivery =
            DeliveryLookup { provider: provider.to_owned(), webhook_id, unverifiable, ..DeliveryLookup::default() };
        let flow = match static_binding {
            Some(_) if listed.is_some() => RequestFlow::AwaitBody { limit },
            Some(binding) => {
                delivery.look_up_secrets(binding, false);
                RequestFlow::AwaitCall { limit }
            }
            None => {
                let binding = LookupRequest { kind: StoreKind::Bindings, key: id.into(), force_refresh: false };
                delivery.pending = Some(binding);
                RequestFlow::AwaitCall { limit }
            }
        };
        self.state = State::AwaitsDelivery(Box::new(delivery));
        Ok(flow)
    }

    /// Takes the result of a lookup, and returns what the delivery waits for next.
    pub(super) fn take_lookup_result(&mut self, policy: &Policy, result: LookupResult) -> Result<RequestFlow, Problem> {
        let limit = self.route(policy).map_or(0, |route| route.max_body_bytes);
        let State::AwaitsDelivery(delivery) = &mut self.state else { return Err(Problem::internal_error()) };
        let asked = delivery.pending.take();
        let (reason, problem) = match result {
            LookupResult::Binding(binding) if binding.provider == delivery.provider => {
                if let Some(error) = delivery.unverifiable {
                    return Err(self.verification_problem(error));
                }
                delivery.webhook_id = asked.map(|asked| asked.key).unwrap_or_default();
                delivery.look_up_secrets(&binding, false);
                delivery.binding = Some(binding);
                return Ok(RequestFlow::AwaitCall { limit });
            }
            LookupResult::Secrets(secrets) => {
                match delivery.first_error.take_if(|_| delivery.secrets.as_ref() == Some(&secrets)) {
                    // The store has no newer secrets, so the first error stands.
                    Some(error) => return Err(self.verification_problem(error)),
                    None => {
                        delivery.secrets = Some(secrets);
                        return Ok(RequestFlow::AwaitBody { limit });
                    }
                }
            }
            LookupResult::Binding(_) => (Reason::ProviderMismatch, Problem::webhook_unknown()),
            LookupResult::Invocation(_) | LookupResult::FirstClaim(_) | LookupResult::InFlight(_) => {
                return Err(Problem::internal_error());
            }
            LookupResult::Unknown(reason) => (reason, Problem::webhook_unknown()),
            LookupResult::Unavailable(reason) => (reason, Problem::dependency_unavailable()),
        };
        self.facts.reason = Some(reason);
        Err(problem)
    }

    /// Verifies a whole delivery, makes its key and forwards it.
    pub(super) fn verify_delivery<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &[u8],
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let mut head = RequestHead::read_kept(policy, headers);
        let (raw_path, _) = split_query(head.target);
        let path = NormalPath::parse(raw_path).map_err(Problem::path_ambiguous)?;
        let route = self.route(policy).ok_or_else(Problem::internal_error)?;
        let matched = MatchedRoute::of(route, route.template.values(path.as_str()).unwrap_or_default());
        let block = route.webhook.as_ref().ok_or_else(Problem::internal_error)?;
        let (id, provider) = webhook_id_and_provider(block, &matched).ok_or_else(Problem::webhook_unknown)?;
        let State::AwaitsDelivery(delivery) = &self.state else { return Err(Problem::internal_error()) };
        let (binding, secrets) = (delivery.binding.clone(), delivery.secrets.clone());
        let binding = binding.as_deref().or_else(|| policy.binding(id));
        let binding = binding.filter(|binding| binding.provider == provider).ok_or_else(Problem::webhook_unknown)?;
        let provider = policy.provider(provider).ok_or_else(Problem::webhook_unknown)?;
        let secrets = secrets.as_deref().map_or(&binding.secrets, |secrets| secrets);
        let bound = BoundWebhook { id, binding, secrets, provider };

        let url = public_url(policy, headers, &head);
        let delivery = Delivery { method: head.method, url: &url, headers, body };
        let verified = match bound.verify(&delivery, now_unix_ms) {
            Ok(verified) => verified,
            Err(error) if self.needs_fresh_secrets(&bound, error) => {
                return Ok(RequestFlow::AwaitCall { limit: route.max_body_bytes });
            }
            Err(error) => return Err(self.verification_problem(error)),
        };
        let identifier = self.identifier(route, &bound, &delivery, &verified);
        let read = match &identifier {
            _ if route.policy == PolicyKind::HandlerInternalC => IdentifierHeaders::All,
            identifier => IdentifierHeaders::Of(identifier.as_ref().ok().and_then(Option::as_ref)),
        };
        head.strip_unverified(policy, provider, &|name| provider.kept_header(name, &verified, read), headers);
        let identity = Identity {
            tenant: bound.binding.tenant.clone(),
            project: matched.wider_scope().unwrap_or_else(|| bound.binding.project.clone()),
            subject: policy.webhook_subject().cloned().ok_or_else(Problem::internal_error)?,
        };
        let key_of = |identifier: Identifier| bound.key(&identity, &identifier, &verified, body);
        let decision = match identifier.and_then(|identifier| identifier.map(key_of).transpose()) {
            Ok(Some(key)) => Decision::of_key(Some((identity, key))),
            Ok(None) => Decision { identity: Some(identity), ..Decision::default() },
            Err(problem) => {
                self.facts.verified_identity = Some(Box::new(identity));
                return Err(problem);
            }
        };
        self.forward(decision, policy, &head, &path, &matched, effects)
    }

    /// Whether newer secrets could verify the delivery. If so, requests their lookup, once for each delivery.
    fn needs_fresh_secrets(&mut self, bound: &BoundWebhook<'_, '_>, error: VerifyError) -> bool {
        let depends_on_secrets = matches!(error, VerifyError::SignatureMismatch | VerifyError::SecretInvalid);
        match &mut self.state {
            State::AwaitsDelivery(delivery)
                if depends_on_secrets && delivery.secrets.is_some() && delivery.first_error.is_none() =>
            {
                delivery.look_up_secrets(bound.binding, true);
                delivery.first_error = Some(error);
                true
            }
            _ => false,
        }
    }

    /// The problem for a delivery whose verification failed.
    fn verification_problem(&mut self, error: VerifyError) -> Problem {
        self.facts.reason = Some(error.reason());
        if error.is_receivers_fault() {
            Problem::dependency_unavailable()
        } else {
            Problem::webhook_signature_invalid()
        }
    }

    /// The identifier of a verified delivery; `None` if the delivery goes on without a key.
    fn identifier(
        &mut self,
        route: &Route,
        bound: &BoundWebhook<'_, '_>,
        delivery: &Delivery<'_>,
        verified: &Verified,
    ) -> Result<Option<Identifier>, Problem> {
        if route.policy == PolicyKind::HandlerInternalC {
            return Ok(None);
        }
        match bound.provider.identifier(delivery, verified) {
            Ok(Some(identifier)) => {
                self.facts.source = Some(identifier.kind.name());
                Ok(Some(identifier))
            }
            Ok(None) if route.policy == PolicyKind::Accepted => Ok(None),
            Err(why) if route.policy == PolicyKind::Accepted && why.is_absence() => Ok(None),
            found => {
                self.facts.reason = Some(found.err().unwrap_or(NoIdentifier::Missing).reason());
                Err(Problem::transport_translation_failed())
            }
        }
    }
}

/// The values of secrets. Those of variables were put in their places at start.
#[inline(never)]
pub(super) fn secret_values(secrets: &[Secret]) -> Vec<&[u8]> {
    let values = secrets.iter().filter_map(|secret| match secret {
        Secret::Value(value) => Some(value.as_slice()),
        Secret::Env(_) => None,
    });
    values.collect()
}

/// The webhook id and the provider, from the `webhook` block or from the path parameters.
fn webhook_id_and_provider<'r>(block: &'r WebhookBlock, matched: &MatchedRoute<'_, 'r>) -> Option<(&'r str, &'r str)> {
    let id = block.id.as_deref().or_else(|| matched.value("webhook_id"))?;
    Some((id, block.provider.as_deref().or_else(|| matched.value("provider"))?))
}

/// The URL that the sender used. `public_base_url` corrects scheme and host if a proxy in front of the gateway changed
/// them.
pub(super) fn public_url(policy: &Policy, headers: &Headers<'_>, head: &RequestHead<'_>) -> Vec<u8> {
    match policy.public_base_url() {
        Some(base) => [base.as_bytes(), head.target].concat(),
        None => {
            let scheme: &[u8] =
                if matches!(headers.field(":scheme"), FieldValue::One(b"http")) { b"http" } else { b"https" };
            // The authority was checked: if it could contain a slash, the signed path could begin in it.
            [scheme, b"://", head.authority, head.target].concat()
        }
    }
}

/// Refuses a request whose `content-length` is above `limit`, and an upgraded connection (RFC 9110 section 7.8), since
/// its body never ends.
pub(super) fn body_can_be_awaited(headers: &Headers<'_>, limit: u64) -> Result<(), Problem> {
    if headers.field("upgrade") != FieldValue::Absent {
        return Err(Problem::upgrade_refused());
    }
    let is_too_long = headers.content_length().is_some_and(|length| length > limit);
    if is_too_long { Err(Problem::body_too_large(limit)) } else { Ok(()) }
}

fn is_encoded(headers: &Headers<'_>) -> bool {
    match headers.field("content-encoding") {
        FieldValue::Absent => false,
        FieldValue::One(coding) => {
            !coding.trim_ascii().is_empty() && !coding.trim_ascii().eq_ignore_ascii_case(b"identity")
        }
        FieldValue::Many => true,
    }
}
