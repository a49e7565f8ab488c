//! What is left when a part of the chain is killed, or a result expires.

use anyhow::{Result, ensure};
use e2e::runner::Test;
use harness::http::Request;
use harness::stack::Stack;
use serde_json::json;

use super::{ALICE, ExpectedAnswer, RecoverySetup, attach, code, effects, output, refund, send, test, until};

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![test("an expired result is unknown, and the key runs again", expiry)]
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
