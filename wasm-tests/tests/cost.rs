//! What an exchange costs in the built module: WebAssembly instructions and host calls. They are the same in every run, so a
//! change that adds to them is seen at once. `costs.json` has what they may be; `UPDATE_COSTS=1` writes what they are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value, json};
use testkit::http::{Headers, Message};
use wasm_tests::engine::Wasm;
use wasm_tests::host::{CallReply, CallbackWork, Options, StreamInfo, Vm};

/// How much more the instructions of an exchange may be than `costs.json` says, in percent.
const TOLERANCE: u64 = 3;
/// The same where another compiler has built the module. It makes other code of the same source.
const TOLERANCE_OF_OTHERS: u64 = 10;

const KEYED_PATH: &str = "/api/v1/conversations/send-message";
const IDLE_PATH: &str = "/api/v1/projects";
const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
/// What Unkey says of the API key.
const HELD: &str = r#"{"data": {"valid": true, "code": "VALID", "keyId": "key_1", "identity": {"externalId": "acme"}, "meta": {"project_id": "shop"}}}"#;
/// Requests before the one that counts, so that the metrics and the record of the route exist, and memory is there.
pub(crate) const WARM_UP: usize = 3;

/// A kind of exchange.
pub(crate) struct Case {
    name: &'static str,
    policy: Value,
    method: &'static str,
    path: &'static str,
    key: Option<&'static str>,
    /// Whether the caller's claims stand in headers, too, as a filter in front has written them
    claims_in_headers: bool,
    /// Whether the caller has an API key, which the cache knows, and no token
    has_api_key: bool,
}

pub(crate) fn sources() -> Value {
    json!([{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "tenant_id", "project": "project_id",
        "subject": {"field": "sub", "type": "user"}}])
}

pub(crate) fn cases() -> Vec<Case> {
    let forward = json!({"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"});
    let whole = json!({
        "version": 1,
        "docs_url": "https://developers.example.com/idempotency",
        "identity": {"sources": sources(), "forward": forward},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": [
            {"endpoint": "conversations.send-message", "path": KEYED_PATH, "policy": "REQUIRED_A", "target": "Conversations/sendMessage"},
            {"endpoint": "projects.list", "methods": ["GET"], "path": IDLE_PATH, "policy": "HANDLER_INTERNAL_C"},
            {"endpoint": "projects.change", "path": "/api/v1/projects/{id}/change", "policy": "ACCEPTED", "target": "Projects/{id}/change"},
        ],
    });
    let short = json!({
        "version": 1,
        "identity": {"sources": sources()},
        "backend": {"kind": "restate"},
        "routes": [
            {"endpoint": "conversations.send-message", "path": KEYED_PATH, "policy": "REQUIRED_A"},
            {"endpoint": "projects.list", "methods": ["GET"], "path": IDLE_PATH, "policy": "HANDLER_INTERNAL_C"},
        ],
    });
    let mut from_headers = whole.clone();
    from_headers["identity"]["sources"] = json!([{
        "name": "jwt", "headers_owned_by": "envoy.filters.http.jwt_authn", "tenant": "x-tenant-id", "project": "x-project-id",
        "subject": {"field": "x-user-id", "type": "user"},
    }]);
    let mut with_api_keys = whole.clone();
    with_api_keys["identity"]["sources"].as_array_mut().unwrap().push(json!({
        "name": "partner", "unkey": {"header": "x-partner-key", "prefix": "sk_", "cluster": "unkey"},
        "tenant": "/identity/externalId", "project": "/meta/project_id", "subject": {"field": "/keyId", "type": "client"},
    }));
    let without_record = |mut policy: Value| {
        policy["record"] = json!(false);
        policy
    };
    let idle = |name, policy| Case {
        name,
        policy,
        method: "GET",
        path: IDLE_PATH,
        key: None,
        claims_in_headers: false,
        has_api_key: false,
    };
    let keyed = |name, policy, claims_in_headers| Case {
        name,
        policy,
        method: "POST",
        path: KEYED_PATH,
        key: Some(KEY),
        claims_in_headers,
        has_api_key: false,
    };
    vec![
        keyed("keyed", whole.clone(), false),
        keyed("keyed, no record", without_record(whole), false),
        keyed("keyed, API keys are possible", with_api_keys.clone(), false),
        Case { has_api_key: true, ..keyed("keyed, with an API key", with_api_keys, false) },
        keyed("keyed, claims in headers", from_headers, true),
        idle("nothing to do", short.clone()),
        idle("nothing to do, no record", without_record(short)),
    ]
}

