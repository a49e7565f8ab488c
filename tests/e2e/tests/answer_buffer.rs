//! A successful answer whose `Location` is made from its body, where the gateway's buffer is small: up to the buffer it is
//! shaped, and between the buffer and 1 MiB the gateway makes it an error.

use anyhow::{Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::json;

/// A listener with room for the longest body that is read, and one without.
const WIDE: &str = "wide";
const NARROW: &str = "narrow";
const NARROW_BUFFER: u32 = 32_768;

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![sharing(
        start,
        vec![Test::new("only a buffer of more than the bound leaves long answers as they are", lengths)],
    )])
}

fn start() -> Result<TestGateway> {
    let policy = json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": {"value": "shop"}, "subject": {"field": "sub", "type": "user"},
        }]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
        "routes": [{
            "endpoint": "orders", "path": "/api/v1/orders", "policy": "REQUIRED_A", "target": "Orders/create",
            "answer": {"location": "/api/v1/orders/{body:/id}"},
        }],
    });
    let listener =
        |buffer: u32| ListenerSpec { policy: policy.to_string(), changes: vec![Change::ConnectionBuffer(buffer)] };
    TestGateway::start(&[(WIDE.to_owned(), listener(1 << 20)), (NARROW.to_owned(), listener(NARROW_BUFFER))])
}

fn lengths(gateway: &TestGateway) -> Result<()> {
    let token = gateway.token(&json!({"tenant_id": "acme", "sub": "u1"}))?;
    for (listener, length, status, location) in [
        (WIDE, 60_000, 200, true),
        (WIDE, 200_000, 200, true),
        (WIDE, 1_200_000, 200, false),
        (NARROW, 1_000, 200, true),
        (NARROW, 60_000, 500, false),
        (NARROW, 200_000, 500, false),
        // Its `content-length` tells that it is too long, so nothing waits for it.
        (NARROW, 1_200_000, 200, false),
    ] {
        let headers = [("content-type", "application/json"), ("x-restate-id", "inv_1")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into();
        let body = format!("{{\"id\": 7, \"padding\": \"{}\"}}", "x".repeat(length)).into_bytes();
        let answer = Answer { headers, body, ..Answer::default() };
        let request = Request::post("/api/v1/orders").bearer(&token).header("idempotency-key", "k-1");
        let seen = gateway.http1_answered(listener, &request, &answer)?;
        let (found, at) = (seen.reply.status, seen.reply.text_header("location"));
        ensure!(found == status, "{listener}, {length} bytes: {found}");
        ensure!(at == location.then_some("/api/v1/orders/7"), "{listener}, {length} bytes: {at:?}");
    }
    Ok(())
}
