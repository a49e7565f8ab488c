//! The connection manager and the listener.

use super::find::{FilterChain, is_own};
use super::mark::MARK;
use super::needs::CheckedNeeds;
use super::{GatewayFindings, member_span};
use crate::lint::gateway_list::{
    ENVOY_ACCESS_LOG, ENVOY_CLIENT_MARK, ENVOY_CONNECTION_LIMITS, ENVOY_DISABLED, ENVOY_ESCAPED_SLASHES,
    ENVOY_FILTER_ORDER, ENVOY_HOST_SPELLING, ENVOY_NORMALIZE_PATH, ENVOY_STREAMED_REQUESTS, ENVOY_TIMEOUT,
};
use crate::lints::diagnostics::tree::{NodeContent, SpannedNode};
use crate::lints::view::duration;

/// The member that says what the gateway does with escaped slashes.
const ESCAPED_SLASHES: &str = "path_with_escaped_slashes_action";

/// What a format of the access log writes as the filter's record, of a WebAssembly module and of a dynamic one: `typed_filter_metadata`, or
/// `filter_metadata` with Envoy 1.39.
const RECORDS: [&str; 2] = ["wasm.edge_idempotency", "filter_metadata['edge_idempotency']"];

/// Filters that say who is calling, by the last part of the message's name, and the metadata namespace that two of them
/// write.
pub(super) const AUTHENTICATION: [(&str, &str); 6] = [
    ("JwtAuthentication", "envoy.filters.http.jwt_authn"),
    ("ExtAuthz", "envoy.filters.http.ext_authz"),
    ("OAuth2", ""),
    ("BasicAuth", ""),
    ("ApiKeyAuth", ""),
    ("RBAC", ""),
];

pub(super) fn check(
    chain: &FilterChain<'_>,
    is_dynamic_module: bool,
    needs: Option<&CheckedNeeds>,
    findings: &mut GatewayFindings,
) {
    let manager = chain.manager;
    order(chain, findings);
    for member in ["normalize_path", "merge_slashes"] {
        if !manager.is_true(&[member]) {
            let message = format!("the connection manager lacks `{member}: true`");
            findings.at_member(&ENVOY_NORMALIZE_PATH, manager.member(member), &manager.span, message);
        }
    }
    escaped_slashes(manager, needs, findings);
    if manager.member("request_timeout").is_none_or(|timeout| millis(&timeout.value) == Some(0)) {
        let member = manager.member("request_timeout");
        findings.at_member(&ENVOY_TIMEOUT, member, &manager.span, "the connection manager has no `request_timeout`");
    }
    held(manager, findings);
    let [wasm, dynamic_module] = RECORDS;
    let record = if is_dynamic_module { dynamic_module } else { wasm };
    let is_read = manager.get("access_log").is_some_and(|log| mentions(log, record));
    let is_written = needs.is_none_or(|needs| needs.record);
    if is_read != is_written {
        let member = manager.member("access_log");
        let message = if is_read {
            "an access log reads the filter's record, and the policy has `record: false`"
        } else {
            "no access log has the filter's record"
        };
        findings.at_member(&ENVOY_ACCESS_LOG, member, &manager.span, message);
    }
    let Some(needs) = needs else { return };
    if let Some(endpoint) = needs.first(|route| !route.hosts.is_empty()) {
        for member in ["strip_any_host_port", "strip_trailing_host_dot"] {
            if !manager.is_true(&[member]) {
                let message = format!(
                    "`{endpoint}` of the policy has `hosts`, and the connection manager lacks `{member}: true`"
                );
                findings.at_member(&ENVOY_HOST_SPELLING, manager.member(member), &manager.span, message);
            }
        }
    }
    timeouts(manager, needs, findings);
    mark(manager, needs, findings);
    streams(chain, needs, findings);
}

/// Filters that give bodies in parts of their own to a filter that waits for them.
fn streams(chain: &FilterChain<'_>, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let mode = |filter: &'_ SpannedNode, name: &str, modes: &[&str]| {
        let typed = filter.get("typed_config").filter(|typed| typed.is_type("ExternalProcessor"))?;
        let mode = typed.get("processing_mode")?.member(name)?;
        mode.value.text().is_some_and(|mode| modes.contains(&mode)).then(|| member_span(mode))
    };
    if !needs.waiting.is_empty() {
        let before = filters.iter().take(chain.index);
        let mut streaming =
            before.filter_map(|filter| mode(filter, "request_body_mode", &["FULL_DUPLEX_STREAMED", "4"]));
        if let Some(second) = streaming.nth(1) {
            let message = "this is a second filter that streams the bodies of requests, and the filter waits for these \
                           bodies";
            findings.add(&ENVOY_STREAMED_REQUESTS, second, message);
        }
    }
}

