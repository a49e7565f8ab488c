//! Every way a call can end: the status, headers and body that its client sees.

use anyhow::{Result, ensure};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::senders;
use harness::stack::Stack;
use serde_json::{Value, json};

use super::{
    ALICE, ExpectedAnswer, REFUND_HOOKS, REFUNDS, RecoverySetup, attach, begin, code, command, discreet, effects, only,
    order, output, refund, send, signed, test, under, until,
};

/// More than Restate takes.
const TOO_LONG: usize = 33 << 20;

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![
        test("a success, and its replay", async |stack: &mut Stack| ends(stack, "done", json!({}), 200, None).await),
        test("a terminal error, and its replay", async |stack: &mut Stack| {
            ends(stack, "declined", json!({"provider": "declines"}), 422, Some("the card was declined")).await
        }),
        test("a handler's stored 404", async |stack: &mut Stack| {
            ends(stack, "missing", json!({"provider": "missing"}), 404, Some("not found")).await
        }),
        test("killed after its retries", async |stack: &mut Stack| {
            ends(stack, "down", json!({"provider": "down"}), 500, Some("the payment provider is down")).await
        }),
        test("killed after its retries, with a message that names files, which stays", async |stack: &mut Stack| {
            ends(
                stack,
                "crashes",
                json!({"provider": "crashes"}),
                500,
                Some("cannot read /srv/payments/key.pem, src/provider/client.rs:42:7"),
            )
            .await
        }),
        test("cancelled", async |stack: &mut Stack| stopped(stack, "cancel").await),
        test("killed", async |stack: &mut Stack| stopped(stack, "kill").await),
        test("purged", purged),
        test("a provider's resend of a stored error: replayed, purged, run", resent),
        test("paused, and resumed", paused),
        test("what no handler has had", never_had),
    ]
}

/// Of a backend that takes one request at a time.
pub(crate) fn of_a_busy_backend() -> Vec<Test<RecoverySetup>> {
    vec![test("turned away by a busy backend", busy)]
}

/// A call that ends so, its replay, and what is told of it afterwards.
async fn ends(stack: &Stack, key: &str, how: Value, status: u16, message: Option<&str>) -> Result<()> {
    let retry = (status >= 400).then_some("new_key");
    let first = send(stack, &ALICE, refund(key, &how)).await?;
    ExpectedAnswer { status, key: Some("stored"), replayed: false, retry }.check(&first)?;
    ensure!(first.header("idempotency-expires").is_none(), "a fresh answer expires");
    if let Some(message) = message {
        ensure!(first.json().get("message") == Some(&json!(message)), "{}", first.text());
    }
    let again = send(stack, &ALICE, refund(key, &how)).await?;
    ExpectedAnswer { status, key: Some("replayed"), replayed: true, retry }.check(&again)?;
    let key_status = if status < 400 { "completed" } else { "failed" };
    for request in [attach(key), output(key), attach(key).http2()] {
        let told = send(stack, &ALICE, request).await?;
        ExpectedAnswer { status, key: Some(key_status), replayed: true, retry }.check(&told)?;
        same(&told, &first)?;
        ensure!(told.header("idempotency-expires") == again.header("idempotency-expires"), "expires at another time");
        ensure!(told.header("cache-control") == Some("no-store"), "it may be stored on the way");
    }
    ensure!(again.header("idempotency-expires").is_some(), "a replay does not expire");
    same(&again, &first)
}

fn same(reply: &Reply, first: &Reply) -> Result<()> {
    ensure!(reply.body == first.body, "{} instead of {}", reply.text(), first.text());
    let id = "x-operation-id";
    ensure!(reply.header(id).is_some() && reply.header(id) == first.header(id), "another operation");
    Ok(())
}

/// Work that is stopped from outside, while its client waits.
async fn stopped(stack: &Stack, how: &str) -> Result<()> {
    let key = format!("stopped-{how}");
    let request = signed(stack, &ALICE, refund(&key, &json!({"provider_ms": 1000})))?;
    let url = stack.gateway_url();
    let waiting = tokio::spawn(async move { request.send(&url).await });
    until("it is there", async || Ok(only(stack, &key).await.is_ok())).await?;
    command(stack, &key, how).await?;
    let first = waiting.await??;
    ExpectedAnswer { status: 409, key: Some("stored"), replayed: false, retry: Some("new_key") }.check(&first)?;
    let again = send(stack, &ALICE, refund(&key, &json!({}))).await?;
    ExpectedAnswer { status: 409, key: Some("replayed"), replayed: true, retry: Some("new_key") }.check(&again)?;
    let told = send(stack, &ALICE, output(&key)).await?;
    ExpectedAnswer { status: 409, key: Some("failed"), replayed: true, retry: Some("new_key") }.check(&told)?;
    same(&again, &first)
}

async fn purged(stack: &mut Stack) -> Result<()> {
    let declined = send(stack, &ALICE, refund("purged", &json!({"provider": "declines"}))).await?;
    ensure!(declined.status == 422, "{declined:?}");
    command(stack, "purged", "purge").await?;
    until("it is gone", async || Ok(send(stack, &ALICE, output("purged")).await?.status == 404)).await?;
    code(&send(stack, &ALICE, attach("purged")).await?, "idempotency_key_unknown")?;
    let anew = send(stack, &ALICE, refund("purged", &json!({}))).await?;
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&anew)?;
    ensure!(effects(stack, "purged").await? == 1, "it did not run again, or twice");
    Ok(())
}

