//! A client that does not know whether its request was done, and sends it again as it is told: `retry_log.csv` is its log.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::payouts;
use e2e::runner::until_async;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::tables::{TableRow, scenarios};
use super::{Scenario, account, by, compare, entries, object, order, scenario};

const TABLE: &str = include_str!("retry_log.csv");
const COLUMNS: [&str; 8] = ["scenario", "operation", "attempt", "before", "delay_s", "status", "outcome", "entries"];
/// How often a test looks whether something has happened.
const POLL: Duration = Duration::from_millis(20);
const CLIENT: &str = "alice";
const KEY: &str = "k1";
const AMOUNT: &str = "100";

pub(crate) fn tests() -> Result<Vec<Scenario>> {
    let scenarios = scenarios(TABLE, &COLUMNS)?.into_iter();
    Ok(scenarios.map(|(name, rows)| scenario(name, async move |stack: &mut Stack| play(stack, &rows).await)).collect())
}

/// A client that retries.
struct Client {
    /// An attempt that has no answer yet
    waiting: Option<JoinHandle<Result<Reply>>>,
    /// The answer to the last attempt, if it had one
    last: Option<Reply>,
}

async fn play(stack: &mut Stack, rows: &[TableRow]) -> Result<()> {
    let mut client = Client { waiting: None, last: None };
    for (number, row) in (1_usize..).zip(rows) {
        ensure!(row.get("attempt") == number.to_string(), "{row} is attempt {number}");
        for event in row.get("before").split(" + ") {
            happen(stack, &mut client, row, event).await?;
        }
        // What the client waits at least. The test does not wait: what has to happen before the attempt has happened.
        let delay = client.last.as_ref().map_or("0", |last| last.header("retry-after").unwrap_or("0"));
        ensure!(delay == row.get("delay_s"), "{row}: the client was told to wait for {delay} s");
        let request = by(stack, CLIENT, order(row.get("scenario"), row.get("operation"), KEY, AMOUNT)?)?;
        let request = request.header("X-Retry-Attempt", row.get("attempt"));
        let url = stack.gateway_url();
        if row.get("status") == "-" {
            let mut attempt = tokio::spawn(async move { request.send(&url).await });
            let account = object(row.get("scenario"));
            tokio::select! {
                answer = &mut attempt => bail!("{row}: the attempt has an answer: {:?}", answer?),
                under_way = payouts::is_under_way(&stack.restate, &account) => under_way?,
            }
            client.waiting = Some(attempt);
            entries(stack, row).await?;
            continue;
        }
        let reply = request.send(&url).await?;
        compare(stack, row, &reply).await?;
        let advice = reply.json().get("retry").and_then(Value::as_str).map(str::to_owned);
        let expected = (reply.status >= 400).then_some("same_key");
        ensure!(advice.as_deref() == expected, "{row}: the client is told {advice:?}");
        client.last = Some(reply);
    }
    Ok(())
}

/// What happens before an attempt.
async fn happen(stack: &mut Stack, client: &mut Client, row: &TableRow, event: &str) -> Result<()> {
    match event {
        "-" => Ok(()),
        "the client hangs up" => {
            client.waiting.take().context("no attempt waits")?.abort();
            Ok(())
        }
        "the provider confirms" => confirm(stack, row).await,
        "the gateway restarts" => {
            stack.envoy.restart().await?;
            let answer = client.waiting.take().context("no attempt waits")?.await?;
            ensure!(answer.is_err(), "{row}: the attempt before has an answer: {answer:?}");
            Ok(())
        }
        "the backend stops" => stack.restate.process.kill(),
        "the backend starts" => stack.restate.restart().await,
        _ => bail!("{row}: nobody knows what `{event}` is"),
    }
}

/// Confirms the payout, and waits until it has ended.
async fn confirm(stack: &Stack, row: &TableRow) -> Result<()> {
    let scenario = row.get("scenario");
    payouts::confirm(&stack.restate, &object(scenario)).await?;
    let output =
        format!("/api/v1/accounts/{}/{}s/by-idempotency-key/{KEY}/output", account(scenario), row.get("operation"));
    until_async("the payout has ended", POLL, async || {
        let reply = by(stack, CLIENT, Request::get(&output))?.send(&stack.gateway_url()).await?;
        ensure!(matches!(reply.status, 201 | 202), "{} {}", reply.status, reply.text());
        Ok(reply.status == 201)
    })
    .await
}
