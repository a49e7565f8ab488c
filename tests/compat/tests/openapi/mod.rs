//! The overlay that the command makes for the demo's description: other programs apply it and lint it, and a client that a
//! generator makes of the result sends its keys through a real Envoy.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::config::ListenerSpec;
use e2e::gateway::{Received, TestGateway, received};
use e2e::runner::{Group, Test, sharing};
use harness::demo_policy::POLICY;
use harness::tools::{built, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

const LISTENER: &str = "demo";
const NAMESPACE: &str = "t-acme:health-prod:user:u1:";
const PARTS: [&str; 2] = [REDOCLY, "generator/packages/openapi_python_client"];
const REDOCLY: &str = "redocly/node_modules/@redocly/cli/bin/cli.js";

struct OpenapiSetup {
    gateway: TestGateway,
    tools: PathBuf,
    folder: TempDir,
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    let test = |what: &str, body: fn(&OpenapiSetup) -> Result<()>| Test::new(what, body);
    let group = sharing(
        OpenapiSetup::start,
        vec![
            test("the overlay and what it makes are valid", valid),
            test("applying it twice gives the same", twice),
            test("what it makes passes the command's own check", checked),
            test("a key of the generated client reaches the backend, namespaced", key_is_sent),
            test("the generated client does not leave out a key that is required", key_is_required),
            test("a key that is not required can be left out", key_is_optional),
            test("a refusal is an object that the client knows", refusal_is_read),
        ],
    );
    let is_there = PARTS.iter().all(|part| installed().join(part).exists());
    if !is_there {
        eprintln!(
            "SKIPPED: tools of OpenAPI are not installed, so no other program reads overlays. `crates/xtask/scripts/tools.sh openapi-tools` installs them."
        );
    }
    Ok(vec![if is_there { group } else { group.left_out() }])
}

/// Where `crates/xtask/scripts/tools.sh` installs the programs.
fn installed() -> PathBuf {
    let default = || repository().join(".tools/openapi-tools");
    env::var_os("EDGE_OPENAPI_TOOLS").map_or_else(default, PathBuf::from)
}

impl OpenapiSetup {
    fn start() -> Result<Self> {
        let tools = installed();
        let gateway = TestGateway::start(&[(
            LISTENER.to_owned(),
            ListenerSpec { policy: policy_without_secrets()?, changes: Vec::new() },
        )])?;
        let setup = Self { gateway, tools, folder: tempfile::tempdir()? };
        let overlay = told(
            Command::new(built("EDGE_CLI", "edge-idempotency")?)
                .args([
                    "overlay",
                    "--fern",
                    "--speakeasy",
                    "deploy/demo/policy.json",
                    "--openapi",
                    "deploy/demo/openapi.yaml",
                ])
                .current_dir(repository()),
        )?;
        fs::write(setup.path("overlay.yaml"), overlay.stdout)?;
        setup.apply(1, "once.yaml")?;
        let mut generator = setup.python();
        generator.args(["-m", "openapi_python_client", "generate", "--meta", "none", "--config"]);
        generator.arg(tests().join("generator.yaml")).arg("--path").arg(setup.path("once.yaml"));
        told(generator.arg("--output-path").arg(setup.path("demo_api_client")))?;
        Ok(setup)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn redocly(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new("node");
        command.arg(self.tools.join(REDOCLY)).args(arguments).current_dir(self.folder.path());
        // It would ask the registry for a newer version, and report how it is used.
        command.env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true").env("REDOCLY_TELEMETRY", "off");
        told(&mut command)
    }

    /// Applies the overlay to the demo's description so many times.
    fn apply(&self, times: usize, output: &str) -> Result<()> {
        let description = repository().join("deploy/demo/openapi.yaml");
        let mut arguments = vec!["bundle", description.to_str().context("the repository's path")?, "-o", output];
        arguments.extend(["--overlay", "overlay.yaml"].into_iter().cycle().take(2 * times));
        self.redocly(&arguments).map(drop)
    }

    fn python(&self) -> Command {
        let mut python = Command::new("python3");
        let packages = self.tools.join("generator/packages");
        let path = [packages.as_path(), self.folder.path()].map(|path| path.display().to_string()).join(":");
        python.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(self.folder.path());
        for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            python.env_remove(proxy);
        }
        python
    }

    /// One call of the application: what it sees, and what reached the upstream.
    fn call(&self, operation: &str, key: Option<&str>, body: &Value) -> Result<(Value, Vec<Received>)> {
        let headers = [("content-type", "application/json"), ("x-restate-id", "inv_1")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec();
        self.gateway.capture().answer(Answer {
            status: 200,
            headers,
            body: body.to_string().into_bytes(),
            trailers: Vec::new(),
        });
        self.gateway.capture().take();
        let token = self.gateway.token(&json!({"tenant_id": "acme", "project_id": "health-prod", "sub": "u1"}))?;
        let port = self.gateway.address(LISTENER)?.port();
        let call = json!({"port": port, "token": token, "operation": operation, "key": key});
        let output = told(self.python().arg(tests().join("client.py")).arg(call.to_string()))?;
        let seen = serde_json::from_slice(&output.stdout)?;
        let requests = self.gateway.capture().take().into_iter().map(received).collect::<Result<_>>()?;
        Ok((seen, requests))
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi")
}

/// The demo's policy without what needs a secret: webhooks, signed callers, operations. Its other routes are as they are.
fn policy_without_secrets() -> Result<String> {
    let mut policy: Value = serde_json::from_str(POLICY)?;
    let document = policy.as_object_mut().context("the demo's policy")?;
    document.retain(|member, _| !["webhooks", "callers"].contains(&member.as_str()));
    let backend = document.get_mut("backend").and_then(Value::as_object_mut).context("the demo's backend")?;
    backend.remove("operations");
    let routes = document.get_mut("routes").and_then(Value::as_array_mut).context("the demo's routes")?;
    routes.retain(|route| route.get("webhook").is_none());
    Ok(policy.to_string())
}

/// What a program printed; an error with all of it if the program failed.
fn told(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let all = || [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, all());
    Ok(output)
}

fn ensure_seen(seen: &Value, pointer: &str, expected: &Value) -> Result<()> {
    ensure!(seen.pointer(pointer) == Some(expected), "{pointer} is not {expected}: the application sees {seen}");
    Ok(())
}

/// The keys that reached the upstream, without the namespace.
fn keys(requests: &[Received]) -> Vec<Option<String>> {
    let line = |request: &Received| request.headers.iter().find(|(name, _)| name == "idempotency-key").cloned();
    let key = |request| line(request).map(|(_, value)| String::from_utf8_lossy(&value).replacen(NAMESPACE, "", 1));
    requests.iter().map(key).collect()
}

fn valid(setup: &OpenapiSetup) -> Result<()> {
    setup.redocly(&["lint", "overlay.yaml"])?;
    setup.redocly(&["lint", "--extends", "minimal", "once.yaml"]).map(drop)
}

fn twice(setup: &OpenapiSetup) -> Result<()> {
    setup.apply(2, "twice.yaml")?;
    let [once, twice] = ["once.yaml", "twice.yaml"].map(|name| fs::read_to_string(setup.path(name)));
    let (once, twice) = (once?, twice?);
    ensure!(
        once.contains("x-idempotency-policy") && once == twice,
        "the second application changed something: {twice}"
    );
    Ok(())
}

fn checked(setup: &OpenapiSetup) -> Result<()> {
    let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
    // What the demo's policy has by itself.
    let own = "--allow=short-body-limit,short-retention,missing-variable";
    command.args(["check", "--deny=all", own, "deploy/demo/policy.json", "--openapi"]).arg(setup.path("once.yaml"));
    let output = told(command.current_dir(repository()))?;
    ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn key_is_sent(setup: &OpenapiSetup) -> Result<()> {
    let body = json!({"refund_id": "re_1", "order_id": "order-1001", "amount": 4200});
    let (seen, requests) = setup.call("refund", Some("order-1001"), &body)?;
    for (pointer, expected) in [("/status", json!(200)), ("/type", json!("Refund")), ("/body", body)] {
        ensure_seen(&seen, pointer, &expected)?;
    }
    ensure!(keys(&requests) == [Some("order-1001".to_owned())], "the upstream got {requests:?}");
    Ok(())
}

fn key_is_required(setup: &OpenapiSetup) -> Result<()> {
    let (seen, requests) = setup.call("refund", None, &json!({}))?;
    let error = seen.get("error").and_then(Value::as_str).unwrap_or_default();
    ensure!(error.contains("idempotency_key") && requests.is_empty(), "the application sees {seen}");
    Ok(())
}

fn key_is_optional(setup: &OpenapiSetup) -> Result<()> {
    for key in [None, Some("cart-7-1")] {
        let (seen, requests) = setup.call("checkout", key, &json!({"order": 1}))?;
        ensure_seen(&seen, "/status", &json!(201))?;
        ensure!(keys(&requests) == [key.map(str::to_owned)], "the upstream got {requests:?}");
    }
    Ok(())
}

fn refusal_is_read(setup: &OpenapiSetup) -> Result<()> {
    let (seen, requests) = setup.call("refund", Some("order:1001"), &json!({}))?;
    for (pointer, expected) in [
        ("/status", json!(400)),
        ("/type", json!("IdempotencyProblem")),
        ("/body/code", json!("idempotency_key_invalid")),
        ("/body/retry", json!("new_key")),
    ] {
        ensure_seen(&seen, pointer, &expected)?;
    }
    ensure!(requests.is_empty(), "the upstream got {requests:?}");
    Ok(())
}
