//! A gateway, both stores, and webhooks in them.

use anyhow::{Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Received, TestEnvironment, TestGateway, received};
use e2e::lookup_stores::{Hook, LookupStores};
use e2e::raw::{Reply, Request, exchange};
use e2e::runner::Test;
use harness::openbao::MOUNT;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Answers hold for longer than any test takes, and calls may take as long as a busy machine needs.
pub(crate) const LASTING: &str = "lasting";
/// Answers expire at once, and are not used for longer.
pub(crate) const BRIEF: &str = "brief";
/// Calls may take no time at all.
pub(crate) const SHORT_TIMEOUT: &str = "short-timeout";

/// As the first, and few deliveries come in.
pub(crate) const LIMITED: &str = "limited";
/// How many from one address.
pub(crate) const LIMIT: u32 = 5;
/// As many deliveries come in as the shipped configuration lets in, behind a proxy that says for whom it speaks.
pub(crate) const PROXIED: &str = "proxied";

/// How both stores are asked, behind one listener.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) timeout_ms: u32,
    pub(crate) cache_ttl_s: u32,
}

pub(crate) const LONG: Times = Times { timeout_ms: 20_000, cache_ttl_s: 600 };
const LISTENERS: [(&str, Times); 5] = [
    (LASTING, LONG),
    (BRIEF, Times { cache_ttl_s: 1, ..LONG }),
    (SHORT_TIMEOUT, Times { timeout_ms: 100, ..LONG }),
    // Envoy gives listeners with the same plugin configuration one root context, and so one cache: these have their own.
    (LIMITED, Times { cache_ttl_s: 598, ..LONG }),
    (PROXIED, Times { cache_ttl_s: 597, ..LONG }),
];

/// The policy with these times.
pub(crate) fn policy(times: Times) -> String {
    let service = |cluster: &str| {
        json!({
            "cluster": cluster, "authority": format!("{cluster}.internal"), "timeout_ms": times.timeout_ms,
            "cache_ttl_s": times.cache_ttl_s,
        })
    };
    let mut openbao = service("openbao");
    if let Some(members) = openbao.as_object_mut() {
        members.insert("mount".to_owned(), json!(MOUNT));
    }
    json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "routes": [{
            "endpoint": "hooks", "path": "/webhooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {},
        }],
        "webhooks": {"unkey": service("unkey"), "openbao": openbao},
    })
    .to_string()
}

/// A test that is alone with its setup: what it sets up and counts is its own.
pub(crate) fn test<T: Clear + 'static>(name: &str, body: fn(&T) -> Result<()>) -> Test<T> {
    Test::new(name, move |setup: &T| {
        // What a test before this one left, if it failed.
        setup.clear();
        body(setup)
    })
}

/// What the tests of a group use one after the other.
pub(crate) trait Clear {
    /// No store fails, nothing is counted, and nothing has reached the upstream.
    fn clear(&self);
}

pub(crate) struct LookupsSetup {
    pub(crate) gateway: TestGateway,
    pub(crate) lookup_stores: LookupStores,
    _directory: TempDir,
}

impl Clear for LookupsSetup {
    fn clear(&self) {
        self.lookup_stores.forget();
        self.gateway.capture().take();
    }
}

impl LookupsSetup {
    pub(crate) fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let lookup_stores = LookupStores::start(directory.path())?;
        let listeners = LISTENERS.map(|(name, times)| {
            let changes = match name {
                LIMITED => vec![Change::DeliveriesAnHour(Some(LIMIT)), behind_a_proxy()],
                PROXIED => vec![behind_a_proxy()],
                _ => Vec::new(),
            };
            (name.to_owned(), ListenerSpec { policy: policy(times), changes })
        });
        let around = TestEnvironment { stores: Some(lookup_stores.stores()), ..TestEnvironment::default() };
        let gateway = TestGateway::start_within(&around, &listeners)?;
        Ok(Self { gateway, lookup_stores, _directory: directory })
    }
}

/// The address of a client is what the proxy before the gateway says, so that tests can come from several.
fn behind_a_proxy() -> Change {
    Change::Manager("xff_num_trusted_hops", json!(1))
}

/// Sends a delivery over a connection of its own.
pub(crate) fn send(gateway: &TestGateway, listener: &str, request: &Request) -> Result<Reply> {
    exchange(gateway.address(listener)?, &request.method, &request.http1())
}

/// What has reached the upstream since this was last asked.
pub(crate) fn forwarded(gateway: &TestGateway) -> Result<Vec<Received>> {
    gateway.capture().take().into_iter().map(received).collect()
}

/// The keys of requests that were forwarded, sorted.
pub(crate) fn keys(received: &[Received]) -> Vec<String> {
    let lines = received.iter().flat_map(|request| &request.headers);
    let mut keys: Vec<_> = lines
        .filter(|(name, _)| name == "idempotency-key")
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .collect();
    keys.sort();
    keys
}

/// A delivery is forwarded, with its webhook's key.
pub(crate) fn accepted(
    gateway: &TestGateway,
    listener: &str,
    hook: &Hook,
    request: &Request,
    event: &str,
) -> Result<()> {
    let reply = send(gateway, listener, request)?;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    ensure!(reply.status == 200, "{event} of {}: status {}: {text}", hook.id, reply.status);
    let forwarded = forwarded(gateway)?;
    ensure!(keys(&forwarded) == [hook.key(event)], "{event} of {} went on as {forwarded:?}", hook.id);
    Ok(())
}

/// A delivery is refused, and nothing reaches the upstream.
pub(crate) fn refused(gateway: &TestGateway, listener: &str, request: &Request, status: u16, code: &str) -> Result<()> {
    let reply = send(gateway, listener, request)?;
    let json = reply.json();
    let told = json.get("code").and_then(Value::as_str).unwrap_or_default();
    ensure!((reply.status, told) == (status, code), "status {} {json} instead of {status} {code}", reply.status);
    let waits = reply.text_header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok());
    ensure!(waits == (status == 503), "retry-after with {status}: {waits}");
    let forwarded = forwarded(gateway)?;
    ensure!(forwarded.is_empty(), "{status}, and went on: {forwarded:?}");
    Ok(())
}

/// As [`refused`], with what a sender tries again.
pub(crate) fn unavailable(gateway: &TestGateway, listener: &str, request: &Request) -> Result<()> {
    refused(gateway, listener, request, 503, "dependency_unavailable")
}
