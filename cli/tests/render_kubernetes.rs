//! `render istio` and `render envoy-gateway`: the resources fit what the APIs' descriptions say (`kubernetes_schemas.json`), and their Envoy
//! parts are those of `render envoy`, which `e2e/tests/render.rs` lets Envoy validate.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const CLUSTERS: [&str; 3] = [
    "--upstream=backend=http://restate.default:8080",
    "--upstream=unkey=https://api.unkey.com",
    "--upstream=openbao=http://bao:8200",
];

fn run(args: &[&str]) -> Output {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    Command::new(env!("CARGO_BIN_EXE_edge-idempotency")).args(args).current_dir(repository).output().unwrap()
}

/// What a command prints, as YAML.
fn rendered(args: &[&str]) -> Value {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        !args.contains(&"istio") && !args.contains(&"envoy-gateway") || text.contains("This was not run"),
        "{text}"
    );
    serde_saphyr::from_str(&text).unwrap()
}

/// A resource that fits its API's description.
fn resource(args: &[&str]) -> Value {
    let resource = rendered(args);
    let schemas: Value = serde_json::from_str(include_str!("kubernetes_schemas.json")).unwrap();
    let mut schema = schemas.get(resource["kind"].as_str().unwrap()).unwrap().clone();
    schema["$defs"] = schemas["$defs"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&resource).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
    resource
}

/// The filter's configuration as `render envoy --filter-only` has it.
fn filter(policy: &str) -> Value {
    rendered(&["render", "envoy", "--policy", policy, "--filter-only"])[0]["typed_config"].clone()
}

fn document(policy: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(policy);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn an_envoy_filter_has_all_parts() {
    let args = [&["render", "istio", "--policy", "demo/policy.json", "--label=app=edge"], &CLUSTERS[..]].concat();
    let spec = resource(&args)["spec"].clone();
    assert_eq!(spec["workloadSelector"]["labels"], json!({"app": "edge"}));
    let patches = spec["configPatches"].as_array().unwrap();
    let value = |what: &str| &patches.iter().find(|patch| patch["applyTo"] == what).unwrap()["patch"]["value"];
    assert_eq!(value("HTTP_FILTER")["typed_config"], filter("demo/policy.json"));
    assert_eq!(value("LISTENER")["per_connection_buffer_limit_bytes"], 1_114_112);
    assert_eq!(value("HTTP_ROUTE")["match"]["headers"][0]["name"], "x-edge-idempotency");
    assert_eq!(value("HTTP_ROUTE")["route"]["retry_policy"]["retriable_request_headers"][0]["name"], "idempotency-key");
    assert_eq!(value("BOOTSTRAP")["stats_config"]["stats_tags"].as_array().unwrap().len(), 17);
    assert_eq!(patches.iter().filter(|patch| patch["applyTo"] == "CLUSTER").count(), 3);
    let api_keys = ["render", "istio", "--policy", "policies/examples/api-keys.json", "--upstream=api=http://a"];
    let removed = resource(&api_keys)["spec"]["configPatches"][1]["patch"]["value"].to_string();
    for source in document("policies/examples/api-keys.json")["identity"]["sources"].as_array().unwrap() {
        assert!(removed.contains(&format!("{{\"remove\":{}}}", source["tenant"])), "{removed}");
    }
}

#[test]
fn an_envoy_patch_policy_has_all_parts() {
    let own = [
        "render",
        "envoy-gateway",
        "--policy",
        "demo/policy.json",
        "--gateway=edge",
        "--listener=tcp-443",
        "--routes=http-443",
    ];
    let spec = resource(&[&own, &CLUSTERS[..]].concat())["spec"].clone();
    assert_eq!(spec["targetRef"]["name"], "edge");
    let patches = spec["jsonPatches"].as_array().unwrap();
    assert_eq!(patches[0]["operation"]["value"]["typed_config"], filter("demo/policy.json"));
    let at = |path: &str| patches.iter().find(|patch| patch["operation"]["path"] == path).unwrap();
    assert_eq!(at("/per_connection_buffer_limit_bytes")["operation"]["value"], 1_114_112);
    assert_eq!(at("/virtual_hosts/0/routes/0")["name"], "http-443");
    assert_eq!(at("/early_header_mutation_extensions")["name"], "tcp-443");
    assert_eq!(patches.iter().filter(|patch| patch["operation"]["path"] == "").count(), 3);
}

#[test]
fn the_policy_reaches_the_module_as_a_document() {
    let policy = "policies/examples/own-api.json";
    let url = "--module-url=https://modules.example.com/edge_idempotency.wasm";
    let istio = |form: &str| resource(&["render", "istio", "--form", form, "--policy", policy, url])["spec"].clone();
    assert_eq!(istio("traffic-extension")["wasm"]["pluginConfig"], document(policy));
    assert_eq!(istio("wasm-plugin")["pluginConfig"], document(policy));
    let own = ["render", "envoy-gateway", "--form", "envoy-extension-policy", "--policy", policy];
    let wasm = resource(&[&own, &[url][..]].concat())["spec"]["wasm"][0].clone();
    assert_eq!(
        (&wasm["config"], &wasm["code"]["type"], &wasm["failOpen"]),
        (&document(policy), &json!("HTTP"), &json!(false))
    );
    let wasm = resource(&[&own, &["--module-url=oci://registry/edge:1"][..]].concat())["spec"]["wasm"][0].clone();
    assert_eq!(wasm["code"], json!({"type": "Image", "image": {"url": "registry/edge:1"}}));
}

#[test]
fn forms_that_cannot_wait_for_bodies_refuse_policies_that_do() {
    for args in [["istio", "traffic-extension"], ["istio", "wasm-plugin"], ["envoy-gateway", "envoy-extension-policy"]]
    {
        let [gateway, form] = args;
        let own = ["render", gateway, "--form", form, "--module-url=https://m/m.wasm", "--policy"];
        for (policy, endpoint) in
            [("demo/policy.json", "reports.run"), ("policies/examples/payments.json", "charges.create")]
        {
            let output = run(&[&own, &[policy][..]].concat());
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
            assert!(told.contains("allow_on_headers_stop_iteration") && told.contains(endpoint), "{told}");
        }
        let told = run(&["render", gateway, "--form", form, "--policy", "policies/examples/own-api.json"]);
        assert!(String::from_utf8(told.stderr).unwrap().contains("--module-url"));
    }
}
