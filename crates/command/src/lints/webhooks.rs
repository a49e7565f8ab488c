//! Lints of bindings: secrets in the document, and identifiers that are not one delivery's alone.

use super::horizons::provider_file;
use super::view::{PolicyView, token};
use super::{PolicyFinding, Variables};
use crate::lints::list::{INLINE_SECRET, SHARED_IDENTIFIER, SHORT_BODY_LIMIT, UNSIGNED_IDENTIFIER, WRONG_SECRET};
use edge_idempotency_engine::policy::Secret;
use edge_idempotency_engine::policy::defaults::BUFFER_MARGIN;
use edge_idempotency_engine::policy::needs::{Binding, SecretOrigin};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Beginnings of keys that are no secrets of webhooks, and what they are.
const OTHER_KEYS: [(&str, &str); 12] = [
    ("sk_live_", "an API key of Stripe"),
    ("sk_test_", "an API key of Stripe"),
    ("rk_live_", "a restricted API key of Stripe"),
    ("rk_test_", "a restricted API key of Stripe"),
    ("pk_live_", "a publishable key"),
    ("pk_test_", "a publishable key"),
    ("ghp_", "a personal access token of GitHub"),
    ("github_pat_", "a personal access token of GitHub"),
    ("glpat-", "a personal access token of GitLab"),
    ("xoxb-", "a bot token of Slack"),
    ("shpat_", "an access token of Shopify"),
    ("sk-", "an API key"),
];

/// Providers whose bodies are longer than a route reads: the route's own one, or those of the bindings that it takes.
fn bodies(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    for (index, route, _) in policy.routes() {
        let Some(webhook) = &route.webhook else { continue };
        let is_taken = |(id, _): &(&String, &Arc<Binding>)| webhook.id.as_ref().is_none_or(|fixed| fixed == *id);
        // A route for one provider or one webhook takes these deliveries.
        let elsewhere = |(id, binding): &(&String, &Arc<Binding>)| {
            let others = policy.policy.routes().filter_map(|other| other.webhook.as_ref());
            let mut own = others.filter(|other| !std::ptr::eq(*other, webhook));
            own.any(|other| other.provider.as_ref() == Some(&binding.provider) || other.id.as_ref() == Some(*id))
        };
        let bound = policy.needs().bindings.iter().filter(is_taken).filter(|binding| !elsewhere(binding));
        let bound = bound.map(|(_, binding)| &binding.provider);
        let providers: BTreeSet<&String> = match &webhook.provider {
            Some(provider) => BTreeSet::from([provider]),
            None => bound.collect(),
        };
        let limit = route.max_body_bytes;
        let longest = providers.into_iter().filter_map(|name| {
            let file = provider_file(name, policy.own_provider(name))?;
            Some((file.get("max_body_bytes")?.as_u64()?, name))
        });
        if let Some((bytes, name)) = longest.max().filter(|(bytes, _)| *bytes > limit) {
            let at = format!("/routes/{index}/max_body_bytes");
            let at = if policy.document.pointer(&at).is_some() { at } else { format!("/routes/{index}") };
            findings.push(PolicyFinding::new(
                &SHORT_BODY_LIMIT,
                at,
                format!("`{name}` sends bodies of up to {bytes} bytes, and this route answers 413 to more than {limit}"),
                format!(
                    "write `\"max_body_bytes\": {bytes}` on a route for `{name}`, and at least {} as the gateway's buffer; if this \
                     webhook sends no such events, allow this lint",
                    bytes.saturating_add(BUFFER_MARGIN)
                ),
            ));
        }
    }
}

pub(super) fn check(policy: PolicyView<'_>, variable: Variables, findings: &mut Vec<PolicyFinding>) {
    bodies(policy, findings);
    let mut shared: BTreeMap<(&str, &str, &str), &str> = BTreeMap::new();
    for (id, binding) in &policy.needs().bindings {
        let at = format!("/webhooks/static/{}", token(id));
        let file = provider_file(&binding.provider, policy.own_provider(&binding.provider));
        kinds(&at, binding, file.as_ref(), variable, findings);
        if let Some(file) = &file {
            unsigned(&at, binding, file, findings);
        }
        let is_scoped = file.as_ref().is_some_and(|file| file.get("key_scope").is_some_and(|scope| scope == "webhook"));
        if binding.key_scope.is_some() || is_scoped {
            continue;
        }
        let place = (binding.tenant.as_str(), binding.project.as_str(), binding.provider.as_str());
        if let Some(other) = shared.insert(place, id) {
            findings.push(PolicyFinding::new(
                &SHARED_IDENTIFIER,
                at,
                format!(
                    "`{id}` and `{other}` take deliveries of `{}` for the same project: if two of them have the same \
                     identifier, the later one gets the result of the earlier one and does not run",
                    binding.provider
                ),
                "write `\"key_scope\": \"webhook\"` on both; write `\"key_scope\": \"project\"` if both get the same \
                 events, and each event has to run only once",
            ));
        }
    }
    for secret in policy.needs().secrets.iter().filter(|secret| secret.origin == SecretOrigin::Document) {
        findings.push(inline(&secret.pointer));
    }
}

