//! Messages that come more than once, and what their consumer makes of them: `inbox.csv`.

use anyhow::{Result, bail};
use harness::http::Request;
use harness::senders::stripe;
use harness::stack::Stack;
use serde_json::json;

use super::tables::{TableRow, scenarios};
use super::{Scenario, account, by, compare, scenario};

const TABLE: &str = include_str!("inbox.csv");
const COLUMNS: [&str; 7] = ["scenario", "receiver", "message", "amount", "status", "outcome", "entries"];

pub(crate) fn tests() -> Result<Vec<Scenario>> {
    let scenarios = scenarios(TABLE, &COLUMNS)?.into_iter();
    Ok(scenarios.map(|(name, rows)| scenario(name, async move |stack: &mut Stack| play(stack, &rows).await)).collect())
}

async fn play(stack: &Stack, rows: &[TableRow]) -> Result<()> {
    for row in rows {
        let reply = message(stack, row)?.send(&stack.gateway_url()).await?;
        compare(stack, row, &reply).await?;
    }
    Ok(())
}

/// A delivery of Stripe's, or a message of a queue that a worker of the platform hands on.
fn message(stack: &Stack, row: &TableRow) -> Result<Request> {
    let account = account(row.get("scenario"));
    let amount: u64 = row.get("amount").parse()?;
    // Events of all scenarios come to the same webhook, so that each needs an id of its own.
    let event = json!({
        "id": format!("{}_{account}", row.get("message")), "type": "payment_intent.succeeded",
        "data": {"object": {"account": account, "amount": amount}},
    });
    match row.get("receiver") {
        "webhook" => Ok(stripe(0, &[&stack.senders.stripe], &event)),
        "forged webhook" => Ok(stripe(0, &["whsec_of_somebody_else"], &event)),
        "queue" => {
            let body = json!({"id": row.get("message"), "amount": amount});
            by(stack, "queue-worker", Request::post(&format!("/api/v1/accounts/{account}/messages")).json(&body))
        }
        other => bail!("{row}: nobody knows the receiver `{other}`"),
    }
}
