//! Recovery requests that wait for the id of their invocation, in the module: several at once, and requests that end before
//! the reply comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use testkit::http::{Headers, Message};
use wasm_tests::engine::Wasm;
use wasm_tests::host::{CallReply, Ending, HttpCall, Options, StreamInfo, Vm};

/// How many requests of a caller wait, in a worker.
const WAITS_OF_CALLER: usize = 16;

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
fn each_caller_gets_its_own_invocation() {
    let mut vm = start("restate");
    let ids = ["u1", "u2", "u3"].map(|subject| (begin(&mut vm, "GET", RESULT, subject), subject));
    let calls: Vec<HttpCall> = vm.calls().into_iter().cloned().collect();
    assert_eq!(calls.len(), 3, "one call for each caller");
    // The last one is answered first.
    for call in calls.iter().rev() {
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        let subject = body["idempotencyKey"].as_str().unwrap().split(':').nth(3).unwrap();
        vm.answer_call(call.token, id_reply(&format!("inv_{subject}")));
    }
    for (id, subject) in ids {
        assert_eq!(upstream_path(&mut vm, id), format!("/restate/output/inv_{subject}"));
    }
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

const WAIT: &str = "/refunds/by-idempotency-key/k";

/// So many requests of a caller wait.
fn take(vm: &mut Vm, subject: &str, count: usize) {
    for _ in 0..count {
        wait(vm, subject);
    }
}

/// Begins a request for a result that may wait, and gives it the id of its invocation.
fn wait(vm: &mut Vm, subject: &str) -> u32 {
    let id = begin(vm, "GET", WAIT, subject);
    let call = only_call(vm);
    vm.answer_call(call.token, id_reply("inv_1abc"));
    id
}

/// Where the filter has sent a request that is still under way.
fn sent_to(vm: &Vm, id: u32) -> String {
    let upstream = vm.view(id).unwrap().upstream.expect("nothing was forwarded");
    String::from_utf8(upstream.headers.get(":path").unwrap().to_vec()).unwrap()
}

const ATTACH: &str = "/restate/attach/inv_1abc";
const OUTPUT: &str = "/restate/output/inv_1abc";

/// The request beyond the caller's bound, or its tenant's, asks without a wait; whoever ends gives a place back, however the stream
/// ends.
#[test]
fn a_caller_and_a_tenant_wait_for_so_many_results_and_no_more() {
    type End = (&'static str, fn(&mut Vm, u32));
    let ends: [End; 4] = [
        ("answered", |vm, id| {
            vm.response_headers(id, [(":status", "200"), ("x-restate-id", "inv_1abc")], true);
            vm.close(id);
        }),
        ("answered in parts", |vm, id| {
            vm.response_headers(id, [(":status", "200"), ("x-restate-id", "inv_1abc")], false);
            vm.response_body(id, b"{}", true);
            vm.close(id);
        }),
        ("the gateway's timeout", |vm, id| {
            vm.response_headers(id, [(":status", "504")], true);
            vm.close(id);
        }),
        ("gone", |vm, id| drop(vm.close(id))),
    ];
    for (name, end) in ends {
        let mut vm = start("restate");
        // The caller has two places left then, and the tenant three.
        for (subject, count) in [("u1", 14), ("u4", 16), ("u5", 16), ("u6", 15)] {
            take(&mut vm, subject, count);
        }
        let [first, second] = [(); 2].map(|()| wait(&mut vm, "u1"));
        assert_eq!([first, second].map(|id| sent_to(&vm, id)), [ATTACH; 2], "{name}");
        let third = wait(&mut vm, "u1");
        assert_eq!(sent_to(&vm, third), OUTPUT, "{name}");
        // The tenant has one place left.
        let other = wait(&mut vm, "u2");
        assert_eq!(sent_to(&vm, other), ATTACH, "{name}");
        let last = wait(&mut vm, "u3");
        assert_eq!(sent_to(&vm, last), OUTPUT, "{name}");
        vm.close(third);
        vm.close(last);
        // Who has not waited gives nothing back.
        let still = wait(&mut vm, "u3");
        assert_eq!(sent_to(&vm, still), OUTPUT, "{name}");
        end(&mut vm, first);
        let again = wait(&mut vm, "u3");
        assert_eq!(sent_to(&vm, again), ATTACH, "{name}: the place was not given back");
        let full = wait(&mut vm, "u1");
        assert_eq!(sent_to(&vm, full), OUTPUT, "{name}");
        assert_eq!(vm.take_failures(), [""; 0], "{name}");
    }
}

/// A request that is refused, or ends, while its invocation is looked up gives its place back, too.
#[test]
fn a_wait_that_never_begins_gives_its_place_back() {
    let mut vm = start("restate");
    take(&mut vm, "u1", WAITS_OF_CALLER - 1);
    for reply in [Some(CallReply::Failed), None] {
        let id = begin(&mut vm, "GET", WAIT, "u1");
        let call = only_call(&vm);
        if let Some(reply) = reply {
            vm.answer_call(call.token, reply);
            vm.close(id);
        } else {
            vm.close(id);
            vm.answer_call(call.token, id_reply("inv_1abc"));
        }
        let next = wait(&mut vm, "u1");
        assert_eq!(upstream_path(&mut vm, next), ATTACH);
    }
    assert_eq!(vm.take_failures(), [""; 0]);
}

/// The answer to a request that does not wait is that of `/output`, and the record says why.
#[test]
fn a_request_without_a_place_is_told_at_once() {
    let mut vm = start("restate");
    take(&mut vm, "u1", WAITS_OF_CALLER - 1);
    let first = wait(&mut vm, "u1");
    let second = wait(&mut vm, "u1");
    vm.response_headers(second, [(":status", "470"), ("x-restate-error-source", "ingress")], true);
    let client = vm.close(second).client.unwrap();
    assert_eq!(client.headers.status(), Some(202));
    assert_eq!(client.headers.get("idempotency-status"), Some(b"processing".as_slice()));
    vm.close(first);
    assert_eq!(vm.take_failures(), [""; 0]);
}
