//! Asking for the result of an earlier call: who gets it, by which keys, and what everybody else is told.

use anyhow::{Context as _, Result, ensure};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::json;

use super::{
    ALICE, BOB, Caller, ExpectedAnswer, RecoverySetup, WAIT_MS, attach, begin, code, discreet, effects, output, refund,
    send, test,
};

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    vec![
        test("work under way is waited for, within the bound", under_way),
        test("work under way that ends in the handler's own 404 is no unknown key", ends_in_404),
        test("others who know the key are told what everybody is told", others),
        test("objects, whatever is in their keys", objects),
        test("keys in every spelling", spellings),
        test("malformed and reserved keys, callers without identity", refused),
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

async fn under_way(stack: &mut Stack) -> Result<()> {
    begin(stack, "under-way", 3 * WAIT_MS).await?;
    for request in [output("under-way"), attach("under-way")] {
        let reply = send(stack, &ALICE, request).await?;
        ExpectedAnswer { status: 202, key: Some("processing"), replayed: false, retry: None }.check(&reply)?;
        ensure!(reply.json() == json!({"status": "processing"}), "{}", reply.text());
        ensure!(reply.header("retry-after") == Some("2"), "{:?}", reply.headers);
    }
    ensure!(effects(stack, "under-way").await? == 0, "the work had ended before the wait did");
    // What a client tells Envoy's router changes nothing about the wait.
    let hurried = || {
        let request = attach("under-way").header("x-envoy-upstream-rq-timeout-ms", "1");
        request.header("x-envoy-upstream-rq-per-try-timeout-ms", "1")
    };
    let mut reply = send(stack, &ALICE, hurried()).await?;
    while reply.status == 202 {
        reply = send(stack, &ALICE, hurried()).await?;
    }
    ExpectedAnswer { status: 200, key: Some("completed"), replayed: true, retry: None }.check(&reply)?;
    ensure!(effects(stack, "under-way").await? == 1, "another number of effects");
    Ok(())
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

async fn spellings(stack: &mut Stack) -> Result<()> {
    let key = "Sp.el_l~ing-1";
    let first = send(stack, &ALICE, refund(key, &json!({}))).await?;
    for spelled in [key, "%53p.el_l~ing-1", "Sp%2Eel%5fl%7Eing%2d1"] {
        let reply = send(stack, &ALICE, output(spelled)).await?;
        ensure!(reply.status == 200 && reply.body == first.body, "{spelled}: {} {}", reply.status, reply.text());
    }
    // A subject whose id has to be encoded: the backend does not decode the key in a path.
    let caller = Caller { user: "auth0|5f7c/é %", ..ALICE };
    let own = send(stack, &caller, refund("subject", &json!({}))).await?;
    ensure!(own.status == 200, "{own:?}");
    for request in [output("subject"), attach("subject")] {
        let reply = send(stack, &caller, request).await?;
        ensure!(reply.status == 200 && reply.body == own.body, "{} {}", reply.status, reply.text());
    }
    Ok(())
}

async fn refused(stack: &mut Stack) -> Result<()> {
    let before = stack.restate.invocations().await?.len();
    let long = "a".repeat(256);
    for (key, reason) in [
        ("t-x", "reserved_prefix"),
        ("%74-x", "reserved_prefix"),
        ("a%2Cb", "charset"),
        ("%22a%22", "charset"),
        (&long, "length"),
    ] {
        let reply = send(stack, &ALICE, output(key)).await?;
        code(&reply, "idempotency_key_invalid").with_context(|| key.to_owned())?;
        ensure!(reply.json().get("reason") == Some(&json!(reason)), "{key}: {}", reply.text());
        discreet(&reply)?;
    }
    code(&send(stack, &Caller { project: "", ..ALICE }, attach("k")).await?, "identity_missing")?;
    code(&send(stack, &Caller { tenant: "a:b", ..ALICE }, attach("k")).await?, "identity_invalid")?;
    code(&send(stack, &ALICE, Request { method: "POST".to_owned(), ..attach("k") }).await?, "method_not_allowed")?;
    // Without a token Envoy's own authentication answers.
    let anonymous = attach("k").send(&stack.gateway_url()).await?;
    ensure!(anonymous.status == 401, "{anonymous:?}");
    for path in ["/api/v1/projects/by-idempotency-key/k", "/api/v1/notifications/devices/by-idempotency-key/k/output"] {
        code(&send(stack, &ALICE, Request::get(path)).await?, "not_found")?;
    }
    ensure!(stack.restate.invocations().await?.len() == before, "something was begun");
    Ok(())
}
