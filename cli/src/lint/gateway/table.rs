//! Routes and clusters.

use super::find::FilterChain;
use super::manager::{MARK, millis, number, wait};
use super::needs::GatewayNeeds;
use super::{GatewayFindings, member_span};
use crate::diagnostics::tree::{SpannedMember, SpannedNode};
use std::collections::BTreeSet;

/// Conditions of `retry_on` under which the backend has not seen the request.
const NEVER_RAN: [&str; 5] =
    ["connect-failure", "refused-stream", "reset-before-request", "http3-post-connect-failure", "envoy-ratelimited"];

pub(super) fn check(chain: &FilterChain<'_>, needs: Option<&GatewayNeeds>, findings: &mut GatewayFindings) {
    let Some(config) = chain.manager.member("route_config") else {
        let from = ["rds", "scoped_routes"].iter().find_map(|name| chain.manager.member(name));
        findings.at_member(
            "envoy-not-seen",
            from,
            &chain.manager.span,
            "the routes are not in this file, and not looked at",
        );
        return;
    };
    let hosts = config.value.get("virtual_hosts").map(SpannedNode::items).unwrap_or_default();
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let own_name = filters.get(chain.index).and_then(|filter| filter.text_at(&["name"])).unwrap_or_default();
    let mut has_marked = false;
    for host in hosts {
        retries(host, None, findings);
        disabled(host, own_name, findings);
        for route in host.get("routes").map(SpannedNode::items).unwrap_or_default() {
            disabled(route, own_name, findings);
            let Some(action) = route.member("route") else { continue };
            retries(&action.value, route.get("match"), findings);
            let Some(needs) = needs else { continue };
            let is_marked = route.get("match").is_some_and(|rule| asks_for(rule, MARK));
            has_marked |= is_marked;
            if !is_marked {
                unmarked(route, needs, findings);
            }
            buffer(route, needs, findings);
            let leads_to_targets = is_marked || needs.rewritten.is_empty();
            timeouts(action, leads_to_targets, needs, findings);
        }
    }
    if let Some(needs) = needs
        && !needs.rewritten.is_empty()
        && !has_marked
    {
        let message = format!("the policy rewrites paths, and no route asks for `{MARK}`");
        findings.add("envoy-no-marked-route", config.name_span.clone(), message);
    }
}

/// Whether a match asks for a header.
fn asks_for(rule: &SpannedNode, header: &str) -> bool {
    let headers = rule.get("headers").map(SpannedNode::items).unwrap_or_default();
    headers.iter().any(|rule| {
        rule.text_at(&["name"]).is_some_and(|name| name.eq_ignore_ascii_case(header))
            && !rule.is_true(&["invert_match"])
            && rule.text_at(&["present_match"]) != Some("false")
    })
}

/// A route that takes the backend's own paths without the mark.
fn unmarked(route: &SpannedNode, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let Some(rule) = route.get("match") else { return };
    let prefix = rule.text_at(&["prefix"]).or_else(|| rule.text_at(&["path_separated_prefix"]));
    let exact = rule.text_at(&["path"]);
    let takes = |rewritten: &&String| {
        prefix.is_some_and(|prefix| rewritten.starts_with(prefix) || prefix.starts_with(rewritten.as_str()))
            || exact.is_some_and(|path| path.starts_with(rewritten.as_str()))
    };
    if let Some(rewritten) = needs.rewritten.iter().find(takes) {
        let name = route.text_at(&["name"]).map(|name| format!(" `{name}`")).unwrap_or_default();
        let message =
            format!("the route{name} takes paths below `{rewritten}`, the backend's own, without the filter's mark");
        findings.add("envoy-unmarked-route", rule.span.clone(), message);
    }
}

fn buffer(route: &SpannedNode, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let names = ["request_body_buffer_limit", "per_request_buffer_limit_bytes"];
    let Some(member) = names.iter().find_map(|name| route.member(name)) else { return };
    let (Some(limit), Some(needed)) = (number(&member.value), needs.buffer) else { return };
    if limit < needed {
        let message =
            format!("the route buffers {limit} bytes, and the policy needs {needed}: `max_body_bytes` and 64 KiB");
        findings.add("envoy-buffer-limit", member_span(member), message);
    }
}

