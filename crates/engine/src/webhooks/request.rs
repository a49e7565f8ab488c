//! Case B: a webhook delivery of a third party. It is forwarded only if its signature fits the exact bytes received.
//! Then its identifier becomes the key, in the namespace of the webhook's binding (docs/contract.md section 5,
//! invariant I4).

use super::document::{Binding, WebhookBlock, is_webhook_id};
use crate::body::Body;
use crate::exchange::{
    Awaits, CallerKey, Case, Continuation, Decision, EditedLines, Effect, Exchange, MatchedRoute, Pause, PauseEvent,
    PayloadDigest, RequestFlow, Resumed, RoutedRequest, TraceEvent, TraceStep, UnverifiedRequest, Verifier,
    body_can_be_awaited, send,
};
use crate::headers::Headers;
use crate::identity::Identity;
use crate::key;
use crate::lookup::{LookupAnswer, LookupFailure, LookupRequest, StoreAnswer, StoreKind};
use crate::policy::document::{Secret, SecretValues, secret_values};
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::{Problem, Reason};
use crate::provider::{
    BodyMember, Delivery, Identifier, IdentifierHeaders, KeyScope, NoIdentifier, NoMember, Provider, Verified,
    VerifyError, body_digest,
};
use crate::questions::PendingLookup;
use std::sync::Arc;

/// A delivery that waits for lookups, or for its whole body.
struct WaitingDelivery {
    /// The lookup that the delivery waits for; `None` if it waits for its body.
    pending: Option<LookupRequest>,
    /// The webhook id, when it is known that there is such a webhook, and empty before.
    webhook_id: Arc<str>,
    /// The binding, when it is known.
    binding: Option<Arc<Binding>>,
    /// The secrets, if they were looked up. Else those of the binding count.
    secrets: Option<Arc<Vec<Secret>>>,
    /// The request, or why it cannot be verified whatever its body is. Then it waits only until it is known whether there is
    /// such a webhook, so that the answer to an unknown id stays the same.
    request: Result<UnverifiedRequest, VerifyError>,
    /// The error of the first verification, during the lookup of newer secrets.
    first_error: Option<VerifyError>,
}

impl WaitingDelivery {
    /// Requests the lookup of a binding's secrets; `force_refresh` if the cached ones did not verify.
    fn look_up_secrets(&mut self, binding: &Binding, force_refresh: bool) {
        let key = format!("{}:{}:{}", binding.tenant.as_str(), binding.project.as_str(), binding.provider);
        self.pending = Some(LookupRequest::new(StoreKind::Secrets, key.into(), force_refresh));
    }

    /// Whether newer secrets could verify a delivery that failed with this error. They are looked up once for each delivery.
    const fn can_have_newer_secrets(&self, error: VerifyError) -> bool {
        let depends_on_secrets = matches!(error, VerifyError::SignatureMismatch | VerifyError::SecretInvalid);
        depends_on_secrets && self.secrets.is_some() && self.first_error.is_none()
    }
}

/// A webhook id with its binding, its secrets and its provider.
struct BoundWebhook<'p> {
    id: &'p str,
    binding: &'p Binding,
    secrets: &'p [Secret],
    provider: &'p Provider,
}

impl BoundWebhook<'_> {
    /// Verifies the signature with each of the secrets.
    fn verify(&self, delivery: &Delivery<'_>, now_unix_ms: u64) -> Result<Verified, VerifyError> {
        self.provider.verify(delivery, &secret_values(self.secrets, now_unix_ms).as_slices(), now_unix_ms)
    }

    /// The namespaced key of a delivery, and the digest of its body if the key is bound to it.
    fn key(
        &self,
        identity: &Identity,
        identifier: &Identifier,
        verified: &Verified,
        body: &Body<'_>,
    ) -> Result<(String, Option<[u8; 32]>), Problem> {
        let scope = self.binding.key_scope.unwrap_or(self.provider.key_scope);
        let webhook_id = (scope == KeyScope::Webhook).then_some(self.id);
        let bound = self.binding.bind_body.unwrap_or_else(|| self.provider.binds_body(verified, identifier));
        let digest = bound.then(|| body_digest(body));
        key::encode(identity, &self.provider.raw_key(identifier, webhook_id, digest.as_ref()))
            .map(|key| (key, digest))
            .map_err(|_| Problem::transport_translation_failed())
    }
}

