//! docs/production.md: an API that deduplicates by clients' own keys gets the filter in front of it, and nothing runs twice. The
//! API is that of `examples/own-api`, which stores under both keys; each listener of one Envoy has another policy.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, sharing};
use harness::process::Process;
use harness::tokens;
use harness::tools::built;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::own_api;

/// Shadow mode with the header, and what comes after it.
const SHADOW: &str = "shadow";
const ENFORCE: &str = "enforce";
/// Shadow mode without the header.
const PLAIN: &str = "plain";
const HEADER: &str = "future-idempotency-key";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("the switch runs nothing twice, nor does the way back", switch),
        Test::new("callers that share a key are counted, and kept apart after the switch", shared),
    ];
    Ok(vec![sharing(MovingSetup::start, tests)])
}

struct MovingSetup {
    gateway: TestGateway,
    _api: Process,
    _directory: TempDir,
}

impl MovingSetup {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (api, address) = own_api::api(directory.path(), &[("FUTURE_KEY_HEADER", HEADER)])?;
        let around = TestEnvironment { backend: Some(address), ..TestEnvironment::default() };
        let listener = |name: &str, mode: &str, header: Option<&str>| {
            let mut policy = json!({
                "version": 1, "mode": mode, "backend": {"kind": "generic"}, "key": {"charset": "visible"},
                "identity": {"sources": [tokens::source()]},
                "routes": [
                    {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A"},
                    {"endpoint": "orders.list", "methods": ["GET"], "path": "/orders", "policy": "PROHIBITED"},
                ],
            });
            if let (Some(header), Some(members)) = (header, policy.as_object_mut()) {
                members.insert("shadow_key_header".to_owned(), json!(header));
            }
            (
                name.to_owned(),
                ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath, Change::ForwardedToken] },
            )
        };
        let listeners = [
            listener(SHADOW, "shadow", Some(HEADER)),
            listener(ENFORCE, "enforce", Some(HEADER)),
            listener(PLAIN, "shadow", None),
        ];
        let gateway = TestGateway::start_within(&around, &listeners)?;
        Ok(Self { gateway, _api: api, _directory: directory })
    }

    fn token(&self, user: &str) -> Result<String> {
        self.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": user}))
    }

    fn send(&self, listener: &str, request: &Request) -> Result<Reply> {
        raw::exchange(self.gateway.address(listener)?, &request.method, &request.http1())
    }

    fn order(&self, user: &str, key: &str, item: &str) -> Result<Request> {
        let order = Request::new("POST", "/orders").header("content-type", "application/json");
        let order = order.bearer(&self.token(user)?).header("idempotency-key", key);
        Ok(order.body(json!({"item": item}).to_string()))
    }

    /// Takes the same order at each listener in turn; the answers.
    fn taken(&self, key: &str, item: &str, listeners: &[&str]) -> Result<Vec<Value>> {
        let order = self.order("alice", key, item)?;
        let answers = listeners.iter().map(|listener| {
            let reply = self.send(listener, &order)?;
            ensure!(reply.status == 201, "{listener}: {} {}", reply.status, reply.json());
            Ok(reply.json())
        });
        answers.collect()
    }

    /// How many orders of an item the API has taken.
    fn orders(&self, item: &str) -> Result<usize> {
        own_api::count(&self.send(ENFORCE, &Request::new("GET", "/orders").bearer(&self.token("alice")?))?.json(), item)
    }
}

fn switch(setup: &MovingSetup) -> Result<()> {
    let ways: [&[&str]; 4] = [
        &[SHADOW, ENFORCE, ENFORCE],
        &[SHADOW, SHADOW, ENFORCE],
        &[SHADOW, ENFORCE, SHADOW],
        // While several gateways switch one after the other, a request can come to a switched one first.
        &[ENFORCE, SHADOW, ENFORCE],
    ];
    for (way, listeners) in ways.iter().enumerate() {
        for key in ["order:1", "ab+/=", "a/b", "8e03978e-40d5-43e8-bc93-6894a57f9324", "\"a\\\"b\""] {
            let (key, item) = if key.starts_with('"') {
                (format!("{}{way}\"", key.trim_end_matches('"')), format!("quoted-{way}"))
            } else {
                (format!("{key}{way}"), format!("{key}-{way}"))
            };
            let answers = setup.taken(&key, &item, listeners)?;
            ensure!(answers.windows(2).all(|pair| pair.first() == pair.get(1)), "{listeners:?} {key}: {answers:?}");
            ensure!(setup.orders(&item)? == 1, "{listeners:?} {key}: another number of orders");
        }
    }
    Ok(())
}

fn shared(setup: &MovingSetup) -> Result<()> {
    let first = setup.taken("order:shared", "of alice", &[SHADOW])?;
    let of_bob = setup.order("bob", "order:shared", "of bob")?;
    let mistaken = setup.send(SHADOW, &of_bob)?.json();
    ensure!(Some(&mistaken) == first.first(), "the API tells callers apart by itself: {mistaken}");
    setup.gateway.until("the log has both", |gateway| Ok(shared_keys(gateway)? > 0))?;
    let own = setup.send(ENFORCE, &of_bob)?.json();
    ensure!(own.get("item") == Some(&json!("of bob")), "{own}");
    ensure!(setup.taken("order:shared", "of alice", &[ENFORCE])? == first, "alice has lost her answer");
    ensure!((setup.orders("of alice")?, setup.orders("of bob")?) == (1, 1), "another number of orders");
    Ok(())
}

/// What `shadow-report` says of the gateway's access log.
fn shared_keys(gateway: &TestGateway) -> Result<u64> {
    let log = gateway.run_dir().join("shadow-report.log");
    fs::write(&log, gateway.access_log()?)?;
    let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
    let output = command.args(["shadow-report", "--format", "json"]).arg(&log).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(report.pointer("/raw_keys/shared").and_then(Value::as_u64).unwrap_or_default())
}
