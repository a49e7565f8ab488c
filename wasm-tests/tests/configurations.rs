//! Several configurations of the module in one VM: Envoy gives listeners with the same `vm_id` one VM, and while a listener
//! is replaced its old and its new policy are both at work.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::json;
use testkit::http::Message;
use wasm_tests::engine::Wasm;
use wasm_tests::host::{BootError, Ending, Options, StreamInfo, Vm};

fn policy(unmatched: &str) -> Vec<u8> {
    let source = json!({"name": "jwt", "metadata": ["jwt"], "tenant": "t", "project": "p",
        "subject": {"field": "sub", "type": "user"}});
    let route = json!({"endpoint": "a", "path": "/a", "policy": "REQUIRED_A"});
    let document = json!({
        "version": 1, "backend": {"kind": "restate"}, "unmatched": unmatched, "identity": {"sources": [source]},
        "routes": [route],
    });
    document.to_string().into_bytes()
}

fn start(unmatched: &str) -> Vm {
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let options = Options { configuration: policy(unmatched), ..Options::default() };
    Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// What a request with a key is answered that no route declares: 400 by `PROHIBITED`, 200 by the upstream under
/// `HANDLER_INTERNAL_C`, 404 by `REJECT`.
fn status(vm: &mut Vm, root: u32) -> u16 {
    let head =
        [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/b"), ("idempotency-key", "k")];
    let id = vm.open_under(root, StreamInfo::default());
    vm.send_request(id, &Message::new(head, ""));
    if vm.view(id).unwrap().ending == Ending::AwaitingUpstream {
        vm.send_response(id, &Message::new([(":status", "200")], ""));
    }
    vm.close(id).client.unwrap().headers.status().unwrap()
}

const FIRST: u32 = 1;

#[test]
fn each_request_is_judged_by_its_own_listeners_policy() {
    let mut vm = start("PROHIBITED");
    let second = vm.configure_another(&policy("HANDLER_INTERNAL_C")).unwrap();
    let third = vm.configure_another(&policy("REJECT")).unwrap();
    assert_eq!([FIRST, second, third].map(|root| status(&mut vm, root)), [400, 200, 404]);
    assert_eq!([third, second, FIRST].map(|root| status(&mut vm, root)), [404, 200, 400]);
}

#[test]
fn a_configuration_that_does_not_start_leaves_the_others_alone() {
    let mut vm = start("PROHIBITED");
    assert!(matches!(vm.configure_another(b"{}"), Err(BootError::Refused { .. })));
    assert_eq!(status(&mut vm, FIRST), 400);
}

#[test]
fn a_configuration_that_ends_leaves_the_others_alone() {
    let mut vm = start("PROHIBITED");
    let second = vm.configure_another(&policy("HANDLER_INTERNAL_C")).unwrap();
    vm.end(FIRST);
    assert_eq!(status(&mut vm, second), 200);
}
