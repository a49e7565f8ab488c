//! What lookups come to, in Envoy's metrics.

use anyhow::{Result, ensure};
use e2e::gateway::TestGateway;
use e2e::lookup_stores::Hook;
use e2e::runner::Test;
use harness::faults::Fault;

use super::setup::{LASTING, LookupsSetup, STALE, accepted, refused, test, unavailable};

pub(crate) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![
        test("found and held lookups are counted for the webhook's tenant", found),
        test("stale lookups are counted", stale),
        test("failed lookups are counted for nobody's tenant", failed),
        test("the time of each call is recorded", times),
    ]
}

/// The sum of the samples of a metric that have all of these labels.
fn sum(gateway: &TestGateway, name: &str, labels: &[(&str, &str)]) -> Result<u64> {
    let text = gateway.admin("/stats/prometheus")?;
    let pairs: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let lines = lines.filter(|line| pairs.iter().all(|pair| line.contains(pair)));
    Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
}

/// The lookups of a store with a result for a tenant.
fn lookups(gateway: &TestGateway, store: &str, result: &str, tenant: &str) -> Result<u64> {
    sum(gateway, "idempotency_lookup_total", &[("store", store), ("result", result), ("tenant", tenant)])
}

fn counts(gateway: &TestGateway, hook: &Hook, expected: [(&str, &str, u64); 4]) -> Result<()> {
    gateway.until(&format!("the lookups of {} are counted: {expected:?}", hook.tenant), |gateway| {
        let seen = expected.map(|(store, result, _)| lookups(gateway, store, result, &hook.tenant));
        let seen = seen.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(expected.iter().zip(seen).all(|((_, _, count), seen)| *count == seen))
    })
}

fn found(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("counted")?;
    for event in ["evt_1", "evt_2", "evt_3"] {
        accepted(&setup.gateway, LASTING, &hook, &hook.delivery(event), event)?;
    }
    let expected = [("unkey", "miss", 1), ("openbao", "miss", 1), ("unkey", "hit", 2), ("openbao", "hit", 2)];
    counts(&setup.gateway, &hook, expected)?;
    let present = [("case", "B"), ("form", "json"), ("tenant", &hook.tenant), ("project", "shop")];
    ensure!(sum(&setup.gateway, "idempotency_key_present_total", &present)? == 3);
    Ok(())
}

fn stale(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("counted-stale")?;
    accepted(&setup.gateway, STALE, &hook, &hook.delivery("evt_1"), "evt_1")?;
    for server in [setup.lookup_stores.unkey.server(), &setup.lookup_stores.openbao_proxy] {
        server.fail(Fault::Status(500));
    }
    setup.gateway.until("both results are used beyond their time", |gateway| {
        accepted(gateway, STALE, &hook, &hook.delivery("evt_2"), "evt_2")?;
        let stale = |store| lookups(gateway, store, "stale", &hook.tenant);
        Ok(stale("unkey")? > 0 && stale("openbao")? > 0)
    })
}

fn failed(setup: &LookupsSetup) -> Result<()> {
    let (cold, unknown) = (setup.lookup_stores.hook("counted-cold")?, setup.lookup_stores.hook("counted-unknown")?);
    let forged = setup.lookup_stores.hook("counted-forged")?;
    let code = "webhook_signature_invalid";
    refused(&setup.gateway, LASTING, &forged.signed("whsec_guessed", "evt_1"), 401, code)?;
    let count = |store, result| lookups(&setup.gateway, store, result, "_none");
    let before = [count("openbao", "secret_store_error")?, count("unkey", "not_found")?];
    setup.lookup_stores.openbao_proxy.fail(Fault::Says(500, Vec::new(), r#"{"errors": ["no"]}"#.to_owned()));
    unavailable(&setup.gateway, LASTING, &cold.delivery("evt_1"))?;
    setup.lookup_stores.unkey.unbind(&unknown.id);
    refused(&setup.gateway, LASTING, &unknown.delivery("evt_1"), 404, "webhook_unknown")?;
    setup.gateway.until("both failures are counted", |gateway| {
        let count = |store, result| lookups(gateway, store, result, "_none");
        Ok(count("openbao", "secret_store_error")? > before[0] && count("unkey", "not_found")? > before[1])
    })?;
    // Neither signature was verified, so the tenants have no series.
    let text = setup.gateway.admin("/stats/prometheus")?;
    for hook in [cold, forged] {
        ensure!(!text.contains(&hook.tenant), "a series for {}", hook.tenant);
    }
    Ok(())
}

fn times(setup: &LookupsSetup) -> Result<()> {
    let hook = setup.lookup_stores.hook("counted-time")?;
    let count =
        |gateway: &TestGateway, store| sum(gateway, "idempotency_lookup_milliseconds_count", &[("store", store)]);
    let before = [count(&setup.gateway, "unkey")?, count(&setup.gateway, "openbao")?];
    accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_1"), "evt_1")?;
    accepted(&setup.gateway, LASTING, &hook, &hook.delivery("evt_2"), "evt_2")?;
    setup.gateway.until("both calls are recorded", |gateway| {
        Ok(count(gateway, "unkey")? > before[0] && count(gateway, "openbao")? > before[1])
    })
}
