//! `keys purge`: a stored error, the guard's claims, requests under way.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::{Test, until_async};
use harness::http::{Reply, Request};
use serde_json::{Value, json};

use super::setup::{AdminSetup, test};

const REFUNDS: &str = "/api/v1/refunds";
/// How often a test looks whether something has happened.
const POLL: Duration = Duration::from_millis(20);

pub(crate) fn tests() -> Vec<Test<AdminSetup>> {
    vec![
        test("a stored 402 is forgotten and runs again", stored_error).within("forget"),
        test("a corrected request is no collision", corrected).within("forget"),
        test("a claim without a result", lone_claim).within("forget"),
        test("a request under way is refused, with what to do", under_way).within("forget"),
    ]
}

fn overdrawn(order: &str) -> Value {
    json!({"order_id": order, "amount": 100, "provider": "overdrawn"})
}

fn status(reply: &Reply, expected: u16) -> Result<()> {
    ensure!(reply.status == expected, "status {} instead of {expected}: {}", reply.status, reply.text());
    Ok(())
}

fn purged(whats: &[&str]) -> Vec<(String, String)> {
    whats.iter().map(|what| ((*what).to_owned(), "purged".to_owned())).collect()
}

async fn stored_error(setup: &AdminSetup) -> Result<()> {
    let body = overdrawn("forget-1");
    for replayed in [None, Some("true")] {
        let reply = setup.send("alice", REFUNDS, "forget-1", &body).await?;
        status(&reply, 402)?;
        ensure!(reply.header("idempotent-replayed") == replayed, "{reply:?}");
    }
    setup.run_for("show", "refunds.create", "alice", "forget-1", &["--details"])?.exits(0)?.says("failed 402")?;
    // Nobody is asked, so nothing happens.
    setup.run_for("purge", "refunds.create", "alice", "forget-1", &[])?.exits(2)?.says("--yes")?;
    status(&setup.send("alice", REFUNDS, "forget-1", &body).await?, 402)?;

    let log = setup.directory.path().join("purges.jsonl");
    let options = ["--yes", "--audit-log", log.to_str().context("a path")?];
    let ran = setup.run_for("purge", "refunds.create", "alice", "forget-1", &options)?.exits(0)?;
    ensure!(ran.audit()? == purged(&["result", "claim"]), "{ran:?}");
    ensure!(std::fs::read_to_string(&log)? == ran.stdout, "the file has other lines");
    ensure!(!ran.stdout.contains("alice") && !ran.stdout.contains("forget-1"), "a key in clear: {}", ran.stdout);

    let reply = setup.send("alice", REFUNDS, "forget-1", &body).await?;
    status(&reply, 200)?;
    ensure!(reply.header("idempotent-replayed").is_none() && setup.effects("forget-1").await? == 1, "{reply:?}");
    // The claim is made anew, so another request is refused again.
    status(&setup.send("alice", REFUNDS, "forget-1", &overdrawn("forget-1-other")).await?, 422)?;
    setup.run_for("purge", "refunds.create", "alice", "forget-none", &["--yes"])?.exits(1)?.says("nothing is stored")
}

async fn corrected(setup: &AdminSetup) -> Result<()> {
    status(&setup.send("alice", REFUNDS, "forget-2", &overdrawn("forget-2")).await?, 402)?;
    let body = json!({"order_id": "forget-2", "amount": 50});
    status(&setup.send("alice", REFUNDS, "forget-2", &body).await?, 422)?;
    let stored = "t-acme:health-prod:user:alice:forget-2";
    setup.run(["keys", "purge", "--stored-key", stored, "--yes"])?.exits(0)?;
    status(&setup.send("alice", REFUNDS, "forget-2", &body).await?, 200)
}

/// The result is gone and the claim is not, as after its retention.
async fn lone_claim(setup: &AdminSetup) -> Result<()> {
    status(&setup.send("alice", REFUNDS, "forget-3", &overdrawn("forget-3")).await?, 402)?;
    let sql = "select id from sys_invocation where idempotency_key = 't-acme:health-prod:user:alice:forget-3'";
    let rows = setup.stack.restate.query(sql).await?;
    let id = rows.first().and_then(|row| row.get("id")?.as_str()).context("no id")?;
    let purge = Request::new("PATCH", &format!("/invocations/{id}/purge"));
    status(&purge.send(&setup.stack.restate.admin_url()).await?, 200)?;
    let other = json!({"order_id": "forget-3", "amount": 50});
    status(&setup.send("alice", REFUNDS, "forget-3", &other).await?, 422)?;
    let ran = setup.run_for("purge", "refunds.create", "alice", "forget-3", &["--yes"])?.exits(0)?;
    ensure!(ran.audit()? == purged(&["claim"]), "{ran:?}");
    status(&setup.send("alice", REFUNDS, "forget-3", &other).await?, 200)
}

async fn under_way(setup: &AdminSetup) -> Result<()> {
    let body = json!({"order_id": "forget-5", "amount": 1, "provider_ms": 600_000});
    let request = setup.send("alice", REFUNDS, "forget-5", &body);
    let (reply, looked) = tokio::join!(request, async {
        let sql = "idempotency_key = 't-acme:health-prod:user:alice:forget-5' and status = 'running'";
        until_async("the request is under way", POLL, async || Ok(!setup.keys(sql).await?.is_empty())).await?;
        let ran = setup.run_for("purge", "refunds.create", "alice", "forget-5", &["--yes"])?.exits(1)?;
        ensure!(ran.stdout.is_empty(), "an audit line of what was not done: {ran:?}");
        // The command that it prints gives the request up.
        let path = ran.stderr.split_whitespace().find_map(|word| {
            word.strip_prefix(&setup.stack.restate.admin_url()).filter(|path| path.ends_with("/kill"))
        });
        let kill = Request::new("PATCH", path.with_context(|| format!("no way to end it: {ran:?}"))?);
        let reply = kill.send(&setup.stack.restate.admin_url()).await?;
        ensure!((200..300).contains(&reply.status), "{} {}", reply.status, reply.text());
        Ok(())
    });
    looked?;
    status(&reply?, 409)?;
    setup.run_for("purge", "refunds.create", "alice", "forget-5", &["--yes"])?.exits(0)?;
    status(&setup.send("alice", REFUNDS, "forget-5", &json!({"order_id": "forget-5", "amount": 1})).await?, 200)
}
