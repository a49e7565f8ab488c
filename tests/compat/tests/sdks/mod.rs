//! Clients that were written for another API obey the gateway: Stripe's SDKs, through a real Envoy.
//!
//! `retry_headers` and `error_member` make the difference, so each test that needs one of them has a
//! counterpart behind a listener without them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Received, TestGateway, received};
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use harness::tools::repository;
use serde_json::{Value, json};

/// A listener with `answers`, and one without.
const WITH: &str = "with";
const WITHOUT: &str = "without";
/// An operation with a target, and one of a backend that gets paths as they are.
const PATH: &str = "/v1/refunds";
const NAMESPACE: &str = "t-acme:health-prod:user:u1:";

#[derive(Clone, Copy)]
enum Sdk {
    Node,
    Python,
}
use Sdk::{Node, Python};

struct SdksSetup {
    gateway: TestGateway,
    sdks: PathBuf,
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [(Node, "stripe-node"), (Python, "stripe-python")].into_iter().flat_map(|(sdk, name)| {
        let test = |what: &str, body: fn(&SdksSetup, Sdk) -> Result<()>| {
            Test::new(format!("{name}: {what}"), move |setup: &SdksSetup| body(setup, sdk))
        };
        [
            test("its own key is taken and namespaced", own_key),
            test("a key of the application is taken", given_key),
            test("a 400 of the filter is an error", refused),
            test("a 503 is tried again with the same key", busy),
            test("a stored 409 is not tried again", conflict),
            test("a stored 500 is not tried again", failed),
        ]
    });
    Ok(vec![sharing(SdksSetup::start, tests.collect())])
}

impl SdksSetup {
    fn start() -> Result<Self> {
        let sdks = env::var_os("EDGE_SDKS").map_or_else(|| repository().join(".tools/sdks"), PathBuf::from);
        for part in ["node/node_modules/stripe", "python/stripe"] {
            ensure!(
                sdks.join(part).is_dir(),
                "{} has no {part}: run `make tools-all`, or set EDGE_SDKS",
                sdks.display()
            );
        }
        let policy = |answers: &Value| {
            let mut policy = json!({
                "version": 1,
                "docs_url": "https://developers.example.com/idempotency",
                "identity": {"sources": [tokens::source()]},
                "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
                "routes": [{"endpoint": "refunds.create", "path": PATH, "policy": "REQUIRED_A", "target": "Refunds/create"}]
            });
            if let (Some(members), Some(answers)) = (policy.as_object_mut(), answers.as_object()) {
                members.extend(answers.clone());
            }
            policy.to_string()
        };
        let listener = |name: &str, answers: Value| {
            (name.to_owned(), ListenerSpec { policy: policy(&answers), changes: vec![Change::EveryPath] })
        };
        let both = json!({"retry_headers": ["x-should-retry", "stripe-should-retry"], "error_member": true});
        let gateway = TestGateway::start(&[listener(WITH, both), listener(WITHOUT, json!({}))])?;
        Ok(Self { gateway, sdks })
    }

    /// One call of the application: what it sees, and what reached the upstream.
    fn call(&self, sdk: Sdk, listener: &str, key: Option<&str>, answer: Answer) -> Result<(Value, Vec<Received>)> {
        self.gateway.capture().answer(answer);
        self.gateway.capture().take();
        let token = self.gateway.token(&json!({"tenant_id": "acme", "project_id": "health-prod", "sub": "u1"}))?;
        let port = self.gateway.address(listener)?.port();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdks");
        let mut command = match sdk {
            Node => {
                let mut node = Command::new("node");
                node.arg(folder.join("client.js")).env("NODE_PATH", self.sdks.join("node/node_modules"));
                node
            }
            Python => {
                let mut python = Command::new("python3");
                python.arg(folder.join("client.py")).env("PYTHONPATH", self.sdks.join("python"));
                python.env("PYTHONDONTWRITEBYTECODE", "1");
                python
            }
        };
        for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        command.arg(json!({"port": port, "token": token, "path": PATH, "key": key}).to_string());
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "the client ended with {}: {}", output.status, told());
        let seen = serde_json::from_str(&text).with_context(|| format!("the client printed {}", told()))?;
        let requests = self.gateway.capture().take().into_iter().map(received).collect::<Result<_>>()?;
        Ok((seen, requests))
    }
}

/// An answer of the backend, as Restate marks those of handlers.
fn handler(status: u16, body: &str) -> Answer {
    let line = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let mut headers = vec![line("content-type", "application/json"), line("x-restate-id", "inv_1")];
    if status >= 400 {
        headers.push(line("x-restate-error-source", "invocation"));
    }
    Answer { status, headers, body: body.into(), trailers: Vec::new() }
}

