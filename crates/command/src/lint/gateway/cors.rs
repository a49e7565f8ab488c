//! Scripts in browsers: what the gateway's rules for other origins let them send, and read of answers.

use super::callers::is_called;
use super::find::FilterChain;
use super::needs::CheckedNeeds;
use super::{GatewayFindings, member_span};
use crate::lint::gateway_list::ENVOY_CORS;
use crate::lints::diagnostics::tree::SpannedNode;
use std::collections::BTreeSet;

const FILTER: &str = "envoy.filters.http.cors";
const KEY: &str = "idempotency-key";

/// Checks the rules of virtual hosts and routes, where a filter for other origins is in the chain and callers send keys.
pub(super) fn check(chain: &FilterChain<'_>, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let Some(endpoint) = needs.first(|route| route.keyed) else { return };
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let is_on = |filter: &&SpannedNode| is_called(filter, FILTER) && !filter.is_true(&["disabled"]);
    if !filters.iter().any(|filter| is_on(&filter)) {
        return;
    }
    let Some(routes) = chain.manager.get("route_config") else { return };
    routes.visit(&mut |node| {
        // `cors` of a virtual host or a route is the older form.
        let older = node.get("cors").filter(|_| node.get("domains").is_some() || node.get("cluster").is_some());
        if let Some(rules) = Some(node).filter(|node| node.is_type("CorsPolicy")).or(older) {
            one(rules, endpoint, needs, findings);
        }
    });
}

fn one(rules: &SpannedNode, endpoint: &str, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let listed = |name: &str| -> BTreeSet<String> {
        let text = rules.text_at(&[name]).unwrap_or_default();
        text.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
    };
    // For a request with cookies a browser reads no wildcard.
    let has_wildcard = |names: &BTreeSet<String>| names.contains("*") && !rules.is_true(&["allow_credentials"]);
    let place = |name: &str| rules.member(name).map_or(rules.span.clone(), member_span);
    let allowed = listed("allow_headers");
    if !allowed.contains(KEY) && !has_wildcard(&allowed) {
        let message = format!("a script of another origin cannot send `Idempotency-Key`, and `{endpoint}` takes keys");
        let names = allowed.iter().map(String::as_str).chain([KEY]).collect::<Vec<_>>().join(", ");
        let help = format!("write `allow_headers: {names}`");
        findings.helped(&ENVOY_CORS, place("allow_headers"), message, help);
    }
    let exposed = listed("expose_headers");
    let missing: Vec<&str> = needs.exposed().into_iter().filter(|name| !exposed.contains(*name)).collect();
    if !missing.is_empty() && !has_wildcard(&exposed) {
        let message = format!("a script of another origin cannot read {}", missing.join(", "));
        let names = exposed.iter().map(String::as_str).chain(missing).collect::<Vec<_>>().join(", ");
        let help = format!("write `expose_headers: {names}`");
        findings.helped(&ENVOY_CORS, place("expose_headers"), message, help);
    }
}
