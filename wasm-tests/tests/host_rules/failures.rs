//! Nothing passes by accident: traps, calls that the host does not carry out, mistakes of a filter and of a test.

use testkit::http::Message;
use wasm_tests::host::{CallReply, Ending, StreamInfo};

use super::{client, get, post, run, said, status, vm};

#[test]
fn an_unimplemented_call_answers_12_and_is_a_failure() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $check (call $raw_shared «k» (i32.const 0) (i32.const 4) (i32.const 8))) (i32.const 0))"#);
    assert_eq!(status(&run(&mut vm, &get())), Some(200));
    assert_eq!(said(&vm), ["!12"]);
    assert_eq!(vm.take_failures(), ["proxy_get_shared_data is not implemented by this host"]);
}

#[test]
fn failures_nobody_took_make_the_test_fail() {
    let mut vm = vm("");
    vm.request_headers(99, post(), true);
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(vm)));
    let message = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the test's stream 99 is not open"), "{message}");
}

#[test]
fn a_trap_is_answered_and_poisons_the_vm() {
    let mut vm = vm(r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
            (if (i32.eq (local.get 1) (i32.const 3)) (then (return (i32.const 1))))
            (call $say «last words») (call $set (i32.const 0) «x» «y») unreachable)
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (call $say «not asked») (i32.const 0))"#);
    let waiting = vm.open(StreamInfo::default());
    vm.send_request(waiting, &get());
    let exchange = run(&mut vm, &Message::new(post(), ""));
    assert_eq!(exchange.upstream, None);
    assert_eq!((status(&exchange), client(&exchange).body.as_slice()), (Some(503), &b""[..]));
    assert_eq!(exchange.details.as_deref(), Some("wasm_fail_stream"));
    let trap = vm.trap().unwrap().to_owned();
    assert!(trap.starts_with("proxy_on_request_headers trapped: ") && trap.ends_with("last words"), "{trap}");

    assert_eq!(status(&run(&mut vm, &get())), Some(503), "the VM is dead for later streams");
    let hanging = vm.close(waiting);
    assert_eq!((hanging.ending, hanging.client), (Ending::Paused, None), "and those that wait go on waiting");
    assert_eq!(said(&vm), ["last words"]);
    assert_eq!(vm.take_failures(), [trap]);
}

#[test]
fn a_callback_that_never_returns_is_a_trap() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (loop $for_ever (br $for_ever)) (i32.const 0))"#);
    assert_eq!(status(&run(&mut vm, &get())), Some(503));
    assert_eq!(vm.take_failures(), ["proxy_on_request_headers trapped: it did not return"]);
}

#[test]
fn a_trap_in_the_response_still_gives_an_answer() {
    let mut vm = vm(r#"
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) unreachable)"#);
    let exchange = run(&mut vm, &get());
    assert_eq!((status(&exchange), client(&exchange).headers.get("x-up")), (Some(503), None));
    assert_eq!(vm.take_failures().len(), 1);
}

#[test]
fn mistakes_that_envoy_passes_over_are_failures() {
    let guest = |body: &str| {
        format!(
            r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) {body})
            (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
                (call $set (i32.const 0) «x-late» «1») (i32.const 0))"#
        )
    };
    for (body, failure) in [
        (r"(call $set (i32.const 0) «x-a» «1\0a2») (i32.const 0)", "the filter wrote a line break or NUL into x-a"),
        (r"(call $set (i32.const 0) «x a» «1») (i32.const 0)", r#"the filter wrote a header named "x a""#),
        (
            "(call $reply (i32.const 400) «») (call $reply (i32.const 401) «») (i32.const 1)",
            "the filter answered a stream twice",
        ),
        (
            "(call $continue (i32.const 0)) (i32.const 1)",
            "the filter continued a stream from inside the callback that it would pause",
        ),
        ("(i32.const 7)", "proxy_on_request_headers returned 7; the ABI has 0 and 1"),
        (
            r"(call $property «source\00port») (i32.const 0)",
            "the property source.port exists in Envoy and is not modelled here",
        ),
        (
            "(call $check (call $raw_close (i32.const 2))) (i32.const 0)",
            "the filter acts on a TCP stream; this host has HTTP only",
        ),
        (
            "(call $check (call $raw_reply (i32.const 400) «» «» «oops» (i32.const -1))) (i32.const 1)",
            "the filter sent header pairs that Envoy reads as none: malformed or too many",
        ),
    ] {
        let mut vm = vm(&guest(body));
        run(&mut vm, &get());
        assert_eq!(vm.take_failures(), [failure]);
    }
    let mut vm = vm(&guest("(i32.const 1)"));
    run(&mut vm, &Message::new(post(), "body"));
    // The pause lets the first piece release the headers, and the second piece comes too late for them.
    assert_eq!(vm.take_failures(), ["the filter changed Request headers that had gone on already"]);
}

#[test]
fn slips_of_a_test_are_failures() {
    let mut vm = vm("");
    let id = vm.open(StreamInfo::default());
    vm.request_body(id, b"too early", false);
    vm.response_headers(id, [(":status", "200")], true);
    vm.request_headers(id, post(), true);
    vm.request_body(id, b"too late", true);
    vm.answer_call(1, CallReply::Failed);
    vm.close(id);
    vm.close(id);
    assert_eq!(vm.take_failures().len(), 5);
}
