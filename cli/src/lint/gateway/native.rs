//! The filter as a native module: its own configuration, and the filter before it that hands metadata over.

use super::callers::is_called;
use super::find::FilterChain;
use super::needs::GatewayNeeds;
use super::plugin::named_build;
use super::{GatewayFindings, member_span};
use edge_idempotency_envoy::METADATA_OBJECT;
use edge_idempotency_lints::diagnostics::tree::{SpannedMember, SpannedNode};
use std::ops::Range;

/// Without it, the names of the filter's metrics have a prefix.
const METRIC_NAMES: &str = "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix";

/// Checks the filter's own configuration. `parent`: the bytes of the filter.
pub(super) fn check(config: &SpannedNode, parent: &Range<usize>, findings: &mut GatewayFindings) {
    let module = config.member("dynamic_module_config");
    let own = module.map(|module| &module.value);
    if !own.is_some_and(|module| module.is_true(&["do_not_close"])) {
        let member = own.and_then(|module| module.member("do_not_close")).or(module);
        findings.at_member("envoy-native-unload", member, parent, "`do_not_close: true` is missing");
    }
    if config.is_true(&["terminal_filter"]) {
        let message = "`terminal_filter: true` makes the filter the last one, in the place of the router";
        findings.at_member("envoy-native-terminal", config.member("terminal_filter"), parent, message);
    }
    if let Some(module) = own {
        let file = module.at(&["module", "local"]).and_then(|local| local.member("filename"));
        named_build(module.at(&["module", "remote"]), file.or_else(|| module.member("name")), findings);
    }
}

/// Checks what stands around the filter.
pub(super) fn around(
    tree: &SpannedNode,
    chain: &FilterChain<'_>,
    needs: Option<&GatewayNeeds>,
    findings: &mut GatewayFindings,
) {
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let own = filters.get(chain.index).map_or(0..0, |own| own.span.clone());
    if let Some(needs) = needs.filter(|needs| !needs.operators.is_empty()) {
        metadata(filters, chain.index, needs, &own, findings);
    }
    if let Some(namespace) = needs.and_then(|needs| needs.nameless.as_ref()) {
        let message = format!(
            "an identity source reads the namespace `{namespace}`, which the operator DYNAMIC_METADATA cannot name"
        );
        findings.add("envoy-native-metadata", own.clone(), message);
    }
    if tree.get("static_resources").is_some() {
        let mut is_set = false;
        let runtime = tree.member("layered_runtime");
        if let Some(runtime) = runtime {
            runtime.value.visit(&mut |node| {
                is_set |= node
                    .members()
                    .iter()
                    .any(|member| member.name == METRIC_NAMES && member.value.text() == Some("true"));
            });
        }
        if !is_set {
            let message = format!("`layered_runtime` lacks `{METRIC_NAMES}: true`");
            findings.at_member("envoy-native-metrics", runtime, &own, message);
        }
    }
}

/// A filter's part that writes the object.
struct MetadataObject<'t> {
    index: usize,
    filter: &'t SpannedNode,
    entry: &'t SpannedNode,
}

fn objects(filters: &[SpannedNode]) -> impl Iterator<Item = MetadataObject<'_>> {
    let states = filters.iter().enumerate().filter_map(|(index, filter)| {
        let typed = filter.get("typed_config").filter(|typed| typed.is_type("Config") && is_called(filter, STATE))?;
        Some((index, filter, typed.get("on_request_headers")?.items()))
    });
    states.flat_map(|(index, filter, entries)| {
        let ours = entries.iter().filter(|entry| entry.text_at(&["object_key"]) == Some(METADATA_OBJECT));
        ours.map(move |entry| MetadataObject { index, filter, entry })
    })
}

/// The filter that writes filter state.
const STATE: &str = "envoy.filters.http.set_filter_state";