/// Makes one exchange and gives its work.
pub(crate) fn exchange(vm: &mut Vm, case: &Case) -> Vec<CallbackWork> {
    let claims = json!({"tenant_id": "acme", "project_id": "health-prod", "sub": "alice"});
    let metadata = match case.has_api_key {
        true => Map::new(),
        false => json!({"envoy.filters.http.jwt_authn": {"jwt": claims}}).as_object().unwrap().clone(),
    };
    let id = vm.open(StreamInfo { metadata, ..StreamInfo::default() });
    let request = [
        (":authority", "api.example.com"),
        (":path", case.path),
        (":method", case.method),
        (":scheme", "https"),
        ("user-agent", "example-sdk-python/4.2.0 (linux; x86_64) python/3.12.3"),
        ("accept", "application/json"),
        ("accept-encoding", "gzip, deflate, br"),
        ("accept-language", "en-GB,en;q=0.9"),
        ("authorization", "Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJmaXJlYmFzZV91aWRfMTIzIn0.c2lnbmF0dXJl"),
        ("content-type", "application/json"),
        ("content-length", "2"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-client-version", "4.2.0"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-request-id", "5b1f2a52-6d3c-4c0e-9b42-0d6a3b0f6c11"),
    ];
    let key = case.key.map(|key| ("idempotency-key", key));
    let claims = [("x-tenant-id", "acme"), ("x-project-id", "health-prod"), ("x-user-id", "alice")];
    let claims = claims.into_iter().filter(|_| case.claims_in_headers);
    let api_key = case.has_api_key.then_some(("x-partner-key", "sk_8e03978e40d543e8bc936894a57f9324"));
    vm.request_headers(id, request.into_iter().chain(claims).chain(key).chain(api_key).collect::<Headers>(), true);
    while let Some(token) = vm.calls().first().map(|call| call.token) {
        vm.answer_call(token, CallReply::Response(Message::new([(":status", "200")], HELD)));
    }
    let answer = [
        (":status", "200"),
        ("content-type", "application/json"),
        ("content-length", "2"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("x-envoy-upstream-service-time", "3"),
    ];
    let replay = [
        ("x-restate-id", "inv_18qDJRLBiJHX4CXTOoBYYYkcbFhzxgdbc9"),
        ("idempotency-expires", "Fri, 02 Jan 2026 00:00:00 GMT"),
    ];
    let replay = replay.into_iter().filter(|_| case.key.is_some());
    vm.response_headers(id, answer.into_iter().chain(replay).collect::<Headers>(), false);
    vm.response_body(id, b"{}", true);
    assert!(vm.close(id).upstream.is_some(), "{}: nothing was forwarded", case.name);
    vm.take_work()
}

/// Starts a VM with the policy of a case.
pub(crate) fn start(module: &Wasm, case: &Case) -> Vm {
    let clusters = BTreeSet::from(["unkey".to_owned()]);
    let options = Options { configuration: case.policy.to_string().into_bytes(), clusters, ..Options::default() };
    Vm::boot(module.program(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// What an exchange of a case costs, as `costs.json` writes it.
fn cost(module: &Wasm, case: &Case) -> Value {
    let mut vm = start(module, case);
    for _ in 0..WARM_UP {
        exchange(&mut vm, case);
    }
    let work = exchange(&mut vm, case);
    let mut host_calls = BTreeMap::new();
    for (name, count) in work.iter().flat_map(|callback| &callback.host_calls) {
        *host_calls.entry(name.clone()).or_insert(0) += count;
    }
    let callbacks = work.iter().map(|callback| (callback.callback.clone(), json!(callback.instructions)));
    json!({
        "instructions": work.iter().map(|callback| callback.instructions).sum::<Option<u64>>().expect("the module counts"),
        "callbacks": callbacks.collect::<Map<_, _>>(),
        "host_calls": host_calls,
    })
}

fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output();
    version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[test]
fn an_exchange_costs_no_more_than_before() {
    let module = Wasm::load_counting().unwrap_or_else(|error| panic!("{error}"));
    let measured: Map<_, _> = cases().iter().map(|case| (case.name.to_owned(), cost(module, case))).collect();
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/costs.json");
    if std::env::var_os("UPDATE_COSTS").is_some() {
        let document = json!({"compiler": compiler(), "exchanges": measured});
        std::fs::write(&file, format!("{document:#}\n")).unwrap();
        return;
    }
    let known: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let is_same = known["compiler"] == compiler();
    let tolerance = if is_same { TOLERANCE } else { TOLERANCE_OF_OTHERS };
    if !is_same {
        println!("costs.json is of {}, this is {}: {tolerance} % more are allowed", known["compiler"], compiler());
    }
    let mut wrong = Vec::new();
    for (name, now) in &measured {
        let before = &known["exchanges"][name];
        let instructions = |cost: &Value| cost["instructions"].as_u64().unwrap();
        if instructions(now) * 100 > instructions(before) * (100 + tolerance) {
            wrong.push(format!(
                "{name}: {} instructions, {} before: {} before, {} now",
                instructions(now),
                instructions(before),
                before["callbacks"],
                now["callbacks"]
            ));
        }
        if now["host_calls"] != before["host_calls"] {
            wrong.push(format!("{name}: host calls {}, {} before", now["host_calls"], before["host_calls"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nIf it is worth it, write the new costs with `UPDATE_COSTS=1 cargo test --workspace --test module cost::`.",
        wrong.join("\n")
    );
}
