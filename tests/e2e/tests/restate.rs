//! The whole chain: client, Envoy with the filter, Restate, a service that counts its effects.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::config::plain_policy;
use e2e::gateway::tools;
use e2e::payouts::{confirm, is_under_way, statement};
use e2e::runner::{Group, Test, runtime, sharing, until_async};
use harness::http::{Reply, Request};
use harness::restate::Invocation;
use harness::stack::{Stack, StackOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::recovery::{self, ALICE, Caller};

const REFUNDS: &str = "/api/v1/refunds";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        test("a fresh call, then replays", fresh_then_replays),
        test("the same cart of two tenants", carts),
        test("a key in the body", key_in_body),
        test("a duplicate in flight gets the answer of the first, and cannot be told from it", in_flight),
        test("credentials and spoofed identities stay outside", journal),
    ];
    Ok(vec![sharing(RestateSetup::start, tests)])
}

/// A test, one at a time: what is new in the backend then belongs to it.
fn test(name: &str, body: impl AsyncFnOnce(&RestateSetup) -> Result<()> + Send + 'static) -> Test<RestateSetup> {
    Test::new(name, move |setup: &RestateSetup| runtime()?.block_on(body(setup)))
}

struct RestateSetup {
    stack: Stack,
    _directory: TempDir,
}

impl RestateSetup {
    /// The demo.
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut policy = plain_policy()?;
        let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("no routes")?;
        routes.push(json!({
            "endpoint": "accounts.payout", "path": "/api/v1/accounts/{account}/payout", "policy": "REQUIRED_A",
            "target": "Accounts/{tenant}:{project}:{account}/payout",
        }));
        routes.push(json!({
            "endpoint": "refunds.by_body", "path": "/api/v1/refunds-by-body", "policy": "REQUIRED_A", "target": "Refunds/create",
            "key": {"from": ["/meta/key"]},
        }));
        let options = StackOptions { policy: policy.to_string(), ..StackOptions::new(tools()?, directory.path()) };
        let stack = runtime()?.block_on(Stack::start(options, &|_| {}))?;
        Ok(Self { stack, _directory: directory })
    }

    async fn send(&self, caller: Option<&Caller>, request: Request) -> Result<Reply> {
        match caller {
            Some(caller) => recovery::send(&self.stack, caller, request).await,
            None => request.send(&self.stack.gateway_url()).await,
        }
    }

    /// Everything that Restate stored under a key.
    async fn stored(&self, key: &str) -> Result<Vec<Invocation>> {
        let all = self.stack.restate.invocations().await?;
        Ok(all.into_iter().filter(|invocation| invocation.idempotency_key.as_deref() == Some(key)).collect())
    }

    /// The one invocation under a key.
    async fn only(&self, key: &str) -> Result<Invocation> {
        let mut stored = self.stored(key).await?;
        ensure!(stored.len() == 1, "{} invocations under {key}", stored.len());
        stored.pop().context("no invocation")
    }

    async fn effects(&self, id: &str) -> Result<u64> {
        Ok(self.stack.service.effects().await?.get(id).copied().unwrap_or_default())
    }

    /// How many invocations Restate has, and how often handlers ran.
    async fn totals(&self) -> Result<(usize, usize)> {
        let runs = self.stack.service.calls(usize::MAX).await?.total;
        Ok((self.stack.restate.invocations().await?.len(), runs))
    }
}

/// Its retry is a replay, another caller's is none, and its result is found by the key.
async fn key_in_body(setup: &RestateSetup) -> Result<()> {
    let request = || {
        let body = json!({"order_id": "order-body", "amount": 4200, "meta": {"key": "body-1"}});
        Request::post("/api/v1/refunds-by-body").json(&body)
    };
    let bob = Caller { user: "bob", ..ALICE };
    for caller in [&ALICE, &bob] {
        let first = setup.send(Some(caller), request()).await?;
        status(&first, 200)?;
        header(&first, "idempotency-status", Some("stored"))?;
    }
    let again = setup.send(Some(&ALICE), request()).await?;
    header(&again, "idempotent-replayed", Some("true"))?;
    setup.only(&ALICE.namespaced("body-1")).await?;
    let found = Request::get("/api/v1/refunds-by-body/by-idempotency-key/body-1");
    let found = setup.send(Some(&ALICE), found).await?;
    status(&found, 200)?;
    ensure!(found.body == again.body, "{} and {}", found.text(), again.text());
    Ok(())
}

