//! What is left when a part of the chain is killed, or a result expires.

use anyhow::{Result, ensure};
use e2e::runner::Test;
use harness::http::Request;
use harness::stack::Stack;
use serde_json::json;

use super::{
    ALICE, ExpectedAnswer, RecoverySetup, attach, begin, code, effects, only, output, refund, send, test, until,
};

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![
        test("the backend is killed while the work is under way", backend_is_killed),
        test("the gateway is killed while the work is under way", gateway_is_killed),
        test("an expired result is unknown, and the key runs again", expiry),
    ]
}

async fn backend_is_killed(stack: &mut Stack) -> Result<()> {
    begin(stack, "backend-killed", 1000).await?;
    stack.restate.restart().await?;
    // The handler's step that was under way runs again: steps are at-least-once, the result is stored once.
    let retry = send(stack, &ALICE, refund("backend-killed", &json!({}))).await?;
    ensure!(retry.status == 200, "{} {}", retry.status, retry.text());
    let again = send(stack, &ALICE, refund("backend-killed", &json!({}))).await?;
    ExpectedAnswer { status: 200, key: Some("replayed"), replayed: true, retry: None }.check(&again)?;
    let told = send(stack, &ALICE, attach("backend-killed")).await?;
    for reply in [&again, &told] {
        ensure!(reply.body == retry.body, "{} instead of {}", reply.text(), retry.text());
    }
    only(stack, "backend-killed").await.map(drop)
}

async fn gateway_is_killed(stack: &mut Stack) -> Result<()> {
    begin(stack, "gateway-killed", 1000).await?;
    stack.envoy.restart().await?;
    let retry = send(stack, &ALICE, refund("gateway-killed", &json!({}))).await?;
    ensure!(retry.status == 200, "{} {}", retry.status, retry.text());
    let told = send(stack, &ALICE, attach("gateway-killed")).await?;
    ExpectedAnswer { status: 200, key: Some("completed"), replayed: true, retry: None }.check(&told)?;
    ensure!(told.body == retry.body, "{} instead of {}", told.text(), retry.text());
    ensure!(effects(stack, "gateway-killed").await? == 1, "another number of effects");
    only(stack, "gateway-killed").await.map(drop)
}

async fn expiry(stack: &mut Stack) -> Result<()> {
    retain(stack, "1s").await?;
    let first = send(stack, &ALICE, refund("expiry", &json!({}))).await?;
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&first)?;
    until("it has expired", async || Ok(send(stack, &ALICE, output("expiry")).await?.status == 404)).await?;
    code(&send(stack, &ALICE, attach("expiry")).await?, "idempotency_key_unknown")?;
    retain(stack, "7 days").await?;
    let anew = send(stack, &ALICE, refund("expiry", &json!({}))).await?;
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&anew)?;
    ensure!(effects(stack, "expiry").await? == 2, "it has not run again");
    Ok(())
}

/// How long results of refunds are kept from now on.
async fn retain(stack: &Stack, duration: &str) -> Result<()> {
    let request = Request::new("PATCH", "/services/Refunds").json(&json!({"idempotency_retention": duration}));
    let reply = request.send(&stack.restate.admin_url()).await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    Ok(())
}
