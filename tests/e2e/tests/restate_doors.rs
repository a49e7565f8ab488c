//! Restate 1.8 gives every request with a content type of gRPC to a service of its own that calls any handler under any key, whatever
//! its path. Over HTTP/2, in a real Envoy that leads every path to the backend, none gets past the filter, and no claim is made.

use anyhow::{Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::{Value, json};

const TYPES: [&str; 3] = ["application/grpc", "Application/GRPC+proto", "application/grpc-web-text; x=1"];
/// Paths of that service, which are closed with any content type.
const DOORS: [&str; 3] = [
    "/dev.restate.ingress.ingestion.v1.IngestionSvc/Ingest",
    "/DEV%2Erestate.Other/Call",
    "//dev.restate.ingress.integration.v1.IntegrationSvc/./Ingest",
];

/// A listener: its policy, and paths that lead to the backend there with another content type; with a key, or without one.
type Sweep = (String, Value, Vec<(&'static str, &'static str, bool)>);

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![sharing(start, vec![Test::new("no content type of gRPC reaches Restate", sweep)])])
}

fn sweeps() -> Vec<Sweep> {
    let route = |endpoint: &str, path: &str, policy: &str, more: Value| {
        let mut route = json!({"endpoint": endpoint, "path": path, "policy": policy});
        json_patch(&mut route, more);
        route
    };
    let target = json!({"target": "Refunds/create", "collision": "enforce"});
    let document = |unmatched: &str, rewrites: bool, routes: &[Value]| {
        json!({
            "version": 1, "unmatched": unmatched,
            "identity": {"sources": [{
                "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                "tenant": "tenant_id", "project": {"value": "shop"}, "subject": {"field": "sub", "type": "user"},
            }]},
            "backend": {"kind": "restate", "rewrite_path": rewrites, "cluster": "backend", "guard": {}},
            "routes": routes,
        })
    };
    let every = |policy: &str| [route("any", "/{service}/{handler}", policy, json!({}))];
    let own = [
        route("refunds", "/api/refunds", "REQUIRED_A", target),
        route("plain", "/api/plain", "ACCEPTED", json!({})),
        route("closed", "/api/closed", "PROHIBITED", json!({})),
        route("internal", "/api/internal", "HANDLER_INTERNAL_C", json!({"mode": "shadow"})),
    ];
    let declared = [
        ("POST", "/api/refunds", true),
        ("POST", "/api/plain", true),
        ("POST", "/api/plain", false),
        ("POST", "/api/closed", false),
        ("POST", "/api/internal", false),
    ];
    let stored = ("GET", "/api/refunds/by-idempotency-key/k-1", false);
    let mut sweeps =
        vec![("rewritten".to_owned(), document("REJECT", true, &own), [&declared[..], &[stored]].concat())];
    for unmatched in ["PROHIBITED", "HANDLER_INTERNAL_C"] {
        let open = [&declared[..], &[("POST", "/Other/call", false), ("GET", "/", false)]].concat();
        sweeps.push((format!("unmatched {unmatched}"), document(unmatched, false, &own), open));
    }
    for (policy, has_key) in [("ACCEPTED", false), ("REQUIRED_A", true)] {
        sweeps.push((
            format!("every path {policy}"),
            document("REJECT", false, &every(policy)),
            vec![("POST", "/Other/call", has_key)],
        ));
    }
    sweeps
}

fn json_patch(to: &mut Value, more: Value) {
    if let (Some(to), Value::Object(more)) = (to.as_object_mut(), more) {
        to.extend(more);
    }
}

fn start() -> Result<TestGateway> {
    let listener = |policy: Value| ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
    TestGateway::start(&sweeps().into_iter().map(|(name, policy, _)| (name, listener(policy))).collect::<Vec<_>>())
}

fn sweep(gateway: &TestGateway) -> Result<()> {
    let token = gateway.token(&json!({"tenant_id": "acme", "sub": "u1"}))?;
    let sent = |method: &str, path: &str, kind: &str, has_key: bool| {
        let request = Request::new(method, path).bearer(&token).header("content-type", kind).header("te", "trailers");
        let request = if method == "POST" { request.body("\0\0\0\0\x05hello") } else { request };
        if has_key { request.header("idempotency-key", "k-1") } else { request }
    };
    for (listener, _, open) in sweeps() {
        for (method, path, has_key) in open {
            let plain = gateway.http2(&listener, &sent(method, path, "application/json", has_key))?;
            ensure!(!plain.received.is_empty(), "{listener}: {method} {path} does not reach the backend at all");
            for kind in TYPES {
                let seen = gateway.http2(&listener, &sent(method, path, kind, has_key))?;
                let label = || format!("{listener}: {method} {path} with {kind}: {}", seen.upstream());
                ensure!(seen.received.is_empty(), "{}", label());
                let text = String::from_utf8_lossy(&seen.reply.body).into_owned();
                let is_told = seen.reply.status == 415 && text.contains("unsupported_content_type");
                // Callers of gRPC are answered in their protocol, with the status `UNIMPLEMENTED`.
                // The text form begins with a frame of trailers, `80 00 00` in base64.
                let is_rpc = seen.reply.headers.contains(&("grpc-status".to_owned(), b"12".to_vec()))
                    || text.contains("grpc-status: 12")
                    || kind.contains("grpc-web-text") && text.starts_with("gAAA");
                ensure!(is_told || is_rpc, "{}: {} {text}", label(), seen.reply.status);
            }
        }
        for path in DOORS {
            for kind in TYPES.iter().chain(&["application/json"]) {
                for has_key in [false, true] {
                    let seen = gateway.http2(&listener, &sent("POST", path, kind, has_key))?;
                    ensure!(seen.received.is_empty(), "{listener}: {path} with {kind}: {}", seen.upstream());
                }
            }
        }
    }
    Ok(())
}
