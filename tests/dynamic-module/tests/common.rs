//! A policy with routes of every kind of waiting, and who asks for what.

use dynamic_module_tests::engine::{NOW_UNIX_MS, reply};
use dynamic_module_tests::envoy::{Config, Envoy, HttpCall};
use serde_json::{Value, json};
use simulated_stores::SimulatedStores;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::http::{Headers, Message};

/// The policy. `/orders` waits for nothing but the owner of an API key, `/strict` for its body and the guard, and `/seen` is watched
/// as it passes.
pub(crate) fn policy() -> Vec<u8> {
    json!({
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {}},
        "identity": {"sources": [
            {"name": "edge", "headers_owned_by": "the gateway", "tenant": "x-tenant", "project": "x-project",
                "subject": {"field": "x-subject"}},
            {"name": "key", "unkey": {"header": "x-api-key", "prefix": "sk_", "cluster": "unkey"},
                "tenant": "/identity/externalId", "project": "/meta/project_id",
                "subject": {"field": "/keyId", "type": "service"}},
        ]},
        "routes": [
            {"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create"},
            {"endpoint": "strict", "path": "/strict", "policy": "REQUIRED_A", "target": "Strict/run", "collision": "enforce"},
            {"endpoint": "seen", "path": "/seen", "policy": "REQUIRED_A", "target": "Seen/run", "collision": "observe"},
        ],
    })
    .to_string()
    .into_bytes()
}

/// A process with so many workers, and a configuration with the policy.
pub(crate) fn start(workers: usize) -> (Envoy, Arc<Config>) {
    set_clock();
    let envoy = Envoy::new(workers);
    let config = envoy.configure(&policy(), &BTreeMap::new());
    let config = config.unwrap_or_else(|| panic!("it does not start:\n{}", envoy.log().join("\n")));
    (envoy, config)
}

/// Sets the clock of this thread.
pub(crate) fn set_clock() {
    edge_idempotency::process::set_now(Some(NOW_UNIX_MS));
}

/// Headers of a request of alice's.
pub(crate) fn by_alice(path: &str, key: &str) -> Headers {
    Headers::from([
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "api.example.com"),
        (":path", path),
        ("content-type", "application/json"),
        ("idempotency-key", key),
        ("x-tenant", "acme"),
        ("x-project", "shop"),
        ("x-subject", "user:alice"),
    ])
}

/// Headers of a request with an API key.
pub(crate) fn with_api_key(path: &str, key: &str, api_key: &str) -> Headers {
    let mut headers = by_alice(path, key);
    ["x-tenant", "x-project", "x-subject"].iter().for_each(|name| headers.remove(name));
    headers.add("x-api-key", api_key);
    headers
}

/// The answer of the backend.
pub(crate) fn answer() -> Message {
    Message::new([(":status", "200"), ("content-type", "application/json")], "{}")
}

/// What the stores reply, in which the keys `sk_0` to `sk_9` are acme's.
pub(crate) fn stores() -> impl Fn(&HttpCall) -> Option<Message> {
    let keys: serde_json::Map<String, Value> = (0..10)
        .map(|number| {
            (format!("sk_{number}"), json!({"identity": {"externalId": "acme"}, "meta": {"project_id": "shop"}}))
        })
        .collect();
    let stores = SimulatedStores::read(&json!({"api_keys": keys})).unwrap();
    move |call| reply(&stores, call)
}

/// Nothing has happened that may not.
pub(crate) fn assert_clean(envoy: &Envoy) {
    let failures = envoy.take_failures();
    assert!(failures.is_empty(), "{failures:#?}");
}
