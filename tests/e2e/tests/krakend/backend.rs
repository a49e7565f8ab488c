//! The stand-in in front of a real Restate with the demo's services: a retry, recovery by key
//! and by operation, and work in flight.

use anyhow::{Context as _, Result, ensure};
use e2e::chain::start_backend;
use e2e::payouts::{confirm, is_under_way};
use e2e::raw::{Reply, Request};
use e2e::runner::{Test, runtime};
use harness::ports::{Ports, loopback};
use harness::restate::Restate;
use harness::senders::Senders;
use harness::service::Service;
use harness::tokens::Signer;
use serde_json::json;
use tempfile::TempDir;

use super::captured::{REFUNDS, claims, shown};
use super::config::{PAYOUTS, policy};
use super::standin::{Options, StandIn, Way};

/// The whole chain.
pub(crate) struct KrakendBackendSetup {
    gateway: StandIn,
    restate: Restate,
    service: Service,
    signer: Signer,
    _directory: TempDir,
}

impl KrakendBackendSetup {
    pub(crate) fn start(way: Way) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ports = Ports::free()?;
        let (restate, service) = start_backend(directory.path(), &ports)?;
        let (signer, senders) = (Signer::generate(), Senders::generate());
        let environment = super::captured::environment(&senders);
        let backend = json!({"url": format!("http://{}", loopback(ports.restate_ingress))});
        let gateway = StandIn::start(Options {
            way,
            race: false,
            policy: &policy()?,
            upstreams: json!({"backend": backend, "unkey": backend, "openbao": backend}),
            own: Vec::new(),
            environment,
            signer: &signer,
            directory: directory.path(),
        })?;
        Ok(Self { gateway, restate, service, signer, _directory: directory })
    }

    /// Sends a request of a user of the tenant `acme`.
    fn send_as(&self, user: &str, request: Request) -> Result<Reply> {
        self.gateway.send(&request.bearer(&self.signer.mint(&claims("acme", user))?))
    }

    fn effects(&self, id: &str) -> Result<u64> {
        Ok(runtime()?.block_on(self.service.effects())?.get(id).copied().unwrap_or_default())
    }
}

pub(crate) fn tests(way: Way) -> Vec<Test<KrakendBackendSetup>> {
    let test = |name: &str, body: fn(&KrakendBackendSetup) -> Result<()>| {
        let test = Test::new(name, move |setup: &KrakendBackendSetup| body(setup));
        test.within(way.name()).within("restate")
    };
    vec![
        test("a retried key has one effect, and the second answer is marked", replayed),
        test("work under way is waited for", under_way),
    ]
}

fn refund(key: &str, order: &str) -> Request {
    let body = json!({"order_id": order, "amount": 4200}).to_string();
    let request = Request::new("POST", REFUNDS).header("content-type", "application/json").body(body);
    request.header("Idempotency-Key", key)
}

/// What an answer says of its key, and whether it is a replay.
fn check(reply: &Reply, status: u16, key: Option<&str>, replayed: bool) -> Result<()> {
    let header = |name: &str| reply.text_header(name);
    let replay = replayed.then_some("true");
    let fine = reply.status == status
        && header("idempotency-status") == key
        && header("idempotent-replayed") == replay
        && header("x-restate-id").is_none();
    ensure!(fine, "not {status}, {key:?}, replayed {replayed}: {}", shown(reply));
    Ok(())
}

fn replayed(setup: &KrakendBackendSetup) -> Result<()> {
    let first = setup.send_as("alice", refund("r-1", "order-1"))?;
    check(&first, 200, Some("stored"), false)?;
    for _ in 0..3 {
        let again = setup.send_as("alice", refund("r-1", "order-1"))?;
        check(&again, 200, Some("replayed"), true)?;
        ensure!(again.body == first.body, "{} instead of {}", shown(&again), shown(&first));
    }
    ensure!(setup.effects("order-1")? == 1, "the refund ran more than once");
    let id = first.text_header("x-operation-id").context("no operation id")?;
    ensure!(id.contains('.'), "the operation id is the backend's own, without the module's part: {id}");
    Ok(())
}

fn under_way(setup: &KrakendBackendSetup) -> Result<()> {
    let (key, account) = ("patient", "acme:health-prod:patient");
    let path = PAYOUTS.replace("{account}", key);
    let payout = Request::new("POST", path.clone()).header("content-type", "application/json");
    let payout = payout.body(r#"{"amount":4200}"#).header("Idempotency-Key", key);
    let asked = Request::new("GET", format!("{path}/by-idempotency-key/{key}"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| setup.send_as("alice", payout.clone()));
        runtime()?.block_on(is_under_way(&setup.restate, account))?;
        let output = setup.send_as("alice", Request::new("GET", format!("{path}/by-idempotency-key/{key}/output")))?;
        ensure!(output.text_header("idempotency-status") == Some("processing"), "{}", shown(&output));
        ensure!(output.status == 202 && output.text_header("retry-after").is_some(), "{}", shown(&output));
        let duplicate = scope.spawn(|| setup.send_as("alice", payout.clone()));
        let attached = scope.spawn(|| setup.send_as("alice", asked));
        // All three have a stream of their own while they wait.
        setup
            .gateway
            .until("three requests wait", |gateway| Ok(gateway.metric("idempotency_bridge_streams")? >= 3.0))?;
        ensure!(!first.is_finished() && !duplicate.is_finished(), "there is an answer before the confirmation");
        runtime()?.block_on(confirm(&setup.restate, account))?;
        let mut replies = Vec::new();
        for waiting in [first, duplicate, attached] {
            replies.push(waiting.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        for reply in &replies {
            let same = replies.first().is_some_and(|first| first.body == reply.body);
            ensure!(reply.status == 200 && same, "{}", shown(reply));
        }
        Ok(())
    })
}