/// Makes the checks of a delivery that need no body. Then the delivery waits for a lookup or its body. What cannot be
/// verified waits for no body, and nothing of it is kept.
pub(crate) fn await_delivery(
    exchange: &mut Exchange,
    policy: &Policy,
    block: &WebhookBlock,
    request: &RoutedRequest<'_, '_>,
    authority: &[u8],
    now_unix_ms: &dyn Fn() -> u64,
) -> Result<RequestFlow, Problem> {
    let RoutedRequest { matched, headers, .. } = *request;
    exchange.facts.case = Some(Case::B);
    exchange.begin(TraceStep::Signature);
    let limit = matched.route.map_or(0, |route| route.max_body_bytes);
    let (id, provider) = webhook_id_and_provider(block, matched).ok_or_else(Problem::webhook_unknown)?;
    let static_binding = policy.binding(id);
    let is_bound = match static_binding {
        Some(binding) => binding.provider == provider,
        None => policy.unkey().is_some() && is_webhook_id(id),
    };
    exchange.verifier = Verifier::Provider(provider.into());
    let provider_rules = policy.provider(provider).filter(|_| is_bound).ok_or_else(Problem::webhook_unknown)?;
    body_can_be_awaited(headers, limit).inspect_err(|_| exchange.begin(TraceStep::Body))?;
    let reads_members = matched.target().is_some_and(|target| !target.members().is_empty());
    if headers.have_coding() && (reads_members || provider_rules.parses_body()) {
        return Err(Problem::unsupported_content_encoding());
    }
    let listed = static_binding.filter(|binding| !binding.secrets.is_empty() || policy.openbao().is_none());
    let secrets = listed.map(|binding| secret_values(&binding.secrets, now_unix_ms()));
    let secrets = secrets.as_ref().map(SecretValues::as_slices);
    let head = Delivery { method: b"", url: b"", headers, body: &Body::of(b"") };
    let unverifiable = provider_rules.check_head(&head, secrets.as_deref(), now_unix_ms).err();
    if let (Some(error), Some(_)) = (unverifiable, static_binding) {
        return Err(exchange.unverified(error, Problem::webhook_signature_invalid));
    }
    let mut delivery = WaitingDelivery {
        pending: None,
        webhook_id: static_binding.map(|_| id.into()).unwrap_or_default(),
        binding: static_binding.cloned(),
        secrets: None,
        request: unverifiable.map_or_else(|| Ok(UnverifiedRequest::of(policy, request, authority)), Err),
        first_error: None,
    };
    let awaits = match static_binding {
        Some(_) if listed.is_some() => Awaits::Body { limit },
        Some(binding) => {
            delivery.look_up_secrets(binding, false);
            Awaits::Call { limit }
        }
        None => {
            delivery.pending = Some(LookupRequest::new(StoreKind::Bindings, id.into(), false));
            Awaits::Call { limit }
        }
    };
    Ok(Pause::until(awaits, delivery))
}

impl Continuation for WaitingDelivery {
    fn lookup(&self) -> Option<PendingLookup<'_>> {
        self.pending.as_ref().map(PendingLookup::Store)
    }

    fn sender(&self, _: &Policy) -> Arc<str> {
        self.webhook_id.clone()
    }

    fn carried_bytes(&self) -> usize {
        self.request.as_ref().map_or(0, UnverifiedRequest::counted)
    }

    fn is_refused(&self) -> bool {
        self.request.is_err()
    }

    fn drops_key(&self) -> bool {
        true
    }

    fn resume<'a>(
        self: Box<Self>,
        exchange: &mut Exchange,
        resumed: Resumed<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let Resumed { policy, headers, event } = resumed;
        match event {
            PauseEvent::Answer(LookupAnswer::Binding(answer)) => self.on_binding(exchange, policy, answer),
            PauseEvent::Answer(LookupAnswer::Secrets(answer)) => self.on_secrets(exchange, policy, answer),
            PauseEvent::Body { body, now_unix_ms } => {
                self.on_body(exchange, policy, &WholeDelivery { headers, body, now_unix_ms }, effects)
            }
            PauseEvent::Answer(_) | PauseEvent::End(_) => Err(Problem::internal_error()),
        }
    }
}

/// A delivery all of which has come.
struct WholeDelivery<'r, 'a> {
    headers: &'r Headers<'a>,
    body: &'r Body<'r>,
    now_unix_ms: u64,
}

