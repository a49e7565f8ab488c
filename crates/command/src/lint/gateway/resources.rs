//! Resources of Kubernetes beside the filter that have a gateway try requests again.

use super::again::{KEY, NEVER_RAN};
use super::{GatewayFindings, member_span};
use crate::lint::gateway_list::ENVOY_KEYLESS_RETRY;
use crate::lints::diagnostics::tree::{SpannedMember, SpannedNode};

/// Checks a document of a file.
pub(super) fn check(document: &SpannedNode, findings: &mut GatewayFindings) {
    let spec = |list: &str| document.at(&["spec", list]).map(SpannedNode::items).unwrap_or_default();
    match document.text_at(&["kind"]) {
        // Gateway API 1.7: a lost connection is a reason to try again, and no condition asks for a header.
        Some("HTTPRoute" | "GRPCRoute") => {
            for rule in spec("rules").iter().filter(|rule| !is_keyed(rule)) {
                let retry = rule.member("retry").filter(|retry| retry.value.text_at(&["attempts"]) != Some("0"));
                retry.into_iter().for_each(|retry| add(retry, findings));
            }
        }
        // Envoy Gateway
        Some("BackendTrafficPolicy") => {
            let retry = document.get("spec").and_then(|spec| spec.member("retry"));
            if let Some(retry) = retry.filter(|retry| !is_harmless(&retry.value)) {
                add(retry, findings);
            }
        }
        // Istio
        Some("VirtualService") => {
            for route in spec("http") {
                let on = route.get("retries").and_then(|retries| retries.member("retryOn"));
                let ran = |on: &&SpannedMember| {
                    let written = on.value.text().unwrap_or_default();
                    // What gRPC says of itself is no answer of an API in HTTP.
                    let harmless =
                        |word: &str| NEVER_RAN.contains(&word) || ["", "unavailable", "cancelled"].contains(&word);
                    written.split(',').any(|word| !harmless(word.trim()))
                };
                on.filter(ran).into_iter().for_each(|on| add(on, findings));
            }
        }
        _ => {}
    }
}

fn add(member: &SpannedMember, findings: &mut GatewayFindings) {
    let message = "the gateway tries every request again, also those without a key";
    let help = "remove the retries: such a resource cannot ask for a key. Clients try again with their key; where the gateway has to, a \
                patch of Envoy's route can ask for one (`retriable_request_headers`)";
    findings.helped(&ENVOY_KEYLESS_RETRY, member_span(member), message, help.to_owned());
}

/// Whether every match of a rule asks for a key.
fn is_keyed(rule: &SpannedNode) -> bool {
    let matches = rule.get("matches").map(SpannedNode::items).unwrap_or_default();
    let asks = |header: &SpannedNode| header.text_at(&["name"]).is_some_and(|name| name.eq_ignore_ascii_case(KEY));
    !matches.is_empty()
        && matches.iter().all(|one| one.get("headers").map(SpannedNode::items).unwrap_or_default().iter().any(asks))
}

/// Whether retries come only before the backend has seen a request.
fn is_harmless(retry: &SpannedNode) -> bool {
    let on = |name: &str| retry.at(&["retryOn", name]).map(SpannedNode::items).unwrap_or_default();
    let is_early = |trigger: &SpannedNode| trigger.text().is_some_and(|trigger| NEVER_RAN.contains(&trigger));
    let triggers = on("triggers");
    !triggers.is_empty() && triggers.iter().all(is_early) && on("httpStatusCodes").is_empty()
}
