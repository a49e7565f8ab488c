//! The host's own rules, each with a guest of a few lines that would see them broken.
//!
//! In a guest's text `«…»` stands for the address and the length of those bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::json;
use testkit::http::{Headers, Message};
use wasm_tests::host::{
    BootError, CallReply, Ending, Exchange, LogLine, Options, Program, Route, StreamInfo, Vm, decode_pairs,
    encode_pairs,
};

/// A guest with the functions of `tests/guests/prelude.wat` in front.
fn program(text: &str) -> Program {
    let text = format!("(module\n{}\n{text}\n", include_str!("guests/prelude.wat"));
    let (mut module, mut data, mut rest, mut at) = (String::new(), String::new(), text.as_str(), 1024);
    while let Some((before, tail)) = rest.split_once('«') {
        let (bytes, after) = tail.split_once('»').expect("« without »");
        let escapes = bytes.matches('\\').count();
        let length = bytes.len() - 2 * escapes;
        module += &format!("{before}(i32.const {at}) (i32.const {length})");
        data += &format!("(data (i32.const {at}) \"{bytes}\")\n");
        at += length;
        rest = after;
    }
    compile(&format!("{module}{rest}{data})"))
}

fn compile(text: &str) -> Program {
    Program::new(&wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

fn vm(text: &str) -> Vm {
    vm_with(text, Options::default())
}

fn vm_with(text: &str, options: Options) -> Vm {
    Vm::boot(&program(text), options).unwrap_or_else(|error| panic!("{error}"))
}

fn post() -> Headers {
    Headers::from([(":method", "POST"), (":path", "/p?q=1"), (":authority", "a.example"), ("x-a", "1"), ("x-a", "2")])
}

fn get() -> Message {
    Message::new([(":method", "GET"), (":path", "/"), (":authority", "a.example")], "")
}

fn ok() -> Message {
    Message::new([(":status", "200"), ("x-up", "yes")], "")
}

fn run(vm: &mut Vm, request: &Message) -> Exchange {
    vm.exchange(StreamInfo::default(), request, &ok())
}

fn said(vm: &Vm) -> Vec<&str> {
    vm.logs().iter().map(|LogLine { message, .. }| message.as_str()).collect()
}

fn all<'a>(headers: &'a Headers, name: &str) -> Vec<&'a str> {
    headers.all(name).map(|value| std::str::from_utf8(value).unwrap()).collect()
}

fn upstream(exchange: &Exchange) -> &Message {
    exchange.upstream.as_ref().expect("the upstream got nothing")
}

fn client(exchange: &Exchange) -> &Message {
    exchange.client.as_ref().expect("the client got nothing")
}

fn status(exchange: &Exchange) -> Option<u16> {
    client(exchange).headers.status()
}

// Start.

#[test]
fn an_unknown_import_is_named() {
    let text = r#"(module (import "env" "proxy_log" (func (param i32 i32 i32) (result i32)))
        (import "env" "proxy_teleport" (func)) (import "wasi_snapshot_preview1" "random_get" (func)))"#;
    let error = Vm::boot(&compile(text), Options::default()).unwrap_err();
    let BootError::Unfit(why) = error else { panic!("{error}") };
    assert!(why.contains("env.proxy_teleport, wasi_snapshot_preview1.random_get"), "{why}");
    assert!(!why.contains("proxy_log"), "{why}");
}

