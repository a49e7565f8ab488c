//! Which of the gateway's limits counts for a body that the filter waits for: the listener's, or the greater one of a route
//! that leads to a cluster. A route with `direct_response` has only the listener's (docs/security.md, "Know the buffers").

use anyhow::{Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::{Value, json};

/// The listener's buffer, a body between it and the routes' limit, and the routes' limit.
const LISTENERS: u32 = 32_768;
const BODY: usize = 200_000;
const ROUTES: u32 = 1_114_112;

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![sharing(start, vec![Test::new("the limit of a route counts if it leads to a cluster", limits)])])
}

fn start() -> Result<TestGateway> {
    let policy = json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": {"value": "shop"}, "subject": {"field": "sub", "type": "user"},
        }]},
        "backend": {"kind": "generic"},
        "allow_inline_secrets": true,
        "webhooks": {"static": {"wh_01JGITHUB": {
            "tenant": "acme", "project": "shop", "provider": "github", "secrets": ["0123456789abcdef0123456789abcdef"],
        }}},
        "routes": [{"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
    });
    let listener = |destination: (&str, Value), limit: Option<u32>| {
        let mut route = json!({"match": {"prefix": "/hooks/"}, destination.0: destination.1});
        if let (Some(limit), Some(route)) = (limit, route.as_object_mut()) {
            route.insert("request_body_buffer_limit".to_owned(), limit.into());
        }
        let changes = vec![Change::ConnectionBuffer(LISTENERS), Change::Route(route)];
        ListenerSpec { policy: policy.to_string(), changes }
    };
    let cluster = || ("route", json!({"cluster": "backend-requests"}));
    let answer = ("direct_response", json!({"status": 404}));
    TestGateway::start(&[
        ("a cluster".to_owned(), listener(cluster(), Some(ROUTES))),
        ("no limit".to_owned(), listener(cluster(), None)),
        ("an answer".to_owned(), listener(answer, Some(ROUTES))),
    ])
}

/// The signature is wrong, so the filter answers 401 to what it has read as a whole; Envoy answers 413 to what is too long.
fn limits(gateway: &TestGateway) -> Result<()> {
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
