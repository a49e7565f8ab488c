//! Secrets that Envoy keeps up to date.

use crate::common::{answer, assert_clean, by_alice, set_clock};
use dynamic_module_tests::engine::NOW_UNIX_MS;
use dynamic_module_tests::envoy::{Config, Envoy};
use dynamic_module_tests::side::Direction::{Request, Response};
use dynamic_module_tests::stream::{Stream, StreamInfo};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

/// The status of the answer to a delivery with this secret.
fn deliver(config: &Arc<Config>, secret: &str) -> u16 {
    let mut headers = by_alice("/hooks/wh_00000001", "delivery-1");
    headers.add("x-gitlab-token", secret);
    let stream = Stream::new(config, 0, StreamInfo::default());
    stream.headers(Request, headers, false);
    stream.body(Request, b"{}", true);
    if stream.awaits_upstream() {
        stream.send(Response, &answer(), 1);
    }
    stream.client().and_then(|client| client.headers.status()).unwrap()
}

fn policy(secret: &str) -> Vec<u8> {
    json!({
        "version": 1, "backend": {"kind": "generic"},
        "routes": [{"endpoint": "hooks", "path": "/hooks/{webhook_id}", "policy": "REQUIRED_B", "webhook": {"provider": "gitlab"}}],
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
    let statuses = || ["leaked", "new", ""].map(|secret| deliver(&config, secret));
    assert_eq!(statuses(), [503, 503, 503], "there is none yet");
    envoy.set_secret("hook", "leaked");
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
