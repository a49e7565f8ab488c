//! What `edge-idempotency render krakend` writes: the check of the bridge finds nothing in it, for every policy that the project ships.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::runner::Test;
use harness::tools::{built, repository, wasm};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::standin::program;
use crate::render::{policies, upstream_names};

/// What the check may note: the gateway's own machine is another one, and KrakenD's validator has no optional form.
const NOTES: [&str; 3] =
    ["is not set here", "signed callers cannot use the endpoint", "only signed callers can use the endpoint"];
pub(crate) fn tests() -> Result<Vec<Test<()>>> {
    let mut tests = Vec::new();
    for path in policies()? {
        let name = path.strip_prefix(repository()).context("a policy's name")?.with_extension("").display().to_string();
        tests.push(Test::new(format!("rendered::{name}"), move |_: &()| passes(&path)));
    }
    Ok(tests)
}

/// Renders the policy in both ways, and checks what came out.
fn passes(path: &Path) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut policy: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    fit(&mut policy);
    for way in [&[][..], &["--custom-build"]] {
        let (file, output) = render(&directory, &policy, way)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(directory.path().join("krakend.json"), &output.stdout)?;
        let mut check = Command::new(program("check")?);
        check.args(way).arg("--policy").arg(&file).arg("--module").arg(wasm()?);
        let output = check.arg(directory.path().join("krakend.json")).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{way:?}: {told}");
        if let Some(line) = told.lines().find(|line| !NOTES.iter().any(|note| line.contains(note))) {
            bail!("{way:?}: {line}");
        }
    }
    Ok(())
}

/// What `render krakend` writes for a policy, and the policy's file.
fn render(directory: &TempDir, policy: &Value, way: &[&str]) -> Result<(PathBuf, Output)> {
    let file = directory.path().join("policy.json");
    fs::write(&file, policy.to_string())?;
    let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
    command.args(["render", "krakend", "--jwt-issuer=https://i.example.com", "--jwt-keys=https://i.example.com/keys"]);
    command.args(way).arg("--policy").arg(&file);
    for name in upstream_names(policy) {
        command.arg(format!("--upstream={name}=http://{name}.example.com"));
    }
    Ok((file, command.output()?))
}

/// What KrakenD cannot have is taken out, as the refusal of `render krakend` says.
fn fit(policy: &mut Value) {
    let source = json!({"name": "jwt", "metadata": ["krakend", "jwt"], "tenant": "tenant_id", "project": "project_id",
        "subject": {"field": "sub", "type": "user"}});
    let has_metadata = |source: &Value| source.get("metadata").is_some();
    // A route takes tokens or API keys.
    let has_api_keys = |source: &Value| source.get("unkey").is_some();
    if let Some(sources) = policy.pointer_mut("/identity/sources").and_then(Value::as_array_mut)
        && sources.iter().any(has_api_keys)
    {
        sources.retain(has_api_keys);
        for source in sources {
            if let Some(registry) = source.get_mut("unkey") {
                set(registry, "root_key", json!({"env": "ROOT_KEY"}));
            }
        }
    }
    let fit_sources = |at: &mut Value| {
        let Some(sources) = at.pointer_mut("/identity/sources").and_then(Value::as_array_mut) else { return };
        if sources.iter().any(has_api_keys) {
            return;
        }
        sources.retain(has_metadata);
        for source in sources.iter_mut() {
            set(source, "metadata", json!(["krakend", "jwt"]));
        }
        if sources.is_empty() {
            sources.push(source.clone());
        }
    };
    fit_sources(policy);
    policy.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten().for_each(fit_sources);
    set(policy, "gateway_routes", json!(true));
    if let Some(routes) = policy.get_mut("routes").and_then(Value::as_array_mut) {
        // KrakenD answers OPTIONS by itself, and chooses by path and method alone.
        routes.retain(|route| route.get("methods").is_none_or(|methods| *methods != json!(["OPTIONS"])));
        let mut seen = BTreeSet::new();
        // The text before a parameter is not looked at either.
        let whole = |segment: &str| if segment.ends_with('}') { "{}".to_owned() } else { segment.to_owned() };
        routes.retain(|route| {
            let path = route.get("path").and_then(Value::as_str).unwrap_or_default();
            let path: Vec<String> = path.split('/').map(whole).collect();
            seen.insert((format!("{:?}", route.get("methods")), path))
        });
    }
    for (at, name) in [("/webhooks/unkey", "root_key"), ("/webhooks/openbao", "token")] {
        if let Some(store) = policy.pointer_mut(at) {
            set(store, name, json!({"env": name.to_ascii_uppercase()}));
        }
    }
}

fn set(value: &mut Value, name: &str, new: Value) {
    if let Some(members) = value.as_object_mut() {
        members.insert(name.to_owned(), new);
    }
}
