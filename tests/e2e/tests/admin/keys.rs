//! `keys show` and `keys purge --all`: what belongs to whom.

use anyhow::{Context as _, Result, ensure};
use e2e::runner::Test;
use serde_json::{Value, json};

use super::setup::{AdminSetup, test};

pub(crate) fn tests() -> Vec<Test<AdminSetup>> {
    vec![
        test("an erased subject leaves nothing, and others keep all", erased).within("keys"),
        test("an erasure of one project, and of one endpoint", parts).within("keys"),
        test("an erasure leaves what is under way, and says so", erased_under_way).within("keys"),
        test("an erasure takes the calls of handlers along", calls).within("keys"),
        test("an erasure leaves calls that others share", shared_calls).within("keys"),
        test("an erasure purges each claim right after its result", claim_by_claim).within("keys"),
        test("names that are patterns in SQL stand for themselves", patterns).within("keys"),
    ]
}

async fn erased(setup: &AdminSetup) -> Result<()> {
    let own = [
        "t-acme:health-prod:user:e_e:a",
        "t-acme:other:user:e_e:b:c",
        "t-acme:_tenant:user:e_e:d",
        "t-acme:_platform:user:e_e:e",
    ];
    let others = [
        "t-acme:health-prod:user:eee:a",
        "t-acme:health-prod:user:e_e2:a",
        "t-acme:health-prod:user:E_E:a",
        "t-acme:health-prod:client:e_e:a",
        "t-acme:user:user:x:user:e_e:a",
        "t-acme2:health-prod:user:e_e:a",
        "t-acm_:health-prod:user:e_e:a",
        "t-Acme:health-prod:user:e_e:a",
    ];
    for key in own.iter().chain(&others) {
        setup.store(key).await?;
    }
    // Two more of the subject by the gateway, one of them with a claim of the guard.
    let reply = setup.send("e_e", "/api/v1/refunds", "claimed", &json!({"order_id": "erase-1", "amount": 1})).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    let reply = setup.send("e_e", "/api/v1/carts/7/checkout", "cart", &json!({"total": 1})).await?;
    ensure!(reply.status == 201, "{} {}", reply.status, reply.text());

    let claims = async || setup.keys("target_service_name = 'IdempotencyGuard'").await;
    let (before, all) = (claims().await?, setup.keys("true").await?);
    let erase = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:e_e"];
    let dry = setup.run(erase)?.exits(1)?;
    ensure!(dry.stdout.lines().count() == 7, "six results: {dry:?}");
    dry.says("6 results (0 under way), 0 calls of handlers and 1 claim of the guard")?;
    dry.says("nothing was purged: --yes purges")?;
    ensure!(setup.keys("true").await? == all, "a dry run changed something");

    let ran = setup.run(erase.into_iter().chain(["--yes", "--by", "dpo"]))?.exits(0)?;
    let audit = ran.audit()?;
    let of = |what: &str| audit.iter().filter(|(seen, result)| seen == what && result == "purged").count();
    ensure!((of("result"), of("claim"), audit.len()) == (6, 1, 7), "{audit:?}");
    ensure!(ran.stdout.contains(r#""who":"dpo""#) && !ran.stdout.contains("e_e"), "{}", ran.stdout);
    let left = setup.keys("idempotency_key is not null").await?;
    for key in own.into_iter().chain(["t-acme:health-prod:user:e_e:claimed", "t-acme:health-prod:user:e_e:cart"]) {
        ensure!(!left.iter().any(|left| left == key), "{key} is left");
    }
    for key in others {
        ensure!(left.iter().any(|left| left == key), "{key} is gone");
    }
    ensure!(claims().await?.len() == before.len() - 1, "the claim is left, or another is gone");
    setup.run(erase)?.exits(0)?.says("no result of user:e_e is stored in the tenant acme")?;
    // The erased request runs anew, as if it had never been.
    let reply = setup.send("e_e", "/api/v1/refunds", "claimed", &json!({"order_id": "erase-2", "amount": 2})).await?;
    ensure!(reply.status == 200 && reply.header("idempotent-replayed").is_none(), "{reply:?}");
    Ok(())
}

async fn parts(setup: &AdminSetup) -> Result<()> {
    for key in ["t-acme:health-prod:user:part:a", "t-acme:other:user:part:a"] {
        setup.store(key).await?;
    }
    let refund = json!({"order_id": "part", "amount": 1});
    let reply = setup.send("part", "/api/v1/refunds", "b", &refund).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    let of = async || {
        setup.keys("starts_with(idempotency_key, 't-acme:') and split_part(idempotency_key, ':', 4) = 'part'").await
    };
    let policy = setup.policy.display().to_string();
    let erase = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:part", "--yes"];
    setup
        .run(erase.into_iter().chain([
            "--policy",
            &policy,
            "--endpoint",
            "refunds.create",
            "--project",
            "health-prod",
        ]))?
        .exits(0)?;
    ensure!(of().await? == ["t-acme:health-prod:user:part:a", "t-acme:other:user:part:a"], "{:?}", of().await?);
    setup.run(erase.into_iter().chain(["--project", "other"]))?.exits(0)?;
    ensure!(of().await? == ["t-acme:health-prod:user:part:a"], "{:?}", of().await?);
    Ok(())
}

async fn erased_under_way(setup: &AdminSetup) -> Result<()> {
    setup.store("t-acme:health-prod:user:busy:done").await?;
    let body = json!({"order_id": "busy", "amount": 1, "provider_ms": 600_000});
    let (reply, looked) = tokio::join!(setup.send("busy", "/api/v1/refunds", "running", &body), async {
        let running = "idempotency_key = 't-acme:health-prod:user:busy:running' and status = 'running'";
        e2e::runner::until_async("it is under way", std::time::Duration::from_millis(20), async || {
            Ok(!setup.keys(running).await?.is_empty())
        })
        .await?;
        let ran =
            setup.run(["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:busy", "--yes"])?.exits(1)?;
        let results: Vec<_> = ran.audit()?;
        ensure!(results.iter().filter(|(_, result)| result == "refused_in_flight").count() == 1, "{ran:?}");
        // Its claim stays with it.
        ensure!(!results.iter().any(|(what, _)| what == "claim"), "{ran:?}");
        ran.says("/cancel")?;
        let sql = "select id from sys_invocation where idempotency_key = 't-acme:health-prod:user:busy:running'";
        let rows = setup.stack.restate.query(sql).await?;
        let id = rows.first().and_then(|row| row.get("id")?.as_str()).context("no id")?;
        let kill = harness::http::Request::new("PATCH", &format!("/invocations/{id}/kill"));
        kill.send(&setup.stack.restate.admin_url()).await?;
        Ok(())
    });
    looked?;
    ensure!(reply?.status == 409, "it was killed");
    setup.run(["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:busy", "--yes"])?.exits(0)?;
    ensure!(setup.keys("split_part(idempotency_key, ':', 4) = 'busy'").await?.is_empty(), "something is left");
    Ok(())
}

/// A handler calls another service, whose invocation has no key and holds what it was given.
async fn calls(setup: &AdminSetup) -> Result<()> {
    for user in ["caller", "callee"] {
        let key = format!("t-acme:health-prod:user:{user}:calls");
        let body = json!({"id": user, "data": {"object": {"account": user, "amount": 1}}});
        let request = harness::http::Request::post("/restate/call/Deposits/receive");
        let request = request.header("idempotency-key", key).json(&body);
        let reply = request.send(&setup.stack.restate.ingress_url()).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    }
    let deposits = async || {
        let sql = "select id from sys_invocation where target_service_name = 'Accounts' and idempotency_key is null";
        setup.stack.restate.query(sql).await
    };
    ensure!(deposits().await?.len() == 2, "two calls");
    let erase = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:caller"];
    let dry = setup.run(erase)?.exits(1)?;
    dry.says("1 result (0 under way), 1 call of handlers")?;
    dry.says("Accounts/deposit  succeeded  called by inv_")?;
    let ran = setup.run(erase.into_iter().chain(["--yes"]))?.exits(0)?;
    let order: Vec<String> = ran.audit()?.into_iter().map(|(what, _)| what).collect();
    ensure!(order == ["call", "result"], "{ran:?}");
    ensure!(deposits().await?.len() == 1, "the call of the other subject stays, and no other");
    Ok(())
}

/// A call under a key of its own and the run of a workflow belong to whoever makes them, too: without their results that work
/// would run again for the other subject.
async fn shared_calls(setup: &AdminSetup) -> Result<()> {
    let restate = &setup.stack.restate;
    let share = async |user: &str| {
        let key = format!("t-acme:health-prod:user:{user}:shared");
        let body = json!({"id": "evt-shared", "data": {"object": {"account": "shared", "amount": 1}}});
        let request = harness::http::Request::post("/restate/call/Deposits/share");
        let reply = request.header("idempotency-key", key).json(&body).send(&restate.ingress_url()).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
        Ok(reply.json())
    };
    let first = share("sharer").await?;
    let shared = async || {
        let sql =
            "select id from sys_invocation where idempotency_key = 'evt-shared' or target_service_name = 'Signups'";
        restate.query(sql).await
    };
    let poll = std::time::Duration::from_millis(20);
    e2e::runner::until_async("both are there", poll, async || Ok(shared().await?.len() == 2)).await?;
    let erase = ["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:sharer"];
    setup.run(erase)?.exits(1)?.says("1 result (0 under way), 0 calls of handlers")?;
    let ran = setup.run(erase.into_iter().chain(["--yes"]))?.exits(0)?;
    ensure!(ran.audit()? == [("result".to_owned(), "purged".to_owned())], "{ran:?}");
    ensure!(shared().await?.len() == 2, "{:?}", shared().await?);
    // The other subject gets what was made, and nothing is made again.
    ensure!(share("other-sharer").await? == first, "the deposit was made again");
    Ok(())
}

/// An interruption leaves one claim at most that nobody can find, and no retry in between loses its claim.
async fn claim_by_claim(setup: &AdminSetup) -> Result<()> {
    for key in ["first", "second"] {
        let body = json!({"order_id": key, "amount": 1});
        let reply = setup.send("by-turns", "/api/v1/refunds", key, &body).await?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    }
    let ran =
        setup.run(["keys", "purge", "--all", "--tenant", "acme", "--subject", "user:by-turns", "--yes"])?.exits(0)?;
    let order: Vec<String> = ran.audit()?.into_iter().map(|(what, _)| what).collect();
    ensure!(order == ["result", "claim", "result", "claim"], "{ran:?}");
    Ok(())
}

fn listed(ran: &super::setup::Ran) -> Result<Vec<String>> {
    let list = ran.json()?;
    let rows = list.get("invocations").and_then(Value::as_array).context("no invocations")?;
    let mut keys: Vec<String> =
        rows.iter().filter_map(|row| row.get("namespaced_key")?.as_str().map(str::to_owned)).collect();
    keys.sort();
    Ok(keys)
}

async fn patterns(setup: &AdminSetup) -> Result<()> {
    for key in ["t-a_c:p:user:u:k", "t-abc:p:user:u:k", "t-a_c:p:user:%25:k", "t-a_c:p_:user:u:k", "t-a_c:pq:user:u:k"]
    {
        setup.store(key).await?;
    }
    let list = |args: &[&str]| listed(&setup.run(["keys", "show", "--json"].iter().chain(args))?.exits(0)?);
    let of_a_c = ["t-a_c:p:user:%25:k", "t-a_c:p:user:u:k", "t-a_c:p_:user:u:k", "t-a_c:pq:user:u:k"];
    ensure!(list(&["--tenant", "a_c"])? == of_a_c, "{:?}", list(&["--tenant", "a_c"])?);
    ensure!(list(&["--tenant", "a_c", "--project", "p_"])? == ["t-a_c:p_:user:u:k"], "the project");
    ensure!(list(&["--tenant", "a_c", "--subject", "user:%"])? == ["t-a_c:p:user:%25:k"], "the subject");
    ensure!(list(&["--tenant", "a_c", "--key", "_"])?.is_empty(), "the key");
    Ok(())
}