impl WaitingDelivery {
    /// Takes the binding of the webhook id. The delivery waits for its secrets next.
    fn on_binding(
        mut self: Box<Self>,
        exchange: &mut Exchange,
        policy: &Policy,
        answer: StoreAnswer<Arc<Binding>>,
    ) -> Result<RequestFlow, Problem> {
        let limit = exchange.known_route(policy)?.max_body_bytes;
        exchange.note_lookup(StoreKind::Bindings.name(), answer.name());
        let binding = answer.result.map_err(|why| not_found(exchange, why))?;
        if exchange.provider_name() != Some(&binding.provider) {
            return Err(exchange.with_reason(Reason::ProviderMismatch, Problem::webhook_unknown()));
        }
        if let Err(error) = self.request {
            return Err(exchange.unverified(error, Problem::webhook_signature_invalid));
        }
        self.webhook_id = self.pending.take().map(|asked| asked.key).unwrap_or_default();
        self.look_up_secrets(&binding, false);
        self.binding = Some(binding);
        Ok(Pause::boxed(Awaits::Call { limit }, self))
    }

    /// Takes the secrets of the binding. The delivery waits for its body next.
    fn on_secrets(
        mut self: Box<Self>,
        exchange: &mut Exchange,
        policy: &Policy,
        answer: StoreAnswer<Arc<Vec<Secret>>>,
    ) -> Result<RequestFlow, Problem> {
        let limit = exchange.known_route(policy)?.max_body_bytes;
        exchange.note_lookup(StoreKind::Secrets.name(), answer.name());
        let secrets = answer.result.map_err(|why| not_found(exchange, why))?;
        self.pending = None;
        // If the store has no newer secrets, the first error stands.
        if let Some(error) = self.first_error.take_if(|_| self.secrets.as_ref() == Some(&secrets)) {
            return Err(exchange.unverified(error, Problem::webhook_signature_invalid));
        }
        self.secrets = Some(secrets);
        Ok(Pause::boxed(Awaits::Body { limit }, self))
    }

    /// Verifies a whole delivery, makes its key and forwards it.
    fn on_body<'a>(
        mut self: Box<Self>,
        exchange: &mut Exchange,
        policy: &'a Policy,
        whole: &WholeDelivery<'_, 'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<RequestFlow, Problem> {
        let WholeDelivery { headers, body, now_unix_ms } = *whole;
        let route = exchange.known_route(policy)?;
        let provider = exchange.verifier(policy).ok_or_else(Problem::internal_error)?;
        let binding = self.binding.clone().ok_or_else(Problem::internal_error)?;
        let unverified = self.request.as_ref().map_err(|_| Problem::internal_error())?;
        let secrets = self.secrets.as_deref().unwrap_or(&binding.secrets);
        let bound = BoundWebhook { id: &self.webhook_id, binding: &binding, secrets, provider };

        let url = unverified.url(policy);
        let request = &unverified.request;
        let delivery = Delivery { method: request.line().method, url: &url, headers, body };
        let verified = match bound.verify(&delivery, now_unix_ms) {
            Ok(verified) => verified,
            Err(error) if self.can_have_newer_secrets(error) => {
                self.look_up_secrets(&binding, true);
                self.first_error = Some(error);
                return Ok(Pause::boxed(Awaits::Call { limit: route.max_body_bytes }, self));
            }
            Err(error) => return Err(exchange.unverified(error, Problem::webhook_signature_invalid)),
        };
        let mut matched = request.matched(route);
        exchange.note(|| TraceEvent::Verified);
        exchange.begin(TraceStep::Key);
        let identifier = identifier(exchange, route, &bound, &delivery, &verified);
        let read = match &identifier {
            _ if route.policy == PolicyKind::HandlerInternalC => IdentifierHeaders::All,
            identifier => IdentifierHeaders::Of(identifier.as_ref().ok().and_then(Option::as_ref)),
        };
        let mut edited = EditedLines::of_kept(headers);
        edited.strip_unverified(
            policy.backend_of(Some(route)),
            provider,
            &|name| provider.kept_header(name, &verified, read),
            headers,
        );
        let identity = Identity {
            tenant: bound.binding.tenant.clone(),
            project: matched.wider_scope().unwrap_or_else(|| bound.binding.project.clone()),
            subject: policy.webhook_subject().cloned().ok_or_else(Problem::internal_error)?,
        };
        let key_of = |identifier: Identifier| bound.key(&identity, &identifier, &verified, body);
        let decision = match identifier.and_then(|identifier| identifier.map(key_of).transpose()) {
            Ok(Some((text, digest))) => {
                exchange.note(|| TraceEvent::KeyNamespaced(text.clone()));
                exchange.facts.payload = digest.map(PayloadDigest::Body);
                exchange.begin(TraceStep::Identity);
                exchange.note(|| TraceEvent::Identity(Box::new(identity.clone())));
                Decision::Keyed(CallerKey { caller: identity, text, syntax: None })
            }
            Ok(None) => {
                exchange.begin(TraceStep::Identity);
                exchange.note(|| TraceEvent::Identity(Box::new(identity.clone())));
                Decision::Unkeyed(Some(identity))
            }
            Err(problem) => {
                exchange.facts.verified_identity = Some(identity);
                return Err(problem);
            }
        };
        if let Some(target) = matched.target().filter(|target| !target.members().is_empty()) {
            exchange.begin(TraceStep::Body);
            match target.member_values(|member| provider.member(member, &delivery, &verified)) {
                Ok(values) => {
                    let told = || target.members().iter().map(|member| member.name().to_owned()).zip(values.clone());
                    exchange.note(|| TraceEvent::Members(told().collect()));
                    matched.members = values;
                }
                Err((member, why)) => {
                    let lacking = Lacking { member, why };
                    return lacking.end(exchange, route, decision, effects);
                }
            }
        }
        send(exchange, decision, policy, &request.routed(&matched, &edited, headers), effects)
    }
}

