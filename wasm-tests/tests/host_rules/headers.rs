//! Header maps: their lines, their phases, trailers.

use testkit::http::{Headers, Message};
use wasm_tests::host::{decode_pairs, encode_pairs};

use super::{all, post, run, said, upstream, vm};

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
