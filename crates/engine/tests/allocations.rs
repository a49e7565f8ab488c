//! How many pieces of memory an exchange asks for, without a host. It may be less, and never more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use allocation_counter::measure;
use direct::attributes::FixedClaims;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::{Exchange, Policy, RequestFlow};

const POLICY: &[u8] = br#"{"version": 1,
    "identity": {
      "sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id",
                   "project": "project_id", "subject": {"field": "sub", "type": "user"}}],
      "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"}},
    "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
    "routes": [
      {"endpoint": "refunds", "path": "/api/v1/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"},
      {"endpoint": "projects.list", "methods": ["GET"], "path": "/api/v1/projects", "policy": "HANDLER_INTERNAL_C"}]}"#;

/// A policy that forwards no identity.
const SHORT_POLICY: &[u8] = br#"{"version": 1,
    "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id",
                              "project": "project_id", "subject": {"field": "sub", "type": "user"}}]},
    "backend": {"kind": "restate"},
    "routes": [{"endpoint": "projects.list", "methods": ["GET"], "path": "/api/v1/projects", "policy": "HANDLER_INTERNAL_C"}]}"#;

const CLAIMS: FixedClaims = FixedClaims(&[("tenant_id", "acme"), ("project_id", "shop"), ("sub", "alice")]);

type ByteLines = Vec<(&'static [u8], &'static [u8])>;

fn request(method: &'static str, path: &'static str) -> ByteLines {
    vec![
        (b":method", method.as_bytes()),
        (b":path", path.as_bytes()),
        (b":authority", b"api.example.com"),
        (b"accept", b"application/json"),
        (b"authorization", b"Bearer x"),
        (b"x-request-id", b"5b1f2a52-6d3c-4c0e-9b42-0d6a3b0f6c11"),
    ]
}

fn answer() -> ByteLines {
    vec![(b":status", b"200"), (b"content-type", b"application/json"), (b"content-length", b"2")]
}

/// The allocations of the request's headers, and of the response's.
fn allocations(policy: &[u8], request: ByteLines, answer: ByteLines) -> (u64, u64) {
    let policy = Policy::from_json(policy).unwrap();
    let (request, answer) = (Headers::new(request), Headers::new(answer));
    let mut exchange = Exchange::new();
    let of_request = measure(|| {
        let mut effects = Vec::new();
        let flow = exchange.request_headers(&policy, &request, &CLAIMS, &mut effects);
        assert!(matches!(flow, RequestFlow::Continue));
    });
    let of_response = measure(|| {
        let mut effects = Vec::new();
        exchange.response_headers(&policy, &answer, &mut effects);
    });
    (of_request.count_total, of_response.count_total)
}

#[test]
fn a_keyed_request_and_its_replay() {
    let mut keyed = request("POST", "/api/v1/refunds");
    keyed.push((b"idempotency-key", b"8e03978e-40d5-43e8-bc93-6894a57f9324"));
    let mut replay = answer();
    replay
        .extend([(&b"x-restate-id"[..], &b"inv_1abc"[..]), (b"idempotency-expires", b"Fri, 02 Jan 2026 00:00:00 GMT")]);
    let counts = allocations(POLICY, keyed, replay);
    // The effects, the headers to remove; tenant, project, subject and key, once for the exchange and once for the backend.
    assert!(counts.0 <= 10 && counts.1 <= 2, "{counts:?}");
}

#[test]
fn a_request_with_nothing_to_do() {
    let counts = allocations(SHORT_POLICY, request("GET", "/api/v1/projects"), answer());
    // Records and metrics know the caller: tenant, project and subject, and what holds them.
    assert!(counts.0 <= 6 && counts.1 == 0, "{counts:?}");
}
