//! Whose a result is in a real Restate, where callers have API keys: a retry, a recovery, an operation, and nobody else's.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use e2e::chain::Chain;
use e2e::config::ListenerSpec;
use e2e::gateway::TestEnvironment;
use e2e::raw::{Reply, Request, exchange};
use e2e::runner::{Test, runtime};
use harness::unkey::Unkey;
use serde_json::{Value, json};

use super::setup::{ROOT_KEY, holder, policy, stores};

const LISTENER: &str = "gateway";
const REFUNDS: &str = "/api/v1/refunds";

pub(crate) struct Holders {
    chain: Chain,
    unkey: Unkey,
}

pub(crate) fn start() -> Result<Holders> {
    let unkey = runtime()?.block_on(Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), ROOT_KEY))?;
    let mut policy = policy(&json!({"cache_ttl_s": 1}));
    if let Some(members) = policy.as_object_mut() {
        members.insert(
            "backend".to_owned(),
            json!({
                "kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {"retention": "48h"},
            }),
        );
        members.insert("routes".to_owned(), json!([
            {"endpoint": "refunds", "path": REFUNDS, "policy": "REQUIRED_A", "target": "Refunds/create"},
            {"endpoint": "carts", "path": "/api/v1/carts/checkout", "policy": "REQUIRED_A", "target": "Cart/{tenant}/checkout", "in_flight": "conflict"},
        ]));
    }
    let around = TestEnvironment { stores: Some(stores(&unkey)), ..TestEnvironment::default() };
    let listener = ListenerSpec { policy: policy.to_string(), changes: Vec::new() };
    let chain = Chain::start(around, &[(LISTENER.to_owned(), listener)])?;
    for tenant in ["acme", "globex"] {
        unkey.says(&format!("sk_{tenant}"), holder(tenant));
    }
    Ok(Holders { chain, unkey })
}

pub(crate) fn tests() -> Vec<Test<Holders>> {
    vec![
        Test::new("a retry is answered from the stored result, and another tenant's request is its own", retried),
        Test::new("a result is recovered by its holder and by nobody else", recovered),
    ]
}

fn send(setup: &Holders, request: &Request) -> Result<Reply> {
    exchange(setup.chain.gateway.address(LISTENER)?, &request.method, &request.http1())
}

fn refund(tenant: &str, key: &str, order: &str) -> Request {
    let body = json!({"order_id": order, "amount": 7}).to_string();
    Request::post(REFUNDS).header("x-partner-key", format!("sk_{tenant}")).header("idempotency-key", key).body(body)
}

fn replayed(reply: &Reply) -> bool {
    reply.text_header("idempotent-replayed") == Some("true")
}

fn retried(setup: &Holders) -> Result<()> {
    let first = send(setup, &refund("acme", "shared-key", "keys-1"))?;
    ensure!(first.status == 200 && !replayed(&first), "status {}", first.status);
    let again = send(setup, &refund("acme", "shared-key", "keys-1"))?;
    ensure!(again.status == 200 && replayed(&again) && again.body == first.body, "status {}", again.status);
    let other = send(setup, &refund("globex", "shared-key", "keys-2"))?;
    ensure!(other.status == 200 && !replayed(&other) && other.body != first.body, "status {}", other.status);
    ensure!(setup.chain.stored("t-acme:shop:client:key_acme:shared-key")?.len() == 1, "not one result");
    ensure!(setup.chain.effects("keys-1")? == 1 && setup.chain.effects("keys-2")? == 1, "not one effect each");
    Ok(())
}

fn recovered(setup: &Holders) -> Result<()> {
    let first = send(setup, &refund("acme", "to-recover", "keys-3"))?;
    let ask = |tenant: &str| {
        let path = format!("{REFUNDS}/by-idempotency-key/to-recover/output");
        send(setup, &Request::new("GET", path).header("x-partner-key", format!("sk_{tenant}")))
    };
    let own = ask("acme")?;
    ensure!(own.status == 200 && own.body == first.body, "status {}", own.status);
    let code = |reply: &Reply| reply.json().get("code").and_then(Value::as_str).map(str::to_owned);
    let others = ask("globex")?;
    ensure!(code(&others).as_deref() == Some("idempotency_key_unknown"), "{}", others.json());
    setup.unkey.says("sk_fired", json!({"valid": false, "code": "DISABLED", "keyId": "key_acme"}));
    let fired = ask("fired")?;
    ensure!(code(&fired).as_deref() == Some("api_key_invalid"), "{}", fired.json());
    // The journal has the caller's namespaced key, and not the API key.
    let all = format!("{:?}", runtime()?.block_on(setup.chain.restate.invocations())?);
    ensure!(!all.contains("sk_acme"), "Restate has an API key: {all}");
    Ok(())
}