fn timeouts(action: &SpannedMember, leads_to_targets: bool, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let route = &action.value;
    if leads_to_targets && route.member("timeout").is_none() {
        findings.add(
            "envoy-route-timeout",
            action.name_span.clone(),
            "the route has no `timeout`, so Envoy waits 15 s for an answer",
        );
    }
    let Some(wait_ms) = needs.wait_ms else { return };
    let retry = route.get("retry_policy");
    let stream = route.get("max_stream_duration");
    let limits = [
        route.member("idle_timeout"),
        retry.and_then(|retry| retry.member("per_try_timeout")),
        retry.and_then(|retry| retry.member("per_try_idle_timeout")),
        stream.and_then(|stream| stream.member("max_stream_duration")),
    ];
    for limit in limits.into_iter().flatten() {
        if millis(&limit.value).is_some_and(|limit| limit > 0 && limit <= wait_ms) {
            let message =
                format!("a request for a result waits up to {}, and the gateway ends it before", wait(wait_ms));
            findings.add("envoy-recovery-timeout", member_span(limit), message);
        }
    }
}

/// Retries of requests without a key. `rule`: the route's match.
fn retries(holder: &SpannedNode, rule: Option<&SpannedNode>, findings: &mut GatewayFindings) {
    let Some(policy) = holder.member("retry_policy") else { return };
    let Some(conditions) = policy.value.member("retry_on") else { return };
    let written = conditions.value.text().unwrap_or_default();
    let ran: Vec<&str> =
        written.split(',').map(str::trim).filter(|word| !word.is_empty() && !NEVER_RAN.contains(word)).collect();
    let keyed = |rules: Option<&SpannedNode>| {
        let rules = rules.map(SpannedNode::items).unwrap_or_default();
        rules.iter().any(|rule| {
            rule.text_at(&["name"]).is_some_and(|name| name.eq_ignore_ascii_case("idempotency-key"))
                && !rule.is_true(&["invert_match"])
        })
    };
    let only_keyed =
        keyed(policy.value.get("retriable_request_headers")) || keyed(rule.and_then(|rule| rule.get("headers")));
    if let Some(first) = ran.first().filter(|_| !only_keyed) {
        let message = format!("`{first}`: the gateway tries every request again, also those without a key");
        findings.add("envoy-keyless-retry", member_span(conditions), message);
    }
}

/// `disabled` for our filter on a route or a virtual host.
fn disabled(holder: &SpannedNode, name: &str, findings: &mut GatewayFindings) {
    let per_filter = holder.get("typed_per_filter_config").map(SpannedNode::members).unwrap_or_default();
    if let Some(member) = per_filter.iter().find(|member| member.name == name)
        && member.value.is_true(&["disabled"])
    {
        findings.add("envoy-disabled", member.name_span.clone(), "the filter is off on this route");
    }
}

/// Clusters that the policy names.
pub(super) fn clusters(tree: &SpannedNode, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    if let Some(config) = tree.get("dynamic_resources").and_then(|resources| resources.member("cds_config")) {
        if !needs.clusters.is_empty() {
            findings.add(
                "envoy-not-seen",
                config.name_span.clone(),
                "clusters come from a server, and are not looked at",
            );
        }
        return;
    }
    // A file with a listener alone has no clusters.
    let Some(resources) = tree.member("static_resources") else { return };
    let list = resources.value.member("clusters");
    let clusters = list.map(|list| list.value.items()).unwrap_or_default();
    let names: BTreeSet<&str> = clusters.iter().filter_map(|cluster| cluster.text_at(&["name"])).collect();
    let place = list.map_or(&resources.name_span, |list| &list.name_span);
    for (name, pointer) in needs.clusters.iter().filter(|(name, _)| !names.contains(name.as_str())) {
        let message = format!("the policy calls the cluster `{name}` ({pointer}), which is not defined here");
        findings.add("envoy-missing-cluster", place.clone(), message);
    }
}
