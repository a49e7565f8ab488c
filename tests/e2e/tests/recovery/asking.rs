//! Asking for the result of an earlier call: who gets it, by which keys, and what everybody else is told.

use anyhow::{Result, ensure};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::json;

use super::{ALICE, BOB, Caller, ExpectedAnswer, RecoverySetup, attach, code, output, refund, send, test};

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![
        test("work under way that ends in the handler's own 404 is no unknown key", ends_in_404),
        test("others who know the key are told what everybody is told", others),
        test("objects, whatever is in their keys", objects),
    ]
}

/// What no answer to a recovery differs in but by time.
pub(crate) fn told(reply: &Reply) -> Reply {
    let mut reply = reply.clone();
    reply.headers.retain(|(name, _)| name != "date" && name != "x-envoy-upstream-service-time");
    // Each request has an id of its own, of one length.
    let mut document = reply.json();
    if document.as_object_mut().and_then(|members| members.remove("instance")).is_some() {
        reply.body = document.to_string().into_bytes();
    }
    reply
}

/// The backend's two kinds of 404 differ by the expiry that only what is stored has; work that has just ended has none
/// yet, and is asked for once more.
async fn ends_in_404(stack: &mut Stack) -> Result<()> {
    let request = refund("ends-in-404", &json!({"provider": "missing", "provider_ms": 800}));
    let request = super::signed(stack, &ALICE, request)?;
    let url = stack.gateway_url();
    let first = tokio::spawn(async move { request.send(&url).await });
    super::until("it is there", async || Ok(super::only(stack, "ends-in-404").await.is_ok())).await?;
    let reply = send(stack, &ALICE, attach("ends-in-404")).await?;
    ExpectedAnswer { status: 404, key: Some("failed"), replayed: true, retry: Some("new_key") }.check(&reply)?;
    let first = first.await??;
    ensure!(reply.body == first.body, "{} instead of {}", reply.text(), first.text());
    Ok(())
}

async fn others(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, refund("others", &json!({}))).await?;
    ensure!(first.status == 200, "{first:?}");
    let before = stack.restate.invocations().await?.len();
    let unused = send(stack, &BOB, output("never-used")).await?;
    code(&unused, "idempotency_key_unknown")?;
    ExpectedAnswer { status: 404, key: None, replayed: false, retry: Some("same_key") }.check(&unused)?;
    let strangers = [
        BOB,
        Caller { project: "billing", ..ALICE },
        Caller { tenant: "globex", ..ALICE },
        Caller { user: "Alice", ..ALICE },
    ];
    for caller in strangers {
        for request in [output("others"), attach("others"), attach("others").http2(), attach("never-used")] {
            let path = request.path.clone();
            let reply = send(stack, &caller, request).await?;
            let (told, expected) = (told(&reply), told(&unused));
            let same = told.status == expected.status && told.headers == expected.headers && told.body == expected.body;
            ensure!(same, "{path} tells {} more: {reply:?}", caller.user);
        }
    }
    ensure!(stack.restate.invocations().await?.len() == before, "asking has begun something");
    let own = send(stack, &ALICE, output("others")).await?;
    ensure!(own.body == first.body, "{} instead of {}", own.text(), first.text());
    Ok(())
}

async fn objects(stack: &mut Stack) -> Result<()> {
    for (number, cart) in ["a%3Fb", "a%20b", "a%25b", "caf%C3%A9", "a:b", "a%3Fb%20c%25%E2%82%AC~"].iter().enumerate() {
        let path = format!("/api/v1/carts/{cart}/checkout");
        let key = format!("object-{number}");
        let checkout = Request::post(&path).header("idempotency-key", &key).json(&json!({"total": 9}));
        let first = send(stack, &ALICE, checkout).await?;
        ensure!(first.status == 200, "{path}: {} {}", first.status, first.text());
        for suffix in ["", "/output"] {
            let asked = Request::get(&format!("{path}/by-idempotency-key/{key}{suffix}"));
            let reply = send(stack, &ALICE, asked.clone()).await?;
            ensure!(
                reply.status == 200 && reply.body == first.body,
                "{path}{suffix}: {} {}",
                reply.status,
                reply.text()
            );
            ensure!(reply.header("x-operation-id") == first.header("x-operation-id"), "another operation");
            code(&send(stack, &BOB, asked).await?, "idempotency_key_unknown")?;
        }
    }
    Ok(())
}
