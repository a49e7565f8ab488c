//! Keys in flight: a duplicate of a request that is under way waits for it, or is refused with 409.

use anyhow::{Result, ensure};
use e2e::harness::Test;
use edge_idempotency_demo::http::{Reply, Request};
use edge_idempotency_demo::stack::Stack;
use serde_json::{Value, json};

use crate::{ALICE, BOB, Expected, World, code, discreet, effects, refund, send, signed, test, until};

/// A route to the handler of refunds that refuses duplicates in flight.
pub(crate) const CAREFUL: &str = "/api/v1/careful-refunds";

pub(crate) fn tests() -> Vec<Test<World>> {
    let tests = vec![
        test("a duplicate gets 409 while the first call runs, and then its answer", refused),
        test("by default a duplicate waits", attached),
        test("many at once: one effect, and every other answer is its own or 409", many),
        test("while the backend is down requests are forwarded as ever", down),
    ];
    tests.into_iter().map(|test| test.within("in_flight")).collect()
}

fn careful(key: &str, how: &Value) -> Request {
    Request { path: CAREFUL.to_owned(), ..refund(key, how) }
}

/// Sends a request without waiting for its answer, and waits until it has an invocation.
async fn begun(stack: &Stack, key: &str, request: Request) -> Result<tokio::task::JoinHandle<Result<Reply>>> {
    let (request, url) = (signed(stack, &ALICE, request)?, stack.gateway_url());
    let first = tokio::spawn(async move { request.send(&url).await });
    until("it is there", async || Ok(crate::only(stack, key).await.is_ok())).await?;
    Ok(first)
}

async fn refused(stack: &mut Stack) -> Result<()> {
    let how = json!({"provider_ms": 1500});
    let first = begun(stack, "careful", careful("careful", &how)).await?;
    for request in [careful("careful", &how), careful("careful", &how).http2()] {
        let reply = send(stack, &ALICE, request).await?;
        ensure!(reply.status == 409, "{reply:?} {}", reply.text());
        code(&reply, "idempotency_key_in_flight")?;
        ensure!(reply.json().get("retry") == Some(&json!("wait")), "{}", reply.text());
        ensure!(reply.header("retry-after") == Some("2"), "{:?}", reply.headers);
        discreet(&reply)?;
    }
    // The key is Alice's: Bob's own request runs.
    let bob =
        send(stack, &BOB, Request { headers: careful("careful", &json!({})).headers, ..careful("of-bob", &json!({})) });
    ensure!(bob.await?.status == 200, "Bob has to wait for Alice");
    ensure!(!first.is_finished(), "the first call had ended before the duplicates came");
    let first = first.await??;
    Expected { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&first)?;
    let replay = send(stack, &ALICE, careful("careful", &how)).await?;
    Expected { status: 200, key: Some("replayed"), replayed: true, retry: None }.check(&replay)?;
    ensure!(replay.body == first.body, "{} instead of {}", replay.text(), first.text());
    ensure!(effects(stack, "careful").await? == 1, "another number of effects");
    Ok(())
}

async fn attached(stack: &mut Stack) -> Result<()> {
    let how = json!({"provider_ms": 1000});
    let first = begun(stack, "patient", refund("patient", &how)).await?;
    let duplicate = send(stack, &ALICE, refund("patient", &how)).await?;
    let first = first.await??;
    ensure!(first.status == 200 && duplicate.status == 200 && duplicate.body == first.body, "{duplicate:?}");
    ensure!(effects(stack, "patient").await? == 1, "another number of effects");
    Ok(())
}

/// The question and the call are two steps, so of two requests at once both can go on: then the second one waits.
async fn many(stack: &mut Stack) -> Result<()> {
    let request = signed(stack, &ALICE, careful("careful-many", &json!({"provider_ms": 500})))?;
    let url = stack.gateway_url();
    let requests: Vec<_> = (0..20).map(|_| (request.clone(), url.clone())).collect();
    let sent: Vec<_> =
        requests.into_iter().map(|(request, url)| tokio::spawn(async move { request.send(&url).await })).collect();
    let mut answers = Vec::new();
    for reply in sent {
        let reply = reply.await??;
        match reply.status {
            200 => answers.push(reply.body),
            409 => code(&reply, "idempotency_key_in_flight")?,
            _ => anyhow::bail!("{reply:?} {}", reply.text()),
        }
    }
    answers.dedup();
    ensure!(answers.len() == 1, "{} different answers", answers.len());
    ensure!(effects(stack, "careful-many").await? == 1, "another number of effects");
    Ok(())
}

async fn down(stack: &mut Stack) -> Result<()> {
    stack.restate.process.kill()?;
    let reply = send(stack, &ALICE, careful("careful-down", &json!({}))).await?;
    code(&reply, "dependency_unavailable")?;
    ensure!(reply.header("idempotency-retry") == Some("same_key"), "it was not forwarded: {:?}", reply.headers);
    stack.restate.restart().await?;
    until("it is forwarded again", async || {
        Ok(send(stack, &ALICE, careful("careful-down", &json!({}))).await?.status == 200)
    })
    .await?;
    ensure!(effects(stack, "careful-down").await? == 1, "another number of effects");
    Ok(())
}