#[test]
fn an_import_of_another_type_is_refused() {
    for name in ["proxy_log", "proxy_done"] {
        let text = format!(r#"(module (import "env" "{name}" (func (param i64))))"#);
        let error = Vm::boot(&compile(&text), Options::default()).unwrap_err();
        assert!(matches!(error, BootError::Unfit(_)), "{error}");
    }
}

#[test]
fn a_module_needs_the_abi_a_memory_and_an_allocator() {
    let abi = r#"(func (export "proxy_abi_version_0_2_1"))"#;
    for (text, why) in [
        ("(module)".to_owned(), "proxy_abi_version_0_2_1"),
        (format!("(module {abi})"), "memory"),
        (format!(r#"(module {abi} (memory (export "memory") 1))"#), "allocator"),
    ] {
        let error = Vm::boot(&compile(&text), Options::default()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn callbacks_that_are_not_exported_are_not_called() {
    let mut vm = vm("");
    let request = Message::new(post(), "body").with_trailers([("x-t", "1")]);
    let response = Message::new([(":status", "201")], "answer").with_trailers([("x-u", "2")]);
    let exchange = vm.exchange(StreamInfo::default(), &request, &response);
    assert_eq!(upstream(&exchange), &request);
    assert_eq!(client(&exchange), &response);
    assert_eq!(exchange.ending, Ending::Answered);
}

#[test]
fn initialize_may_log_and_nothing_else() {
    let mut fine = vm(r#"(func (export "_initialize") (call $say «hello»))"#);
    assert_eq!(said(&fine), ["hello"]);
    assert!(fine.take_failures().is_empty());

    let guest = program(r#"(func (export "_initialize") (drop (call $raw_tick (i32.const 5))))"#);
    let error = Vm::boot(&guest, Options::default()).unwrap_err();
    assert!(matches!(error, BootError::Trapped { .. }), "{error}");
    assert!(error.to_string().contains("proxy_set_tick_period_milliseconds is not allowed in _initialize"), "{error}");
}

#[test]
fn configure_reads_its_configuration_and_may_refuse() {
    let text = r#"
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (call $buffer (i32.const 6)) (i32.const 1))
        (func (export "proxy_on_configure") (param i32 i32) (result i32)
            (call $buffer (i32.const 7)) (i32.eq (local.get 1) (i32.const 4)))
        (func (export "proxy_on_tick") (param i32) (call $buffer (i32.const 7)) (call $buffer (i32.const 6)))"#;
    let options = |configuration: &str| Options {
        configuration: configuration.into(),
        vm_configuration: b"vm".to_vec(),
        ..Options::default()
    };
    let mut vm = vm_with(text, options("four"));
    assert_eq!(said(&vm), ["=vm", "=four"]);
    vm.tick();
    assert_eq!(said(&vm)[2..], ["!01", "=vm"], "the plugin configuration belongs to configure");
    assert_eq!(vm.take_failures(), ["the test ticks a VM that set no tick period"]);

    let error = Vm::boot(&program(text), options("seventh")).unwrap_err();
    let BootError::Refused { callback, logs, .. } = error else { panic!("{error}") };
    assert_eq!((callback, logs[1].message.as_str()), ("proxy_on_configure", "=seventh"));
}

#[test]
fn the_environment_is_read_through_wasi() {
    let text = r#"
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32)
            (call $check (call $environ_sizes (i32.const 8) (i32.const 4)))
            (call $check (call $environ (i32.const 512) (i32.const 600)))
            (i32.store (i32.const 0) (i32.load (i32.const 512)))
            (call $show (i32.const 0))
            ;; the second pointer leads to the second entry
            (call $say (i32.load (i32.const 516)) (i32.const 3))
            (i32.load (i32.const 8)))"#;
    let environment = [("A", "x y"), ("B2", "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let vm = vm_with(text, Options { environment, ..Options::default() });
    assert_eq!(said(&vm), ["=A=x y\0B2=\0", "B2="]);
    assert!(matches!(Vm::boot(&program(text), Options::default()), Err(BootError::Refused { .. })), "no entries");
}

// Nothing passes by accident.

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
            r"(call $property «source\00address») (i32.const 0)",
            "the property source.address exists in Envoy and is not modelled here",
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

// Header maps.

#[test]
fn pairs_have_counts_and_lengths_in_front() {
    let bytes = encode_pairs(&[("ab", "c"), ("d", "")]);
    assert_eq!(bytes, b"\x02\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0ab\0c\0d\0\0");
    assert_eq!(decode_pairs(&bytes).unwrap(), [(b"ab".to_vec(), b"c".to_vec()), (b"d".to_vec(), Vec::new())]);
    assert_eq!(decode_pairs(b""), Some(Vec::new()));
    assert_eq!(decode_pairs(&bytes[..bytes.len() - 1]), None, "cut short");
    assert_eq!(decode_pairs(&[&bytes[..], b"x"].concat()), None, "more than it says");
    let many = vec![("a", "b"); 1025];
    assert_eq!(decode_pairs(&encode_pairs(&many)), None);
    assert_eq!(decode_pairs(&encode_pairs(&many[..1024])).unwrap().len(), 1024);
    assert_eq!(decode_pairs(&encode_pairs(&[("a", vec![b'x'; 1024 * 1024])])), None);
}

#[test]
fn maps_show_every_line_and_the_getter_the_first() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $get (i32.const 0) «X-A»)
        (call $get (i32.const 0) «x-none»)
        (call $pairs (i32.const 0))
        (i32.const 0))"#);
    let headers = Headers::from([("X-A", "1"), ("x-b", ""), ("x-a", "2"), (":path", "/")]);
    run(&mut vm, &Message::new(headers, ""));
    let pairs = encode_pairs(&[(":path", "/"), ("x-a", "1"), ("x-b", ""), ("x-a", "2")]);
    let pairs = format!("={}", String::from_utf8(pairs).unwrap());
    assert_eq!(said(&vm), ["=1", "!01", &pairs]);
}

#[test]
fn set_replaces_all_lines_add_appends_remove_removes_all() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $set (i32.const 0) «X-A» «3»)
        (call $add (i32.const 0) «x-B» «4»)
        (call $remove (i32.const 0) «x-C»)
        (call $remove (i32.const 0) «x-absent»)
        (i32.const 0))"#);
    let mut headers = post();
    headers.add("x-b", "0");
    headers.add("x-c", "1");
    headers.add("x-c", "2");
    let exchange = run(&mut vm, &Message::new(headers, ""));
    let seen = &upstream(&exchange).headers;
    assert_eq!((all(seen, "x-a"), all(seen, "x-b"), all(seen, "x-c")), (vec!["3"], vec!["0", "4"], vec![]));
    assert!(seen.iter().all(|(name, _)| name == name.to_ascii_lowercase()));
}

#[test]
fn bytes_that_are_not_text_come_through() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $set (i32.const 0) «x-out» «\ff\80») (i32.const 0))"#);
    let exchange = run(&mut vm, &Message::new([("x-in", b"\x80\xff")], ""));
    assert_eq!(upstream(&exchange).headers, [("x-in", b"\x80\xff"), ("x-out", b"\xff\x80")].into());
}

