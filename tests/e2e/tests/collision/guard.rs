//! A guard that is slow, down or unknown, and clients that do not wait.

use std::sync::PoisonError;

use anyhow::{Result, ensure};
use e2e::runner::{Test, runtime};
use serde_json::json;

use super::{CollisionSetup, member, post_json, test};

pub(crate) fn tests() -> Vec<Test<CollisionSetup>> {
    vec![
        test("a guard that is paused", |setup| down(setup, "paused")),
        test("a guard that is killed", |setup| down(setup, "killed")),
    ]
}

fn refund(order: &str) -> String {
    json!({"order_id": order, "amount": 1}).to_string()
}

/// Takes the guard away during `body`.
fn without(setup: &CollisionSetup, how: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut guard = setup.guard.lock().unwrap_or_else(PoisonError::into_inner);
    if how == "killed" {
        guard.process.kill()?;
    } else {
        guard.process.pause()?;
    }
    let result = body();
    if how == "killed" {
        runtime()?.block_on(guard.restart())?;
    } else {
        guard.process.resume()?;
    }
    result
}

fn down(setup: &CollisionSetup, how: &str) -> Result<()> {
    let (stored, new) = (format!("down-stored-{how}"), format!("down-{how}"));
    let first = post_json("refunds-strict", &stored, refund(&stored));
    let refused = post_json("refunds-strict", &new, refund(&new));
    let failed = || setup.claims("guard_failed", "refunds-strict");
    setup.answered("stored", &first, 200)?;
    let before = failed()?;
    without(setup, how, || {
        let reply = setup.answered("refused", &refused, 503)?;
        ensure!(member(&reply, "code") == "dependency_unavailable", "{}", reply.json());
        ensure!(reply.text_header("retry-after").is_some(), "{:?}", reply.headers);
        // What is stored already is given again without the guard, whose answer Restate has, too.
        let again = setup.answered("again", &first, 200)?;
        ensure!(again.text_header("idempotent-replayed") == Some("true"), "{:?}", again.headers);
        // Restate has the claim, which waits there for the guard.
        let sql = "select id from sys_invocation where target = 'IdempotencyGuard/claim' and status <> 'completed'";
        setup.until("a claim waits", || Ok(runtime()?.block_on(setup.chain.restate.query(sql))?.len() == 1))
    })?;
    ensure!(setup.chain.effects(&stored)? == 1 && setup.chain.effects(&new)? == 0, "the effects");
    setup.until("the failure is counted", || Ok(failed()? > before))?;
    // So the guard knows the body when it is back.
    setup.until("the guard is back", || Ok(setup.send(&refused)?.status == 200))?;
    ensure!(setup.chain.effects(&new)? == 1, "the refused request took effect when it was sent again");
    setup.reused("another body", &post_json("refunds-strict", &new, refund("other")))?;
    ensure!(setup.chain.effects("other")? == 0, "another body took effect");
    Ok(())
}
