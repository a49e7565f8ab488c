//! Payouts of the demo's sample service: the handler `Accounts/payout` runs until the test confirms, so that a test decides how
//! long a call is in flight.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use harness::http::Request;
use harness::restate::Restate;
use serde_json::Value;

use crate::runner::until_async;

/// Between two questions whether something has happened.
const POLL: Duration = Duration::from_millis(20);

/// What an account says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// How many entries it has.
    pub entries: usize,
    /// The id of the confirmation that a payout waits for; `None` if no payout waits.
    pub confirmation: Option<String>,
}

/// Asks Restate itself for an account's statement. `account` is the object's key: `{tenant}:{project}:{account}`.
pub async fn statement(restate: &Restate, account: &str) -> Result<Statement> {
    let path = format!("/restate/call/Accounts/{account}/statement");
    let reply = Request::post(&path).send(&restate.ingress_url()).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    let statement = reply.json();
    let entries = statement.get("entries").and_then(Value::as_array).context("no entries")?.len();
    let confirmation = statement.get("provider").and_then(Value::as_str).map(str::to_owned);
    Ok(Statement { entries, confirmation })
}

/// Waits until a payout of the account waits for its confirmation.
pub async fn is_under_way(restate: &Restate, account: &str) -> Result<()> {
    let waits = async || Ok(statement(restate, account).await?.confirmation.is_some());
    until_async("a payout waits for its confirmation", POLL, waits).await
}

/// Confirms the payout that waits. An error if none does.
pub async fn confirm(restate: &Restate, account: &str) -> Result<()> {
    let id = statement(restate, account).await?.confirmation.context("no payout waits")?;
    let path = format!("/restate/awakeables/{id}/resolve");
    let reply = Request::post(&path).json(&Value::Bool(true)).send(&restate.ingress_url()).await?;
    ensure!(reply.status == 202, "{} {}", reply.status, reply.text());
    Ok(())
}
