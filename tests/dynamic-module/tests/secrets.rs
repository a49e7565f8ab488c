//! Secrets that Envoy keeps up to date.

use crate::common::{answer, assert_clean, by_alice, set_clock};
use dynamic_module_tests::engine::NOW_UNIX_MS;
use dynamic_module_tests::envoy::{Config, Envoy};
use dynamic_module_tests::side::Direction::{Request, Response};
use dynamic_module_tests::stream::{Stream, StreamInfo};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

/// The status of the answer to a delivery with this secret; without one it is not signed.
fn deliver(config: &Arc<Config>, secret: Option<&str>) -> u16 {
    let mut headers = by_alice("/hooks/wh_00000001", "delivery-1");
    secret.into_iter().for_each(|secret| headers.add("x-gitlab-token", secret));
    let stream = Stream::new(config, 0, StreamInfo::default());
    stream.headers(Request, headers, false);
    stream.body(Request, b"{}", true);
    if stream.awaits_upstream() {
        stream.send(Response, &answer(), 1);
    }
    stream.client().and_then(|client| client.headers.status()).unwrap()
}

/// The status, the code and the reason of the answer to a call of a signed caller, whose signature is wrong.
fn call(config: &Arc<Config>) -> (u16, Value, Value) {
    let mut headers = by_alice("/orders", "k-1");
    headers.add("x-signature", "0".repeat(64));
    headers.add("x-tenant-id", "acme");
    headers.add("x-project-id", "shop");
    headers.add("x-time", (NOW_UNIX_MS / 1000).to_string());
    let stream = Stream::new(config, 0, StreamInfo::default());
    stream.headers(Request, headers, false);
    stream.body(Request, b"{}", true);
    let client = stream.client().unwrap();
    let problem: Value = serde_json::from_slice(&client.body).unwrap();
    let reason = stream.record().get("idempotency_reason").cloned().unwrap_or_default();
    (client.headers.status().unwrap(), problem["code"].clone(), reason)
}

fn policy(secret: &str) -> Vec<u8> {
    json!({
        "version": 1, "backend": {"kind": "generic"},
        "routes": [
            {"endpoint": "hooks", "path": "/hooks/{webhook_id}", "policy": "REQUIRED_B", "webhook": {"provider": "gitlab"}},
            {"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A"},
        ],
        "callers": {"timer": {
            "subject": "service:timer", "routes": ["orders"], "secrets": [{"sds": secret}],
            "signature": {
                "algorithm": "hmac-sha256",
                "signature": {"header": "x-signature", "encoding": "hex"},
                "timestamp": {"header": "x-time", "unit": "s", "max_age_s": 300},
                "template": "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}",
            },
        }},
        "webhooks": {"static": {"wh_00000001": {
            "tenant": "acme", "project": "shop", "provider": "gitlab",
            "secrets": [{"sds": secret, "rotation_grace_s": 2}],
        }}},
    })
    .to_string()
    .into_bytes()
}

#[test]
fn a_subscription_of_sds_does_not_end_on_a_worker() {
    set_clock();
    let envoy = Envoy::new(1);
    let configure = |secret: &str| envoy.configure(&policy(secret), &BTreeMap::new()).unwrap();
    let mut config = configure("first");
    for secret in ["second", "third", "second"] {
        let old = std::mem::replace(&mut config, configure(secret));
        thread::spawn(|| drop(old)).join().unwrap();
        assert_clean(&envoy);
    }
}

#[test]
fn a_secret_that_is_withdrawn_counts_for_its_grace_and_then_none_does() {
    set_clock();
    let envoy = Envoy::new(1);
    let config = envoy.configure(&policy("hook"), &BTreeMap::new()).unwrap();
    let after = |ms: u64| {
        edge_idempotency::process::set_now(Some(NOW_UNIX_MS + ms));
        config.tick();
    };
    let statuses = || ["leaked", "new", ""].map(|secret| deliver(&config, Some(secret)));
    assert_eq!(statuses(), [503, 503, 503], "there is none yet");
    assert_eq!(deliver(&config, None), 503, "signed or not");
    assert_eq!(call(&config), (503, json!("dependency_unavailable"), json!("secret_invalid")), "nor for callers");
    envoy.set_secret("hook", "leaked");
    assert_eq!(call(&config), (401, json!("signature_invalid"), json!("signature_mismatch")));
    assert_eq!(statuses(), [200, 401, 401]);
    envoy.set_secret("hook", "");
    after(1000);
    assert_eq!(statuses(), [200, 401, 401], "it is withdrawn, and has its grace");
    after(3000);
    assert_eq!(statuses(), [503, 503, 503], "after the grace there is none");
    envoy.set_secret("hook", "new");
    assert_eq!(statuses(), [401, 200, 401]);
    assert_clean(&envoy);
}