/// The problem of a delivery for which a store has no value.
fn not_found(exchange: &mut Exchange, why: LookupFailure) -> Problem {
    match why {
        LookupFailure::Unknown(reason) => exchange.with_reason(reason, Problem::webhook_unknown()),
        LookupFailure::Unavailable(reason) => exchange.with_reason(reason, Problem::dependency_unavailable()),
        // Only API keys have these.
        LookupFailure::Forbidden(_) | LookupFailure::RateLimited { .. } => Problem::internal_error(),
    }
}

/// A value that the body of a delivery lacks, and that names the object of the backend.
struct Lacking<'m> {
    member: &'m BodyMember,
    why: NoMember,
}

impl Lacking<'_> {
    /// Refuses or acknowledges the delivery.
    fn end(
        &self,
        exchange: &mut Exchange,
        route: &Route,
        decision: Decision,
        effects: &mut Vec<Effect<'_>>,
    ) -> Result<RequestFlow, Problem> {
        let detail = self.detail();
        exchange.facts.reason = Some(self.why.reason());
        // If the signature does not cover the value, the policy and the provider do not fit together.
        if !route.acknowledges || self.why == NoMember::Unsigned {
            exchange.facts.verified_identity = decision.identity().cloned();
            return Err(Problem::target_member_failed(detail));
        }
        exchange.note(|| TraceEvent::Acknowledged(detail.clone()));
        exchange.acknowledged(decision);
        effects.clear();
        effects.push(Effect::Acknowledge(detail));
        Ok(RequestFlow::Replied)
    }

    /// What the sender reads about it.
    fn detail(&self) -> String {
        let what = match self.why {
            NoMember::Missing => "The body has no value",
            NoMember::NotJson => "The body is not JSON, so it has no value",
            NoMember::Unusable => "The body has no string or integer of 1 to 512 bytes, once and fit for a path,",
            NoMember::Unsigned => "The signature does not cover the value",
        };
        format!("{what} at {}, which names what the delivery is for.", self.member.name())
    }
}

/// The identifier of a verified delivery; `None` if the delivery goes on without a key.
fn identifier(
    exchange: &mut Exchange,
    route: &Route,
    bound: &BoundWebhook<'_>,
    delivery: &Delivery<'_>,
    verified: &Verified,
) -> Result<Option<Identifier>, Problem> {
    if route.policy == PolicyKind::HandlerInternalC {
        return Ok(None);
    }
    match bound.provider.identifier(delivery, verified) {
        Ok(Some(identifier)) => {
            exchange.facts.source = Some(identifier.kind.name());
            Ok(Some(identifier))
        }
        Ok(None) if route.policy == PolicyKind::Accepted => Ok(None),
        Err(why) if route.policy == PolicyKind::Accepted && why.is_absence() => Ok(None),
        found => {
            let why = found.err().unwrap_or(NoIdentifier::Missing);
            Err(exchange.with_reason(why.reason(), Problem::transport_translation_failed()))
        }
    }
}

/// The webhook id and the provider, from the `webhook` block or from the path parameters.
fn webhook_id_and_provider<'r>(block: &'r WebhookBlock, matched: &MatchedRoute<'_, 'r>) -> Option<(&'r str, &'r str)> {
    let id = block.id.as_deref().or_else(|| matched.value("webhook_id"))?;
    Some((id, block.provider.as_deref().or_else(|| matched.value("provider"))?))
}