/// What `docs/operate.md` tells to do about a delivery whose handler has failed for good.
async fn resent(stack: &mut Stack) -> Result<()> {
    let event = json!({"id": "evt_resent", "order_id": "resent", "amount": 1, "provider": "declines"});
    let delivery = |age: u64| {
        let delivery = senders::stripe(age, &[&stack.senders.stripe], &event);
        Ok::<_, anyhow::Error>(Request { path: delivery.path.replace("/webhooks", REFUND_HOOKS), ..delivery })
    };
    let runs = async || Ok::<_, anyhow::Error>(stack.service.calls(usize::MAX).await?.total);
    let url = stack.gateway_url();
    let first = delivery(60)?.send(&url).await?;
    ExpectedAnswer { status: 422, key: Some("stored"), replayed: false, retry: Some("new_key") }.check(&first)?;
    let before = runs().await?;
    let again = delivery(0)?.send(&url).await?;
    ExpectedAnswer { status: 422, key: Some("replayed"), replayed: true, retry: Some("new_key") }.check(&again)?;
    same(&again, &first)?;
    ensure!(runs().await? == before, "a replay has run");
    let key = "t-acme:health-prod:service:webhook-ingest:stripe-evt_resent";
    order(stack, &under(stack, key).await?, "purge").await?;
    until("it is gone", async || Ok(under(stack, key).await.is_err())).await?;
    let anew = delivery(0)?.send(&url).await?;
    ExpectedAnswer { status: 422, key: Some("stored"), replayed: false, retry: Some("new_key") }.check(&anew)?;
    ensure!(runs().await? == before + 1, "it has not run again, or twice");
    Ok(())
}

/// The same key works once there is room again.
async fn busy(stack: &mut Stack) -> Result<()> {
    let before = stack.service.calls(usize::MAX).await?.total;
    let long = signed(stack, &ALICE, refund("long", &json!({"provider_ms": 1500})))?;
    let url = stack.gateway_url();
    let first = tokio::spawn(async move { long.send(&url).await });
    until("the handler runs", async || Ok(stack.service.calls(before).await?.total > before)).await?;
    for request in [refund("turned-away", &json!({})), output("long")] {
        let reply = send(stack, &ALICE, request).await?;
        // Of a recovery it is the lookup that is turned away, and not an answer that is replaced.
        let advice = reply.header("idempotency-retry").map(|_| "same_key");
        ExpectedAnswer { status: 503, key: None, replayed: false, retry: advice }.check(&reply)?;
        ensure!(reply.header("retry-after").is_some(), "no Retry-After: {:?}", reply.headers);
        code(&reply, "dependency_unavailable")?;
        ensure!(reply.json().get("retry") == Some(&json!("same_key")), "{}", reply.text());
    }
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&first.await??)?;
    let now = send(stack, &ALICE, refund("turned-away", &json!({}))).await?;
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&now)
}

/// Paused work has no end: whoever asks is told that it is under way, within the bound.
async fn paused(stack: &mut Stack) -> Result<()> {
    begin(stack, "paused", 500).await?;
    command(stack, "paused", "pause").await?;
    until("it is paused", async || Ok(only(stack, "paused").await?.status == "paused")).await?;
    for request in [output("paused"), attach("paused")] {
        let told = send(stack, &ALICE, request).await?;
        ExpectedAnswer { status: 202, key: Some("processing"), replayed: false, retry: None }.check(&told)?;
        ensure!(told.header("retry-after").is_some(), "no Retry-After");
        ensure!(told.json() == json!({"status": "processing"}), "{}", told.text());
    }
    command(stack, "paused", "resume").await?;
    until("it has ended", async || Ok(send(stack, &ALICE, attach("paused")).await?.status == 200)).await
}

/// What the ingress refuses, or nobody takes: it leaves nothing behind, so the same key can be sent again.
async fn never_had(stack: &mut Stack) -> Result<()> {
    let elsewhere = |path: &str| Request { path: path.to_owned(), ..refund("never", &json!({})) };
    let text = Request::post(REFUNDS).header("idempotency-key", "never").header("content-type", "text/plain");
    let long = Request::post(REFUNDS).header("idempotency-key", "never").header("content-type", "application/json");
    let many =
        (0..100).fold(refund("never", &json!({})), |request, number| request.header(&format!("x-{number}"), "1"));
    let refused = [
        ("an unknown handler", elsewhere("/api/v1/no-handler"), 503, "policy_invalid", "same_key"),
        ("an unknown service", elsewhere("/api/v1/no-service"), 503, "policy_invalid", "same_key"),
        ("another content type", text.body("x"), 400, "request_invalid", "never"),
        ("no content type", Request::post(REFUNDS).header("idempotency-key", "never"), 400, "request_invalid", "never"),
    ];
    for (what, request, status, expected, retry) in refused {
        let reply = send(stack, &ALICE, request).await?;
        let marks = ExpectedAnswer { status, key: None, replayed: false, retry: Some(retry) };
        marks.check(&reply).and_then(|()| code(&reply, expected)).map_err(|error| error.context(what))?;
    }
    // The backend answers before it has read all, and hangs up: Envoy sees the answer, or that nobody reads any more.
    let reply = send(stack, &ALICE, long.body(vec![b' '; TOO_LONG])).await?;
    discreet(&reply)?;
    let (status, expected) =
        if reply.status == 503 { (503, "dependency_unavailable") } else { (413, "body_too_large") };
    ensure!(reply.status == status, "a long body: {} {}", reply.status, reply.text());
    code(&reply, expected)?;
    // Envoy takes no more than a hundred headers itself.
    let reply = send(stack, &ALICE, many).await?;
    ensure!(reply.status == 431, "a hundred headers: {} {}", reply.status, reply.text());
    let now = send(stack, &ALICE, refund("never", &json!({}))).await?;
    ExpectedAnswer { status: 200, key: Some("stored"), replayed: false, retry: None }.check(&now)
}
