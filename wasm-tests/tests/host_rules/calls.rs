//! HTTP calls.

use testkit::http::Message;
use wasm_tests::host::{CallReply, Ending, Options, StreamInfo};

use super::{get, post, run, said, upstream, vm, vm_with};

/// Pauses in the headers until an HTTP call is answered; the stream is context 2.
const CALL: &str = r#"
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $check (call $raw_call «lookup» «\03\00\00\00\07\00\00\00\03\00\00\00\05\00\00\00\02\00\00\00\0a\00\00\00\01\00\00\00:method\00GET\00:path\00/k\00:authority\00l\00»
            «» «» (i32.const 250) (i32.const 8)))
        (call $say «called»)
        (i32.const 1))
    (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (call $buffer (i32.const 0)) (i32.const 0))
    (func (export "proxy_on_http_call_response") (param i32 i32 i32 i32 i32)
        (if (i32.eq (local.get 1) (i32.load (i32.const 8))) (then (call $say «token»)))
        (call $get (i32.const 6) «:status») (call $pairs (i32.const 7)) (call $buffer (i32.const 4))
        (call $effective (i32.const 2))
        (call $set (i32.const 0) «x-found» «1»)
        (call $continue (i32.const 0))
        (call $set (i32.const 0) «x-lost» «1»))
    (func (export "proxy_on_log") (param i32) (call $get (i32.const 6) «:status») (call $buffer (i32.const 4)))"#;

fn with_cluster() -> Options {
    Options { clusters: ["lookup".to_owned()].into(), stop_iteration: false, ..Options::default() }
}

#[test]
fn an_http_call_is_answered_by_the_test_and_lets_the_stream_go_on() {
    let mut vm = vm_with(CALL, with_cluster());
    let id = vm.open(StreamInfo::default());
    vm.send_request(id, &Message::new(post(), "body"));
    assert_eq!(said(&vm), ["called"], "never while the filter still runs");
    let call = vm.calls()[0].clone();
    assert_eq!((call.cluster.as_str(), call.timeout_ms, call.headers.get(":path")), ("lookup", 250, Some(&b"/k"[..])));

    vm.answer_call(call.token, CallReply::Response(Message::new([(":status", "200")], "found")));
    let expected = ["called", "token", "=200", "=", "=found", "!02", "=body"];
    assert_eq!(said(&vm), expected, "going on takes the maps away at once, and the body callbacks left out come then");
    let exchange = vm.close(id);
    let seen = upstream(&exchange);
    assert_eq!((seen.headers.get("x-found"), seen.headers.get("x-lost")), (Some(&b"1"[..]), None));
    assert_eq!((seen.body.as_slice(), seen.complete), (&b"body"[..], true));
    assert_eq!(said(&vm)[7..], ["!01", "!01"], "the reply can be read during its callback only");
    assert!(vm.calls().is_empty());
}

#[test]
fn a_failed_http_call_comes_without_headers() {
    let mut vm = vm_with(CALL, with_cluster());
    let id = vm.open(StreamInfo::default());
    vm.send_request(id, &get());
    vm.answer_call(vm.calls()[0].token, CallReply::Failed);
    assert_eq!(said(&vm), ["called", "token", "!02", "=", "!01", "!02"]);
    let exchange = vm.close(id);
    assert!(upstream(&exchange).complete);
}

#[test]
fn tokens_are_unique_and_calls_end_with_the_context_they_were_made_for() {
    let mut vm = vm_with(CALL, with_cluster());
    let ids = [(); 2].map(|()| vm.open(StreamInfo::default()));
    for id in ids {
        vm.send_request(id, &get());
    }
    let tokens: Vec<u32> = vm.calls().iter().map(|call| call.token).collect();
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(vm.calls().iter().map(|call| call.context).collect::<Vec<_>>(), ids);
    vm.close(ids[0]);
    let before = said(&vm).len();
    vm.answer_call(tokens[0], CallReply::Failed);
    assert_eq!(said(&vm).len(), before, "nobody is told");
    assert_eq!(vm.view(ids[1]).unwrap().ending, Ending::Paused);
    vm.close(ids[1]);
}

#[test]
fn a_call_made_for_the_root_outlives_the_stream() {
    let text =
        CALL.replace("(call $check (call $raw_call", "(call $effective (i32.const 1)) (call $check (call $raw_call");
    let mut vm = vm_with(&text, with_cluster());
    let ids = [(); 2].map(|()| vm.open(StreamInfo::default()));
    vm.send_request(ids[0], &get());
    let call = vm.calls()[0].clone();
    assert_eq!(call.context, 1);
    vm.close(ids[0]);
    vm.answer_call(call.token, CallReply::Failed);
    // The stream that it was for is gone: no effective context, no map, nothing to continue.
    assert_eq!(said(&vm)[3..], ["token", "!02", "=", "!01", "!02", "!02", "!02"]);
    vm.close(ids[1]);
}

#[test]
fn an_unknown_cluster_or_an_incomplete_call_is_a_bad_argument() {
    let mut vm = vm(CALL);
    run(&mut vm, &get());
    assert_eq!(said(&vm)[..2], ["!02", "called"]);

    let mut vm = vm_with(&CALL.replace(":authority", ":autharity"), with_cluster());
    run(&mut vm, &get());
    assert_eq!(said(&vm)[..2], ["!02", "called"]);
}
