//! Local replies and resets.

use testkit::http::Message;
use wasm_tests::host::{Ending, StreamInfo};

use super::{client, get, post, run, said, status, upstream, vm};

const REPLY: &str = r#"
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $reply (i32.const 418) «teapot») (call $say «sent») (call $get (i32.const 2) «:status») (i32.const 0))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
        (call $get (i32.const 2) «:status») (call $set (i32.const 2) «x-mine» «1») (i32.const 0))"#;

#[test]
fn a_local_reply_waits_for_the_callback_to_return() {
    let mut vm = vm(REPLY);
    let exchange = run(&mut vm, &Message::new(post(), "body"));
    assert_eq!(exchange.upstream, None, "whatever the callback returned");
    assert_eq!(said(&vm), ["sent", "!02", "=418"]);
    let expected = [
        (":status", "418"),
        ("x-reason", "rules"),
        ("content-length", "6"),
        ("content-type", "text/plain"),
        ("x-mine", "1"),
    ];
    assert_eq!(client(&exchange).headers, expected.into());
    assert_eq!(client(&exchange).body, b"teapot");
    assert_eq!(exchange.details.as_deref(), Some("because_of_this"));
}

#[test]
fn a_local_reply_to_head_has_no_body() {
    let exchange = run(&mut vm(REPLY), &Message::new([(":method", "HEAD")], ""));
    assert_eq!((client(&exchange).body.len(), client(&exchange).headers.get("content-length")), (0, Some(&b"6"[..])));
}

#[test]
fn a_local_reply_without_a_body_has_neither_type_nor_length() {
    let pairs = r"\02\00\00\00\0c\00\00\00\01\00\00\00\0e\00\00\00\01\00\00\00content-type\00x\00content-length\007\00";
    let reply = |body: &str| {
        let mut vm = vm(&format!(
            r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
                (call $check (call $raw_reply (i32.const 204) «» «{body}» «{pairs}» (i32.const -1))) (i32.const 1))"#
        ));
        client(&run(&mut vm, &get())).headers.clone()
    };
    assert_eq!(reply(""), [(":status", "204")].into());
    assert_eq!(reply("abc"), [(":status", "204"), ("content-type", "x"), ("content-length", "3")].into());
}

#[test]
fn a_local_reply_after_the_headers_went_on_cuts_the_request_off() {
    let mut vm = vm(r#"(func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (call $reply (i32.const 400) «») (i32.const 1))"#);
    let exchange = run(&mut vm, &Message::new(post(), "body"));
    assert_eq!((upstream(&exchange).complete, upstream(&exchange).body.as_slice()), (false, &b""[..]));
    assert_eq!(status(&exchange), Some(400));
}

#[test]
fn a_local_reply_in_the_response_takes_its_place_without_callbacks() {
    let mut vm = vm(r#"(func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
        (call $say «asked») (call $reply (i32.const 502) «») (i32.const 0))"#);
    let exchange = run(&mut vm, &get());
    assert_eq!((status(&exchange), said(&vm).as_slice()), (Some(502), &["asked"][..]));
    assert_eq!(client(&exchange).headers.get("x-up"), None);
}

#[test]
fn a_local_reply_after_the_answer_began_is_a_reset() {
    let mut vm = vm(r#"(func (export "proxy_on_response_body") (param i32 i32 i32) (result i32)
        (call $reply (i32.const 502) «») (i32.const 0))"#);
    let exchange = vm.exchange(StreamInfo::default(), &get(), &Message::new([(":status", "200")], "half"));
    assert_eq!((exchange.ending, status(&exchange), client(&exchange).complete), (Ending::Reset, Some(200), false));
}

#[test]
fn a_close_waits_for_the_callback_to_return() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $check (call $raw_close (i32.const 0))) (call $get (i32.const 0) «x-a») (i32.const 1))"#);
    let exchange = run(&mut vm, &Message::new(post(), ""));
    assert_eq!((exchange.ending, exchange.client, said(&vm)), (Ending::Reset, None, vec!["=1"]));
}
