//! A gateway whose callers have API keys, and the registry that knows these.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use e2e::config::ListenerSpec;
use e2e::gateway::{Received, TestEnvironment, TestGateway, received};
use e2e::raw::{Reply, Request, exchange};
use e2e::runner::{Test, runtime};
use harness::envoy::Stores;
use harness::unkey::Unkey;
use serde_json::{Value, json};

/// What Unkey says counts for as long as it may.
pub(crate) const LASTING: &str = "lasting";
/// What Unkey says counts for a second.
pub(crate) const BRIEF: &str = "brief";
/// Calls may take next to no time.
pub(crate) const SHORT_TIMEOUT: &str = "short-timeout";
/// As the first, for floods.
pub(crate) const FLOODED: &str = "flooded";

pub(crate) const ROOT_KEY: &str = "unkey_root_of_api_keys";
pub(crate) const ORDERS: &str = "/api/v1/orders";

/// The policy, with these members of `unkey`.
pub(crate) fn policy(times: &Value) -> Value {
    let mut registry =
        json!({"header": "x-partner-key", "prefix": "sk_", "cluster": "unkey", "authority": "api.unkey.test"});
    if let (Some(registry), Some(times)) = (registry.as_object_mut(), times.as_object()) {
        registry.extend(times.clone());
    }
    json!({
        "version": 1,
        "backend": {"kind": "generic"},
        "identity": {"sources": [{
            "name": "partner", "unkey": registry, "tenant": "/identity/externalId", "project": "/meta/project_id",
            "subject": {"field": "/keyId", "type": "client"},
        }], "forward": {"tenant": "x-tenant-id"}},
        "routes": [
            {"endpoint": "orders", "path": ORDERS, "policy": "REQUIRED_A"},
            {"endpoint": "refunds", "path": "/api/v1/refunds", "policy": "REQUIRED_A",
             "api_key": {"permissions": "refunds.create"}},
            {"endpoint": "uploads", "path": "/api/v1/uploads", "policy": "ACCEPTED", "max_body_bytes": 1024},
            {"endpoint": "public", "path": "/api/v1/public", "methods": ["GET"], "policy": "PROHIBITED",
             "api_key": {"required": false}},
        ],
    })
}

/// The gateway, and the registry.
pub(crate) struct KeysSetup {
    pub(crate) gateway: TestGateway,
    pub(crate) unkey: Unkey,
}

impl KeysSetup {
    pub(crate) fn start() -> Result<Self> {
        let unkey = runtime()?.block_on(Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), ROOT_KEY))?;
        let long = json!({"timeout_ms": 20_000, "cache_ttl_s": 60});
        let brief = json!({"timeout_ms": 20_000, "cache_ttl_s": 1});
        let listeners = [
            (LASTING, long),
            (BRIEF, brief),
            (SHORT_TIMEOUT, json!({"timeout_ms": 100})),
            // Envoy gives listeners with the same plugin configuration one root context, and so one cache: this has its own.
            (FLOODED, json!({"timeout_ms": 20_000, "cache_ttl_s": 59})),
        ];
        let listeners = listeners.map(|(name, times)| {
            (name.to_owned(), ListenerSpec { policy: policy(&times).to_string(), changes: Vec::new() })
        });
        let around = TestEnvironment { stores: Some(stores(&unkey)), ..TestEnvironment::default() };
        Ok(Self { gateway: TestGateway::start_within(&around, &listeners)?, unkey })
    }

    /// An API key of a tenant of its own, which Unkey knows.
    pub(crate) fn key(&self, name: &str) -> String {
        let key = format!("sk_{name}");
        self.unkey.says(&key, holder(name));
        key
    }

    /// How often Unkey was asked for a key.
    pub(crate) fn asked(&self, key: &str) -> u64 {
        self.unkey.server().counts().get(key).copied().unwrap_or_default()
    }
}

/// The registry as the gateway knows it; there is no secret store.
pub(crate) fn stores(unkey: &Unkey) -> Stores {
    Stores {
        unkey: unkey.server().address(),
        unkey_root_key: ROOT_KEY.to_owned(),
        openbao: SocketAddr::from(([127, 0, 0, 1], 1)),
        openbao_token: None,
    }
}

/// What Unkey says of a tenant's key.
pub(crate) fn holder(tenant: &str) -> Value {
    json!({
        "valid": true, "code": "VALID", "keyId": format!("key_{tenant}"), "enabled": true,
        "identity": {"id": format!("id_{tenant}"), "externalId": tenant}, "meta": {"project_id": "shop"},
    })
}

/// A test that is alone with its setup: nothing fails, nothing is counted, and nothing has reached the upstream before it.
pub(crate) fn test(name: &str, body: fn(&KeysSetup) -> Result<()>) -> Test<KeysSetup> {
    Test::new(name, move |setup: &KeysSetup| {
        setup.unkey.server().recover();
        setup.unkey.server().forget();
        setup.gateway.capture().take();
        body(setup)
    })
}

/// A request with an idempotency key, of the holder of an API key.
pub(crate) fn order(key: &str) -> Request {
    Request::post(ORDERS).header("x-partner-key", key).header("idempotency-key", "k-1").body("{}")
}

pub(crate) fn send(gateway: &TestGateway, listener: &str, request: &Request) -> Result<Reply> {
    exchange(gateway.address(listener)?, &request.method, &request.http1())
}

pub(crate) fn forwarded(gateway: &TestGateway) -> Result<Vec<Received>> {
    gateway.capture().take().into_iter().map(received).collect()
}

/// The request went on in the namespace of this tenant's key, and without the API key.
pub(crate) fn accepted(gateway: &TestGateway, listener: &str, request: &Request, tenant: &str) -> Result<()> {
    let reply = send(gateway, listener, request)?;
    ensure!(reply.status == 200, "status {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
    let received = forwarded(gateway)?;
    let [one] = received.as_slice() else { anyhow::bail!("{} requests went on", received.len()) };
    let header = |name: &str| one.headers.iter().find(|(line, _)| line == name).map(|(_, value)| value.clone());
    let namespaced = format!("t-{tenant}:shop:client:key_{tenant}:k-1").into_bytes();
    ensure!(header("idempotency-key") == Some(namespaced), "{one:?}");
    ensure!(header("x-tenant-id") == Some(tenant.as_bytes().to_vec()), "{one:?}");
    ensure!(!format!("{one:?}").contains("sk_"), "the API key went on: {one:?}");
    Ok(())
}

/// The request was refused with this code, and nothing went on.
pub(crate) fn refused(
    gateway: &TestGateway,
    listener: &str,
    request: &Request,
    status: u16,
    code: &str,
) -> Result<Reply> {
    let reply = send(gateway, listener, request)?;
    let json = reply.json();
    let told = json.get("code").and_then(Value::as_str).unwrap_or_default();
    ensure!((reply.status, told) == (status, code), "status {} {json} instead of {status} {code}", reply.status);
    let forwarded = forwarded(gateway)?;
    ensure!(forwarded.is_empty(), "{status}, and went on: {forwarded:?}");
    Ok(reply)
}
