//! The filter's own configuration.

use super::GatewayFindings;
use super::find::is_dynamic_module;
use super::needs::CheckedNeeds;
use crate::lint::gateway_list::{
    ENVOY_CONFIGURATION, ENVOY_FAIL_OPEN, ENVOY_FAILURE_POLICY, ENVOY_MISSING_SECRET, ENVOY_STOP_ITERATION,
};
use crate::lints::diagnostics::tree::SpannedNode;
use crate::lints::list::{INLINE_SECRET, NOT_SEEN};
use std::collections::BTreeMap;
use std::ops::Range;

/// The scalar with the policy document, if the configuration is a StringValue.
pub(super) fn policy_scalar<'t>(config: &'t SpannedNode, findings: &mut GatewayFindings) -> Option<&'t SpannedNode> {
    let is_dynamic_module = is_dynamic_module(config);
    let name = if is_dynamic_module { "filter_config" } else { "configuration" };
    let Some(configuration) = config.member(name) else {
        let message = format!("the plugin has no `{name}`: the filter does not start");
        findings.add(&ENVOY_CONFIGURATION, config.span.clone(), message);
        return None;
    };
    // Envoy hands the module their text; it does not stand here.
    if is_dynamic_module && ["Struct", "BytesValue"].iter().any(|message| configuration.value.is_type(message)) {
        let message = "the policy is no StringValue here, so it was not checked: check the document by itself";
        findings.add(&NOT_SEEN, configuration.name_span.clone(), message);
        return None;
    }
    if !configuration.value.is_type("StringValue") {
        let written = configuration.value.text_at(&["@type"]).unwrap_or("nothing");
        let message = format!("the plugin's `{name}` is `{written}`, and the filter reads text");
        findings.add(&ENVOY_CONFIGURATION, configuration.name_span.clone(), message);
        return None;
    }
    let value = configuration.value.get("value").filter(|value| value.text().is_some());
    if value.is_none() {
        let message =
            "the StringValue has no text as its `value`: a `|` behind `value:` makes a text of the lines below";
        findings.add(&ENVOY_CONFIGURATION, configuration.name_span.clone(), message);
    }
    value
}

/// Checks the plugin's `config`. `parent`: the bytes of the filter.
pub(super) fn check(
    config: &SpannedNode,
    parent: &Range<usize>,
    needs: Option<&CheckedNeeds>,
    findings: &mut GatewayFindings,
) {
    let at = if config.span.is_empty() { parent } else { &config.span };
    failures(config, at, findings);
    if needs.is_none_or(|needs| needs.keeps_headers) && !config.is_true(&["allow_on_headers_stop_iteration"]) {
        let member = config.member("allow_on_headers_stop_iteration");
        findings.at_member(&ENVOY_STOP_ITERATION, member, at, "`allow_on_headers_stop_iteration: true` is missing");
    }
    if let Some((pointer, ..)) = needs.and_then(|needs| needs.discovered().next()) {
        let message = format!("{pointer} of the policy names a secret of SDS, which Envoy gives dynamic modules only");
        findings.at_member(&ENVOY_MISSING_SECRET, config.member("configuration"), at, message);
    }
    if let Some((vm, needs)) = config.member("vm_config").zip(needs) {
        variables(&vm.value, &vm.name_span, needs, findings);
    }
}

fn failures(config: &SpannedNode, at: &Range<usize>, findings: &mut GatewayFindings) {
    let policy = config.member("failure_policy");
    let written = policy.and_then(|policy| policy.value.text()).unwrap_or("UNSPECIFIED");
    if config.is_true(&["fail_open"]) {
        let member = config.member("fail_open");
        findings.at_member(&ENVOY_FAIL_OPEN, member, at, "`fail_open` lets every request through once a VM has failed");
    } else if ["FAIL_OPEN", "3"].contains(&written) {
        findings.at_member(&ENVOY_FAIL_OPEN, policy, at, "`FAIL_OPEN` lets every request through once a VM has failed");
    } else if !["FAIL_RELOAD", "1"].contains(&written) {
        let message = "a VM that has failed is not replaced: its worker answers 503 from then on";
        findings.at_member(&ENVOY_FAILURE_POLICY, policy, at, message);
    }
}

/// Variables that the policy names.
fn variables(vm: &SpannedNode, at: &Range<usize>, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let environment = vm.member("environment_variables");
    let host = environment.and_then(|environment| environment.value.member("host_env_keys"));
    let literal = environment.and_then(|environment| environment.value.get("key_values"));
    let names: Vec<&str> = host.iter().flat_map(|host| host.value.items()).filter_map(SpannedNode::text).collect();
    for (name, pointer) in needs.variables().into_iter().collect::<BTreeMap<_, _>>() {
        // Names of variables are no names of protobuf fields: case and underscores count.
        let value = literal.into_iter().flat_map(SpannedNode::members).find(|member| member.name == name);
        if let Some(value) = value {
            let message = format!("the value of `{name}` (the policy's {pointer}) is in the configuration");
            findings.add(&INLINE_SECRET, value.name_span.clone(), message);
        } else if !names.contains(&name) {
            let message = format!("the policy reads `{name}` ({pointer}), which `host_env_keys` does not have");
            let place = host.or(environment).map_or(at, |member| &member.name_span);
            findings.add(&ENVOY_MISSING_SECRET, place.clone(), message);
        }
    }
}