#[test]
fn maps_exist_in_their_phase_only() {
    let probe = "(call $get (i32.const 0) «x-a») (call $pairs (i32.const 2)) (call $get (i32.const 2) «x-up»)
        (call $set (i32.const 1) «x» «y») (call $get (i32.const 6) «:status») (call $get (i32.const 8) «x»)";
    let callback = |name: &str, params: &str| {
        format!(
            r#"(func (export "proxy_on_{name}") (param {params}) (result i32) (call $say «{name}») {probe} (i32.const 0))"#
        )
    };
    let mut vm = vm(&[
        callback("request_headers", "i32 i32 i32"),
        callback("request_body", "i32 i32 i32"),
        callback("response_headers", "i32 i32 i32"),
        callback("done", "i32"),
    ]
    .concat());
    run(&mut vm, &Message::new(post(), "body").with_trailers([("t", "1")]));
    let response = format!("={}", String::from_utf8(encode_pairs(&[(":status", "200"), ("x-up", "yes")])).unwrap());
    let absent = ["!02", "=", "!02", "!02", "!02", "!02"];
    let mut expected = vec!["request_headers", "=1", "=", "!02", "!02", "!02", "!02", "request_body"];
    expected.extend(absent);
    expected.extend(["response_headers", "!02", &response, "=yes", "!02", "!02", "!02", "done"]);
    expected.extend(absent);
    assert_eq!(said(&vm), expected);
}