fn refund(key: &str, order: &str) -> Request {
    Request::post(REFUNDS).header("Idempotency-Key", key).json(&json!({"order_id": order, "amount": 4200}))
}

fn status(reply: &Reply, expected: u16) -> Result<()> {
    ensure!(reply.status == expected, "status {} instead of {expected}: {}", reply.status, reply.text());
    Ok(())
}

fn operation(reply: &Reply) -> Result<&str> {
    reply.header("x-operation-id").with_context(|| format!("no operation id: {reply:?}"))
}

fn header(reply: &Reply, name: &str, expected: Option<&str>) -> Result<()> {
    let seen = reply.header(name);
    ensure!(seen == expected, "{name} is {seen:?} instead of {expected:?}");
    Ok(())
}

/// An answer that was made now.
fn fresh(reply: &Reply) -> Result<()> {
    header(reply, "idempotent-replayed", None)?;
    header(reply, "idempotency-status", Some("stored"))?;
    unnamed_backend(reply)
}

/// An answer that was made before, for `first`.
fn replayed(reply: &Reply, first: &Reply) -> Result<()> {
    status(reply, first.status)?;
    header(reply, "idempotent-replayed", Some("true"))?;
    header(reply, "idempotency-status", Some("replayed"))?;
    ensure!(reply.body == first.body, "{} instead of {}", reply.text(), first.text());
    ensure!(operation(reply)? == operation(first)?, "another operation");
    unnamed_backend(reply)
}

fn unnamed_backend(reply: &Reply) -> Result<()> {
    let named = reply.headers.iter().find(|(name, _)| name.contains("restate"));
    ensure!(named.is_none(), "a header of the backend: {named:?}");
    Ok(())
}

async fn fresh_then_replays(setup: &RestateSetup) -> Result<()> {
    let first = setup.send(Some(&ALICE), refund("replay-1", "order-replay")).await?;
    status(&first, 200)?;
    fresh(&first)?;
    let invocation = setup.only(&ALICE.namespaced("replay-1")).await?;
    ensure!(invocation.id == operation(&first)?, "the operation is not the invocation {}", invocation.id);
    ensure!(invocation.target == "Refunds/create", "{invocation:?}");

    let again = refund("replay-1", "order-replay");
    let quoted = refund("\"replay-1\";v=1", "order-replay");
    let other_payload = refund("replay-1", "order-of-another-payload");
    for retry in [again.clone(), again.http2(), quoted, other_payload] {
        replayed(&setup.send(Some(&ALICE), retry).await?, &first)?;
    }
    setup.only(&ALICE.namespaced("replay-1")).await?;
    let effects = [setup.effects("order-replay").await?, setup.effects("order-of-another-payload").await?];
    ensure!(effects == [1, 0], "effects {effects:?}");
    ensure!(setup.stored("replay-1").await?.is_empty(), "the raw key is stored");
    Ok(())
}

async fn carts(setup: &RestateSetup) -> Result<()> {
    let checkout = || Request::post("/api/v1/carts/c%3F1/checkout").json(&json!({"total": 9}));
    let globex = Caller { tenant: "globex", ..ALICE };
    for (caller, number) in [(&ALICE, 1), (&globex, 1), (&ALICE, 2)] {
        let reply = setup.send(Some(caller), checkout()).await?;
        status(&reply, 200)?;
        header(&reply, "idempotency-status", None)?;
        let answer = reply.json();
        let cart = format!("{}:{}:c?1", caller.tenant, caller.project);
        ensure!(answer.get("cart") == Some(&json!(cart)), "the object is {answer}");
        ensure!(answer.get("order") == Some(&json!(number)), "order {number} of the cart: {answer}");
    }
    let keyed = setup.send(Some(&ALICE), checkout().header("idempotency-key", "cart-1")).await?;
    fresh(&keyed)?;
    replayed(&setup.send(Some(&ALICE), checkout().header("idempotency-key", "cart-1")).await?, &keyed)
}

