//! A guard that is slow, down or unknown, and clients that do not wait.

use std::sync::PoisonError;

use anyhow::{Context as _, Result, ensure};
use e2e::raw::{self, Connection, Request};
use e2e::runner::{Test, runtime};
use serde_json::{Value, json};

use super::{CollisionSetup, GENERIC, WITHOUT_GUARD, enforced, member, post_json, repeated, route, test, with_routes};

pub(crate) fn tests() -> Vec<Test<CollisionSetup>> {
    vec![
        test("a guard that is paused", |setup| down(setup, "paused")),
        test("a guard that is killed", |setup| down(setup, "killed")),
        test("a guard that Restate does not know", unknown),
        test("the guard of a generic backend", of_generic_backend),
        test("`observe` counts although the client is gone", observed_without_client),
    ]
}

pub(crate) fn policy_without_guard() -> Value {
    with_routes(
        &json!({"service": "AbsentGuard", "retention": "170h"}),
        &[
            enforced("absent-refuse", "Refunds/create", json!({})),
            route("absent-observe", "Refunds/create", json!({"collision": "observe"})),
        ],
    )
}

pub(crate) fn policy_of_generic_backend() -> Value {
    let mut policy =
        with_routes(&json!({"retention": "170h"}), &[enforced("refunds-generic", "Refunds/create", json!({}))]);
    if let Some(kind) = policy.pointer_mut("/backend/kind") {
        *kind = json!("generic");
    }
    policy
}

/// The guard is a service of Restate whatever the kind of the backend, so Restate's own paths are closed, too.
fn of_generic_backend(setup: &CollisionSetup) -> Result<()> {
    let address = setup.chain.gateway.address(GENERIC)?;
    let send = |request: &Request| {
        let request = setup.authenticated(request);
        raw::exchange(address, &request.method, &request.http1())
    };
    let request = |order: &str| post_json("refunds-generic", "generic-1", refund(order));
    for (order, status) in [("generic-1", 200), ("generic-1", 200), ("generic-2", 422)] {
        let reply = repeated(|| send(&request(order)))?;
        ensure!(reply.status == status, "{order}: {} {}", reply.status, reply.json());
    }
    ensure!(setup.chain.effects("generic-1")? == 1 && setup.chain.effects("generic-2")? == 0, "the effects");
    for path in ["/restate/call/IdempotencyGuard/claim", "/restate/output", "/IdempotencyGuard/claim"] {
        let reply = send(&Request::post(path).header("content-type", "application/json").body("{}"))?;
        ensure!(reply.status == 404, "{path}: {} {}", reply.status, reply.json());
    }
    Ok(())
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

/// Restate answers each claim with 404.
fn unknown(setup: &CollisionSetup) -> Result<()> {
    let address = setup.chain.gateway.address(WITHOUT_GUARD)?;
    for (endpoint, status) in [("absent-refuse", 503), ("absent-observe", 200)] {
        let request = setup.authenticated(&post_json(endpoint, endpoint, refund(endpoint)));
        let reply = raw::exchange(address, "POST", &request.http1())?;
        ensure!(reply.status == status, "{endpoint}: {} {}", reply.status, reply.json());
        if status == 503 {
            ensure!(member(&reply, "code") == "dependency_unavailable", "{}", reply.json());
        }
        ensure!(setup.chain.effects(endpoint)? == u64::from(status == 200), "{endpoint}: its effect");
        setup.until("the failure is counted", || Ok(setup.claims("guard_malformed", endpoint)? == 1))?;
    }
    Ok(())
}

/// The client sends a whole request and goes away while the handler works.
fn observed_without_client(setup: &CollisionSetup) -> Result<()> {
    let first = post_json("refunds-gone", "gone", refund("gone"));
    setup.observed(&first, "match", || setup.answered("the first", &first, 200).map(drop))?;
    let other = post_json("refunds-gone", "gone", refund("gone-2"));
    let written = setup.authenticated(&other).http1();
    let leave = || {
        setup.note(&other);
        let mut connection = Connection::open(setup.address()?)?;
        connection.send(&written)
    };
    setup.observed(&other, "mismatch", leave).context("the client is gone")?;
    setup.until("the collision is counted", || Ok(setup.collisions("observe", "refunds-gone")? >= 1))
}