#[test]
fn the_access_log_sees_headers_again() {
    let mut vm = vm(r#"(func (export "proxy_on_log") (param i32)
        (call $get (i32.const 0) «x-a») (call $get (i32.const 2) «x-up») (call $get (i32.const 1) «t»)
        (call $set (i32.const 0) «x-a» «3»))"#);
    run(&mut vm, &Message::new(post(), "body").with_trailers([("t", "1")]));
    assert_eq!(said(&vm), ["=1", "=yes", "!01", "!02"]);
}

#[test]
fn trailers_are_a_map_of_their_own() {
    let mut vm = vm(r#"
        (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
            (if (local.get 2) (then (call $say «end»))) (i32.const 0))
        (func (export "proxy_on_request_trailers") (param i32 i32) (result i32)
            (call $get (i32.const 1) «idempotency-key») (call $remove (i32.const 1) «idempotency-key») (i32.const 0))"#);
    let request = Message::new(post(), "body").with_trailers([("Idempotency-Key", "k"), ("x-t", "1")]);
    let exchange = run(&mut vm, &request);
    assert_eq!(upstream(&exchange).trailers, Some([("x-t", "1")].into()));
    assert_eq!(said(&vm), ["=k"], "and with trailers no piece of body is the end");
}

#[test]
fn touching_trailers_in_the_last_piece_of_body_creates_them() {
    let mut vm = vm(r#"(func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (drop (call $raw_remove (i32.const 1) «x»)) (i32.const 0))"#);
    assert_eq!(upstream(&run(&mut vm, &Message::new(post(), "body"))).trailers, Some(Headers::new()));
}

// Local replies, resets.

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

// Pauses.

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

// Timer, clock, metrics.

#[test]
fn ticks_come_when_the_test_says_and_the_clock_stands_still() {
    let mut vm = vm(r#"
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32)
            (call $check (call $raw_tick (i32.const 250))) (i32.const 1))
        (func (export "proxy_on_tick") (param i32)
            (call $check (call $raw_now (i32.const 8)))
            (if (i64.eq (i64.load (i32.const 8)) (i64.const 77)) (then (call $say «now»))))"#);
    assert_eq!(vm.tick_period_ms(), 250);
    vm.tick();
    assert!(said(&vm).is_empty());
    vm.set_now(77);
    vm.tick();
    assert_eq!(said(&vm), ["now"]);
}

#[test]
fn metrics_of_one_name_are_one_series() {
    let mut vm = vm(r#"
        (func $with (param $id i32) (param $value i64) (call $check (call $raw_increment (local.get $id) (local.get $value))))
        (func $new (param $kind i32) (param $name i32) (param $size i32) (result i32)
            (call $check (call $raw_define (local.get $kind) (local.get $name) (local.get $size) (i32.const 8)))
            (i32.load (i32.const 8)))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
            (local $c i32) (local $g i32) (local $h i32)
            (local.set $c (call $new (i32.const 0) «c;a=b»))
            (local.set $g (call $new (i32.const 1) «g»))
            (local.set $h (call $new (i32.const 2) «h»))
            (call $with (local.get $c) (i64.const 2))
            (call $with (call $new (i32.const 0) «c;a=b») (i64.const 3))
            (call $with (local.get $g) (i64.const 5))
            (call $with (local.get $g) (i64.const -1))
            (call $check (call $raw_record (local.get $h) (i64.const 9)))
            (call $say «errors»)
            (call $with (local.get $c) (i64.const 0))
            (call $with (local.get $h) (i64.const 1))
            (call $check (call $raw_metric (local.get $h) (i32.const 8)))
            (call $with (i32.const 400) (i64.const 1))
            (call $check (call $raw_metric (local.get $c) (i32.const 8)))
            (i64.eq (i64.load (i32.const 8)) (i64.const 5)) (if (then (call $say «5»)))
            (drop (call $new (i32.const 3) «x»))
            (i32.const 0))"#);
    run(&mut vm, &get());
    assert_eq!(vm.metrics().counters(), [("c;a=b", 5)].into());
    assert_eq!(vm.metrics().gauges(), [("g", 4)].into());
    assert_eq!(vm.metrics().histograms()["h"], [9]);
    assert_eq!(vm.metrics().series(), 3);
    assert_eq!(said(&vm), ["errors", "!02", "!02", "!02", "!01", "5", "!02"]);
}

// Properties.

/// What a guest reads under a path: its bytes, or the status it got.
fn property(path: &str) -> Result<Vec<u8>, String> {
    let path = path.replace('/', "\\00");
    let mut vm = vm(&format!(
        r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
            (call $property «{path}») (i32.const 0))"#
    ));
    let claims = json!({
        "string": "sub-1", "empty": "", "eight": "8 bytes!", "number": 42, "half": 0.5, "yes": true, "no": false,
        "null": null, "list": ["a", 1], "map": {"k": "v", "n": {"deep": "x"}}, "holed": {"a": null}, "none": {},
    });
    let metadata = json!({"jwt_authn": {"jwt": claims}, "plain": {"a": "b"}});
    let route = json!({"edge.idempotency": {"endpoint": "refunds.create"}});
    let info = StreamInfo {
        metadata: metadata.as_object().unwrap().clone(),
        route: Some(Route {
            name: "r1".into(),
            virtual_host: "vh".into(),
            cluster: "restate".into(),
            metadata: route.as_object().unwrap().clone(),
        }),
    };
    let exchange = vm.exchange(info, &Message::new(post(), ""), &ok());
    let kept = exchange.properties.get("kept").cloned();
    kept.ok_or_else(|| said(&vm).concat())
}

