//! Limits that are smaller than the bodies that the filter waits for.

use super::find::FilterChain;
use super::manager::number;
use super::needs::CheckedNeeds;
use super::paths::PathMatch;
use super::route::asks_for_mark;
use super::{GatewayFindings, member_span};
use crate::lint::gateway_list::ENVOY_BUFFER_LIMIT;
use crate::lints::diagnostics::tree::SpannedNode;
use edge_idempotency_engine::policy::defaults::BUFFER_MARGIN;

/// Envoy's default of `per_connection_buffer_limit_bytes`.
const BUFFER: u64 = 1024 * 1024;
pub(super) fn check(chain: &FilterChain<'_>, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    if let Some(listener) = chain.listener {
        of_listener(chain, listener, needs, findings);
    }
    let Some(needed) = needs.buffer else { return };
    let window =
        chain.manager.get("http2_protocol_options").and_then(|http2| http2.member("initial_stream_window_size"));
    if let Some(window) = window
        && number(&window.value).is_some_and(|window| window < needed)
    {
        let message = format!(
            "a client of HTTP/2 sends {} bytes until the gateway takes them, and the policy waits for {needed}: \
             `max_body_bytes` and 64 KiB",
            window.value.text().unwrap_or_default()
        );
        findings.add(&ENVOY_BUFFER_LIMIT, member_span(window), message);
    }
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let longest = needed.saturating_sub(BUFFER_MARGIN);
    for typed in filters.iter().take(chain.index).filter_map(|filter| filter.get("typed_config")) {
        if typed.is_type("Buffer")
            && let Some(limit) = typed.member("max_request_bytes")
            && number(&limit.value).is_some_and(|limit| limit < longest)
        {
            let message = format!(
                "this filter refuses bodies of more than {} bytes, and the policy takes {longest}",
                limit.value.text().unwrap_or_default()
            );
            findings.add(&ENVOY_BUFFER_LIMIT, member_span(limit), message);
        }
    }
}

fn of_listener(chain: &FilterChain<'_>, listener: &SpannedNode, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let member = listener.member("per_connection_buffer_limit_bytes");
    let limit = member.and_then(|member| number(&member.value)).unwrap_or(BUFFER);
    let chains = ["filter_chains", "default_filter_chain"].iter().find_map(|name| listener.member(name));
    let place = chains.map_or(listener.span.clone(), |chains| chains.name_span.clone());
    if let Some(needed) = needs.buffer
        && limit < needed
        && !routes_buffer(chain, needs, needed)
    {
        let message =
            format!("the listener buffers {limit} bytes, and the policy needs {needed}: `max_body_bytes` and 64 KiB");
        findings.at_member(&ENVOY_BUFFER_LIMIT, member, &place, message);
    } else if let Some((route, needed)) = needs.answer_buffer()
        && limit < needed
    {
        let message = format!(
            "the listener buffers {limit} bytes, and the `Location` of `{}` needs {needed}: 1 MiB and \
             64 KiB",
            route.endpoint
        );
        findings.at_member(&ENVOY_BUFFER_LIMIT, member, &place, message);
    }
}

/// Whether each route that takes requests with such bodies buffers enough by itself. Envoy 1.40 takes the greater one of
/// the two limits for a route that leads to a cluster; for other routes it takes that of the listener.
fn routes_buffer(chain: &FilterChain<'_>, needs: &CheckedNeeds, needed: u64) -> bool {
    let Some(config) = chain.manager.get("route_config") else { return false };
    let limit = |holder: &SpannedNode| holder.get("request_body_buffer_limit").and_then(number);
    let hosts = config.get("virtual_hosts").map(SpannedNode::items).unwrap_or_default();
    !hosts.is_empty()
        && hosts.iter().all(|host| {
            needs.waiting.iter().all(|path| {
                let routes = host.get("routes").map(SpannedNode::items).unwrap_or_default();
                let taking = routes.iter().filter(|route| {
                    let takes = |rule| PathMatch::of(rule).takes(path) != Some(false);
                    !asks_for_mark(route, &needs.marks) && route.get("match").is_some_and(takes)
                });
                let is_enough = |route: &SpannedNode| {
                    route.get("route").is_some()
                        && limit(route).or_else(|| limit(host)).is_some_and(|limit| limit >= needed)
                };
                let is_last = |route: &SpannedNode| route.get("match").is_none_or(|rule| rule.get("headers").is_none());
                for route in taking {
                    if !is_enough(route) {
                        return false;
                    }
                    if is_last(route) {
                        return true;
                    }
                }
                true
            })
        })
}
