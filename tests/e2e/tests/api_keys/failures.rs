//! Keys that are refused, and a registry that gives no answers.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::raw::Request;
use e2e::runner::Test;
use harness::faults::Fault;

use super::setup::{BRIEF, KeysSetup, LASTING, ORDERS, SHORT_TIMEOUT, accepted, order, refused, send, test};

pub(crate) fn tests() -> Vec<Test<KeysSetup>> {
    vec![
        test("a valid key, an unknown one, none", valid),
        test("a revoked key is refused when the time of the cache is over, and not before", revoked),
        test("Unkey is slow: 503 at the time of the policy", slow),
        test("while Unkey is down a result is used for longer where the policy says so, and only there", stale),
    ]
}

fn valid(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("valid");
    accepted(&setup.gateway, LASTING, &order(&key), "valid")?;
    accepted(&setup.gateway, LASTING, &order(&key), "valid")?;
    ensure!(setup.asked(&key) == 1, "Unkey was asked {} times", setup.asked(&key));
    refused(&setup.gateway, LASTING, &order("sk_unknown"), 401, "api_key_invalid")?;
    refused(&setup.gateway, LASTING, &order("pk_of_another_kind"), 401, "identity_missing")?;
    let twice = order(&key).header("x-partner-key", key.clone());
    refused(&setup.gateway, LASTING, &twice, 401, "api_key_invalid")?;
    refused(&setup.gateway, LASTING, &Request::post(ORDERS).header("idempotency-key", "k-1"), 401, "identity_missing")?;
    Ok(())
}

fn revoked(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("revoked");
    accepted(&setup.gateway, LASTING, &order(&key), "revoked")?;
    accepted(&setup.gateway, BRIEF, &order(&key), "revoked")?;
    setup.unkey.unbind(&key);
    setup.gateway.until("the revoked key is refused", |gateway| {
        let reply = send(gateway, BRIEF, &order(&key))?;
        ensure!(matches!(reply.status, 200 | 401), "status {}", reply.status);
        Ok(reply.status == 401)
    })?;
    setup.gateway.capture().take();
    accepted(&setup.gateway, LASTING, &order(&key), "revoked")
}

fn slow(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("slow");
    setup.unkey.server().fail(Fault::Held);
    refused(&setup.gateway, SHORT_TIMEOUT, &order(&key), 503, "dependency_unavailable")?;
    setup.unkey.server().fail(Fault::Slow(Duration::from_millis(300)));
    accepted(&setup.gateway, LASTING, &order(&key), "slow")
}

fn stale(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("stale");
    accepted(&setup.gateway, BRIEF, &order(&key), "stale")?;
    setup.unkey.server().fail(Fault::Closed);
    setup.gateway.until("the result has expired", |gateway| Ok(send(gateway, BRIEF, &order(&key))?.status == 503))?;
    setup.gateway.capture().take();
    Ok(())
}
