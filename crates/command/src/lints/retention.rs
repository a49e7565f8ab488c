//! Lints of times: results, claims at the guard, deliveries of providers and keys have to outlast each other.

use super::PolicyFinding;
use super::horizons::horizon;
use super::view::{PolicyView, duration};
use crate::lints::list::SHORT_RETENTION;
use edge_idempotency_engine::policy::Route;
use edge_idempotency_engine::policy::defaults::{CLEANUP_S, RETENTION_S};
use edge_idempotency_engine::policy::needs::RouteNeeds;
use std::collections::BTreeSet;

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

pub(super) fn check(policy: PolicyView<'_>, findings: &mut Vec<PolicyFinding>) {
    for (index, route, needs) in policy.routes() {
        let Some(service) = needs.service() else { continue };
        let Some(kept) = kept(policy, needs, service) else { continue };
        deliveries(policy, (index, route, needs), service, &kept, findings);
        claims(policy, index, needs, service, &kept, findings);
        ages((index, route, needs), service, &kept, findings);
    }
}

/// `None` for a backend of which nothing is known.
fn kept(policy: PolicyView<'_>, route: &RouteNeeds, service: &str) -> Option<KeptFor> {
    let declared = policy.needs().retentions.iter().find(|retention| retention.service == service);
    match declared {
        Some(retention) => Some(KeptFor { seconds: retention.seconds, declared: true }),
        None => Some(KeptFor { seconds: policy.backend_of(route)?.abilities.retention?, declared: false }),
    }
}

/// What to write so that results of a service live longer.
fn declare(service: &str, at_least: u64) -> String {
    format!(
        "keep results of `{service}` for {}: `\"retention\": {{\"classes\": {{\"long\": \"{}\"}}, \"services\": {{\"{service}\": \
         \"long\"}}}}`, and set the same in the backend",
        duration(at_least),
        duration(at_least)
    )
}

/// A provider that tries again for longer than the result is kept.
fn deliveries(
    policy: PolicyView<'_>,
    (index, route, needs): (usize, &Route, &RouteNeeds),
    service: &str,
    kept: &KeptFor,
    findings: &mut Vec<PolicyFinding>,
) {
    let Some(webhook) = &route.webhook else { return };
    if !needs.sends_keys() {
        return;
    }
    let bindings = &policy.needs().bindings;
    let bound = webhook.id.as_ref().and_then(|id| bindings.get(id));
    let providers: BTreeSet<&str> = match (&webhook.provider, bound) {
        (Some(provider), _) => BTreeSet::from([provider.as_str()]),
        (None, Some(binding)) => BTreeSet::from([binding.provider.as_str()]),
        (None, None) => bindings.values().map(|binding| binding.provider.as_str()).collect(),
    };
    let longer: Vec<(&str, u64)> = providers
        .into_iter()
        .filter_map(|name| Some((name, horizon(name, policy.own_provider(name))?)))
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
    policy: PolicyView<'_>,
    index: usize,
    route: &RouteNeeds,
    service: &str,
    kept: &KeptFor,
    findings: &mut Vec<PolicyFinding>,
) {
    let Some(backend) = policy.backend_of(route).filter(|_| route.collision.asks_guard()) else { return };
    let Some(declared) = backend.guard.as_ref().map(|guard| guard.retention) else { return };
    let needed = kept.seconds.saturating_add(CLEANUP_S);
    // Where both are declared the engine refuses what is too short.
    if declared.is_some() && kept.declared || declared.unwrap_or(RETENTION_S) >= needed {
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
    (index, route, needs): (usize, &Route, &RouteNeeds),
    service: &str,
    kept: &KeptFor,
    findings: &mut Vec<PolicyFinding>,
) {
    if kept.declared || needs.webhook || !needs.sends_keys() {
        return;
    }
    let at = format!("/routes/{index}/{}", if needs.own_key { "key/max_age" } else { "target" });
    let Some(age) = route.key.as_ref().and_then(|rules| Some(rules.max_age.as_ref()?.seconds)) else { return };
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
