//! Keys in flight: a duplicate of a request that is under way waits for it, or is refused with 409.

use anyhow::{Result, ensure};
use e2e::payouts::{confirm, is_under_way, statement};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{ALICE, BOB, Caller, ExpectedAnswer, RecoverySetup, code, discreet, send, signed, test};

/// Payouts, which run until the test confirms; duplicates in flight are refused.
pub(crate) const CAREFUL_PAYOUTS: &str = "/api/v1/accounts/{account}/careful-payouts";

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    let tests = vec![
        test("a duplicate gets 409 while the first call runs, and then its answer", refused),
        test("many at once: one effect, and every other answer is its own or 409", many),
    ];
    tests.into_iter().map(|test| test.within("in_flight")).collect()
}

/// A payout from an account that is named as its key.
fn payout(key: &str) -> Request {
    let request = Request::post(&CAREFUL_PAYOUTS.replace("{account}", key)).header("Idempotency-Key", key);
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
    let request = payout("careful");
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
    let bob = Request { headers: request.headers.clone(), ..payout("of-bob") };
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

/// The question and the call are two steps, so of requests at once several can go on: then they wait for the first one.
async fn many(stack: &mut Stack) -> Result<()> {
    let request = payout("careful-many");
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