fn metadata(
    filters: &[SpannedNode],
    place: usize,
    needs: &GatewayNeeds,
    own: &Range<usize>,
    findings: &mut GatewayFindings,
) {
    let is_on = |object: &MetadataObject<'_>| !object.filter.is_true(&["disabled"]);
    let Some(object) = objects(filters).filter(is_on).filter(|object| object.index < place).last() else {
        match objects(filters).find(is_on) {
            Some(behind) => {
                let message = "this stands behind the filter, which needs what it writes";
                findings.add("envoy-native-metadata-order", behind.filter.span.clone(), message);
            }
            None => {
                let message =
                    "no filter before this one hands the metadata over that identity sources of the policy read";
                let help = format!("Put this before the filter, behind authentication:\n{}", lines(needs));
                findings.helped("envoy-native-metadata", own.clone(), message, help);
            }
        }
        return;
    };
    let writes =
        |namespace: &str| filters.iter().take(place).skip(object.index + 1).find(|filter| is_called(filter, namespace));
    let namespaces = needs.operators.iter().filter_map(|operator| operator.split(':').next());
    if let Some((namespace, filter)) = namespaces.filter_map(|name| Some((name, writes(name)?))).next() {
        let message = format!(
            "`{}` stands behind the filter that hands metadata over, so `{namespace}` is empty there",
            filter.text_at(&["name"]).unwrap_or(namespace)
        );
        findings.add("envoy-native-metadata-order", filter.span.clone(), message);
    }
    form(object.entry, needs, findings);
}

/// Whether the object has the form that the module reads.
fn form(entry: &SpannedNode, needs: &GatewayNeeds, findings: &mut GatewayFindings) {
    let factory = entry.member("factory_key");
    if factory.is_none_or(|factory| factory.value.text() != Some("envoy.string")) {
        let message = "the object is no text: `factory_key` has to be `envoy.string`";
        findings.at_member("envoy-native-metadata-form", factory, &entry.span, message);
    }
    let format = entry.member("format_string");
    let Some(json) = format.and_then(|format| format.value.member("json_format")) else {
        let written = format.and_then(|format| format.value.members().first());
        let message = "the object has to be a `json_format`, which says of each value whether it is a text";
        findings.at_member("envoy-native-metadata-form", written.or(format), &entry.span, message);
        return;
    };
    // Names in it are chosen by who writes the file, and so compared as they stand.
    let member = |name: &str| json.value.members().iter().rev().find(|member| member.name == name);
    let missing: Vec<&str> = needs.operators.iter().map(String::as_str).filter(|name| member(name).is_none()).collect();
    if !missing.is_empty() {
        let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message = format!("identity sources of the policy read {names}, and the object has no such member");
        let help = format!("Add to `json_format`:\n{}", members(missing.into_iter()));
        findings.helped("envoy-native-metadata", json.name_span.clone(), message, help);
    }
    let wrong = |name: &str, member: &&SpannedMember| member.value.text() != Some(operator(name).as_str());
    for (name, member) in
        needs.operators.iter().filter_map(|name| Some((name, member(name).filter(|own| wrong(name, own))?)))
    {
        let message = format!("the member has to be \"{}\"", operator(name));
        findings.add("envoy-native-metadata-form", member_span(member), message);
    }
}

fn operator(name: &str) -> String {
    format!("%DYNAMIC_METADATA({name})%")
}

fn members<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let line = |name| format!("          {}: {}", quoted(name), quoted(&operator(name)));
    names.map(line).collect::<Vec<_>>().join("\n")
}

/// A text in YAML, as in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The filter that hands over what a policy reads, as `render envoy --native` writes it.
fn lines(needs: &GatewayNeeds) -> String {
    format!(
        "- name: {STATE}\n  typed_config:\n    \"@type\": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config\n    \
         on_request_headers:\n    - object_key: {METADATA_OBJECT}\n      factory_key: envoy.string\n      format_string:\n        json_format:\n{}",
        members(needs.operators.iter().map(String::as_str))
    )
}