/// A secret in the document. `allow_inline_secrets` lets the filter start with it.
fn inline(at: &str) -> PolicyFinding {
    PolicyFinding::new(
        &INLINE_SECRET,
        at,
        "the secret is in the document: whoever reads the file or the gateway's config dump has it",
        "write `{\"env\": \"NAME\"}`, give the gateway the variable, and remove `allow_inline_secrets`",
    )
}

/// A secret that can be seen: in the document, or in this command's environment.
fn readable(secret: &Secret, variable: Variables) -> Option<String> {
    let value = match secret {
        Secret::Value(value) => value.clone(),
        Secret::Env(name) => variable(name)?,
        Secret::Sds(_) => return None,
    };
    String::from_utf8(value).ok()
}

/// A key of another kind in the place of a webhook's secret. Nothing of the value is shown.
fn kinds(at: &str, binding: &Binding, file: Option<&Value>, variable: Variables, findings: &mut Vec<PolicyFinding>) {
    let schemes = file.and_then(|file| file.get("schemes")?.as_array()).into_iter().flatten();
    let own: Vec<&str> = schemes
        .filter_map(|scheme| scheme.pointer("/secret/begins")?.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (index, secret) in binding.secrets.iter().enumerate() {
        let Some(text) = readable(secret, variable) else { continue };
        // The secret of this provider is its API key.
        if own.iter().any(|beginning| text.starts_with(beginning)) {
            continue;
        }
        if let Some((beginning, what)) = OTHER_KEYS.iter().find(|(beginning, _)| text.starts_with(beginning)) {
            findings.push(PolicyFinding::new(
                &WRONG_SECRET,
                format!("{at}/secrets/{index}"),
                format!("a text that begins with `{beginning}` is {what}, and no secret of a webhook: no signature fits"),
                format!(
                    "take the signing secret of this webhook from `{}`, and make a new API key, because others may have read \
                     this one",
                    binding.provider
                ),
            ));
        }
    }
}

/// An identifier that the signature does not cover, where the body is not made a part of the key.
fn unsigned(at: &str, binding: &Binding, file: &Value, findings: &mut Vec<PolicyFinding>) {
    let is_unsigned = file.pointer("/identifiers/0/signed").is_some_and(|signed| signed == false);
    let covers_body = file.get("schemes").and_then(Value::as_array).is_some_and(|schemes| {
        // A scheme with an identifier of its own covers it.
        let shared = schemes.iter().filter(|scheme| scheme.get("identifier").is_none());
        shared.filter_map(|scheme| scheme.get("template")?.as_str()).any(|template| template.contains("{body"))
    });
    let same_body = file.pointer("/retry/same_body_on_resend").and_then(Value::as_bool);
    let is_bound =
        same_body == Some(true) || file.pointer("/identifiers/0/unique").is_some_and(|unique| unique == false);
    if !is_unsigned || !covers_body || binding.bind_body.is_some() || is_bound {
        return;
    }
    let help = if same_body == Some(false) {
        "the provider sends other bytes when it tries again, so `bind_body` would run a delivery twice: let the handler look \
         for an identifier in the body, and write `\"bind_body\": false` to accept this"
    } else {
        "write `\"bind_body\": true` if the provider sends the same bytes when it tries again, or `\"bind_body\": false` to say \
         that this is known"
    };
    findings.push(PolicyFinding::new(
        &UNSIGNED_IDENTIFIER,
        at,
        format!(
            "the signature of `{}` does not cover the delivery's identifier: whoever has seen a delivery can send it again under \
             another one, and it runs again",
            binding.provider
        ),
        help,
    ));
}
