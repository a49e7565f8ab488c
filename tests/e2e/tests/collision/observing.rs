//! `observe` beside a guard whose answers the test withholds.

use anyhow::{Result, bail, ensure};
use e2e::config::ListenerSpec;
use e2e::gateway::TestGateway;
use e2e::http2;
use e2e::raw::{self, Reply, Request};
use e2e::runner::Test;
use serde_json::json;

use super::{ATTEMPTS, post_json, route, with_routes};

const LISTENER: &str = "observing";

pub(crate) fn tests() -> Vec<Test<TestGateway>> {
    // One test, because both protocols share the guard.
    vec![Test::new("`observe` does not wait for the guard", |gateway: &TestGateway| {
        does_not_wait(gateway, "http1", |request| raw::exchange(gateway.address(LISTENER)?, "POST", &request.http1()))?;
        does_not_wait(gateway, "http2", |request| http2::exchange(gateway.address(LISTENER)?, request))
    })]
}

pub(crate) fn start() -> Result<TestGateway> {
    let policy = with_routes(
        &json!({"retention": "170h"}),
        &["http1", "http2"].map(|endpoint| route(endpoint, "Refunds/create", json!({"collision": "observe"}))),
    );
    TestGateway::start(&[(LISTENER.to_owned(), ListenerSpec { policy: policy.to_string(), changes: Vec::new() })])
}

/// The guard answers a claim after the client has its answer. A filter that waited for the guard would give up after a second,
/// forward the request and count `guard_failed`. So a counted `match` shows that it did not wait. On a busy machine a claim can come
/// too late by itself; then the next key tells.
fn does_not_wait(gateway: &TestGateway, endpoint: &str, send: impl Fn(&Request) -> Result<Reply>) -> Result<()> {
    let token = gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
    let counted = |result: &str| -> Result<u64> {
        let text = gateway.admin("/stats/prometheus")?;
        let labels = [format!("endpoint=\"{endpoint}\""), format!("result=\"{result}\""), "store=\"guard\"".to_owned()];
        let ours = text.lines().filter(|line| {
            line.starts_with("idempotency_lookup_total{") && labels.iter().all(|label| line.contains(label))
        });
        Ok(ours.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
    };
    for attempt in 1..=ATTEMPTS as u64 {
        let request = post_json(endpoint, &format!("{endpoint}-{attempt}"), "{}").bearer(&token);
        let held = gateway.capture().hold_claims();
        let reply = send(&request)?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.json());
        ensure!(counted("match")? == 0, "a claim has an answer that was withheld");
        gateway.until("the guard has the claim, or it has failed", |_| {
            Ok(held.waiting() > 0 || counted("guard_failed")? == attempt)
        })?;
        drop(held);
        gateway.until("the claim is counted", |_| Ok(counted("match")? + counted("guard_failed")? == attempt))?;
        if counted("match")? == 1 {
            return Ok(());
        }
    }
    bail!("no claim was answered in time in {ATTEMPTS} attempts: the requests wait for the guard")
}
