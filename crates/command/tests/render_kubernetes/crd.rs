//! The published custom resource definitions (`.tools/kubernetes-crds/`), as an API server applies them with strict validation: a member that a
//! definition does not name is an error, since the server would refuse or drop it. The definitions' rules in CEL are not applied.

use crate::repository;
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The folder of the definitions, or `None` if they are not installed, which is said.
fn folder() -> Option<PathBuf> {
    let folder = repository().join(".tools/kubernetes-crds");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: definitions of Istio and Envoy Gateway are not installed, so no resource is compared with them. \
        `crates/xtask/scripts/tools.sh kubernetes-crds` installs them."
    );
    None
}

/// What is wrong with a resource by its definition; nothing if it fits, or if there are no definitions.
pub(crate) fn errors(resource: &Value) -> Vec<String> {
    // A definition has thousands of lines, and many resources.
    static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let (kind, api) = (resource["kind"].as_str().unwrap(), resource["apiVersion"].as_str().unwrap());
    // Kubernetes' own kinds have no custom definition.
    if api == "v1" && kind == "ConfigMap" {
        return Vec::new();
    }
    let Some(folder) = folder() else { return Vec::new() };
    let read = || Arc::new(validator(&folder.join(format!("{kind}.yaml")), kind, api));
    let validator = Arc::clone(VALIDATORS.lock().unwrap().entry(format!("{api} {kind}")).or_insert_with(read));
    validator.iter_errors(resource).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn validator(file: &Path, kind: &str, api: &str) -> Validator {
    let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let spec = &definition["spec"];
    let (group, version) = api.split_once('/').unwrap();
    assert_eq!((&spec["group"], &spec["names"]["kind"]), (&json!(group), &json!(kind)));
    let versions = spec["versions"].as_array().unwrap();
    let found = versions.iter().find(|one| one["name"] == version && one["served"] == true);
    let mut schema =
        found.unwrap_or_else(|| panic!("{kind} has no version {version}"))["schema"]["openAPIV3Schema"].clone();
    close(&mut schema);
    // The API server checks these itself, whatever the definition says.
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = metadata();
    jsonschema::validator_for(&schema).unwrap()
}

/// Makes members that an object's schema does not name errors, and lets `nullable` mean what it means in OpenAPI 3.0. What stands below
/// `allOf`, `anyOf`, `oneOf` and `not` only adds conditions ("structural schemas" in Kubernetes' documentation).
fn close(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.get("nullable") == Some(&json!(true)) {
        let own = members["type"].clone();
        members.insert("type".to_owned(), json!([own, "null"]));
    }
    let is_open = members.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    let is_object = members.get("type") == Some(&json!("object"));
    if is_object && !is_open && !members.contains_key("additionalProperties") {
        members.insert("additionalProperties".to_owned(), json!(false));
    }
    let none = &mut Map::new();
    for (_, member) in members.get_mut("properties").and_then(Value::as_object_mut).unwrap_or(none) {
        close(member);
    }
    for name in ["items", "additionalProperties"] {
        members.get_mut(name).into_iter().for_each(close);
    }
}

/// The members of `ObjectMeta` that `render` may write (Kubernetes' documentation, "Object Names and IDs").
fn metadata() -> Value {
    let name = json!({"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object", "required": ["name"], "additionalProperties": false,
        "properties": {"name": name.clone(), "namespace": name, "labels": texts.clone(), "annotations": texts}
    })
}

#[test]
fn what_a_definition_does_not_say_is_an_error() {
    if folder().is_none() {
        return;
    }
    let good = json!({
        "apiVersion": "extensions.istio.io/v1alpha1", "kind": "TrafficExtension", "metadata": {"name": "a"},
        "spec": {
            "wasm": {"url": "oci://a", "failStrategy": "FAIL_RELOAD", "pluginConfig": {"anything": [1]}},
            "match": [{"ports": [{"number": 1}]}]
        }
    });
    assert_eq!(errors(&good), [""; 0]);
    for (pointer, name, value, told) in [
        ("/spec/wasm", "urll", json!("oci://a"), "urll"),
        ("/spec/wasm", "failStrategy", json!("FAIL_MAYBE"), "FAIL_MAYBE"),
        ("/spec", "priority", json!("high"), "/spec/priority"),
        ("/spec/match/0/ports/0", "port", json!(1), "port"),
        ("/spec/match/0/ports/0", "number", json!(70000), "70000"),
        ("/metadata", "name", json!("A b"), "/metadata/name"),
        ("/metadata", "lables", json!({}), "lables"),
        ("", "specs", json!({}), "specs"),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(pointer).unwrap()[name] = value;
        let errors = errors(&bad);
        assert!(errors.len() == 1 && errors[0].contains(told), "{name}: {errors:?}");
    }
    // `nullable` members take null.
    let mut null = good;
    null["spec"]["priority"] = Value::Null;
    assert_eq!(errors(&null), [""; 0]);
}
