//! The shape of answers: the first one, a replay and both recoveries say the same.

use anyhow::{Result, ensure};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::json;

use super::{ALICE, ExpectedAnswer, RecoverySetup, send, test};

/// A route whose policy has `"answer": {"status": 201, "location": "/api/v1/refunds/{body:/refund_id}"}`.
pub(crate) const SHAPED: &str = "/api/v1/refunds-shaped";

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![
        test("a shaped answer is the same from the handler, from the store and by its key", everywhere),
        test("an error and an answer without the member are not shaped", not_shaped),
    ]
}

/// Tests of a policy with operations.
pub(crate) fn with_operations() -> Vec<Test<RecoverySetup>> {
    vec![test("an operation's answer is as the handler gave it", operation)]
}

fn call(key: &str, body: &serde_json::Value) -> Request {
    Request::post(SHAPED).header("Idempotency-Key", key).json(body)
}

fn location(reply: &Reply) -> Option<&str> {
    reply.header("location")
}

async fn everywhere(stack: &mut Stack) -> Result<()> {
    let order = json!({"order_id": "shaped", "amount": 1});
    let first = send(stack, &ALICE, call("shaped", &order)).await?;
    ExpectedAnswer { status: 201, key: Some("stored"), replayed: false, retry: None }.check(&first)?;
    let expected = first.json().get("refund_id").and_then(|id| id.as_str()).map(|id| format!("/api/v1/refunds/{id}"));
    ensure!(expected.is_some() && location(&first) == expected.as_deref(), "{:?}", first.headers);
    let length = first.body.len().to_string();
    for (request, status) in [
        (call("shaped", &order), "replayed"),
        (Request::get(&format!("{SHAPED}/by-idempotency-key/shaped")), "completed"),
        (Request::get(&format!("{SHAPED}/by-idempotency-key/shaped/output")), "completed"),
    ] {
        let reply = send(stack, &ALICE, request).await?;
        ExpectedAnswer { status: 201, key: Some(status), replayed: true, retry: None }.check(&reply)?;
        ensure!(location(&reply) == expected.as_deref() && reply.body == first.body, "{status}: {reply:?}");
        ensure!(reply.header("content-length").is_none_or(|told| told == length), "{status}: {:?}", reply.headers);
    }
    let effects = super::effects(stack, "shaped").await?;
    ensure!(effects == 1, "{effects} effects");
    Ok(())
}

async fn not_shaped(stack: &mut Stack) -> Result<()> {
    let declined = json!({"order_id": "not-shaped", "amount": 1, "provider": "declines"});
    for status in ["stored", "replayed"] {
        let reply = send(stack, &ALICE, call("declined-not-shaped", &declined)).await?;
        ExpectedAnswer { status: 422, key: Some(status), replayed: status == "replayed", retry: Some("new_key") }
            .check(&reply)?;
        ensure!(location(&reply).is_none(), "{:?}", reply.headers);
    }
    let device = json!({"device_token": "not-shaped"});
    let reply = send(stack, &ALICE, Request::post("/api/v1/devices-shaped").json(&device)).await?;
    ensure!(reply.status == 200 && location(&reply).is_none(), "{reply:?}");
    Ok(())
}

/// An operation id does not tell the route.
async fn operation(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, call("operation", &json!({"order_id": "operation", "amount": 1}))).await?;
    ExpectedAnswer { status: 201, key: Some("stored"), replayed: false, retry: None }.check(&first)?;
    let id = first.header("x-operation-id").unwrap_or_default();
    let reply = send(stack, &ALICE, Request::get(&format!("/api/v1/operations/{id}/output"))).await?;
    ExpectedAnswer { status: 200, key: Some("completed"), replayed: true, retry: None }.check(&reply)?;
    ensure!(location(&reply).is_none() && reply.body == first.body, "{reply:?}");
    Ok(())
}
