//! A tenant that waits for results as often as it can does not starve others: neither their requests, nor the filter's own calls, on
//! which collision detection depends. With the configuration of the demo and the rendered one, a real Restate and the guard.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::http2::UnderWay;
use e2e::payouts::{confirm, is_under_way};
use e2e::raw;
use e2e::runner::{Group, Test, runtime, sharing, until_async};
use harness::demo_policy::POLICY;
use harness::http::{Reply, Request};
use harness::ports::loopback;
use harness::stack::{Stack, StackOptions};
use harness::tools::built;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The attack: so many connections, each with so many waits.
const CONNECTIONS: usize = 24;
const WAITS: usize = 100;
/// How many requests of a caller wait in a worker, and how many workers the gateway has.
const PER_CALLER: usize = 16;
const WORKERS: usize = 2;

/// How many requests others send during the attack.
const ROUNDS: usize = 30;
const POLL: Duration = Duration::from_millis(20);
const REFUNDS: &str = "/api/v1/refunds";
/// A payout runs until the test confirms it.
const PAYOUTS: &str = "/api/v1/accounts/{account}/payouts";
const ACCOUNT: &str = "slow";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let test = |name: &str| {
        let name = format!("{name}::another tenant's waits leave collision detection and ordinary requests alone");
        vec![Test::new(name, |setup: &WaitsSetup| runtime()?.block_on(setup.is_fair()))]
    };
    let rendered = || WaitsSetup::start(Some(built("EDGE_CLI", "edge-idempotency")?));
    Ok(vec![sharing(|| WaitsSetup::start(None), test("shipped")).alone(), sharing(rendered, test("rendered")).alone()])
}

struct WaitsSetup {
    stack: Stack,
    _directory: TempDir,
}

/// The demo's policy with a route to work that takes as long as its caller likes, for which nobody has to wait.
fn policy() -> Result<String> {
    let mut policy: Value = serde_json::from_str(POLICY)?;
    let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("the demo's routes")?;
    routes.push(json!({
        "endpoint": "payouts.create", "path": PAYOUTS, "policy": "ACCEPTED", "one_way": true, "recovery": false,
        "target": "Accounts/{tenant}:{project}:{account}/payout",
    }));
    Ok(policy.to_string())
}

fn all_are(statuses: &[u16], expected: u16) -> bool {
    statuses.iter().all(|status| *status == expected)
}

impl WaitsSetup {
    /// With the configuration that the demo ships, or with the one that this command renders.
    fn start(renderer: Option<PathBuf>) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let options = StackOptions { policy: policy()?, renderer, ..StackOptions::new(tools()?, directory.path()) };
        let stack = runtime()?.block_on(Stack::start(options, &|_| {}))?;
        Ok(Self { stack, _directory: directory })
    }

    fn token(&self, tenant: &str) -> Result<String> {
        self.stack.signer.mint(&json!({"tenant_id": tenant, "project_id": "shop", "sub": "alice"}))
    }

    async fn send(&self, tenant: &str, request: Request) -> Result<Reply> {
        request.bearer(&self.token(tenant)?).send(&self.stack.gateway_url()).await
    }

    async fn refund(&self, tenant: &str, key: &str, amount: u64) -> Result<Reply> {
        let body = json!({"order_id": key, "amount": amount});
        self.send(tenant, Request::post(REFUNDS).header("idempotency-key", key).json(&body)).await
    }

    /// A gauge or counter of Envoy's.
    async fn stat(&self, name: &str) -> Result<usize> {
        let reply = Request::get(&format!("/stats?filter=^{name}$")).send(&self.stack.envoy.admin_url()).await?.text();
        let value = reply.lines().find_map(|line| line.rsplit_once(": ")?.1.trim().parse().ok());
        value.with_context(|| format!("no {name}: {reply}"))
    }

    async fn is_fair(&self) -> Result<()> {
        let first = self.refund("acme", "pay-1", 4200).await?;
        ensure!(first.status == 200, "{} {}", first.status, first.text());
        let work = Request::post(&PAYOUTS.replace("{account}", ACCOUNT)).json(&json!({"amount": 1}));
        let accepted = self.send("mallory", work).await?;
        let operation = accepted.header("location").context("no Location")?.to_owned();
        is_under_way(&self.stack.restate, &format!("mallory:shop:{ACCOUNT}")).await?;

        let wait = raw::Request::new("GET", operation.clone()).bearer(&self.token("mallory")?);
        let gateway = loopback(self.stack.ports.gateway);
        let mut attack = UnderWay::begin(gateway, &wait, CONNECTIONS, WAITS).await?;
        let began = async || Ok(self.stat("http.gateway.downstream_rq_total").await? >= CONNECTIONS * WAITS);
        until_async("the gateway has all requests", POLL, began).await?;

        for round in 0..ROUNDS {
            let changed = self.refund("acme", "pay-1", 1).await?;
            ensure!(changed.status == 422, "round {round}: {} {}", changed.status, changed.text());
            let other = self.refund("other", &format!("pay-{round}"), 4200).await?;
            ensure!(other.status == 200, "round {round}: {} {}", other.status, other.text());
        }
        // Beyond the caller's bound nobody waits, and the rest still does.
        let told = attack.statuses(CONNECTIONS * WAITS - WORKERS * PER_CALLER).await?;
        ensure!(all_are(&told, 202), "{:?}", told.iter().find(|status| **status != 202));
        let waiting = self.stat("cluster.backend-waits.upstream_rq_active").await?;
        ensure!(waiting > 0 && waiting <= WORKERS * PER_CALLER, "{waiting} wait");
        ensure!(self.stat("cluster.backend.upstream_cx_overflow").await? == 0, "the filter's calls had no connection");

        // Who goes away gives its places back.
        drop(attack);
        let ended = async || Ok(self.stat("cluster.backend-waits.upstream_rq_active").await? == 0);
        until_async("nobody waits", POLL, ended).await?;
        let mut again = UnderWay::begin(gateway, &wait, 1, PER_CALLER).await?;
        let waits = async || Ok(self.stat("cluster.backend-waits.upstream_rq_active").await? == PER_CALLER);
        until_async("as many wait as may", POLL, waits).await?;
        confirm(&self.stack.restate, &format!("mallory:shop:{ACCOUNT}")).await?;
        let results = again.statuses(PER_CALLER).await?;
        ensure!(all_are(&results, 200), "{results:?}");
        Ok(())
    }
}