/// What the gateway does with escaped slashes.
fn escaped_slashes(manager: &SpannedNode, needs: Option<&CheckedNeeds>, findings: &mut GatewayFindings) {
    let member = manager.member(ESCAPED_SLASHES);
    let allowed = needs.and_then(|needs| needs.first(|route| route.encoded_slash));
    let action = if allowed.is_some() { "KEEP_UNCHANGED" } else { "REJECT_REQUEST" };
    let message = match member.map_or("", |member| member.value.text().unwrap_or_default()) {
        "UNESCAPE_AND_REDIRECT" | "UNESCAPE_AND_FORWARD" | "3" | "4" => match allowed {
            Some(endpoint) => format!(
                "the gateway decodes `%2F` before the filter reads the path, and `{endpoint}` takes it as a value"
            ),
            None => "the gateway decodes `%2F` before the filter reads the path".to_owned(),
        },
        "REJECT_REQUEST" | "2" => match allowed {
            Some(endpoint) => format!("the gateway refuses `%2F`, which `{endpoint}` takes as a value"),
            None => return,
        },
        "KEEP_UNCHANGED" | "1" => return,
        _ => format!("the connection manager lacks `{ESCAPED_SLASHES}`, so the runtime decides what happens to `%2F`"),
    };
    let place = member.map_or(manager.span.clone(), member_span);
    findings.helped(&ENVOY_ESCAPED_SLASHES, place, message, format!("write `{ESCAPED_SLASHES}: {action}`"));
}

/// Limits on what one connection can have the gateway and the filter hold.
fn held(manager: &SpannedNode, findings: &mut GatewayFindings) {
    let only_http1 = manager.text_at(&["codec_type"]).is_some_and(|codec| ["HTTP1", "1"].contains(&codec));
    let limits: [(&[&str], bool); 2] =
        [(&["max_request_headers_kb"], true), (&["http2_protocol_options", "max_concurrent_streams"], !only_http1)];
    for (member, _) in limits.iter().filter(|(member, is_needed)| *is_needed && manager.at(member).is_none()) {
        let message = format!("the connection manager has no `{}`", member.join("."));
        findings.add(&ENVOY_CONNECTION_LIMITS, manager.span.clone(), message);
    }
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
        let message = if is_own(filter) {
            format!(
                "`{name}` comes after the filter, and is a second one of this project: it takes the first one's key for a client's"
            )
        } else if AUTHENTICATION.iter().any(|(message, _)| is(message)) {
            format!("`{name}` comes after the filter, so the caller is not known yet when the filter needs it")
        } else {
            format!("`{name}` comes after the filter, which has to be the last one before the router")
        };
        findings.add(&ENVOY_FILTER_ORDER, filter.span.clone(), message);
    }
    if let Some(own) = filters.get(chain.index)
        && own.is_true(&["disabled"])
    {
        findings.at_member(
            &ENVOY_DISABLED,
            own.member("disabled"),
            &own.span,
            "the filter is off where no route switches it on",
        );
    }
}

/// Timeouts that end a request for a result.
fn timeouts(manager: &SpannedNode, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let Some(wait_ms) = needs.result_wait_ms else { return };
    let protocol = manager.get("common_http_protocol_options");
    let limits =
        [manager.member("stream_idle_timeout"), protocol.and_then(|protocol| protocol.member("max_stream_duration"))];
    for limit in limits.into_iter().flatten() {
        if millis(&limit.value).is_some_and(|limit| limit > 0 && limit <= wait_ms) {
            let message =
                format!("a request for a result waits up to {}, but the gateway ends it earlier", wait(wait_ms));
            findings.add(&ENVOY_TIMEOUT, member_span(limit), message);
        }
    }
}

/// A time of the policy for people.
pub(super) fn wait(millis: u64) -> String {
    if millis.is_multiple_of(1_000) { duration(millis / 1_000) } else { format!("{millis} ms") }
}

/// A mark that clients send.
fn mark(manager: &SpannedNode, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let routes = manager.get("route_config");
    let is_asked_for = routes.is_none_or(|routes| mentions(routes, MARK));
    if !needs.samples.is_empty() && is_asked_for && !removes_early(manager, MARK) {
        let message = format!("nothing removes a client's own `{MARK}` before the first route is chosen");
        findings.add(&ENVOY_CLIENT_MARK, manager.span.clone(), message);
    }
}

/// Whether the gateway removes a header from every request before it chooses a route.
pub(super) fn removes_early(manager: &SpannedNode, header: &str) -> bool {
    let Some(early) = manager.get("early_header_mutation_extensions") else { return false };
    let mut removes = false;
    early.visit(&mut |node| {
        let is_named = |at: &[&str]| node.text_at(at).is_some_and(|name| name.eq_ignore_ascii_case(header));
        let prefix = node.text_at(&["remove_on_match", "key_matcher", "prefix"]);
        removes |= is_named(&["remove"])
            || is_named(&["remove_on_match", "key_matcher", "exact"])
            || prefix.is_some_and(|prefix| header.to_ascii_lowercase().starts_with(prefix));
    });
    removes
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
