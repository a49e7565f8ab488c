//! What the core takes for one request or response, without a host: `cargo bench --profile fast --package bench --bench exchange`. The cost in a
//! gateway, of which this is the small part, is `make bench`.
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that measures the wrong thing has to stop")]

mod messages;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use direct::attributes::FixedClaims;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::policy::{NormalPath, RequestUrl};
use edge_idempotency_engine::{Effect, Exchange, Policy, RequestFlow};
use messages::{replay, request};
use std::hint::black_box;

/// A platform's policy with this many routes; the one that is called stands in the middle.
fn document(routes: usize) -> Vec<u8> {
    let route = |number: usize| match number % 4 {
        _ if number == routes / 2 => {
            r#"{"endpoint": "conversations.send-message", "path": "/api/v1/conversations/send-message",
                "policy": "REQUIRED_A", "target": "Conversations/sendMessage"}"#
                .to_owned()
        }
        0 => format!(
            r#"{{"endpoint": "r{number}", "path": "/api/v1/r{number}", "policy": "PROHIBITED", "target": "R{number}/create"}}"#
        ),
        1 => format!(
            r#"{{"endpoint": "r{number}", "path": "/api/v1/r{number}", "policy": "HANDLER_INTERNAL_C", "target": "R{number}/run"}}"#
        ),
        _ => format!(
            r#"{{"endpoint": "r{number}", "path": "/api/v1/r{number}/{{id}}/change", "policy": "ACCEPTED",
                "target": "R{number}/{{id}}/change"}}"#
        ),
    };
    let routes: Vec<String> = (0..routes).map(route).collect();
    format!(
        r#"{{"version": 1, "docs_url": "https://developers.example.com/idempotency",
            "identity": {{
              "sources": [{{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id",
                           "project": "project_id", "subject": {{"field": "sub", "type": "user"}}}}],
              "forward": {{"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"}}}},
            "backend": {{"kind": "restate", "cluster": "backend", "rewrite_path": true}},
            "routes": [{}]}}"#,
        routes.join(", ")
    )
    .into_bytes()
}

fn policy(routes: usize) -> Policy {
    Policy::from_json(&document(routes)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The claims of the token.
const JWT: FixedClaims =
    FixedClaims(&[("tenant_id", "acme"), ("project_id", "health-prod"), ("sub", "firebase_uid_123")]);

const KEYED: (&str, &str) = ("POST", "/api/v1/conversations/send-message");
const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

fn headers(bench: &mut Criterion) {
    let policy = policy(12);
    let mut group = bench.benchmark_group("request");
    let cases = [
        ("keyed", request(KEYED.0, KEYED.1, Some(KEY)), true),
        ("without a key, prohibited", request("POST", "/api/v1/r0", None), true),
        ("without a key, handler internal", request("POST", "/api/v1/r1", None), true),
        ("refused, malformed key", request(KEYED.0, KEYED.1, Some("not a key")), false),
    ];
    for (name, lines, is_forwarded) in cases {
        let headers = Headers::new(lines);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut effects = Vec::new();
                let mut exchange = Exchange::new();
                let flow = exchange.request_headers(&policy, black_box(&headers), &JWT, &mut effects);
                assert_eq!(matches!(flow, RequestFlow::Continue), is_forwarded);
                // What a gateway is given: the refusal as a document.
                match effects.first() {
                    Some(Effect::Reply(problem)) => problem.document(&policy.answers).len(),
                    _ => effects.len(),
                }
            });
        });
    }
    group.finish();

    let (request, replay) = (Headers::new(request(KEYED.0, KEYED.1, Some(KEY))), Headers::new(replay()));
    bench.bench_function("request, and response with replay marks", |bencher| {
        bencher.iter(|| {
            let mut exchange = Exchange::new();
            let mut effects = Vec::new();
            exchange.request_headers(&policy, black_box(&request), &JWT, &mut effects);
            let mut effects = Vec::new();
            exchange.response_headers(&policy, black_box(&replay), &mut effects);
            assert!(effects.len() >= 3, "the operation id, renamed, and two marks");
            effects.len()
        });
    });
}

fn routes(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("route lookup");
    for count in [10, 10_000] {
        let policy = policy(count);
        group.bench_with_input(BenchmarkId::from_parameter(count), &policy, |bencher, policy| {
            let Ok(path) = NormalPath::parse(KEYED.1.as_bytes()) else { return };
            bencher.iter(|| {
                let found =
                    policy.declared(RequestUrl { authority: "api.example.com", path: black_box(&path) }, b"POST");
                assert!(matches!(found, edge_idempotency_engine::policy::RouteLookup::Route(..)));
            });
        });
    }
    group.finish();

    let mut group = bench.benchmark_group("policy compile");
    group.sample_size(10);
    for count in [10, 10_000] {
        let document = document(count);
        group.bench_with_input(BenchmarkId::from_parameter(count), &document, |bencher, document| {
            bencher.iter(|| Policy::from_json(document).expect("a policy"));
        });
    }
    group.finish();
}

criterion_group!(exchange, headers, routes);
criterion_main!(exchange);
