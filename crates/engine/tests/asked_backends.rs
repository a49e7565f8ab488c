//! Whom the filter asks about a request: the guard and the Restate of the route's own backend, and no other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common::posting;
use edge_idempotency_engine::{Call, Configuration, FilterAction, Policy, Stream};
use std::sync::Arc;

/// Two Restates and an API with a guard. The same paths of the calls tell nothing about the backend.
const DOCUMENT: &str = r#"{
    "version": 1,
    "backend": "east",
    "backends": {
        "api": {"kind": "generic", "cluster": "api", "guard": {}},
        "east": {"kind": "restate", "rewrite_path": true, "cluster": "restate-east", "guard": {}},
        "west": {"kind": "restate", "rewrite_path": true, "cluster": "restate-west", "authority": "west.internal", "timeout_ms": 2500, "guard": {}}
    },
    "identity": {"sources": [
        {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
    ]},
    "routes": [
        {"endpoint": "e", "path": "/east", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce", "in_flight": "conflict"},
        {"endpoint": "w", "path": "/west", "policy": "REQUIRED_A", "backend": "west", "target": "A/run", "collision": "enforce", "in_flight": "conflict"},
        {"endpoint": "we", "path": "/west-seen", "policy": "REQUIRED_A", "backend": "west", "target": "A/see", "collision": "observe"},
        {"endpoint": "p", "path": "/api", "policy": "REQUIRED_A", "backend": "api", "target": "A/run", "collision": "enforce"},
        {"endpoint": "po", "path": "/api-plain", "policy": "REQUIRED_A", "backend": "api"}
    ]
}"#;

/// Whom a request has the filter call, one after the other, and for how many milliseconds; each call but the guard's and the lookup of an invocation is answered
/// as if nothing was stored.
fn called(path: &'static [u8], method: &'static [u8]) -> Vec<[String; 4]> {
    let mut shared = Configuration::of(Arc::new(Policy::from_json(DOCUMENT.as_bytes()).unwrap()));
    let mut gateway = posting(path);
    gateway.request.headers[0].1 = method;
    let mut stream = Stream::new(1, &shared);
    let end = method == b"GET";
    if stream.on_request_headers(&gateway, &mut shared, end) == FilterAction::Pause || !end {
        stream.on_request_body(&gateway, &mut shared, 0, true);
    }
    gateway.answer_calls(&mut shared, &mut stream, |call| match call.line(":path") {
        path if path.ends_with("/claim") => (Some(200), call.body.clone()),
        path if path.ends_with("/lookup") => (Some(200), br#"{"invocationId": "inv_1"}"#.to_vec()),
        _ => (Some(404), b"{}".to_vec()),
    });
    assert!(!gateway.has_replied());
    let called = |call: &Call| {
        [&call.cluster, call.line(":authority"), call.line(":path"), &call.timeout_ms.to_string()].map(str::to_owned)
    };
    gateway.calls.take().iter().map(called).collect()
}

#[test]
fn each_request_has_its_own_backend_asked() {
    let east = |path: &str| ["restate-east", "restate-east", path, "1000"].map(str::to_owned);
    let west = |path: &str| ["restate-west", "west.internal", path, "2500"].map(str::to_owned);
    let api = |path: &str| ["api", "api", path, "1000"].map(str::to_owned);
    let in_flight = "/restate/output";
    for (path, method, expected) in [
        (&b"/east"[..], &b"POST"[..], vec![east("/restate/call/IdempotencyGuard/claim"), east(in_flight)]),
        (b"/west", b"POST", vec![west("/restate/call/IdempotencyGuard/claim"), west(in_flight)]),
        (b"/west-seen", b"POST", vec![west("/restate/call/IdempotencyGuard/claim")]),
        (b"/api", b"POST", vec![api("/restate/call/IdempotencyGuard/claim")]),
        (b"/api-plain", b"POST", vec![]),
        (b"/east/by-idempotency-key/k", b"GET", vec![east("/restate/lookup")]),
        (b"/west/by-idempotency-key/k", b"GET", vec![west("/restate/lookup")]),
        (b"/west-seen/by-idempotency-key/k/output", b"GET", vec![west("/restate/lookup")]),
    ] {
        assert_eq!(called(path, method), expected, "{}", path.escape_ascii());
    }
}
