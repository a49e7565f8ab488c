//! Recovery requests that wait for the id of their invocation, in the module, and requests that end before the reply comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use testkit::http::{Headers, Message};
use wasm_tests::engine::Wasm;
use wasm_tests::host::{CallReply, Ending, HttpCall, Options, StreamInfo, Vm};

fn start(cluster: &str) -> Vm {
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let source = json!({"name": "jwt", "metadata": ["jwt"], "tenant": "t", "project": "p",
        "subject": {"field": "sub", "type": "user"}});
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": cluster, "authority": "restate.internal"},
        "identity": {"sources": [source]},
        "routes": [{"endpoint": "refunds", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"}],
    });
    let options = Options {
        configuration: document.to_string().into_bytes(),
        clusters: ["restate".to_owned()].into(),
        ..Options::default()
    };
    Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// Begins a request of this caller.
fn begin(vm: &mut Vm, method: &str, path: &str, subject: &str) -> u32 {
    let jwt = json!({"t": "acme", "p": "shop", "sub": subject});
    let metadata = json!({"jwt": jwt}).as_object().unwrap().clone();
    let id = vm.open(StreamInfo { metadata, ..StreamInfo::default() });
    let lines =
        [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path), ("idempotency-key", "k")];
    vm.request_headers(id, Headers::from(lines), true);
    id
}

const RESULT: &str = "/refunds/by-idempotency-key/k/output";

fn only_call(vm: &Vm) -> HttpCall {
    let calls = vm.calls();
    assert_eq!(calls.len(), 1);
    calls[0].clone()
}

fn id_reply(id: &str) -> CallReply {
    CallReply::Response(Message::new([(":status", "200")], json!({"invocationId": id}).to_string()))
}

fn upstream_path(vm: &mut Vm, id: u32) -> String {
    let upstream = vm.close(id).upstream.expect("nothing was forwarded");
    String::from_utf8(upstream.headers.get(":path").unwrap().to_vec()).unwrap()
}

#[test]
fn a_recovery_makes_one_call_and_any_other_request_none() {
    let mut vm = start("restate");
    let call = begin(&mut vm, "POST", "/refunds", "u1");
    assert!(vm.calls().is_empty());
    assert_eq!(upstream_path(&mut vm, call), "/restate/call/Refunds/create");

    let id = begin(&mut vm, "GET", RESULT, "u1");
    let call = only_call(&vm);
    assert_eq!((call.cluster.as_str(), call.timeout_ms), ("restate", 1000));
    for (name, value) in [(":method", "POST"), (":path", "/restate/lookup"), (":authority", "restate.internal")] {
        assert_eq!(call.headers.get(name), Some(value.as_bytes()), "{name}");
    }
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    let key = "t-acme:shop:user:u1:k";
    assert_eq!(
        body,
        json!({"target": "idempotentInvocation", "service": "Refunds", "handler": "create", "idempotencyKey": key})
    );
    assert_eq!(vm.view(id).unwrap().ending, Ending::Paused);
    vm.answer_call(call.token, id_reply("inv_1abc"));
    assert_eq!(upstream_path(&mut vm, id), "/restate/output/inv_1abc");
    assert_eq!(vm.take_failures(), [""; 0]);
}

#[test]
fn a_reply_to_a_request_that_has_ended_changes_nothing() {
    let mut vm = start("restate");
    let gone = begin(&mut vm, "GET", RESULT, "u1");
    let call = only_call(&vm).token;
    assert!(vm.close(gone).upstream.is_none());
    vm.answer_call(call, id_reply("inv_1"));

    let next = begin(&mut vm, "GET", RESULT, "u3");
    let call = only_call(&vm).token;
    vm.answer_call(call, id_reply("inv_3"));
    assert_eq!(upstream_path(&mut vm, next), "/restate/output/inv_3");
    assert_eq!(vm.take_failures(), [""; 0]);
}

#[test]
fn a_cluster_that_the_gateway_does_not_have_is_a_refusal() {
    let mut vm = start("misspelt");
    let id = begin(&mut vm, "GET", RESULT, "u1");
    let exchange = vm.close(id);
    assert!(exchange.upstream.is_none());
    assert_eq!(exchange.details.as_deref(), Some("dependency_unavailable.invocation_lookup_failed"));
    assert_eq!(vm.take_failures(), [""; 0]);
}