/// Restate's answers to a call that runs and to its duplicate are the same, so none of them has a mark
/// (docs/decisions/0028-duplicates-in-flight.md). A Restate that tells them apart makes this test fail, and then the mark is worth
/// another look.
async fn in_flight(setup: &RestateSetup) -> Result<()> {
    const AT_ONCE: usize = 3;
    let account = "acme:health-prod:in-flight";
    let payout = Request::post("/api/v1/accounts/in-flight/payout").header("Idempotency-Key", "in-flight-1");
    let payout = recovery::signed(&setup.stack, &ALICE, payout.json(&json!({"amount": 4200})))?;
    let send = || {
        let (request, url) = (payout.clone(), setup.stack.gateway_url());
        tokio::spawn(async move { request.send(&url).await })
    };
    let mut sent = vec![send()];
    is_under_way(&setup.stack.restate, account).await?;
    sent.extend((1..AT_ONCE).map(|_| send()));
    let active = format!("cluster.backend-requests.upstream_rq_active: {AT_ONCE}");
    until_async("all of them are at Restate", Duration::from_millis(20), async || {
        let stats = Request::get("/stats?filter=upstream_rq_active").send(&setup.stack.envoy.admin_url()).await?;
        Ok(stats.text().lines().any(|line| line == active))
    })
    .await?;
    confirm(&setup.stack.restate, account).await?;
    let mut answers = BTreeSet::new();
    for reply in sent {
        let reply = reply.await??;
        status(&reply, 200)?;
        fresh(&reply)?;
        answers.insert((operation(&reply)?.to_owned(), reply.text()));
    }
    ensure!(answers.len() == 1, "different answers: {answers:?}");
    // The access log has them under one invocation (docs/operate.md).
    let id = answers.first().map(|(id, _)| id.clone()).context("no answer")?;
    until_async("the access log has all of them", Duration::from_millis(50), async || {
        let log = std::fs::read_to_string(setup.stack.envoy.access_log())?;
        let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_one = |line: &Value| {
            let record = &line["edge_idempotency"];
            record["restate_invocation_id"] == json!(id) && record["idempotency_outcome"] == json!("stored")
        };
        Ok(records.filter(is_one).count() == AT_ONCE)
    })
    .await?;
    ensure!(statement(&setup.stack.restate, account).await?.entries == 1, "more than one payout");
    let again = send().await??;
    header(&again, "idempotency-status", Some("replayed"))?;
    header(&again, "idempotent-replayed", Some("true"))
}

async fn journal(setup: &RestateSetup) -> Result<()> {
    let (_, runs) = setup.totals().await?;
    let spoofed = ["x-tenant-id", "X-Project-Id", "x-subject", "x_tenant_id", "x_subject"];
    let secrets = [
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "origin",
        "access-control-request-method",
        "x-restate-id",
        "x-http-method-override",
    ];
    let request = refund("journal-1", "order-journal").header("x-harmless", "stays");
    let request = secrets.iter().chain(&spoofed).fold(request, |request, name| request.header(name, "planted"));
    status(&setup.send(Some(&ALICE), request).await?, 200)?;
    let calls = setup.stack.service.calls(runs).await?.calls;
    let call = calls.first().context("the handler did not run")?;
    let planted = call.headers.iter().find(|(name, value)| value.contains("planted") || name == "authorization");
    ensure!(planted.is_none(), "the handler saw {planted:?}");
    let expected = [
        ("x-tenant-id", "acme"),
        ("x-project-id", "health-prod"),
        ("x-subject", "user:alice"),
        ("x-harmless", "stays"),
    ];
    for (name, value) in expected {
        ensure!(call.header(name) == Some(value), "{name} is {:?}", call.header(name));
    }
    let rows = setup.stack.restate.query("select * from sys_journal").await?;
    let holding = |text: &str| rows.iter().find(|row| Value::to_string(row).contains(text));
    ensure!(holding("x-harmless").is_some(), "Restate's journal shows no headers");
    let bearing = holding("planted").or_else(|| holding("Bearer "));
    ensure!(bearing.is_none(), "Restate's journal holds {bearing:?}");
    Ok(())
}
