//! A guard that is slow or down, and clients that do not wait.

use anyhow::{Context as _, Result, ensure};
use e2e::harness::Test;
use e2e::raw::Connection;
use serde_json::json;

use crate::{World, member, post_json, test};

pub(crate) fn tests() -> Vec<Test<World>> {
    vec![
        test("a guard that is down", down),
        test("`observe` does not wait, and counts what comes later", observed_later),
        test("`observe` counts although the client is gone", observed_without_client),
    ]
}

fn refund(order: &str, wait_ms: u64) -> String {
    json!({"order_id": order, "amount": 1, "provider_ms": wait_ms}).to_string()
}

/// Stops the guard during `body`.
fn stopped(world: &World, body: impl FnOnce() -> Result<()>) -> Result<()> {
    world.guard.pause()?;
    let result = body();
    world.guard.resume()?;
    result
}

fn down(world: &World) -> Result<()> {
    stopped(world, || {
        world.answered("forwarded", &post_json("refunds-down", "down", refund("down", 0)), 200)?;
        let reply =
            world.answered("refused", &post_json("refunds-strict", "down-strict", refund("down-strict", 0)), 503)?;
        ensure!(member(&reply, "code") == "dependency_unavailable", "{}", reply.json());
        ensure!(reply.text_header("retry-after").is_some(), "{:?}", reply.headers);
        // What is stored already is given again without the guard.
        let again = world.answered("again", &post_json("refunds-down", "down", refund("down", 0)), 200)?;
        ensure!(again.text_header("idempotent-replayed") == Some("true"), "{:?}", again.headers);
        Ok(())
    })?;
    ensure!(world.chain.effects("down")? == 1 && world.chain.effects("down-strict")? == 0, "the effects");
    world.until("the failures are counted", || {
        let now = (world.claims("guard_failed", "refunds-down")?, world.claims("guard_failed", "refunds-strict")?);
        Ok(now == (2, 1))
    })?;
    // The claims have waited in Restate, so the guard knows the first bodies when it is back.
    let strict = post_json("refunds-strict", "down-strict", refund("down-strict", 0));
    world.until("the guard is back", || Ok(world.send(&strict)?.status == 200))?;
    ensure!(world.chain.effects("down-strict")? == 1, "the refused request took effect when it was sent again");
    world.reused("another body", &post_json("refunds-down", "down", refund("other", 0)))
}

/// The answer is there before the guard has said anything.
fn observed_later(world: &World) -> Result<()> {
    let count = || -> Result<u64> {
        Ok(world.claims("match", "refunds-seen")? + world.claims("guard_failed", "refunds-seen")?)
    };
    stopped(world, || {
        let reply = world.answered("observed", &post_json("refunds-seen", "later", refund("later", 0)), 200)?;
        ensure!(reply.text_header("idempotency-status") == Some("stored"), "{:?}", reply.headers);
        Ok(())
    })?;
    world.until("the claim is counted", || Ok(count()? == 1))
}

/// The client sends a whole request and goes away while the handler works.
fn observed_without_client(world: &World) -> Result<()> {
    let first = post_json("refunds-gone", "gone", refund("gone", 0));
    world.answered("the first", &first, 200)?;
    let other = world.authenticated(&post_json("refunds-gone", "gone", refund("gone-2", 0))).http1();
    let mut connection = Connection::open(world.address()?)?;
    connection.send(&other)?;
    drop(connection);
    world
        .until("the collision is counted", || Ok(world.collisions("observe", "refunds-gone")? == 1))
        .context("the client is gone")
}