/// An answer of Restate's ingress.
fn ingress(status: u16) -> Answer {
    let line = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let headers = vec![line("content-type", "application/json"), line("x-restate-error-source", "ingress")];
    Answer { status, headers, body: br#"{"message":"busy"}"#.to_vec(), trailers: Vec::new() }
}

/// The keys that reached the upstream, without the namespace.
fn keys(requests: &[Received]) -> Result<Vec<String>> {
    let key = |request: &Received| {
        let line =
            request.headers.iter().find(|(name, _)| name == "idempotency-key").context("a request without key")?;
        let key = String::from_utf8(line.1.clone())?;
        Ok(key.strip_prefix(NAMESPACE).with_context(|| format!("{key} is not namespaced"))?.to_owned())
    };
    requests.iter().map(key).collect()
}

fn ensure_seen(seen: &Value, expected: &[(&str, Value)]) -> Result<()> {
    for (name, value) in expected {
        ensure!(seen.get(name) == Some(value), "`{name}` is not {value}: the application sees {seen}");
    }
    Ok(())
}

fn own_key(setup: &SdksSetup, sdk: Sdk) -> Result<()> {
    let (seen, requests) = setup.call(sdk, WITH, None, handler(200, r#"{"id":"re_1","object":"refund"}"#))?;
    ensure_seen(&seen, &[("ok", json!(true))])?;
    ensure!(seen.pointer("/body/id") == Some(&json!("re_1")), "the application sees {seen}");
    let [key] = keys(&requests)?.try_into().map_err(|keys| anyhow::anyhow!("not one request: {keys:?}"))?;
    let uuid = match sdk {
        Node => key.strip_prefix("stripe-node-retry-"),
        Python => Some(key.as_str()),
    };
    ensure!(uuid.is_some_and(|uuid| uuid.len() == 36 && uuid.split('-').count() == 5), "the SDK's key is {key}");
    Ok(())
}

fn given_key(setup: &SdksSetup, sdk: Sdk) -> Result<()> {
    let (seen, requests) = setup.call(sdk, WITH, Some("order-1001"), handler(200, r#"{"id":"re_1"}"#))?;
    ensure_seen(&seen, &[("ok", json!(true))])?;
    ensure!(keys(&requests)? == ["order-1001"], "the upstream got {requests:?}");
    Ok(())
}

fn refused(setup: &SdksSetup, sdk: Sdk) -> Result<()> {
    let (seen, requests) = setup.call(sdk, WITH, Some("order 1001"), handler(200, "{}"))?;
    ensure!(requests.is_empty(), "the upstream got {requests:?}");
    ensure_seen(
        &seen,
        &[
            ("ok", json!(false)),
            ("status", json!(400)),
            ("code", json!("idempotency_key_invalid")),
            ("waits", json!([])),
        ],
    )?;
    let (error, message) = (seen.get("error").and_then(Value::as_str), seen.get("message").and_then(Value::as_str));
    let class = match sdk {
        Node => "StripeIdempotencyError",
        Python => "IdempotencyError",
    };
    ensure!(error == Some(class), "the application sees {seen}");
    ensure!(message.is_some_and(|message| message.contains("The idempotency key")), "the application sees {seen}");

    // Without the member one SDK takes the 400 for a success, and the other cannot read it.
    let (seen, _) = setup.call(sdk, WITHOUT, Some("order 1001"), handler(200, "{}"))?;
    match sdk {
        Node => ensure_seen(&seen, &[("ok", json!(true))]),
        Python => ensure_seen(&seen, &[("error", json!("APIError")), ("code", Value::Null)]),
    }
}

fn busy(setup: &SdksSetup, sdk: Sdk) -> Result<()> {
    let (seen, requests) = setup.call(sdk, WITH, None, ingress(503))?;
    let keys = keys(&requests)?;
    ensure!(keys.len() == 3 && keys.iter().all(|key| Some(key) == keys.first()), "the upstream got the keys {keys:?}");
    ensure_seen(&seen, &[("ok", json!(false)), ("status", json!(503)), ("code", json!("dependency_unavailable"))])?;
    // `Retry-After` says 5.
    let waits: Vec<f64> =
        seen.pointer("/waits").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64).collect();
    ensure!(waits == [5.0, 5.0], "the SDK waits {waits:?}");
    Ok(())
}

/// Where the error is stored under the key, a retry gets it again: it costs time and changes nothing.
fn conflict(setup: &SdksSetup, sdk: Sdk) -> Result<()> {
    not_again(setup, sdk, 409)
}

fn failed(setup: &SdksSetup, sdk: Sdk) -> Result<()> {
    not_again(setup, sdk, 500)
}

fn not_again(setup: &SdksSetup, sdk: Sdk, status: u16) -> Result<()> {
    let body = r#"{"error":{"type":"invalid_request_error","code":"refund_disputed","message":"No."}}"#;
    for (listener, times) in [(WITH, 1), (WITHOUT, 3)] {
        let (seen, requests) = setup.call(sdk, listener, None, handler(status, body))?;
        ensure!(requests.len() == times, "{listener} `answers` the upstream got {} requests", requests.len());
        ensure_seen(&seen, &[("ok", json!(false)), ("status", json!(status)), ("code", json!("refund_disputed"))])?;
    }
    Ok(())
}
