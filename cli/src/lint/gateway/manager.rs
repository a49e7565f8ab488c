//! The connection manager and the listener.

use super::find::FilterChain;
use super::needs::GatewayNeeds;
use super::{GatewayFindings, member_span};
use crate::diagnostics::tree::{NodeContent, SpannedNode};
use crate::lint::view::duration;

/// The mark that the filter sets (docs/contract.md section 2).
pub(super) const MARK: &str = edge_idempotency_engine::policy::REWRITE_MARK;

/// Envoy's default of `per_connection_buffer_limit_bytes`.
const BUFFER: u64 = 1024 * 1024;

/// Filters that say who is calling, by the last part of the message's name, and the metadata namespace that two of them
/// write.
const AUTHENTICATION: [(&str, &str); 6] = [
    ("JwtAuthentication", "envoy.filters.http.jwt_authn"),
    ("ExtAuthz", "envoy.filters.http.ext_authz"),
    ("OAuth2", ""),
    ("BasicAuth", ""),
    ("ApiKeyAuth", ""),
    ("RBAC", ""),
];

pub(super) fn check(chain: &FilterChain<'_>, needs: Option<&GatewayNeeds>, findings: &mut GatewayFindings) {
    let manager = chain.manager;
    order(chain, findings);
    for (lint, member) in [("envoy-normalize-path", "normalize_path"), ("envoy-merge-slashes", "merge_slashes")] {
        if !manager.is_true(&[member]) {
            let message = format!("the connection manager lacks `{member}: true`");
            findings.at_member(lint, manager.member(member), &manager.span, message);
        }
    }
    if let Some(action) = manager.member("path_with_escaped_slashes_action")
        && action.value.text().is_some_and(|action| action.starts_with("UNESCAPE"))
    {
        findings.add(
            "envoy-escaped-slashes",
            member_span(action),
            "the gateway decodes `%2F` before the filter reads the path",
        );
    }
    if manager.member("request_timeout").is_none_or(|timeout| millis(&timeout.value) == Some(0)) {
        let member = manager.member("request_timeout");
        findings.at_member(
            "envoy-request-timeout",
            member,
            &manager.span,
            "the connection manager has no `request_timeout`",
        );
    }
    if !manager.get("access_log").is_some_and(|log| mentions(log, "edge_idempotency")) {
        let member = manager.member("access_log");
        findings.at_member("envoy-access-log", member, &manager.span, "no access log has the filter's record");
    }
    let Some(needs) = needs else { return };
    if let Some(endpoint) = &needs.hosts {
        for member in ["strip_any_host_port", "strip_trailing_host_dot"] {
            if !manager.is_true(&[member]) {
                let message = format!(
                    "`{endpoint}` of the policy has `hosts`, and the connection manager lacks `{member}: true`"
                );
                findings.at_member("envoy-host-spelling", manager.member(member), &manager.span, message);
            }
        }
    }
    timeouts(manager, needs, findings);
    identity(chain, needs, findings);
    buffers(chain, needs, findings);
    mark(manager, needs, findings);
}

/// The filters behind ours.
fn order(chain: &FilterChain<'_>, findings: &mut GatewayFindings) {
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    for filter in filters.iter().skip(chain.index + 1) {
        let typed = filter.get("typed_config");
        let is = |message: &str| typed.is_some_and(|typed| typed.is_type(message));
        if is("Router") {
            break;
        }
        let name = filter.text_at(&["name"]).unwrap_or("a filter");
        let message = if AUTHENTICATION.iter().any(|(message, _)| is(message)) {
            format!("`{name}` stands behind the filter: who is calling is not known yet when the filter asks")
        } else {
            format!("`{name}` stands behind the filter, which has to be the last one before the router")
        };
        findings.add("envoy-filter-order", filter.span.clone(), message);
    }
    if let Some(own) = filters.get(chain.index)
        && own.is_true(&["disabled"])
    {
        findings.at_member(
            "envoy-disabled",
            own.member("disabled"),
            &own.span,
            "the filter is off where no route switches it on",
        );
    }
}