#[test]
fn metadata_values_come_without_a_type() {
    let claim = |name: &str| property(&format!("metadata/filter_metadata/jwt_authn/jwt/{name}"));
    let not_found = || Err("!01".to_owned());
    let broken = || Err("!03".to_owned());
    assert_eq!(claim("string").unwrap(), b"sub-1");
    assert_eq!(claim("empty").unwrap(), b"");
    assert_eq!(claim("eight").unwrap(), b"8 bytes!");
    assert_eq!(claim("number").unwrap(), 42f64.to_le_bytes());
    assert_eq!(claim("half").unwrap(), 0.5f64.to_le_bytes());
    assert_eq!((claim("yes").unwrap(), claim("no").unwrap()), (vec![1], vec![0]));
    assert_eq!(claim("null"), broken());
    assert_eq!(claim("missing"), not_found());
    let one = 1f64.to_le_bytes();
    assert_eq!(claim("list").unwrap(), encode_pairs(&[(&b"a"[..], ""), (&one[..], "")]));
    assert_eq!((claim("list/1").unwrap(), claim("list/2")), (one.to_vec(), not_found()));
    let inner = encode_pairs(&[("deep", "x")]);
    assert_eq!(claim("map").unwrap(), encode_pairs(&[("k", &b"v"[..]), ("n", &inner)]));
    assert_eq!(claim("map/n/deep").unwrap(), b"x");
    assert_eq!(claim("none").unwrap(), [0; 4]);
    assert_eq!(claim("holed"), broken());
    assert_eq!((claim("string/x"), claim("null/x")), (not_found(), not_found()));
    assert_eq!(property("metadata/filter_metadata/jwt_authn/jwt"), broken(), "one null spoils the whole struct");
    assert_eq!(property("metadata/filter_metadata/plain").unwrap(), encode_pairs(&[("a", "b")]));
    assert_eq!(property("metadata/filter_metadata/absent"), not_found());
    assert_eq!(property("metadata/filter_metadata"), broken());
}

