//! Identifiers in JSON bodies, in the module: it finds what is special in a string with WebAssembly's vectors, where the
//! engine that runs natively has other code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use testkit::http::{Headers, Message};
use wasm_tests::engine::Wasm;
use wasm_tests::host::{Options, StreamInfo, Vm};

const TOKEN: &str = "a-token-of-some-length";

/// What may stand in a string; some of it must not.
const IN_STRINGS: [&[u8]; 15] = [
    b"",
    b"\\\"",
    b"\\\\",
    b"\\n",
    b"\\u00e9",
    b"\\x",
    b"\"",
    b"\\",
    "é".as_bytes(),
    "🦀".as_bytes(),
    b"\0",
    b"\x1f",
    b"\x7f",
    b"\x80",
    b"\xff",
];

fn start() -> Vm {
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "allow_inline_secrets": true,
        "routes": [{"endpoint": "hook", "path": "/h", "policy": "REQUIRED_B", "webhook": {"provider": "own", "id": "wh_01JSON"}}],
        "webhooks": {
            "static": {"wh_01JSON": {"tenant": "t", "project": "p", "provider": "own", "secrets": [TOKEN], "bind_body": false}},
            "providers": {"own": {
                "schemes": [{"algorithm": "token", "signature": {"header": "x-token"}}],
                "identifiers": [{"json": "/id", "signed": false}],
            }},
        },
    });
    let options = Options { configuration: document.to_string().into_bytes(), ..Options::default() };
    Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// The status that a delivery of this body gets.
fn status(vm: &mut Vm, body: &[u8]) -> u16 {
    let headers = Headers::from([
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/h"),
        ("content-type", "application/json"),
        ("x-token", TOKEN),
    ]);
    let id = vm.open(StreamInfo::default());
    vm.send_request(id, &Message::new(headers, body));
    let exchange = vm.close(id);
    match (exchange.upstream, exchange.client) {
        (Some(upstream), _) => {
            let key = upstream.headers.get("idempotency-key").unwrap();
            assert!(key.ends_with(b":own-evt_1"), "{}", key.escape_ascii());
            200
        }
        (None, client) => client.unwrap().headers.status().unwrap(),
    }
}

#[test]
fn a_body_is_refused_exactly_if_it_is_not_json() {
    let mut vm = start();
    let mut seen = [0, 0];
    for before in 0..=130 {
        for after in [0, 20, 70] {
            for special in IN_STRINGS {
                let string = [b"\"".as_slice(), &vec![b'a'; before], special, &vec![b'b'; after], b"\""].concat();
                let body = [b"{\"x\":[".as_slice(), &string, b"],\"id\":\"evt_1\"}"].concat();
                let is_json = serde_json::from_slice::<Value>(&body).is_ok();
                seen[usize::from(is_json)] += 1;
                let expected = if is_json { 200 } else { 400 };
                assert_eq!(status(&mut vm, &body), expected, "{}", body.escape_ascii());
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
}
