//! The story of docs/restate.md, with `kill -9` of the Restate node between every two steps.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::{Group, Test, runtime, sharing, until_async};
use serde_json::json;

use super::{POLL, PromisesSetup, status};

const SCOPE: (&str, &str) = ("acme", "shop");

pub(super) fn group() -> Group {
    let start = || PromisesSetup::start(&[]).map(Arc::new);
    let test = Test::new("kill -9 between every two steps", |setup: &Arc<PromisesSetup>| {
        runtime()?.block_on(killed_between_steps(setup))
    });
    sharing(start, vec![test])
}

async fn killed_between_steps(setup: &PromisesSetup) -> Result<()> {
    let kill = async || setup.restate.lock().await.restart().await;
    let resolve = async |charge: &str, delivery: &str| {
        let request = setup.call(&format!("acme:shop:stripe:{charge}"), "resolve").header("idempotency-key", delivery);
        let reply = setup.send(request.json(&json!({"delivery": delivery}))).await?;
        status(&reply, 200)?;
        let told = reply.json();
        let first = told.get("first").and_then(serde_json::Value::as_bool).context("whether it was the first")?;
        anyhow::Ok((first, told.get("state").cloned().unwrap_or_default()))
    };
    let result = async |waiter: &str| {
        until_async("it has ended", POLL, async || setup.has_ended(waiter).await).await?;
        setup.purchased(waiter).await
    };

    // The handler charges and waits; the webhook comes, comes again, and another one comes.
    setup.purchase(SCOPE, "ch_1", 3_600, "waits").await?;
    kill().await?;
    setup.until("acme:shop:stripe:ch_1", Some("waiting")).await?;
    kill().await?;
    ensure!(resolve("ch_1", "evt_1").await? == (true, json!("completed")), "the webhook was not the first");
    kill().await?;
    ensure!(resolve("ch_1", "evt_1").await? == (true, json!("completed")), "the redelivery is answered otherwise");
    kill().await?;
    ensure!(resolve("ch_1", "evt_2").await? == (false, json!("completed")), "another webhook was the first");
    kill().await?;
    let paid = result("waits").await?;
    ensure!(paid.json().pointer("/event/delivery") == Some(&json!("evt_1")), "{}", paid.text());
    // A step that is under way when the node dies may run again: steps run at least once, whatever waits behind them.
    ensure!(setup.service.effects().await?.get("ch_1").is_some_and(|times| *times >= 1), "it was not charged");

    // The webhook is first.
    ensure!(resolve("ch_2", "evt_3").await? == (true, json!("kept")), "it was not kept");
    kill().await?;
    setup.purchase(SCOPE, "ch_2", 3_600, "comes later").await?;
    kill().await?;
    let paid = result("comes later").await?;
    ensure!(paid.json().pointer("/event/delivery") == Some(&json!("evt_3")), "{}", paid.text());
    kill().await?;

    // Nobody sends one. The time is over while the node is down, or a little later.
    setup.purchase(SCOPE, "ch_3", 2, "too long").await?;
    setup.until("acme:shop:stripe:ch_3", Some("waiting")).await?;
    kill().await?;
    status(&result("too long").await?, 408)?;
    kill().await?;
    setup.until("acme:shop:stripe:ch_3", None).await?;
    setup.purchase(SCOPE, "ch_3", 3_600, "again").await?;
    kill().await?;
    ensure!(resolve("ch_3", "evt_4").await?.0, "the key was not free");
    kill().await?;
    let paid = result("again").await?;
    ensure!(paid.json().pointer("/event/delivery") == Some(&json!("evt_4")), "{}", paid.text());
    Ok(())
}
