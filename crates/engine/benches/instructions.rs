//! A program for callgrind, which counts instructions where the processor's counters cannot be read (`perf stat`): it makes the same
//! exchange many times, each callback in a function of its own.
//!
//! ```console
//! $ cargo bench --package edge-idempotency-engine --bench instructions --no-run   # prints the program's path
//! $ valgrind --tool=callgrind --toggle-collect='*keyed_request*' PROGRAM           # per 1,000 exchanges
//! ```
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that measures the wrong thing has to stop")]

mod messages;

use direct::attributes::FixedClaims;
use edge_idempotency_engine::{
    AttributeValue, Attributes, Body, Call, Configuration, Exchange, FilterAction, HeaderLines, HeaderMapKind, Headers,
    Host, HostError, LocalReply, LogLevel, MetadataPath, MetricId, MetricSeries, Policy, RequestFlow, RouterHints,
    Stream,
};
use messages::{MessageLines, replay, request};
use std::hint::black_box;
use std::sync::Arc;

/// A gateway that gives the same request and answer each time, and takes every edit.
struct CountedGateway {
    request: MessageLines,
    answer: MessageLines,
}

impl HeaderLines for OwnedLines {
    fn headers(&self) -> Option<Headers<'_>> {
        Some(Headers::new(self.0.clone()))
    }
}

struct OwnedLines(MessageLines);

impl Attributes for CountedGateway {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        JWT.metadata(path)
    }
    fn route_endpoint(&self) -> AttributeValue<'_> {
        AttributeValue::Absent
    }
    fn now_unix_ms(&self) -> u64 {
        0
    }
    fn router(&self) -> Option<&'static RouterHints> {
        None
    }
}

impl Host for CountedGateway {
    type Lines = OwnedLines;
    fn header_lines(&self, map: HeaderMapKind) -> OwnedLines {
        OwnedLines(if map == HeaderMapKind::Request { self.request.clone() } else { self.answer.clone() })
    }
    fn set_header(&self, _: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        black_box((name, value));
        Ok(())
    }
    fn remove_header(&self, _: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
        black_box(name);
        Ok(())
    }
    fn with_request_body<T>(&self, _: usize, _: usize, _: impl FnOnce(&Body<'_>) -> T) -> Result<T, HostError> {
        Err(HostError)
    }
    fn response_body(&self, _: usize) -> Result<Vec<u8>, HostError> {
        Err(HostError)
    }
    fn set_response_body(&self, _: &[u8]) -> Result<(), HostError> {
        Err(HostError)
    }
    fn reply(&self, _: &LocalReply<'_>) -> Result<(), HostError> {
        Err(HostError)
    }
    fn resume_request(&self) -> Result<(), HostError> {
        Err(HostError)
    }
    fn resume_response(&self) -> Result<(), HostError> {
        Err(HostError)
    }
    fn received_bytes(&self) -> Option<u64> {
        None
    }
    fn call(&self, _: &Call) -> Result<u32, HostError> {
        Err(HostError)
    }
    fn define_metric(&self, _: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        Ok(MetricId(1))
    }
    fn add_to_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> {
        Ok(())
    }
    fn record_in_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> {
        Ok(())
    }
    fn set_record(&self, record: &[u8]) -> Result<(), HostError> {
        black_box(record);
        Ok(())
    }
    fn log_level(&self) -> LogLevel {
        LogLevel::Info
    }
    fn log(&self, _: LogLevel, _: &str) {}
}

#[inline(never)]
fn keyed_stream(shared: &mut Configuration, host: &CountedGateway) -> FilterAction {
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
fn idle_stream(shared: &mut Configuration, host: &CountedGateway) -> (u8, FilterAction) {
    let mut stream = Stream::new(1, shared);
    stream.on_request_headers(host, shared, true);
    let action = stream.on_response_headers(host, shared, false);
    stream.on_end(shared);
    (1, action)
}

fn main() {
    let (keyed_policy, idle_policy) =
        (Policy::from_json(POLICY).expect("a policy"), Policy::from_json(IDLE_POLICY).expect("a policy"));
    let keyed = Headers::new(request(
        "POST",
        "/api/v1/conversations/send-message",
        Some("8e03978e-40d5-43e8-bc93-6894a57f9324"),
    ));
    let idle = Headers::new(request("GET", "/api/v1/projects", None));
    let (stored, passed) = (Headers::new(answer(true)), Headers::new(answer(false)));
    let (keyed_policy, idle_policy) = (Arc::new(keyed_policy), Arc::new(idle_policy));
    let gateway = CountedGateway {
        request: request("POST", "/api/v1/conversations/send-message", Some("8e03978e-40d5-43e8-bc93-6894a57f9324")),
        answer: answer(true),
    };
    let idle_gateway = CountedGateway { request: request("GET", "/api/v1/projects", None), answer: answer(false) };
    let mut keyed_shared = Configuration::of(Arc::clone(&keyed_policy));
    let mut idle_shared = Configuration::of(Arc::clone(&idle_policy));
    for _ in 0..1000 {
        black_box(keyed_stream(&mut keyed_shared, &gateway));
        black_box(idle_stream(&mut idle_shared, &idle_gateway));
        let mut exchange = Exchange::new();
        black_box(keyed_request(&mut exchange, black_box(&keyed_policy), black_box(&keyed)));
        black_box(keyed_response(&mut exchange, black_box(&keyed_policy), black_box(&stored)));
        let mut exchange = Exchange::new();
        black_box(idle_request(&mut exchange, black_box(&idle_policy), black_box(&idle)));
        black_box(idle_response(&mut exchange, black_box(&idle_policy), black_box(&passed)));
    }
}
