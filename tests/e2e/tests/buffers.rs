//! The gateway's limits of buffers, and what the filter waits for (docs/security.md, "Know the buffers"). For a request's body the
//! listener's counts, or the greater one of a route that leads to a cluster; a route with `direct_response` has only the listener's. A
//! successful answer whose `Location` is made from its body is shaped up to the buffer, and an error between the buffer and 1 MiB.

use anyhow::{Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::{Value, json};

/// The buffer of most listeners, a body between it and the routes' limit, and the routes' limit.
const NARROW: u32 = 32_768;
const BODY: usize = 200_000;
const ROUTES: u32 = 1_114_112;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let requests = Test::new("the limit of a route counts if it leads to a cluster", requests);
    let answers = Test::new("only a buffer of more than the bound leaves long answers as they are", answers);
    Ok(vec![sharing(start, vec![requests, answers])])
}

fn start() -> Result<TestGateway> {
    let policy = json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
        "allow_inline_secrets": true,
        "webhooks": {"static": {"wh_01JGITHUB": {
            "tenant": "acme", "project": "shop", "provider": "github", "secrets": ["0123456789abcdef0123456789abcdef"],
        }}},
        "routes": [
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "target": "Hooks/take", "webhook": {}},
            {"endpoint": "orders", "path": "/api/v1/orders", "policy": "REQUIRED_A", "target": "Orders/create",
                "answer": {"location": "/api/v1/orders/{body:/id}"}},
        ],
    });
    let listener = |name: &str, mut changes: Vec<Change>, buffer: u32| {
        changes.push(Change::ConnectionBuffer(buffer));
        (name.to_owned(), ListenerSpec { policy: policy.to_string(), changes })
    };
    let route = |destination: &str, to: Value, limit: Option<u32>| {
        let mut route = json!({"match": {"prefix": "/hooks/"}, destination: to});
        if let (Some(limit), Some(route)) = (limit, route.as_object_mut()) {
            route.insert("request_body_buffer_limit".to_owned(), limit.into());
        }
        vec![Change::Route(route)]
    };
    let cluster = || json!({"cluster": "backend-requests"});
    TestGateway::start(&[
        listener("a cluster", route("route", cluster(), Some(ROUTES)), NARROW),
        listener("no limit", route("route", cluster(), None), NARROW),
        listener("an answer", route("direct_response", json!({"status": 404}), Some(ROUTES)), NARROW),
        listener("narrow", Vec::new(), NARROW),
        listener("wide", Vec::new(), 1 << 20),
    ])
}

/// The signature is wrong, so the filter answers 401 to what it has read as a whole; Envoy answers 413 to what is too long.
fn requests(gateway: &TestGateway) -> Result<()> {
    for (listener, length, status) in [
        ("a cluster", BODY, 401),
        ("no limit", BODY, 413),
        ("an answer", BODY, 413),
        ("no limit", 1_000, 401),
        ("an answer", 1_000, 401),
    ] {
        let request = Request::post("/hooks/github/wh_01JGITHUB")
            .header("x-hub-signature-256", format!("sha256={}", "0".repeat(64)))
            .header("x-github-delivery", "d-1")
            .header("x-github-event", "push")
            .body("x".repeat(length));
        let seen = gateway.http1(listener, &request)?;
        let found = seen.reply.status;
        ensure!(found == status && seen.received.is_empty(), "{listener}, {length} bytes: {found}, not {status}");
    }
    Ok(())
}

fn answers(gateway: &TestGateway) -> Result<()> {
    let token = gateway.user_token()?;
    for (listener, length, status, location) in [
        ("wide", 60_000, 200, true),
        ("wide", 200_000, 200, true),
        ("wide", 1_200_000, 200, false),
        ("narrow", 1_000, 200, true),
        ("narrow", 60_000, 500, false),
        ("narrow", 200_000, 500, false),
        // Its `content-length` tells that it is too long, so nothing waits for it.
        ("narrow", 1_200_000, 200, false),
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
