//! Requests with keys, and what becomes of the second one: `replays.csv`.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use harness::stack::Stack;

use super::tables::{TableRow, scenarios};
use super::{Scenario, by, compare, order, scenario};

const TABLE: &str = include_str!("replays.csv");
const COLUMNS: [&str; 8] = ["scenario", "caller", "operation", "key", "amount", "status", "outcome", "entries"];

pub(crate) fn tests() -> Result<Vec<Scenario>> {
    let scenarios = scenarios(TABLE, &COLUMNS)?.into_iter();
    Ok(scenarios.map(|(name, rows)| scenario(name, async move |stack: &mut Stack| play(stack, &rows).await)).collect())
}

async fn play(stack: &Stack, rows: &[TableRow]) -> Result<()> {
    let mut first = BTreeMap::new();
    for row in rows {
        let [caller, operation, key] = ["caller", "operation", "key"].map(|column| row.get(column));
        let request = order(row.get("scenario"), operation, key, row.get("amount"))?;
        let reply = by(stack, caller, request)?.send(&stack.gateway_url()).await?;
        compare(stack, row, &reply).await?;
        let seen = (reply.header("location").map(str::to_owned), reply.body.clone());
        let told = first.entry((caller, operation, key)).or_insert_with(|| seen.clone());
        let same = *told == seen;
        ensure!(row.get("outcome") != "replayed" || same, "{row}: another answer: {:?} {}", seen.0, reply.text());
    }
    Ok(())
}
