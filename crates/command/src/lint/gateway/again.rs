//! Requests without a key that reach the backend a second time: retries, hedged requests, copies; and keys that are lost
//! behind the filter.

use super::route::{asks_for, leads_to};
use super::{GatewayFindings, member_span};
use crate::lint::gateway_list::{ENVOY_CHANGED_REQUEST, ENVOY_KEYLESS_RETRY};
use crate::lints::diagnostics::tree::{SpannedMember, SpannedNode};

pub(super) const KEY: &str = "idempotency-key";

/// Conditions of `retry_on` under which the backend has not seen the request.
pub(super) const NEVER_RAN: [&str; 5] =
    ["connect-failure", "refused-stream", "reset-before-request", "http3-post-connect-failure", "envoy-ratelimited"];

/// Whether a route takes requests with a key only. `rule`: its match.
fn is_keyed(rule: Option<&SpannedNode>) -> bool {
    asks_for(rule.and_then(|rule| rule.get("headers")), KEY)
}

/// Retries of requests without a key. `holder`: a virtual host, a route's action, or a cluster's options of HTTP; `rule`: the
/// route's match.
pub(super) fn retries(holder: &SpannedNode, rule: Option<&SpannedNode>, findings: &mut GatewayFindings) {
    for name in ["retry_policy", "retry_policy_typed_config"] {
        if let Some(policy) = holder.get(name) {
            policy_of_retries(policy, rule, findings);
        }
    }
}

fn policy_of_retries(policy: &SpannedNode, rule: Option<&SpannedNode>, findings: &mut GatewayFindings) {
    let Some(conditions) = policy.member("retry_on") else { return };
    let written = conditions.value.text().unwrap_or_default();
    let ran: Vec<&str> =
        written.split(',').map(str::trim).filter(|word| !word.is_empty() && !NEVER_RAN.contains(word)).collect();
    let only_keyed = asks_for(policy.get("retriable_request_headers"), KEY) || is_keyed(rule);
    if let Some(first) = ran.first().filter(|_| !only_keyed) {
        let message = format!("`{first}`: the gateway tries every request again, also those without a key");
        findings.add(&ENVOY_KEYLESS_RETRY, member_span(conditions), message);
    }
}

/// Hedged requests, and copies for the same backend. `rule`: the route's match.
pub(super) fn copies(action: &SpannedNode, rule: Option<&SpannedNode>, findings: &mut GatewayFindings) {
    if is_keyed(rule) {
        return;
    }
    if let Some(policy) = action.get("hedge_policy")
        && policy.is_true(&["hedge_on_per_try_timeout"])
        && let Some(hedge) = policy.member("hedge_on_per_try_timeout")
    {
        let message = "the gateway sends a request a second time while the first attempt goes on, also without a key";
        findings.add(&ENVOY_KEYLESS_RETRY, member_span(hedge), message);
    }
    let own = leads_to(action);
    for mirror in action.get("request_mirror_policies").map(SpannedNode::items).unwrap_or_default() {
        let cluster = mirror.member("cluster").and_then(|cluster| Some((cluster, cluster.value.text()?)));
        if let Some((place, name)) = cluster.filter(|(_, name)| own.iter().any(|(_, own)| own == name)) {
            let message = format!("`{name}` gets a copy of every request besides the request itself");
            findings.add(&ENVOY_KEYLESS_RETRY, member_span(place), message);
        }
    }
}

/// Retries that the options of a cluster ask for.
pub(super) fn clusters(tree: &SpannedNode, findings: &mut GatewayFindings) {
    tree.visit(&mut |node| {
        if node.is_type("HttpProtocolOptions") {
            retries(node, None, findings);
        }
    });
}

/// Routes, virtual hosts and clusters of routes that take the key away.
pub(super) fn key_removed(config: &SpannedNode, findings: &mut GatewayFindings) {
    config.visit(&mut |node| {
        let removed = node.get("request_headers_to_remove").map(SpannedNode::items).unwrap_or_default();
        let is_key = |name: &SpannedNode| name.text().is_some_and(|name| name.eq_ignore_ascii_case(KEY));
        if let Some(name) = removed.iter().find(|name| is_key(name)) {
            let message = "the key is removed after the filter, so the backend runs every retry again";
            findings.add(&ENVOY_CHANGED_REQUEST, name.span.clone(), message);
        }
        for added in node.get("request_headers_to_add").map(SpannedNode::items).unwrap_or_default() {
            let key: Option<&SpannedMember> = added.get("header").and_then(|header| header.member("key"));
            if let Some(key) = key.filter(|key| is_key(&key.value)) {
                let message = "the gateway writes its own key after the filter";
                findings.add(&ENVOY_CHANGED_REQUEST, member_span(key), message);
            }
        }
    });
}