#[test]
fn the_metadata_message_as_a_whole_is_protobuf() {
    // filter_metadata { key: "edge.idempotency" value { fields { key: "endpoint" value { string_value: … } } } }
    let value = b"\x1a\x0erefunds.create";
    let field = [b"\x0a\x08endpoint\x12\x10", &value[..]].concat();
    let structure = [&[0x0a, field.len() as u8][..], &field].concat();
    let entry = [b"\x0a\x10edge.idempotency\x12", &[structure.len() as u8][..], &structure].concat();
    let expected = [&[0x0a, entry.len() as u8][..], &entry].concat();
    assert_eq!(property("xds/route_metadata").unwrap(), expected);

    // Here the types are kept apart, null included.
    let whole = property("metadata").unwrap();
    let has = |needle: &[u8]| whole.windows(needle.len()).any(|window| window == needle);
    assert!(has(b"\x0a\x05eight\x12\x0a\x1a\x088 bytes!"));
    assert!(has(&[b"\x0a\x06number\x12\x09\x11", &42f64.to_le_bytes()[..]].concat()));
    assert!(has(b"\x0a\x03yes\x12\x02\x20\x01"));
    assert!(has(b"\x0a\x04null\x12\x02\x08\x00"));
    assert!(has(&[b"\x0a\x04list\x12\x12\x32\x10\x0a\x03\x1a\x01a\x0a\x09\x11", &1f64.to_le_bytes()[..]].concat()));
    assert!(has(b"\x0a\x04none\x12\x02\x2a\x00"));
    assert_eq!(whole[0], 0x0a);
    assert_eq!(usize::from(whole[1] & 0x7f) + (usize::from(whole[2]) << 7) + 3, whole.len() - 21, "two entries");
}

#[test]
fn routes_requests_and_the_plugin_have_properties() {
    assert_eq!(property("xds/route_name").unwrap(), b"r1");
    assert_eq!(property("xds/virtual_host_name").unwrap(), b"vh");
    assert_eq!(property("xds/cluster_name").unwrap(), b"restate");
    let endpoint = "xds/route_metadata/filter_metadata/edge.idempotency/endpoint";
    assert_eq!(property(endpoint).unwrap(), b"refunds.create");
    assert_eq!(property("request/headers/X-A").unwrap(), b"1,2");
    assert_eq!(property("request/headers/x-none"), Err("!01".to_owned()));
    assert_eq!(property("request/path").unwrap(), b"/p?q=1");
    assert_eq!(property("request/url_path").unwrap(), b"/p");
    assert_eq!(property("request/query").unwrap(), b"q=1");
    assert_eq!(property("request/method").unwrap(), b"POST");
    assert_eq!(property("plugin_root_id").unwrap(), b"edge-idempotency");
    assert_eq!(property("unheard_of"), Err("!01".to_owned()));
}

#[test]
fn without_a_route_there_is_no_route_name() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $property «xds\00route_name») (call $property «xds\00route_metadata») (i32.const 0))"#);
    run(&mut vm, &get());
    assert_eq!(said(&vm), ["!01", "!01"]);
}

#[test]
fn what_the_filter_sets_it_can_read_and_the_access_log_too() {
    let mut vm = vm(r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (call $check (call $raw_set_property «outcome» «\ff»))
        (call $property «outcome») (i32.const 0))
        (func (export "proxy_on_tick") (param i32) (call $check (call $raw_set_property «outcome» «x»)))
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32)
            (call $check (call $raw_tick (i32.const 1))) (i32.const 1))"#);
    let exchange = run(&mut vm, &get());
    assert_eq!(exchange.properties, [("outcome".into(), vec![0xff]), ("kept".into(), vec![0xff])].into());
    vm.tick();
    assert_eq!(said(&vm), ["!01"], "there is no stream to set it on");
}
