//! Which functions of the module requests call, for the compiler (`make wasm-profile`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::json;
use testkit::http::{Headers, Message};
use testkit::signatures;
use wasm_tests::engine::Wasm;
use wasm_tests::host::{Options, StreamInfo, Vm};

use crate::cost::{WARM_UP, cases, exchange, sources, start};
use crate::json_bodies::dense;

/// From so many bytes on, what is ours is optimised for size as well as for speed. In a dependency something large is a loop that pays.
const LARGE: usize = 1_400;

const SECRET: &str = "whsec_of_the_list";

/// The functions in the order of their first calls, each with what it is optimised for: `speed`, or `both`.
#[derive(Default)]
struct FirstCalls(Vec<(String, &'static str)>);

impl FirstCalls {
    /// Adds what an exchange calls behind those that get memory and define metrics.
    fn add(&mut self, vm: &mut Vm, small: &'static str, mut exchange: impl FnMut(&mut Vm)) {
        for _ in 0..WARM_UP {
            exchange(vm);
        }
        vm.take_first_calls();
        exchange(vm);
        for (function, bytes) in vm.take_first_calls() {
            if self.0.iter().all(|(known, _)| *known != function) {
                let is_large = bytes >= LARGE && function.contains("edge_idempotency");
                self.0.push((function, if is_large { "both" } else { small }));
            }
        }
    }
}

/// A VM whose routes read bodies.
fn reader_of_bodies(module: &Wasm) -> Vm {
    let route = |name: &str, fingerprint: &str| json!({"endpoint": name, "path": format!("/{name}"), "policy": "REQUIRED_A", "collision": "forward", "fingerprint": fingerprint});
    let document = json!({
        "version": 1,
        "backend": {"kind": "generic"},
        "allow_inline_secrets": true,
        "identity": {"sources": sources()},
        "routes": [
            route("raw", "raw"),
            route("json", "json"),
            {"endpoint": "hook", "path": "/hook", "policy": "REQUIRED_B", "webhook": {"provider": "stripe", "id": "wh_01LIST"}},
        ],
        "webhooks": {"static": {"wh_01LIST": {"tenant": "t", "project": "p", "provider": "stripe", "secrets": [SECRET]}}},
    });
    let options = Options { configuration: document.to_string().into_bytes(), ..Options::default() };
    let mut vm = Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"));
    vm.set_now(1_760_000_000 * 1_000_000_000);
    vm
}

/// Sends a body that has to reach the backend.
fn send(vm: &mut Vm, path: &str, body: &[u8]) {
    let signature = signatures::stripe(&[SECRET], 1_760_000_000, body);
    let own = if path == "/hook" { ("stripe-signature", signature.as_str()) } else { ("idempotency-key", "a-key") };
    let line = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
        ("content-type", "application/json"),
        own,
    ];
    let claims = json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"});
    let metadata = json!({"envoy.filters.http.jwt_authn": {"jwt": claims}}).as_object().unwrap().clone();
    let id = vm.open(StreamInfo { metadata, ..StreamInfo::default() });
    vm.send_request(id, &Message::new(Headers::from(line), body));
    vm.send_response(id, &Message::new([(":status", "200")], "{}"));
    assert!(vm.close(id).upstream.is_some(), "{path}: nothing was forwarded");
}

#[test]
#[ignore = "run by `make wasm-profile`, with a module that notes calls"]
fn write_first_calls() {
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let mut calls = FirstCalls::default();
    for case in cases() {
        calls.add(&mut start(module, &case), "speed", |vm| drop(exchange(vm, &case)));
    }
    let (mut vm, body) = (reader_of_bodies(module), dense());
    for path in ["/raw", "/json", "/hook"] {
        calls.add(&mut vm, "both", |vm| send(vm, path, &body));
    }
    assert!(calls.0.len() > 100, "the module notes no calls: {:?}", calls.0);
    let file = std::env::var_os("EDGE_FIRST_CALLS").expect("EDGE_FIRST_CALLS names the file");
    let lines: String = calls.0.iter().map(|(name, aim)| format!("{name} {aim}\n")).collect();
    std::fs::write(file, lines).unwrap();
}
