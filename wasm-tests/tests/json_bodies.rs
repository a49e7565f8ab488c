//! Identifiers in JSON bodies, in the module: it finds what is special in a string with WebAssembly's vectors, where the
//! engine that runs without a gateway has other code.
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

/// What reading an identifier in dense JSON may take, in WebAssembly instructions for each byte of the body.
const MOST_INSTRUCTIONS: f64 = 26.0;

/// A VM with a provider that has its identifier at this place.
fn start(identifier: &Value) -> Vm {
    let module = Wasm::load_counting().unwrap_or_else(|error| panic!("{error}"));
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "allow_inline_secrets": true,
        "routes": [{"endpoint": "hook", "path": "/h", "policy": "REQUIRED_B", "webhook": {"provider": "own", "id": "wh_01JSON"}}],
        "webhooks": {
            "static": {"wh_01JSON": {"tenant": "t", "project": "p", "provider": "own", "secrets": [TOKEN], "bind_body": false}},
            "providers": {"own": {
                "schemes": [{"algorithm": "token", "signature": {"header": "x-token"}}],
                "identifiers": [identifier],
            }},
        },
    });
    let options = Options { configuration: document.to_string().into_bytes(), ..Options::default() };
    Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"))
}

fn in_json() -> Value {
    json!({"json": "/id", "signed": false})
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
        ("x-id", "evt_1"),
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
    let mut vm = start(&in_json());
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

/// A body of 100 KiB as Stripe's are, without any space: `tests/bench/` measures its time in Envoy.
pub(crate) fn dense() -> Vec<u8> {
    let mut body = r#"{"id":"evt_1","object":"event","data":{"object":{"lines":["#.to_owned();
    for number in 0.. {
        let line = format!(
            r#"{{"id":"il_{number:08}","object":"line_item","amount":{},"currency":"eur","discountable":true,"description":"{} × Seat, monthly","period":{{"start":1767225600,"end":1769904000}},"proration":false,"plan":null}}"#,
            4_200 + number,
            1 + number % 9,
        );
        body += &line;
        if body.len() > 100 << 10 {
            break;
        }
        body.push(',');
    }
    (body + "]}}}").into_bytes()
}

#[test]
fn an_identifier_in_dense_json_takes_few_instructions() {
    let body = dense();
    let [in_header, in_json] = [json!({"header": "x-id", "signed": false}), in_json()].map(|identifier| {
        let mut vm = start(&identifier);
        let mut instructions = 0;
        // The first deliveries define metrics and get memory.
        for _ in 0..4 {
            vm.take_work();
            assert_eq!(status(&mut vm, &body), 200);
            let counted = vm.take_work().iter().map(|callback| callback.instructions).sum::<Option<u64>>();
            instructions = counted.expect("the module counts");
        }
        instructions as f64 / body.len() as f64
    });
    println!("{:.2} instructions for each byte", in_json - in_header);
    assert!(in_json - in_header < MOST_INSTRUCTIONS, "{in_json} in JSON, {in_header} in a header");
}
