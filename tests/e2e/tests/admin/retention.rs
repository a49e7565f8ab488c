//! `retention`, and `retention --apply`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::runner::Test;
use harness::http::Request;
use serde_json::{Value, json};

use super::setup::{AdminSetup, Clamped, Ran, test};

pub(crate) fn tests() -> Vec<Test<AdminSetup>> {
    vec![test("drift is found, applied, and found clean", drift).within("retention")]
}

pub(crate) fn clamped_tests() -> Vec<Test<Clamped>> {
    vec![Test::new("the server's limit is read back", clamped).within("retention")]
}

/// A policy with these services, and this retention for their class and for the guard.
fn policy(directory: &Path, name: &str, money: &str, guard: &str, services: Value) -> Result<PathBuf> {
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate", "guard": {"retention": guard}},
        "retention": {"classes": {"money": money}, "services": services},
        "routes": [],
    });
    let file = directory.join(name);
    std::fs::write(&file, document.to_string())?;
    Ok(file)
}

fn refunds() -> Value {
    json!({"Refunds": "money"})
}

fn retention(policy: &Path, more: &[&str]) -> Vec<String> {
    let args = ["retention".to_owned(), "--policy".to_owned(), policy.display().to_string()];
    args.into_iter().chain(more.iter().map(|arg| (*arg).to_owned())).collect()
}

/// The state of each setting.
fn states(ran: &Ran) -> Result<Vec<(String, String)>> {
    let plan = ran.json()?;
    let settings = plan.get("settings").and_then(Value::as_array).context("no settings")?;
    let member = |row: &Value, name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(settings
        .iter()
        .map(|row| (format!("{} {}", member(row, "service"), member(row, "setting")), member(row, "state")))
        .collect())
}

fn expected(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(setting, state)| ((*setting).to_owned(), (*state).to_owned())).collect()
}

async fn kept(admin: &str, service: &str) -> Result<Value> {
    let reply = Request::get(&format!("/services/{service}")).send(admin).await?;
    reply.json().get("idempotency_retention").cloned().context("no retention")
}

async fn drift(setup: &AdminSetup) -> Result<()> {
    let admin = setup.stack.restate.admin_url();
    let file = policy(setup.directory.path(), "drift.json", "3d", "9d", refunds())?;
    let found = setup.run(retention(&file, &["--check", "--json"]))?.exits(1)?;
    let rows = |state| {
        expected(&[("Refunds idempotency_retention", state), ("IdempotencyGuard idempotency_retention", state)])
    };
    ensure!(states(&found)? == rows("change"), "{found:?}");
    setup
        .run(retention(&file, &[]))?
        .exits(0)?
        .says("~ Refunds           idempotency_retention  7d -> 3d  (class money)")?;

    let refused = setup.run(retention(&file, &["--apply"]))?.exits(2)?;
    refused.says("--yes")?;
    ensure!(kept(&admin, "Refunds").await? == json!("7d"), "it was changed without a yes");

    let applied = setup.run(retention(&file, &["--apply", "--yes", "--json"]))?.exits(0)?;
    ensure!(states(&applied)? == rows("equal"), "{applied:?}");
    ensure!(kept(&admin, "Refunds").await? == json!("3d"), "it was not changed");
    ensure!(kept(&admin, "IdempotencyGuard").await? == json!("9d"), "the guard's was not changed");
    setup.run(retention(&file, &["--check"]))?.exits(0)?.says("Restate has what the policy declares")?;
    // Nothing is left to ask about.
    setup.run(retention(&file, &["--apply"]))?.exits(0)?;

    let reply = setup.send("drift", "/api/v1/refunds", "drift-1", &json!({"order_id": "drift-1", "amount": 1})).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    let sql = "select completion_retention from sys_invocation where idempotency_key = 't-acme:health-prod:user:drift:drift-1'";
    let rows = setup.stack.restate.query(sql).await?;
    ensure!(rows.first().and_then(|row| row.get("completion_retention")) == Some(&json!("PT259200S")), "{rows:?}");
    Ok(())
}

fn clamped(setup: &Clamped) -> Result<()> {
    let admin = setup.restate.admin_url();
    let seen = || e2e::runner::runtime()?.block_on(kept(&admin, "Refunds"));
    // The service asks for 7d itself, so that the server says at once that it holds it back.
    let long = policy(setup.directory.path(), "long.json", "2d", "12h", refunds())?;
    let rows = |guard| {
        expected(&[("Refunds idempotency_retention", "clamped"), ("IdempotencyGuard idempotency_retention", guard)])
    };
    let planned = setup.run(retention(&long, &["--json", "--check"]))?.exits(1)?;
    ensure!(states(&planned)? == rows("change"), "{planned:?}");
    let applied = setup.run(retention(&long, &["--apply", "--yes", "--json"]))?.exits(1)?;
    ensure!(states(&applied)? == rows("equal"), "{applied:?}");
    applied.says("max-idempotency-retention = \\\"2d\\\"")?;
    ensure!(seen()? == json!("1d"), "{}", seen()?);

    // Where the server says nothing before, only reading back tells it.
    let short = policy(setup.directory.path(), "short.json", "6h", "12h", refunds())?;
    setup.run(retention(&short, &["--apply", "--yes"]))?.exits(0)?;
    ensure!(seen()? == json!("6h"), "{}", seen()?);
    let planned = setup.run(retention(&long, &["--json"]))?.exits(0)?;
    ensure!(
        states(&planned)?.first() == Some(&("Refunds idempotency_retention".to_owned(), "change".to_owned())),
        "{planned:?}"
    );
    let applied = setup.run(retention(&long, &["--apply", "--yes", "--json"]))?.exits(1)?;
    ensure!(states(&applied)? == rows("equal"), "{applied:?}");
    Ok(())
}
