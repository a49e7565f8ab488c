//! A program for callgrind, which counts instructions where the processor's counters cannot be read (`perf stat`): it makes the same
//! exchange many times, each callback in a function of its own.
//!
//! ```console
//! $ cargo bench --package bench --bench instructions --no-run   # prints the program's path
//! $ valgrind --tool=callgrind --toggle-collect='*keyed_request*' PROGRAM           # per 1,000 exchanges
//! ```
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that measures the wrong thing has to stop")]

mod messages;

use direct::attributes::FixedClaims;
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::{Configuration, Exchange, FilterAction, Headers, Policy, RequestFlow, Stream};
use messages::{MessageLines, replay, request};
use std::hint::black_box;
use std::sync::Arc;

/// A gateway with a request and an answer.
fn gateway(request: MessageLines, answer: MessageLines) -> MemoryGateway<'static> {
    let mut gateway = MemoryGateway { attributes: Some(&JWT), ..MemoryGateway::default() };
    (gateway.request.headers, gateway.response.headers) = (request, answer);
    gateway
}

#[inline(never)]
fn keyed_stream(shared: &mut Configuration, host: &MemoryGateway<'_>) -> FilterAction {
    let mut stream = Stream::new(1, shared);
    stream.on_request_headers(host, shared, true);
    let action = stream.on_response_headers(host, shared, false);
    stream.on_end(shared);
    action
}

const POLICY: &[u8] = br#"{"version": 1, "docs_url": "https://developers.example.com/idempotency",
    "identity": {
      "sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id",
                   "project": "project_id", "subject": {"field": "sub", "type": "user"}}],
      "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"}},
    "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
    "routes": [
      {"endpoint": "conversations.send-message", "path": "/api/v1/conversations/send-message",
       "policy": "REQUIRED_A", "target": "Conversations/sendMessage"},
      {"endpoint": "projects.list", "methods": ["GET"], "path": "/api/v1/projects", "policy": "HANDLER_INTERNAL_C"},
      {"endpoint": "projects.change", "path": "/api/v1/projects/{id}/change", "policy": "ACCEPTED", "target": "P/{id}/change"}]}"#;

const IDLE_POLICY: &[u8] = br#"{"version": 1, "identity": {
      "sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id",
                   "project": "project_id", "subject": {"field": "sub", "type": "user"}}]},
    "backend": {"kind": "restate"},
    "routes": [
      {"endpoint": "conversations.send-message", "path": "/api/v1/conversations/send-message", "policy": "REQUIRED_A"},
      {"endpoint": "projects.list", "methods": ["GET"], "path": "/api/v1/projects", "policy": "HANDLER_INTERNAL_C"}]}"#;

const JWT: FixedClaims = FixedClaims(&[("tenant_id", "acme"), ("project_id", "health-prod"), ("sub", "alice")]);

/// The answer to a request: the stored one, or one of a handler that the backend keeps nothing of.
fn answer(stored: bool) -> MessageLines {
    let of_backend = |name: &[u8]| matches!(name, b"x-restate-id" | b"idempotency-expires");
    replay().into_iter().filter(|(name, _)| stored || !of_backend(name)).collect()
}

macro_rules! callbacks {
    ($request:ident, $response:ident) => {
        #[inline(never)]
        fn $request(exchange: &mut Exchange, policy: &Policy, headers: &Headers<'_>) -> usize {
            let mut effects = Vec::new();
            let flow = exchange.request_headers(policy, headers, &JWT, &mut effects);
            assert!(matches!(flow, RequestFlow::Continue));
            effects.len()
        }

        #[inline(never)]
        fn $response(exchange: &mut Exchange, policy: &Policy, headers: &Headers<'_>) -> usize {
            let mut effects = Vec::new();
            exchange.response_headers(policy, headers, &mut effects);
            effects.len()
        }
    };
}
callbacks!(keyed_request, keyed_response);
callbacks!(idle_request, idle_response);

#[inline(never)]
fn idle_stream(shared: &mut Configuration, host: &MemoryGateway<'_>) -> (u8, FilterAction) {
    let mut stream = Stream::new(1, shared);
    stream.on_request_headers(host, shared, true);
    let action = stream.on_response_headers(host, shared, false);
    stream.on_end(shared);
    (1, action)
}

fn main() {
    let (keyed_policy, idle_policy) =
        (Policy::from_json(POLICY).expect("a policy"), Policy::from_json(IDLE_POLICY).expect("a policy"));
    let (stored, passed) = (Headers::new(answer(true)), Headers::new(answer(false)));
    let (keyed_policy, idle_policy) = (Arc::new(keyed_policy), Arc::new(idle_policy));
    let keyed_lines =
        request("POST", "/api/v1/conversations/send-message", Some("8e03978e-40d5-43e8-bc93-6894a57f9324"));
    let keyed = Headers::new(keyed_lines.clone());
    let idle_lines = request("GET", "/api/v1/projects", None);
    let idle = Headers::new(idle_lines.clone());
    let (keyed_gateway, idle_gateway) = (gateway(keyed_lines, answer(true)), gateway(idle_lines, answer(false)));
    let mut keyed_shared = Configuration::of(Arc::clone(&keyed_policy));
    let mut idle_shared = Configuration::of(Arc::clone(&idle_policy));
    for _ in 0..1000 {
        // Each request is as the first one was.
        keyed_gateway.edits.take();
        idle_gateway.edits.take();
        black_box(keyed_stream(&mut keyed_shared, &keyed_gateway));
        black_box(idle_stream(&mut idle_shared, &idle_gateway));
        let mut exchange = Exchange::new();
        black_box(keyed_request(&mut exchange, black_box(&keyed_policy), black_box(&keyed)));
        black_box(keyed_response(&mut exchange, black_box(&keyed_policy), black_box(&stored)));
        let mut exchange = Exchange::new();
        black_box(idle_request(&mut exchange, black_box(&idle_policy), black_box(&idle)));
        black_box(idle_response(&mut exchange, black_box(&idle_policy), black_box(&passed)));
    }
}
