//! What generators of SDKs read: extensions of Fern and Speakeasy, and a part of Stainless' configuration.

use super::actions::{OverlayActions, text};
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::interface::{KeyUse, RouteInterface};
use crate::openapi::key_parameter::KEY_HEADER;
use crate::openapi::references::References;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::key::KeyFormat;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The extension of Speakeasy for retries.
pub(super) const SPEAKEASY: &str = "x-speakeasy-retries";
const STRATEGY: &str = "backoff";
/// The first wait, the longest wait and the time for all attempts in milliseconds, and the factor of each wait.
const BACKOFF: [u32; 4] = [500, 30_000, 600_000, 2];
const FERN_HEADERS: &str = "x-fern-idempotency-headers";

/// The generators whose extensions an overlay has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GeneratorSwitches {
    /// `x-fern-idempotent` and `x-fern-idempotency-headers`
    pub(crate) fern: bool,
    /// `x-speakeasy-retries`
    pub(crate) speakeasy: bool,
}

/// Adds what stands at the root of a description.
pub(super) fn add_to_root(
    switches: GeneratorSwitches,
    interfaces: &[RouteInterface<'_>],
    actions: &mut OverlayActions,
) {
    if switches.fern && interfaces.iter().any(RouteInterface::takes_keys) {
        actions.remove(format!("$['{FERN_HEADERS}'][?@.header == {}]", text(KEY_HEADER)));
        let header = json!({"header": KEY_HEADER, "name": "idempotency_key"});
        actions.update("$".to_owned(), json!({FERN_HEADERS: [header]}));
    }
}

/// Removes what an update would append to.
pub(super) fn remove_from_operation(
    switches: GeneratorSwitches,
    interface: &RouteInterface<'_>,
    operation: &str,
    actions: &mut OverlayActions,
) {
    if switches.speakeasy && interface.key == KeyUse::Required {
        actions.remove(format!("{operation}['{SPEAKEASY}']"));
    }
}

/// Adds what stands in an operation.
pub(super) fn add_to_operation(
    switches: GeneratorSwitches,
    interface: &RouteInterface<'_>,
    update: &mut Map<String, Value>,
) {
    if switches.fern && interface.takes_keys() {
        update.insert("x-fern-idempotent".to_owned(), json!(true));
    }
    // A request without a key must not be sent again, so an operation where the key is optional has no retries.
    if switches.speakeasy && interface.key == KeyUse::Required {
        let mut statuses = vec!["429", "502", "503", "504"];
        if interface.answers_in_flight {
            statuses.extend(["409", "425"]);
        }
        let retries = json!({
            "strategy": STRATEGY,
            "backoff": {"initialInterval": BACKOFF[0], "maxInterval": BACKOFF[1], "maxElapsedTime": BACKOFF[2], "exponent": BACKOFF[3]},
            "statusCodes": statuses,
            "retryConnectionErrors": true,
        });
        update.insert(SPEAKEASY.to_owned(), retries);
    }
}

/// Whether retries of a description are those that an overlay has written.
pub(super) fn is_own_retries<'t>(references: &References<'t>, retries: &'t SpannedNode) -> bool {
    let backoff = references.get(retries, "backoff").map(SpannedNode::members).unwrap_or_default();
    let written = backoff.iter().filter_map(|member| member.value.text()?.parse::<u32>().ok());
    references.text(retries, "strategy") == Some(STRATEGY)
        && written.collect::<BTreeSet<_>>() == BTreeSet::from(BACKOFF)
}

/// A part of Stainless' configuration: its SDKs then send a key with every request that writes. Comments name the operations that
/// answer such a key with an error.
pub(crate) fn stainless(policy: &Policy) -> String {
    let mut lines = vec![
        "# A part of stainless.yml. The SDKs then send this header with every request that is not a GET,".to_owned(),
        "# with the same key on each retry.".to_owned(),
        "client_settings:".to_owned(),
        format!("  idempotency_header: {KEY_HEADER}"),
    ];
    let interfaces: Vec<RouteInterface<'_>> = policy.routes().map(|route| RouteInterface::new(policy, route)).collect();
    let operations = |interface: &RouteInterface<'_>| {
        let reads = |method: &&String| ["GET", "HEAD", "OPTIONS"].contains(&method.as_str());
        let writes = interface.route.methods.iter().filter(|method| !reads(method));
        writes.map(|method| format!("#   {method} {}", interface.route.template)).collect::<Vec<_>>()
    };
    let refused: Vec<String> =
        interfaces.iter().filter(|interface| interface.key == KeyUse::Refused).flat_map(operations).collect();
    if !refused.is_empty() {
        lines.push(
            "# These operations answer 400 to a key. Write `\"policy\": \"HANDLER_INTERNAL_C\"` on their routes:"
                .to_owned(),
        );
        lines.extend(refused);
    }
    // The SDKs' own keys are `stainless-node-retry-` and a UUID, or alike.
    let is_narrow = |interface: &&RouteInterface<'_>| {
        let rules = interface.route.key.as_deref().filter(|_| interface.takes_keys());
        rules.is_some_and(|rules| rules.format != KeyFormat::Any || rules.pattern.is_some())
    };
    let narrow: Vec<String> = interfaces.iter().filter(is_narrow).flat_map(operations).collect();
    if !narrow.is_empty() {
        lines.push(
            "# These operations take keys of their own form only, and the SDKs' keys have a text before a UUID."
                .to_owned(),
        );
        lines.push(
            "# Remove `format` and `pattern` from `key` of their routes, or have callers give a key with each call:"
                .to_owned(),
        );
        lines.extend(narrow);
    }
    lines.join("\n")
}
