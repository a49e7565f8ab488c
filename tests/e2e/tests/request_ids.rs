//! `instance` in problem documents under the shipped configuration: it is the id that Envoy makes, which the access log has
//! too. What a client sends as an id is not repeated.

use anyhow::{Context as _, Result, ensure};
use e2e::config::ListenerSpec;
use e2e::gateway::{Seen, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::{Value, json};

const LISTENER: &str = "shipped";
/// What a client claims to be the request's id.
const CLIENTS: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![Test::new("a refusal of the filter has the gateway's id", refused)];
    Ok(vec![sharing(start, tests)])
}

fn start() -> Result<TestGateway> {
    let policy = json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": {"value": "shop"}, "subject": {"field": "sub", "type": "user"},
        }]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
        "routes": [{"endpoint": "orders", "path": "/api/v1/orders", "policy": "REQUIRED_A", "target": "Orders/create"}],
    });
    let listener = ListenerSpec { policy: policy.to_string(), changes: Vec::new() };
    TestGateway::start(&[(LISTENER.to_owned(), listener)])
}

fn request(gateway: &TestGateway) -> Result<Request> {
    let token = gateway.token(&json!({"tenant_id": "acme", "sub": "u1"}))?;
    Ok(Request::post("/api/v1/orders").bearer(&token).header("x-request-id", CLIENTS))
}

fn refused(gateway: &TestGateway) -> Result<()> {
    is_the_gateways(gateway, &gateway.http1(LISTENER, &request(gateway)?)?, "idempotency_key_required")
}

fn is_the_gateways(gateway: &TestGateway, seen: &Seen, code: &str) -> Result<()> {
    let problem: Value = serde_json::from_slice(&seen.reply.body).context("no problem document")?;
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    ensure!(text("code") == Some(code), "another problem: {problem}");
    let instance = text("instance").with_context(|| format!("no instance: {problem}"))?;
    let id = instance.strip_prefix("urn:uuid:").with_context(|| format!("no UUID: {instance}"))?;
    ensure!(id != CLIENTS, "the client's own id");
    gateway.until("the access log has the id", |gateway| {
        Ok(gateway.access_log()?.contains(&format!("\"request_id\":\"{id}\"")))
    })
}
