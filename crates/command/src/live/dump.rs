//! Filters of this project in a configuration dump of Envoy's admin interface.

use serde_json::Value;

/// A filter that the gateway has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunningFilter {
    /// The module's file, or where it is fetched
    pub(super) module: String,
    /// The policy; `None` if it is no text in JSON
    pub(super) policy: Option<Value>,
}

/// Every filter of this project that is in use; of equal ones the first.
pub(super) fn filters(dump: &Value) -> Vec<RunningFilter> {
    let mut found = Vec::new();
    collect(dump, &mut found);
    // A listener of the bootstrap stands in the dump a second time.
    let mut distinct: Vec<RunningFilter> = Vec::new();
    for filter in found {
        if !distinct.contains(&filter) {
            distinct.push(filter);
        }
    }
    distinct
}

fn collect(value: &Value, found: &mut Vec<RunningFilter>) {
    match value {
        Value::Object(members) => {
            let kind = members.get("@type").and_then(Value::as_str).unwrap_or_default();
            let own = if kind.ends_with("filters.http.wasm.v3.Wasm") {
                value.get("config").and_then(filter)
            } else if kind.ends_with("filters.http.dynamic_modules.v3.DynamicModuleFilter") {
                dynamic_module(value)
            } else {
                None
            };
            if let Some(filter) = own {
                found.push(filter);
                return;
            }
            // What waits to replace something, or could not, is not in use.
            let waits = ["warming_state", "error_state", "draining_state", "dynamic_warming_clusters"];
            members
                .iter()
                .filter(|(name, _)| !waits.contains(&name.as_str()))
                .for_each(|(_, value)| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// The filter of a WebAssembly plugin's configuration, if it is of this project.
fn filter(config: &Value) -> Option<RunningFilter> {
    own(config.pointer("/configuration/value"), config.pointer("/vm_config/code"), config.get("name"))
}

/// The filter of a dynamic module, if it is of this project.
fn dynamic_module(filter: &Value) -> Option<RunningFilter> {
    own(
        filter.pointer("/filter_config/value"),
        filter.pointer("/dynamic_module_config/module"),
        filter.get("filter_name"),
    )
}

/// A filter with this policy, module and name, if it is of this project.
fn own(policy: Option<&Value>, code: Option<&Value>, name: Option<&Value>) -> Option<RunningFilter> {
    let policy: Option<Value> = policy.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let module = ["/local/filename", "/remote/http_uri/uri"].iter().find_map(|at| code?.pointer(at)?.as_str());
    let is_policy =
        policy.as_ref().is_some_and(|policy| policy.get("routes").is_some() && policy.get("backend").is_some());
    let is_named = module.is_some_and(|module| module.contains("edge_idempotency"))
        || name.and_then(Value::as_str).is_some_and(|name| name.contains("idempotency"));
    (is_policy || is_named).then(|| RunningFilter { module: module.unwrap_or("a module").to_owned(), policy })
}

/// Names of configurations whose last change was refused, with the reason.
pub(super) fn refused(dump: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    errors(dump, &mut found);
    found
}

fn errors(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            let details = members.get("error_state").and_then(|state| state.get("details")).and_then(Value::as_str);
            if let Some(details) = details {
                let name = members.get("name").and_then(Value::as_str).unwrap_or("a resource");
                found.push((name.to_owned(), details.to_owned()));
            }
            members.values().for_each(|value| errors(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| errors(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_in_use_is_found() {
        let wasm = |module: &str, text: &str| {
            json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": {
                "vm_config": {"code": {"local": {"filename": module}}}, "configuration": {"value": text}}})
        };
        let policy = "{\"backend\": {}, \"routes\": []}";
        let dynamic_module = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {"module": {"local": {"filename": "/m.so"}}}, "filter_config": {"value": policy}});
        let dump = json!({"configs": [
            {"dynamic_listeners": [{"name": "gateway", "active_state": {"a": [wasm("/m.wasm", policy), wasm("/other.wasm", "x")]},
                "warming_state": wasm("/new.wasm", policy), "error_state": {"details": "no such file"}}]},
            {"ecds_filters": [{"ecds_filter": {"typed_config": wasm("/edge_idempotency-1.wasm", "no JSON")}}]},
            {"ecds_filters": [{"ecds_filter": {"typed_config": dynamic_module}}]},
        ]});
        let found = filters(&dump);
        let names: Vec<&str> = found.iter().map(|filter| filter.module.as_str()).collect();
        assert_eq!(names, ["/m.wasm", "/edge_idempotency-1.wasm", "/m.so"]);
        assert!(found[0].policy.is_some() && found[1].policy.is_none() && found[2].policy.is_some());
        assert_eq!(refused(&dump), [("gateway".to_owned(), "no such file".to_owned())]);
    }
}
