//! Requests that wait for their body or for a lookup, in the module: however a wait ends, its room is given back. How much room there is,
//! and for whom, the engine's own tests say (`crates/engine/src/memory.rs`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use testkit::http::Headers;
use wasm_tests::engine::Wasm;
use wasm_tests::host::{CallReply, Ending, Options, StreamInfo, Vm};

/// How many bytes a VM keeps of requests that are not verified.
const LIMIT: usize = 16 * 1024 * 1024;
/// As much as fits sixteen times, but for a rest: nearly a share.
const LARGE: usize = LIMIT / 16 - 2000;
/// More webhooks than shares.
const WEBHOOKS: usize = 20;
const TOKEN: &str = "gitlab-token";

fn start() -> Vm {
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let binding = json!({"tenant": "acme", "project": "shop", "provider": "gitlab", "secrets": [TOKEN]});
    let bindings: serde_json::Map<_, _> = (0..WEBHOOKS).map(|id| (format!("wh_known{id}"), binding.clone())).collect();
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "allow_inline_secrets": true,
        "routes": [
            {"endpoint": "hooks", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "max_body_bytes": 100,
                "webhook": {}},
            {"endpoint": "plain", "path": "/plain", "policy": "HANDLER_INTERNAL_C"},
        ],
        "webhooks": {"static": bindings, "unkey": {"cluster": "unkey"}, "openbao": {"cluster": "openbao"}},
    });
    let options = Options {
        configuration: document.to_string().into_bytes(),
        clusters: ["unkey", "openbao"].map(str::to_owned).into(),
        ..Options::default()
    };
    Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// A delivery's headers, with so many bytes in the path, which is kept.
