//! Lints of times: results, claims at the guard, deliveries of providers and keys have to outlast each other.

use super::PolicyFinding;
use super::horizons::horizon;
use super::view::{DocumentView, RouteView, duration, seconds};
use crate::lints::list::SHORT_RETENTION;
use edge_idempotency_engine::policy::defaults::CLEANUP_S;
use std::collections::BTreeSet;

/// For how long Restate keeps a result if nobody says it (`idempotency_retention`, one day).
const DEFAULT_S: u64 = 86_400;
/// For how long results of a target are kept.
struct KeptFor {
    seconds: u64,
    /// Whether the document says it
    declared: bool,
}

impl KeptFor {
    fn text(&self) -> String {
        if self.declared { duration(self.seconds) } else { "Restate's default of 24h".to_owned() }
    }
}

pub(super) fn check(document: &DocumentView, findings: &mut Vec<PolicyFinding>) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some((service, ..)) = route.target_parts() else { continue };
        let Some(kept) = kept(document, route, service) else { continue };
        deliveries(document, index, route, service, &kept, findings);
        claims(document, index, route, service, &kept, findings);
        ages(document, index, route, service, &kept, findings);
    }
}

/// `None` for a backend of which nothing is known.
fn kept(document: &DocumentView, route: &RouteView, service: &str) -> Option<KeptFor> {
    let retention = &document.retention;
    let declared = retention.services.get(service).and_then(|service| retention.classes.get(&service.class));
    match declared.and_then(|class| seconds(class)) {
        Some(seconds) => Some(KeptFor { seconds, declared: true }),
        None => document.is_restate(Some(route)).then_some(KeptFor { seconds: DEFAULT_S, declared: false }),
    }
}

/// What to write so that results of a service live longer.
fn declare(service: &str, at_least: u64) -> String {
    format!(
        "keep results of `{service}` for {}: `\"retention\": {{\"classes\": {{\"long\": \"{}\"}}, \"services\": {{\"{service}\": \
         {{\"class\": \"long\"}}}}}}`, and set the same in the backend",
        duration(at_least),
        duration(at_least)
    )
}

/// A provider that tries again for longer than the result is kept.
fn deliveries(
    document: &DocumentView,
    index: usize,
    route: &RouteView,
    service: &str,
    kept: &KeptFor,
    findings: &mut Vec<PolicyFinding>,
) {
    let Some(webhook) = &route.webhook else { return };
    if !route.has_keys() {
        return;
    }
    let webhooks = &document.webhooks;
    let bound = webhook.id.as_ref().and_then(|id| webhooks.bindings.get(id));
    let providers: BTreeSet<&str> = match (&webhook.provider, bound) {
        (Some(provider), _) => BTreeSet::from([provider.as_str()]),
        (None, Some(binding)) => BTreeSet::from([binding.provider.as_str()]),
        (None, None) => webhooks.bindings.values().map(|binding| binding.provider.as_str()).collect(),
    };
    let longer: Vec<(&str, u64)> = providers
        .into_iter()
        .filter_map(|name| Some((name, horizon(name, webhooks.providers.get(name))?)))
        .filter(|(_, horizon)| *horizon > kept.seconds)
        .collect();
    let Some(longest) = longer.iter().map(|(_, horizon)| *horizon).max() else { return };
    let list: Vec<String> =
        longer.iter().map(|(name, horizon)| format!("`{name}` tries again for {}", duration(*horizon))).collect();
    findings.push(PolicyFinding::new(
        &SHORT_RETENTION,
        format!("/routes/{index}/target"),
        format!(
            "{}, and results of `{service}` are kept for {}: a late attempt of a delivery that succeeded runs again",
            list.join(", "),
            kept.text()
        ),
        declare(service, longest),
    ));
}

/// A guard that may forget before the backend does, where the engine cannot compare because the document says only one of
/// the two.
fn claims(
    document: &DocumentView,
    index: usize,
    route: &RouteView,
    service: &str,
    kept: &KeptFor,
    findings: &mut Vec<PolicyFinding>,
) {
    let collides = route.collision.as_deref().is_some_and(|mode| mode != "off");
    let Some(backend) = document.backend_of(Some(route)).filter(|_| collides) else { return };
    let Some(guard) = &backend.value.guard else { return };
    let declared = guard.retention.as_deref().and_then(seconds);
    let needed = kept.seconds.saturating_add(CLEANUP_S);
    // Where both are declared the engine refuses what is too short.
    if declared.is_some() && kept.declared || declared.unwrap_or(DEFAULT_S) >= needed {
        return;
    }
    let claims = declared.map_or_else(|| "Restate's default of 24h".to_owned(), duration);
    findings.push(PolicyFinding::new(
        &SHORT_RETENTION,
        format!("/routes/{index}/collision"),
        format!(
            "the guard keeps claims for {claims}, and `{service}` its results for {}: in between, another request with a used key \
             gets the first one's result, and nobody notices",
            kept.text()
        ),
        format!(
            "write `\"retention\": \"{}\"` or more into {}/guard, and set it in the backend",
            duration(needed),
            backend.pointer
        ),
    ));
}

/// Keys that are accepted for longer than their results are kept, where the document does not say how long that is.
fn ages(
    document: &DocumentView,
    index: usize,
    route: &RouteView,
    service: &str,
    kept: &KeptFor,
    findings: &mut Vec<PolicyFinding>,
) {
    if kept.declared || route.webhook.is_some() || !route.has_keys() {
        return;
    }
    let (rules, at) = match &route.key {
        Some(rules) => (Some(rules), format!("/routes/{index}/key/max_age")),
        None => (document.key.as_ref(), format!("/routes/{index}/target")),
    };
    let Some(age) = rules.and_then(|rules| rules.max_age.as_deref()).and_then(seconds) else { return };
    if age > kept.seconds {
        findings.push(PolicyFinding::new(
            &SHORT_RETENTION,
            at,
            format!(
                "keys are accepted for {}, and results of `{service}` are kept for {}: a retry in between runs again",
                duration(age),
                kept.text()
            ),
            format!("write a `max_age` of at most {}, or {}", duration(kept.seconds), declare(service, age)),
        ));
    }
}
