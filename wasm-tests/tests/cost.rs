//! What an exchange costs in the module.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use testkit::http::Headers;
use wasm_tests::engine::Wasm;
use wasm_tests::host::{CallbackWork, Options, StreamInfo, Vm};

const KEYED: &str = "/api/v1/conversations/send-message";
const IDLE: &str = "/api/v1/projects";

fn policy() -> Value {
    json!({
        "version": 1,
        "docs_url": "https://developers.example.com/idempotency",
        "identity": {
            "sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id",
                "project": "project_id", "subject": {"field": "sub", "type": "user"}}],
            "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"},
        },
        "backend": {"kind": "restate", "paths": "v1", "rewrite_path": true},
        "routes": [
            {"endpoint": "conversations.send-message", "path": KEYED, "policy": "REQUIRED_A", "target": "Conversations/sendMessage"},
            {"endpoint": "projects.list", "methods": ["GET"], "path": IDLE, "policy": "HANDLER_INTERNAL_C"},
            {"endpoint": "projects.change", "path": "/api/v1/projects/{id}/change", "policy": "ACCEPTED", "target": "Projects/{id}/change"},
        ],
    })
}

fn exchange(vm: &mut Vm, method: &str, path: &str, key: Option<&str>) -> Vec<CallbackWork> {
    let claims = json!({"tenant_id": "acme", "project_id": "health-prod", "sub": "alice"});
    let metadata = json!({"envoy.filters.http.jwt_authn": {"jwt": claims}}).as_object().unwrap().clone();
    let id = vm.open(StreamInfo { metadata, ..StreamInfo::default() });
    let lines = [
        (":authority", "api.example.com"), (":path", path), (":method", method), (":scheme", "https"),
        ("user-agent", "example-sdk-python/4.2.0 (linux; x86_64) python/3.12.3"), ("accept", "application/json"),
        ("accept-encoding", "gzip, deflate, br"), ("accept-language", "en-GB,en;q=0.9"),
        ("authorization", "Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJmaXJlYmFzZV91aWRfMTIzIn0.c2lnbmF0dXJl"),
        ("content-type", "application/json"), ("content-length", "2"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("x-client-version", "4.2.0"),
        ("x-forwarded-for", "203.0.113.7"), ("x-forwarded-proto", "https"),
        ("x-request-id", "5b1f2a52-6d3c-4c0e-9b42-0d6a3b0f6c11"),
    ];
    vm.request_headers(id, lines.into_iter().chain(key.map(|key| ("idempotency-key", key))).collect::<Headers>(), true);
    let answer = [
        (":status", "200"), ("content-type", "application/json"), ("content-length", "2"), ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("x-restate-id", "inv_18qDJRLBiJHX4CXTOoBYYYkcbFhzxgdbc9"), ("idempotency-expires", "Fri, 02 Jan 2026 00:00:00 GMT"),
        ("x-envoy-upstream-service-time", "3"),
    ];
    let answer: Vec<_> = answer.into_iter().filter(|(name, _)| key.is_some() || !matches!(*name, "x-restate-id" | "idempotency-expires")).collect();
    vm.response_headers(id, answer.into_iter().collect::<Headers>(), false);
    vm.response_body(id, b"{}", true);
    vm.close(id);
    vm.take_work()
}

#[test]
fn look() {
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let idle = json!({"version": 1, "identity": {"sources": policy()["identity"]["sources"]}, "backend": {"kind": "restate"}, "routes": [
        {"endpoint": "projects.list", "methods": ["GET"], "path": IDLE, "policy": "HANDLER_INTERNAL_C"},
        {"endpoint": "conversations.send-message", "path": KEYED, "policy": "REQUIRED_A"}]});
    for (name, policy, method, path, key) in [("keyed", policy(), "POST", KEYED, Some("8e03978e-40d5-43e8-bc93-6894a57f9324")), ("nothing to do", idle, "GET", IDLE, None)] {
        let options = Options { configuration: policy.to_string().into_bytes(), ..Options::default() };
        let mut vm = Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..3 {
            exchange(&mut vm, method, path, key);
        }
        let work = exchange(&mut vm, method, path, key);
        println!("{name}: {}", work.iter().map(|work| work.instructions).sum::<u64>());
        for work in work {
            println!("   {:8} {} {:?}", work.instructions, work.callback, work.host_calls);
        }
    }
}
