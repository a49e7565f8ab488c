//! Properties.

use serde_json::json;
use testkit::http::Message;
use wasm_tests::host::{Route, StreamInfo, encode_pairs};

use super::{get, ok, post, run, said, vm};

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
