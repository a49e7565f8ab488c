//! The filter as a dynamic module: its own configuration, and the filter before it that hands metadata over.

use super::GatewayFindings;
use super::callers::is_called;
use super::find::FilterChain;
use super::needs::CheckedNeeds;
use crate::lint::gateway_list::{
    ENVOY_DYNAMIC_MODULE_METADATA, ENVOY_DYNAMIC_MODULE_METRICS, ENVOY_DYNAMIC_MODULE_UNLOAD,
};
use crate::lints::diagnostics::tree::SpannedNode;
use edge_idempotency_envoy::metadata_object;
use std::ops::Range;

/// Without it, the names of the filter's metrics have a prefix.
const METRIC_NAMES: &str = "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix";

/// Checks the filter's own configuration. `parent`: the bytes of the filter.
pub(super) fn check(config: &SpannedNode, parent: &Range<usize>, findings: &mut GatewayFindings) {
    let module = config.member("dynamic_module_config");
    let own = module.map(|module| &module.value);
    if !own.is_some_and(|module| module.is_true(&["do_not_close"])) {
        let member = own.and_then(|module| module.member("do_not_close")).or(module);
        findings.at_member(&ENVOY_DYNAMIC_MODULE_UNLOAD, member, parent, "`do_not_close: true` is missing");
    }
}

/// Checks what stands around the filter.
pub(super) fn around(
    tree: &SpannedNode,
    chain: &FilterChain<'_>,
    needs: Option<&CheckedNeeds>,
    findings: &mut GatewayFindings,
) {
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let own = filters.get(chain.index).map_or(0..0, |own| own.span.clone());
    if let Some(needs) = needs {
        metadata(filters, chain.index, needs, &own, findings);
    }
    if let Some(namespace) = needs.and_then(|needs| needs.nameless.as_ref()) {
        let message = format!(
            "an identity source reads the namespace `{namespace}`, which the operator DYNAMIC_METADATA cannot name"
        );
        findings.add(&ENVOY_DYNAMIC_MODULE_METADATA, own.clone(), message);
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
            findings.at_member(&ENVOY_DYNAMIC_MODULE_METRICS, runtime, &own, message);
        }
    }
}

/// A filter's part that writes an object for the module.
struct MetadataObject<'t> {
    index: usize,
    filter: &'t SpannedNode,
    entry: &'t SpannedNode,
}

/// The parts of filters that are on which write the object with this key.
fn objects<'t>(filters: &'t [SpannedNode], key: &str) -> impl DoubleEndedIterator<Item = MetadataObject<'t>> {
    let states = filters.iter().enumerate().filter(|(_, filter)| !filter.is_true(&["disabled"]));
    let states = states.filter_map(|(index, filter)| {
        let typed = filter.get("typed_config").filter(|typed| typed.is_type("Config") && is_called(filter, STATE))?;
        Some((index, filter, typed.get("on_request_headers")?.items()))
    });
    let entries = states
        .flat_map(|(index, filter, entries)| entries.iter().map(move |entry| MetadataObject { index, filter, entry }));
    entries.filter(move |object| object.entry.text_at(&["object_key"]) == Some(key))
}

/// The filter that writes filter state.
const STATE: &str = "envoy.filters.http.set_filter_state";

/// Checks that each namespace is handed over, at its place and in its form.
fn metadata(
    filters: &[SpannedNode],
    place: usize,
    needs: &CheckedNeeds,
    own: &Range<usize>,
    findings: &mut GatewayFindings,
) {
    let mut missing = Vec::new();
    for namespace in &needs.namespaces {
        let key = metadata_object(namespace);
        let Some(object) = objects(filters, &key).rfind(|object| object.index < place) else {
            match objects(filters, &key).next() {
                Some(behind) => {
                    let message = "this stands behind the filter, which needs what it writes";
                    findings.add(&ENVOY_DYNAMIC_MODULE_METADATA, behind.filter.span.clone(), message);
                }
                None => missing.push(namespace.as_str()),
            }
            continue;
        };
        let mut between = filters.iter().take(place).skip(object.index + 1);
        if let Some(filter) = between.find(|filter| is_called(filter, namespace)) {
            let message = format!(
                "`{}` stands behind the filter that hands metadata over, so `{namespace}` is empty there",
                filter.text_at(&["name"]).unwrap_or(namespace)
            );
            findings.add(&ENVOY_DYNAMIC_MODULE_METADATA, filter.span.clone(), message);
        }
        form(object.entry, namespace, findings);
    }
    if !missing.is_empty() {
        let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message =
            format!("identity sources of the policy read {names}, which no filter before this one hands over");
        let help = format!("Put this before the filter, behind authentication:\n{}", lines(&missing));
        findings.helped(&ENVOY_DYNAMIC_MODULE_METADATA, own.clone(), message, help);
    }
}

/// Whether the object has the form that the module reads.
fn form(entry: &SpannedNode, namespace: &str, findings: &mut GatewayFindings) {
    let factory = entry.member("factory_key");
    if factory.is_none_or(|factory| factory.value.text() != Some("envoy.string")) {
        let message = "the object is no text: `factory_key` has to be `envoy.string`";
        findings.at_member(&ENVOY_DYNAMIC_MODULE_METADATA, factory, &entry.span, message);
    }
    let format = entry.member("format_string");
    let text = format
        .and_then(|format| format.value.at(&["text_format_source"]))
        .and_then(|text| text.member("inline_string"));
    if text.is_none_or(|text| text.value.text() != Some(operator(namespace).as_str())) {
        let message =
            format!("the text has to be \"{}\", in `text_format_source` as `inline_string`", operator(namespace));
        findings.at_member(&ENVOY_DYNAMIC_MODULE_METADATA, text.or(format), &entry.span, message);
    }
}

fn operator(namespace: &str) -> String {
    format!("%DYNAMIC_METADATA({namespace})%")
}

/// A text in YAML, as in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The filter that hands namespaces over, as `render envoy --dynamic-module` writes it.
fn lines(namespaces: &[&str]) -> String {
    let object = |namespace: &&str| {
        format!(
            "    - object_key: {}\n      factory_key: envoy.string\n      format_string: {{text_format_source: {{inline_string: {}}}}}",
            quoted(&metadata_object(namespace)),
            quoted(&operator(namespace))
        )
    };
    let objects: Vec<String> = namespaces.iter().map(object).collect();
    format!(
        "- name: {STATE}\n  typed_config:\n    \"@type\": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config\n    \
         on_request_headers:\n{}",
        objects.join("\n")
    )
}
