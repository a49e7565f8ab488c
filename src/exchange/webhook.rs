//! Case B: a third party's delivery. Nothing goes on before its signature is verified over the exact bytes received;
//! then its identifier becomes the key, in the namespace of the webhook's binding (DESIGN section 5, invariant I4).

use super::request::{Head, KeyLines, Rule};
use super::{Effect, Exchange, Flow};
use crate::headers::{Headers, Lone};
use crate::identity::Identity;
use crate::key;
use crate::policy::document::{Binding, Secret, WebhookBlock};
use crate::policy::path::{NormalPath, split_query};
use crate::policy::{Policy, PolicyKind, Route};
use crate::problem::Problem;
use crate::provider::{Delivery, Identifier, KeyScope, NoIdentifier, Provider, body_digest};
use crate::telemetry::Case;

/// A webhook id, its binding and its provider.
struct Bound<'p, 'r> {
    id: &'r str,
    binding: &'p Binding,
    provider: &'p Provider,
}

impl<'p, 'r> Bound<'p, 'r> {
    /// Finds the binding that a block and a path lead to; none if the path names another provider than the binding.
    fn find(policy: &'p Policy, block: &'r WebhookBlock, rule: &Rule<'_, 'r>) -> Option<Self> {
        let provider = block.provider.as_deref().or_else(|| rule.value("provider"))?;
        let id = block.id.as_deref().or_else(|| rule.value("webhook_id"))?;
        let binding = policy.bindings.get(id).filter(|binding| binding.provider == provider)?;
        Some(Self { id, binding, provider: policy.providers.get(provider)? })
    }

    /// The key of a delivery with this identifier; one that makes the key too long is digested.
    fn key(&self, identity: &Identity, identifier: &Identifier, body: &[u8]) -> Result<String, Problem> {
        let scope = self.binding.key_scope.unwrap_or(self.provider.key_scope);
        let webhook_id = (scope == KeyScope::Webhook).then_some(self.id);
        let digest = self.binding.bind_body.then(|| body_digest(body));
        key::encode(identity, &self.provider.raw_key(identifier, webhook_id, digest.as_ref()))
            .or_else(|_| key::encode(identity, &self.provider.digest_key(identifier, webhook_id, digest.as_ref())))
            .map_err(|_| Problem::transport_translation_failed())
    }
}

impl Exchange {
    /// The headers of a delivery have come: what can be refused without its body is.
    pub(super) fn await_delivery(
        &mut self,
        policy: &Policy,
        block: &WebhookBlock,
        rule: &Rule<'_, '_>,
        headers: &Headers<'_>,
    ) -> Result<Flow, Problem> {
        self.case = Some(Case::B);
        let limit = rule.route.map_or(0, |route| route.max_body_bytes);
        let bound = Bound::find(policy, block, rule).ok_or_else(Problem::webhook_unknown)?;
        if declared_length(headers).is_some_and(|length| length > limit) {
            return Err(Problem::body_too_large(limit));
        }
        if is_encoded(headers) && bound.provider.parses_body() {
            return Err(Problem::unsupported_content_encoding());
        }
        Ok(Flow::AwaitBody { limit })
    }

    /// The whole delivery is there: verify, extract, namespace.
    pub(super) fn judge_delivery<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        body: &[u8],
        now_unix_ms: u64,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<(), Problem> {
        let head = Head::read(policy, headers);
        let (raw_path, _) = split_query(head.target);
        let path = NormalPath::parse(raw_path).map_err(Problem::path_ambiguous)?;
        let waiting = self.route.and_then(|id| policy.route(id));
        let route = waiting.ok_or_else(Problem::policy_invalid)?;
        let rule = Rule::of(route, route.template.values(path.as_str()).unwrap_or_default());
        let block = route.webhook.as_ref().ok_or_else(Problem::policy_invalid)?;
        let bound = Bound::find(policy, block, &rule).ok_or_else(Problem::webhook_unknown)?;

        let url = public_url(policy, headers, &head);
        let delivery = Delivery { method: head.method, url: &url, headers, body };
        let identifier = self.verified(route, &bound, &delivery, now_unix_ms)?;
        let identity = Identity {
            tenant: bound.binding.tenant.clone(),
            project: rule.wider_scope().unwrap_or_else(|| bound.binding.project.clone()),
            subject: policy.webhook_subject.clone().ok_or_else(Problem::policy_invalid)?,
        };
        if let Some(identifier) = identifier {
            self.key = Some(bound.key(&identity, &identifier, body)?);
            self.keyed = true;
        }
        self.identity = Some(identity);
        let lines = if self.keyed { KeyLines::Used } else { KeyLines::Removed };
        self.edit(policy, &head, &path, &rule, lines, effects)
    }

    /// Verifies a delivery and reads its identifier; `None` where it goes on without a key.
    fn verified(
        &mut self,
        route: &Route,
        bound: &Bound<'_, '_>,
        delivery: &Delivery<'_>,
        now_unix_ms: u64,
    ) -> Result<Option<Identifier>, Problem> {
        let secrets = bound.binding.secrets.iter().filter_map(|secret| match secret {
            Secret::Value(value) => Some(value.as_slice()),
            Secret::Env(_) => None,
        });
        let verified =
            bound.provider.verify(delivery, &secrets.collect::<Vec<_>>(), now_unix_ms).map_err(|refused| {
                self.inner_reason = Some(refused.reason());
                if refused.is_receivers_fault() {
                    Problem::dependency_unavailable()
                } else {
                    Problem::webhook_signature_invalid()
                }
            })?;
        if route.policy == PolicyKind::HandlerInternalC {
            return Ok(None);
        }
        match bound.provider.identifier(delivery, &verified) {
            Ok(Some(identifier)) => {
                self.source = Some(identifier.kind.name());
                Ok(Some(identifier))
            }
            Ok(None) if route.policy == PolicyKind::Accepted => Ok(None),
            Err(why) if route.policy == PolicyKind::Accepted && why.is_absence() => Ok(None),
            found => {
                self.inner_reason = Some(found.err().unwrap_or(NoIdentifier::Missing).reason());
                Err(Problem::transport_translation_failed())
            }
        }
    }
}

/// The URL as the sender addressed it: what proxies before this one have made of scheme and host is configured away.
pub(super) fn public_url(policy: &Policy, headers: &Headers<'_>, head: &Head<'_>) -> Vec<u8> {
    match &policy.public_base_url {
        Some(base) => [base.as_bytes(), head.target].concat(),
        None => {
            let scheme = match headers.lone(":scheme") {
                Lone::One(scheme) => scheme,
                Lone::Absent | Lone::Many => b"https",
            };
            [scheme, b"://", head.authority, head.target].concat()
        }
    }
}

pub(super) fn declared_length(headers: &Headers<'_>) -> Option<u64> {
    match headers.lone("content-length") {
        Lone::One(digits) => std::str::from_utf8(digits).ok()?.trim().parse().ok(),
        Lone::Absent | Lone::Many => None,
    }
}

fn is_encoded(headers: &Headers<'_>) -> bool {
    match headers.lone("content-encoding") {
        Lone::Absent => false,
        Lone::One(coding) => !coding.trim_ascii().is_empty() && !coding.trim_ascii().eq_ignore_ascii_case(b"identity"),
        Lone::Many => true,
    }
}
