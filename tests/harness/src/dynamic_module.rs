//! A configuration of Envoy with the filter as a dynamic module, made out of one with the WebAssembly module: what
//! `edge-idempotency render envoy --dynamic-module` would write in its place (docs/gateways.md).
//!
//! Configurations of this repository name the WebAssembly module. On the dynamic module the name of the module's file ends in `.so`, and
//! [`adapt`] changes everything that depends on it just before Envoy reads the file.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::demo_policy::POLICY;
use crate::tools::repository;

const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const DYNAMIC_MODULE: &str = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";

/// Where an expression finds the record of a request, with the WebAssembly module and with the dynamic one.
const WASM_RECORD: &str = "filter_state['wasm.edge_idempotency']";
const DYNAMIC_MODULE_RECORD: &str = "metadata.typed_filter_metadata['edge_idempotency']";
/// The same for the dynamic module in Envoy 1.39, which a module cannot give typed metadata.
const OLD_RECORD: &str = "metadata.filter_metadata['edge_idempotency']";

/// Where the record is in the Envoy of this process's tests.
fn dynamic_module_record() -> &'static str {
    static IS_OLD: LazyLock<bool> = LazyLock::new(|| {
        let envoy = env::var_os("EDGE_ENVOY").map_or_else(|| repository().join(".tools/bin/envoy"), PathBuf::from);
        let told = Command::new(envoy).arg("--version").output();
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("/1.39."))
    });
    if *IS_OLD { OLD_RECORD } else { DYNAMIC_MODULE_RECORD }
}

/// As [`adapt`], for a file: the path of the one that Envoy gets, beside it.
pub fn adapt_file(path: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut config: Value = serde_saphyr::from_str(&text).with_context(|| format!("{}", path.display()))?;
    if !adapt(&mut config) {
        return Ok(path.to_owned());
    }
    let adapted = path.with_extension("dynamic-module.json");
    fs::write(&adapted, format!("{config:#}\n")).with_context(|| format!("cannot write {}", adapted.display()))?;
    Ok(adapted)
}

/// Puts filters of a dynamic module in the place of WebAssembly filters whose module is a dynamic one. Whether there was any.
pub fn adapt(config: &mut Value) -> bool {
    if !adapt_filters(config) {
        return false;
    }
    adapt_records(config);
    if let Some(bootstrap) = config.as_object_mut().filter(|members| members.contains_key("static_resources")) {
        // Its metrics have real labels; without this member their names would have a prefix.
        bootstrap.shift_remove("stats_config");
        let unprefixed = json!({"envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix": true});
        let layers = json!([{"name": "static", "static_layer": unprefixed}, {"name": "admin", "admin_layer": {}}]);
        bootstrap.insert("layered_runtime".to_owned(), json!({"layers": layers}));
    }
    true
}

fn adapt_filters(value: &mut Value) -> bool {
    if let Some(dynamic_module) = dynamic_module(value) {
        *value = dynamic_module;
        return true;
    }
    let mut changed = false;
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(filters)) = members.get_mut("http_filters") {
                changed |= insert_metadata(filters);
            }
            for value in members.values_mut() {
                changed |= adapt_filters(value);
            }
        }
        Value::Array(items) => {
            for item in items {
                changed |= adapt_filters(item);
            }
        }
        _ => {}
    }
    changed
}

fn adapt_records(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(adapt_records),
        Value::Array(items) => items.iter_mut().for_each(adapt_records),
        Value::String(text) if text.contains(WASM_RECORD) => *text = text.replace(WASM_RECORD, dynamic_module_record()),
        _ => {}
    }
}

/// Puts the filter that hands metadata over before each of ours. Whether one of them comes by discovery.
fn insert_metadata(filters: &mut Vec<Value>) -> bool {
    let (mut place, mut found) = (0, false);
    while let Some(filter) = filters.get_mut(place) {
        let policy = match filter.get_mut("config_discovery") {
            Some(discovery) => discovered(discovery).inspect(|_| found = true),
            None => filter.get("typed_config").filter(|typed| dynamic_module(typed).is_some()).map(policy),
        };
        if let Some(metadata) = policy.and_then(|text| set_filter_state(&text)) {
            filters.insert(place, metadata);
            place += 1;
        }
        place += 1;
    }
    found
}

/// The policy of a filter that comes by discovery, whose type then is the dynamic one. While its file names no metadata, that is the
/// demo's: all policies under test read the same metadata as it does, or less.
fn discovered(discovery: &mut Value) -> Option<String> {
    let types = discovery.get_mut("type_urls").filter(|types| **types == json!([WASM]))?;
    *types = json!([DYNAMIC_MODULE]);
    let path = discovery.pointer("/config_source/path_config_source/path").and_then(Value::as_str)?;
    let file: Option<Value> = fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok());
    let text = file.as_ref().and_then(|file| file.pointer("/resources/0/typed_config/filter_config/value")?.as_str());
    Some(text.filter(|text| !namespaces(text).is_empty()).unwrap_or(POLICY).to_owned())
}

fn policy(typed: &Value) -> String {
    typed.pointer("/config/configuration/value").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The namespaces of the metadata that the sources of a policy name; none for a text that is no policy.
fn namespaces(policy: &str) -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                let namespace = members.get("metadata").and_then(|path| path.get(0)?.as_str());
                found.extend(namespace.map(str::to_owned));
                members.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    collect(&serde_json::from_str(policy).unwrap_or_default(), &mut found);
    found
}

/// The filter that hands over what the sources of a policy read; none where they read no metadata.
fn set_filter_state(policy: &str) -> Option<Value> {
    let namespaces = namespaces(policy);
    let object = |namespace: &String| {
        json!({
            "object_key": format!("edge_idempotency.metadata.{namespace}"),
            "factory_key": "envoy.string",
            "format_string": {"text_format_source": {"inline_string": format!("%DYNAMIC_METADATA({namespace})%")}},
        })
    };
    (!namespaces.is_empty()).then(|| {
        json!({"name": "envoy.filters.http.set_filter_state", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config",
            "on_request_headers": namespaces.iter().map(object).collect::<Vec<_>>(),
        }})
    })
}

/// The filter of a dynamic module for a WebAssembly filter whose module's file ends in `.so`.
fn dynamic_module(typed: &Value) -> Option<Value> {
    let config = Some(typed).filter(|typed| typed.get("@type").is_some_and(|kind| kind == WASM))?.get("config")?;
    let file = config.pointer("/vm_config/code/local/filename")?.as_str()?;
    Path::new(file).extension().filter(|extension| *extension == "so")?;
    let mut dynamic_module = json!({
        "@type": DYNAMIC_MODULE,
        "dynamic_module_config": {
            "module": {"local": {"filename": file}},
            "do_not_close": true,
            "metrics_namespace": "edge_idempotency",
        },
        "filter_name": "edge-idempotency",
    });
    if let (Some(configuration), Some(dynamic_module)) = (config.get("configuration"), dynamic_module.as_object_mut()) {
        dynamic_module.insert("filter_config".to_owned(), configuration.clone());
    }
    Some(dynamic_module)
}
