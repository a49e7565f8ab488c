//! Keys in flight: a duplicate of a request that is under way waits for it, or is refused with 409.

use anyhow::{Context as _, Result, ensure};
use e2e::payouts::{confirm, is_under_way, statement};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    ALICE, BOB, Caller, ExpectedAnswer, RecoverySetup, code, discreet, effects, refund, send, signed, test, until,
};

/// Payouts, which run until the test confirms; duplicates wait.
pub(crate) const PAYOUTS: &str = "/api/v1/accounts/{account}/payouts";
/// The same; duplicates in flight are refused.
pub(crate) const CAREFUL_PAYOUTS: &str = "/api/v1/accounts/{account}/careful-payouts";
/// A route to the handler of refunds that refuses duplicates in flight.
pub(crate) const CAREFUL: &str = "/api/v1/careful-refunds";

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    let tests = vec![
        test("a duplicate gets 409 while the first call runs, and then its answer", refused),
        test("by default a duplicate waits", attached),
        test("many at once: one effect, and every other answer is its own or 409", many),
        test("while the backend is down requests are forwarded as ever", down),
    ];
    tests.into_iter().map(|test| test.within("in_flight")).collect()
}

fn careful(key: &str, how: &Value) -> Request {
    Request { path: CAREFUL.to_owned(), ..refund(key, how) }
}

/// A payout from an account that is named as its key.
fn payout(path: &str, key: &str) -> Request {
    let request = Request::post(&path.replace("{account}", key)).header("Idempotency-Key", key);
    request.json(&json!({"amount": 4200}))
}

/// The object's key of Alice's and Bob's account.
pub(crate) fn account(key: &str) -> String {
    let Caller { tenant, project, .. } = ALICE;
    format!("{tenant}:{project}:{key}")
}

/// Sends a request without waiting for its answer.
fn sent(stack: &Stack, caller: &Caller, request: Request) -> Result<JoinHandle<Result<Reply>>> {
    let (request, url) = (signed(stack, caller, request)?, stack.gateway_url());
    Ok(tokio::spawn(async move { request.send(&url).await }))
}

async fn refused(stack: &mut Stack) -> Result<()> {
    let request = payout(CAREFUL_PAYOUTS, "careful");
    let first = sent(stack, &ALICE, request.clone())?;
    is_under_way(&stack.restate, &account("careful")).await?;
    for duplicate in [request.clone(), request.clone().http2()] {
        let reply = send(stack, &ALICE, duplicate).await?;
        ensure!(reply.status == 409, "{reply:?} {}", reply.text());
        code(&reply, "idempotency_key_in_flight")?;
        ensure!(reply.json().get("retry") == Some(&json!("wait")), "{}", reply.text());
        ensure!(reply.header("retry-after") == Some("2"), "{:?}", reply.headers);
        discreet(&reply)?;
    }
    // The key is Alice's: Bob's own request runs.
    let bob = Request { headers: request.headers.clone(), ..payout(CAREFUL_PAYOUTS, "of-bob") };
    let bob = sent(stack, &BOB, bob)?;
    is_under_way(&stack.restate, &account("of-bob")).await?;
    ensure!(!first.is_finished() && !bob.is_finished(), "there is an answer before the confirmation");
    confirm(&stack.restate, &account("of-bob")).await?;
    ensure!(bob.await??.status == 200, "Bob's own request is not answered");
    confirm(&stack.restate, &account("careful")).await?;
    let first = first.await??;
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&first)?;
    let replay = send(stack, &ALICE, request).await?;
    ExpectedAnswer { status: 200, key: Some("replayed"), replayed: true, retry: None }.check(&replay)?;
    ensure!(replay.body == first.body, "{} instead of {}", replay.text(), first.text());
    one_entry(stack, "careful").await
}

async fn one_entry(stack: &Stack, key: &str) -> Result<()> {
    let statement = statement(&stack.restate, &account(key)).await?;
    ensure!(statement.entries == 1 && statement.confirmation.is_none(), "{statement:?}");
    Ok(())
}

async fn attached(stack: &mut Stack) -> Result<()> {
    let request = payout(PAYOUTS, "patient");
    let first = sent(stack, &ALICE, request.clone())?;
    is_under_way(&stack.restate, &account("patient")).await?;
    let duplicate = sent(stack, &ALICE, request)?;
    until("the backend has both requests", async || Ok(requests_at_backend(stack).await? >= 2)).await?;
    ensure!(!first.is_finished() && !duplicate.is_finished(), "there is an answer before the confirmation");
    confirm(&stack.restate, &account("patient")).await?;
    let (first, duplicate) = (first.await??, duplicate.await??);
    ensure!(first.status == 200 && duplicate.status == 200 && duplicate.body == first.body, "{duplicate:?}");
    one_entry(stack, "patient").await
}

/// How many requests of the gateway the backend has not answered.
async fn requests_at_backend(stack: &Stack) -> Result<u64> {
    let path = "/stats?filter=cluster.backend-requests.upstream_rq_active";
    let reply = Request::get(path).send(&stack.envoy.admin_url()).await?;
    let text = reply.text();
    let value = text.lines().find_map(|line| line.strip_prefix("cluster.backend-requests.upstream_rq_active: "));
    value.and_then(|value| value.parse().ok()).with_context(|| format!("no number of requests: {text}"))
}

/// The question and the call are two steps, so of requests at once several can go on: then they wait for the first one.
async fn many(stack: &mut Stack) -> Result<()> {
    let request = payout(CAREFUL_PAYOUTS, "careful-many");
    let all: Vec<_> = (0..20).map(|_| sent(stack, &ALICE, request.clone())).collect::<Result<_>>()?;
    is_under_way(&stack.restate, &account("careful-many")).await?;
    let late = send(stack, &ALICE, request).await?;
    ensure!(late.status == 409, "{late:?} {}", late.text());
    confirm(&stack.restate, &account("careful-many")).await?;
    let mut answers = Vec::new();
    for reply in all {
        let reply = reply.await??;
        match reply.status {
            200 => answers.push(reply.body),
            409 => code(&reply, "idempotency_key_in_flight")?,
            _ => anyhow::bail!("{reply:?} {}", reply.text()),
        }
    }
    answers.dedup();
    ensure!(answers.len() == 1, "{} different answers", answers.len());
    one_entry(stack, "careful-many").await
}

async fn down(stack: &mut Stack) -> Result<()> {
    stack.restate.process.kill()?;
    let reply = send(stack, &ALICE, careful("careful-down", &json!({}))).await?;
    code(&reply, "dependency_unavailable")?;
    ensure!(reply.header("idempotency-retry") == Some("same_key"), "it was not forwarded: {:?}", reply.headers);
    stack.restate.restart().await?;
    until("it is forwarded again", async || {
        Ok(send(stack, &ALICE, careful("careful-down", &json!({}))).await?.status == 200)
    })
    .await?;
    ensure!(effects(stack, "careful-down").await? == 1, "another number of effects");
    Ok(())
}
