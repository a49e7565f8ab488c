//! Pauses: what they hold back, and what happens above the limit.

use testkit::http::Message;
use wasm_tests::host::{Ending, Options, StreamInfo};

use super::{all, client, get, post, run, said, status, upstream, vm, vm_with};

/// Pauses in the headers; in the body pauses until the end, and then sets a header.
const HOLD: &str = r#"
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (call $say «headers») (i32.const 1))
    (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (call $buffer (i32.const 0))
        (if (result i32) (local.get 2)
            (then (call $set (i32.const 0) «x-seen» «whole») (i32.const 0))
            (else (i32.const 1))))"#;

#[test]
fn a_pause_accumulates_the_body_and_headers_can_change_until_its_end() {
    let mut vm = vm(HOLD);
    let id = vm.open(StreamInfo::default());
    vm.request_headers(id, post(), false);
    for piece in [&b"ab"[..], b"cd"] {
        vm.request_body(id, piece, false);
        assert_eq!(vm.view(id).unwrap().upstream, None);
    }
    vm.request_body(id, b"", true);
    let exchange = vm.close(id);
    assert_eq!(said(&vm), ["headers", "=ab", "=abcd", "=abcd"]);
    assert_eq!(upstream(&exchange).body, b"abcd");
    assert!(upstream(&exchange).complete);
    assert_eq!(all(&upstream(&exchange).headers, "x-seen"), ["whole"]);
}

#[test]
fn without_stop_iteration_a_pause_in_the_headers_stops_everything() {
    let mut vm = vm_with(HOLD, Options { stop_iteration: false, ..Options::default() });
    let exchange = run(&mut vm, &Message::new(post(), "body"));
    assert_eq!((exchange.ending, said(&vm)), (Ending::Paused, vec!["headers"]));
}

#[test]
fn a_body_callback_that_continues_lets_paused_headers_go() {
    let mut vm = vm(r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32) (i32.const 0))"#);
    let exchange = run(&mut vm, &Message::new(post(), "body"));
    assert_eq!((exchange.ending, upstream(&exchange).body.as_slice()), (Ending::Answered, &b"body"[..]));
    assert_eq!(run(&mut vm, &get()).ending, Ending::Paused, "nobody lets a request without a body go");
}

#[test]
fn above_the_limit_envoy_answers_413_without_asking() {
    let text = format!(
        r#"{HOLD}(func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
        (call $get (i32.const 2) «:status») (i32.const 0))"#
    );
    let mut vm = vm_with(&text, Options { body_limit: 4, ..Options::default() });
    let id = vm.open(StreamInfo::default());
    vm.request_headers(id, post(), false);
    vm.request_body(id, b"abc", false);
    vm.request_body(id, b"d", false);
    assert_eq!(said(&vm), ["headers", "=abc", "=abcd"], "the limit itself is allowed");
    vm.request_body(id, b"e", false);
    let exchange = vm.close(id);
    assert_eq!((status(&exchange), exchange.upstream.is_none()), (Some(413), true));
    assert_eq!(said(&vm), ["headers", "=abc", "=abcd", "=413"]);
}

#[test]
fn a_held_response_above_the_limit_is_a_500() {
    let text = r#"
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_response_body") (param i32 i32 i32) (result i32) (i32.const 1))"#;
    let mut vm = vm_with(text, Options { body_limit: 4, ..Options::default() });
    let exchange = vm.exchange(StreamInfo::default(), &get(), &Message::new([(":status", "200")], "too much"));
    assert_eq!((status(&exchange), client(&exchange).body.as_slice()), (Some(500), &b"Internal Server Error"[..]));
}

#[test]
fn a_held_body_can_be_replaced() {
    let mut vm = vm(r#"
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_response_body") (param i32 i32 i32) (result i32)
            (if (i32.eqz (local.get 2)) (then (return (i32.const 1))))
            (call $check (call $raw_set_buffer (i32.const 1) (i32.const 0) (local.get 1) «new»))
            (call $check (call $raw_set_buffer (i32.const 1) (i32.const 3) (i32.const 0) « end»))
            (call $check (call $raw_set_buffer (i32.const 1) (i32.const 0) (i32.const 0) «a »))
            (call $check (call $raw_set_buffer (i32.const 1) (i32.const 2) (i32.const 1) «x»))
            (i32.const 0))
        (func (export "proxy_on_log") (param i32)
            (call $check (call $raw_set_buffer (i32.const 1) (i32.const 0) (i32.const 0) «x»)))"#);
    let exchange = vm.exchange(StreamInfo::default(), &get(), &Message::new([(":status", "200")], "old"));
    assert_eq!(client(&exchange).body, b"a new end");
    assert_eq!(said(&vm), ["!02", "!02"], "not in the middle, and not outside its callbacks");
}