fn headers(path: &str, token: &str, bytes: usize) -> Headers {
    let path = format!("{path}?{}", "q".repeat(bytes));
    let mut headers = Headers::from([(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", &path)]);
    headers.add("x-gitlab-token", token);
    headers.add("idempotency-key", "f5e5f430");
    headers
}

/// The path of a webhook. The number can be any.
fn known(id: usize) -> String {
    format!("/h/gitlab/wh_known{}", id % WEBHOOKS)
}

const LOOKED_UP: &str = "/h/gitlab/wh_looked_up";

/// Begins a delivery of so many bytes; its body has still to come.
fn begin(vm: &mut Vm, path: &str, bytes: usize) -> u32 {
    let id = vm.open(StreamInfo::default());
    vm.request_headers(id, headers(path, TOKEN, bytes), false);
    id
}

fn waits(vm: &Vm, id: u32) -> bool {
    vm.view(id).unwrap().ending == Ending::Paused
}

/// That the request was refused for want of room, and may come again.
fn is_refused(vm: &mut Vm, id: u32, reason: &str) {
    let exchange = vm.close(id);
    assert!(exchange.upstream.is_none(), "{exchange:?}");
    assert_eq!(exchange.details, Some(format!("dependency_unavailable.{reason}")));
    let client = exchange.client.unwrap();
    let problem: Value = serde_json::from_slice(&client.body).unwrap();
    assert_eq!((client.headers.status(), &problem["code"]), (Some(503), &json!("dependency_unavailable")));
    assert_eq!(client.headers.get("retry-after"), Some(b"30".as_slice()));
    assert_eq!(problem["retry"], "same_key");
}

/// Begins deliveries until there is no room for another one of any webhook.
fn fill(vm: &mut Vm) -> Vec<u32> {
    let waiting: Vec<u32> = (0..16).map(|id| begin(vm, &known(id), LARGE)).collect();
    assert!(waiting.iter().all(|id| waits(vm, *id)));
    is_full(vm);
    waiting
}

fn is_full(vm: &mut Vm) {
    let id = begin(vm, &known(WEBHOOKS - 1), LARGE);
    is_refused(vm, id, "waiting_full");
}

fn status(vm: &mut Vm, id: u32) -> Option<u16> {
    vm.close(id).client.and_then(|answer| answer.headers.status())
}

#[test]
fn every_way_a_wait_ends_gives_its_bytes_back() {
    type End = (&'static str, fn(&mut Vm, u32), Option<u16>);
    let ends: [End; 6] = [
        ("verified", |vm, id| vm.request_body(id, b"{}", true), None),
        (
            "not verified",
            |vm, id| {
                vm.close(id);
                let id = vm.open(StreamInfo::default());
                vm.request_headers(id, headers(&known(WEBHOOKS - 3), "another", LARGE), false);
                vm.request_body(id, b"{}", true);
                assert_eq!(vm.view(id).unwrap().client.unwrap().headers.status(), Some(401));
            },
            None,
        ),
        ("too long", |vm, id| vm.request_body(id, &[b' '; 101], false), Some(413)),
        (
            "trailers",
            |vm, id| {
                vm.request_body(id, b"{}", false);
                vm.request_trailers(id, [("x-a", "b")]);
            },
            None,
        ),
        ("no body", |vm, id| vm.request_body(id, b"", true), None),
        ("gone", |_, _| {}, None),
    ];
    for (name, end, expected) in ends {
        let mut vm = start();
        let mut waiting = fill(&mut vm);
        let ending = waiting.pop().unwrap();
        end(&mut vm, ending);
        if name == "gone" {
            vm.close(ending);
        }
        // Its context is still there, unless the client has gone.
        if let Some(exchange) = vm.view(ending) {
            assert_ne!(exchange.ending, Ending::Paused, "{name}: {exchange:?}");
            assert_eq!(exchange.client.and_then(|answer| answer.headers.status()), expected, "{name}");
        }
        let next = begin(&mut vm, &known(WEBHOOKS - 2), LARGE);
        assert!(waits(&vm, next), "{name}: there is no room");
        is_full(&mut vm);
        assert_eq!(vm.take_failures(), [""; 0], "{name}");
    }
}

#[test]
fn the_request_that_asked_first_may_leave_and_the_others_are_answered() {
    let mut vm = start();
    let [first, second] = [(); 2].map(|()| begin(&mut vm, LOOKED_UP, 10));
    assert_eq!(vm.calls().len(), 1, "they wait for one call");
    let token = vm.calls().first().unwrap().token;
    vm.close(first);
    vm.answer_call(token, CallReply::Failed);
    assert!(!waits(&vm, second));
    assert_eq!(status(&mut vm, second), Some(503));
    assert_eq!(vm.take_failures(), [""; 0]);
}

/// A success whose body turns out too long while it comes: it does not go on, and the work is done.
#[test]
fn a_success_that_turns_out_too_long_is_replaced() {
    /// Half of the longest body that is waited for.
    const HALF: usize = 1 << 19;
    let policy = serde_json::json!({
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true, "operation_id": "x-restate-id"},
        "identity": {"sources": [{
            "name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"},
        }]},
        "routes": [{
            "endpoint": "refunds", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create",
            "recovery": false, "answer": {"status": 201, "location": "/refunds/{body:/id}"},
        }],
    });
    // What a gateway has to buffer: 64 KiB more than the filter reads.
    let body_limit = 2 * HALF + (64 << 10);
    let configuration = policy.to_string().into_bytes();
    let options = Options { configuration, whole_bodies: true, body_limit, ..Options::default() };
    for (parts, status, code) in [
        (vec![HALF, HALF], 201, Value::Null),
        (vec![HALF, HALF, 1], 502, json!("answer_unavailable")),
        (vec![2 * HALF + 1, 5_000], 502, json!("answer_unavailable")),
    ] {
        let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
        let mut vm = Vm::boot(module.program(), options.clone()).unwrap();
        let id = vm.open(StreamInfo::default());
        let headers = [
            (":method", "POST"),
            (":authority", "a"),
            (":path", "/refunds"),
            ("x-t", "acme"),
            ("x-p", "shop"),
            ("x-s", "u1"),
            ("idempotency-key", "k"),
        ];
        vm.request_headers(id, headers, true);
        let answer =
            [(":status", "200"), ("content-type", "application/json"), ("x-restate-id", "inv_1"), ("x-own", "1")];
        vm.response_headers(id, answer, false);
        let start = br#"{"id":7,"a":""#;
        let total: usize = parts.iter().sum();
        let mut body = start.to_vec();
        body.resize(total - 2, b'x');
        body.extend(b"\"}");
        let mut rest = body.as_slice();
        for length in parts {
            let (part, after) = rest.split_at(length);
            rest = after;
            vm.response_body(id, part, false);
        }
        vm.response_body(id, b"", true);
        let client = vm.close(id).client.unwrap();
        let told: Value = serde_json::from_slice(&client.body).unwrap();
        let seen = (client.headers.status(), told.get("code").cloned().unwrap_or_default());
        assert_eq!(seen, (Some(status), code), "{total} bytes: {told}");
        for (name, value) in [("x-operation-id", "inv_1"), ("idempotency-status", "stored"), ("x-own", "1")] {
            assert_eq!(client.headers.get(name), Some(value.as_bytes()), "{total} bytes: {name}");
        }
        assert_eq!(vm.take_failures(), [""; 0]);
    }
}

/// The body of an error that the gateway keeps back is not shown, and the error is answered.
#[test]
fn an_error_passes_without_its_body_if_the_gateway_keeps_the_body_back() {
    let mut vm = start();
    let id = vm.open(StreamInfo::default());
    vm.request_headers(id, headers("/plain", TOKEN, 10), true);
    vm.response_headers(id, [(":status", "500"), ("content-type", "application/json")], false);
    for _ in 0..5 {
        vm.tick();
        assert_eq!(vm.view(id).unwrap().ending, Ending::Paused);
    }
    assert!(!vm.logs().iter().any(|line| line.message.contains("allow_on_headers_stop_iteration")));
    vm.tick();
    vm.response_body(id, br#"{"stacktrace": "at /srv/app/main.ts"}"#, true);
    let client = vm.close(id).client.unwrap();
    let problem: Value = serde_json::from_slice(&client.body).unwrap();
    assert_eq!((client.headers.status(), &problem["code"]), (Some(500), &json!("backend_error")));
    assert_eq!(vm.logs().iter().filter(|line| line.message.contains("allow_on_headers_stop_iteration")).count(), 1);
    assert_eq!(vm.take_failures(), [""; 0]);
}