/// Timeouts that end a request for a result.
fn timeouts(manager: &SpannedNode, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let Some(wait_ms) = needs.wait_ms else { return };
    let Some(idle) = manager.member("stream_idle_timeout") else { return };
    if millis(&idle.value).is_some_and(|idle| idle > 0 && idle <= wait_ms) {
        let message = format!("a request for a result waits up to {}, and the gateway ends it before", wait(wait_ms));
        findings.add("envoy-recovery-timeout", member_span(idle), message);
    }
}

/// A time of the policy for people.
pub(super) fn wait(millis: u64) -> String {
    if millis.is_multiple_of(1_000) { duration(millis / 1_000) } else { format!("{millis} ms") }
}

/// Metadata that nobody writes.
fn identity(chain: &FilterChain<'_>, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let own = filters.get(chain.index).map_or(0..0, |own| own.span.clone());
    for (namespace, key) in &needs.metadata {
        let Some((message, _)) = AUTHENTICATION.iter().find(|(_, writes)| writes == namespace) else { continue };
        let writers: Vec<&SpannedNode> = filters
            .iter()
            .take(chain.index)
            .filter_map(|filter| filter.get("typed_config"))
            .filter(|typed| typed.is_type(message))
            .collect();
        let by_discovery = filters.iter().take(chain.index).any(|filter| filter.get("config_discovery").is_some());
        if writers.is_empty() && !by_discovery {
            let text = format!(
                "an identity source of the policy reads `{namespace}`, and no filter before this one writes it"
            );
            findings.add("envoy-identity-source", own.clone(), text);
        }
        let named = |typed: &SpannedNode| {
            let providers = typed.get("providers").map(SpannedNode::members).unwrap_or_default();
            providers.iter().any(|provider| provider.value.text_at(&["payload_in_metadata"]) == Some(key))
        };
        if *message == "JwtAuthentication" && !writers.is_empty() && !writers.iter().any(|typed| named(typed)) {
            let text =
                format!("no provider of tokens has `payload_in_metadata: {key}`, which an identity source reads");
            let place = writers.first().map_or(own.clone(), |typed| typed.span.clone());
            findings.add("envoy-identity-source", place, text);
        }
    }
}

/// Buffers that are smaller than what the filter waits for.
fn buffers(chain: &FilterChain<'_>, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let (Some(needed), Some(listener)) = (needs.buffer, chain.listener) else { return };
    let member = listener.member("per_connection_buffer_limit_bytes");
    let limit = member.and_then(|member| number(&member.value)).unwrap_or(BUFFER);
    if limit < needed {
        let message =
            format!("the listener buffers {limit} bytes, and the policy needs {needed}: `max_body_bytes` and 64 KiB");
        let place = listener.member("filter_chains").map_or(listener.span.clone(), |chains| chains.name_span.clone());
        findings.at_member("envoy-buffer-limit", member, &place, message);
    }
}

/// A mark that clients send.
fn mark(manager: &SpannedNode, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let routes = manager.get("route_config");
    let is_asked_for = routes.is_none_or(|routes| mentions(routes, MARK));
    let is_removed = manager.get("early_header_mutation_extensions").is_some_and(|early| mentions(early, MARK));
    if !needs.rewritten.is_empty() && is_asked_for && !is_removed {
        let message = format!("nothing removes a client's own `{MARK}` before the first route is chosen");
        findings.add("envoy-client-mark", manager.span.clone(), message);
    }
}

/// Whether a text is somewhere below, as a part of a value.
pub(super) fn mentions(node: &SpannedNode, text: &str) -> bool {
    match &node.content {
        NodeContent::Scalar(value) => value.contains(text),
        NodeContent::List(items) => items.iter().any(|item| mentions(item, text)),
        NodeContent::Map(members) => members.iter().any(|member| mentions(&member.value, text)),
    }
}

/// A number.
pub(super) fn number(node: &SpannedNode) -> Option<u64> {
    node.text()?.replace('_', "").parse().ok()
}

/// A duration such as `15s` or `0.25s`, in milliseconds.
pub(super) fn millis(node: &SpannedNode) -> Option<u64> {
    let seconds: f64 = node.text()?.strip_suffix('s')?.parse().ok()?;
    // A duration has at most 315,576,000,000 seconds, and nobody is exact to a part of a millisecond here.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0.0..1e12).contains(&seconds).then_some((seconds * 1_000.0) as u64)
}
