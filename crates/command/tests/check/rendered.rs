//! What `render envoy` writes for the policies that the project ships has no finding but those of the policy itself.

use super::{json, names};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Findings of a rendered gateway that are right: the policy, the lint and the reason.
const RIGHT: &[(&str, &str, &str)] = &[
    ("fallback-identity.json", "envoy-identity-source", "as for api-keys.json"),
    ("reference.json", "envoy-identity-source", "as for api-keys.json"),
    (
        "api-keys.json",
        "envoy-identity-source",
        "the reader has to put the filter that owns the headers where CHECK stands",
    ),
];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The configuration that `render envoy` writes, with an upstream for each cluster that the policy names.
pub(super) fn render(policy: &Path) -> String {
    render_with(policy, &[])
}

/// As [`render`], with more options.
pub(super) fn render_with(policy: &Path, options: &[&str]) -> String {
    let document: Value = serde_json::from_slice(&std::fs::read(policy).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(["render", "envoy", "--policy"]).arg(policy).args(options);
    for (port, name) in upstream_names(&document).iter().enumerate() {
        command.args(["--upstream", &format!("{name}=http://127.0.0.1:{}", port + 8081)]);
    }
    for key in tokens(&document) {
        command.args(["--jwt-issuer", &format!("{key}=https://{key}.example.com")]);
        command.args(["--jwt-keys", &format!("{key}=/etc/keys.json")]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", policy.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The upstreams that a policy needs: the cluster of each backend, or its name, and those of lookups.
pub(crate) fn upstream_names(document: &Value) -> Vec<String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let named = document.get("backends").and_then(Value::as_object).into_iter().flatten();
    let named = named.map(|(name, backend)| backend.get("cluster").and_then(Value::as_str).unwrap_or(name).to_owned());
    let only =
        document.get("backends").is_none().then(|| text("/backend/cluster").unwrap_or_else(|| "backend".to_owned()));
    let stores = ["/webhooks/unkey/cluster", "/webhooks/openbao/cluster"];
    let sources = document.pointer("/identity/sources").and_then(Value::as_array).into_iter().flatten();
    let registries = sources.filter_map(|source| source.pointer("/unkey/cluster")?.as_str().map(str::to_owned));
    only.into_iter().chain(named).chain(stores.into_iter().filter_map(text)).chain(registries).collect()
}

/// The members of jwt_authn's metadata that a policy reads.
fn tokens(document: &Value) -> BTreeSet<String> {
    let list = document.get("metadata").and_then(Value::as_array).map(Vec::as_slice);
    let own = match list {
        Some([Value::String(filter), Value::String(key), ..]) if filter.ends_with("jwt_authn") => Some(key.clone()),
        _ => None,
    };
    let below: Vec<&Value> = match document {
        Value::Object(members) => members.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    below.into_iter().flat_map(tokens).chain(own).collect()
}

#[test]
fn what_render_writes_has_the_findings_of_its_policy_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut policies: Vec<PathBuf> =
        std::fs::read_dir(root().join("policies/examples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    policies.push(root().join("deploy/demo/policy.json"));
    policies.push(root().join("policies/reference.json"));
    assert!(policies.len() > 22, "{policies:?}");
    for policy in policies {
        let name = policy.file_name().unwrap().to_str().unwrap();
        let file = directory.path().join("envoy.yaml");
        std::fs::write(&file, render(&policy)).unwrap();
        let own = json(&[policy.to_str().unwrap()]);
        let whole = json(&["--envoy", file.to_str().unwrap()]);
        let policys: BTreeSet<&str> = names(&own).into_iter().collect();
        let told = whole["findings"].as_array().unwrap().iter().filter(|finding| finding["severity"] != "note");
        let found: BTreeSet<&str> =
            told.map(|finding| finding["lint"].as_str().unwrap()).filter(|lint| !policys.contains(lint)).collect();
        let right: BTreeSet<&str> =
            RIGHT.iter().filter(|(policy, ..)| *policy == name).map(|(_, lint, _)| *lint).collect();
        assert_eq!(found, right, "{name}: {whole}");
    }
}
