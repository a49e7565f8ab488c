//! What callers are told, one situation after the other.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::{Group, sharing};
use harness::http::Request;
use serde_json::{Value, json};

use super::{PromisesSetup, status, test, text};

const SCOPE: (&str, &str) = ("acme", "shop");
const LARGEST: usize = 256 * 1024;

pub(super) fn group() -> Group {
    let tests = vec![
        test("a second handler is told who has the key", conflict),
        test("what is not there", unknown),
        test("bodies", bodies),
        test("bounds", bounds),
        test("what only handlers may call", private),
    ];
    sharing(|| PromisesSetup::start(&[]), tests)
}

/// With a program that keeps for a second only.
pub(super) fn brief() -> Group {
    let tests = vec![test("what nobody comes for is gone after its time", nobody_comes)];
    sharing(|| PromisesSetup::start(&["--keep", "1s"]), tests)
}

fn key(charge: &str) -> String {
    format!("acme:shop:stripe:{charge}")
}

/// What `resolve` answers to a JSON payload.
async fn resolve(setup: &PromisesSetup, charge: &str, payload: &Value) -> Result<Value> {
    let reply = setup.send(setup.call(&key(charge), "resolve").json(payload)).await?;
    status(&reply, 200)?;
    Ok(reply.json())
}

async fn conflict(setup: &PromisesSetup) -> Result<()> {
    let charge = "ch_conflict";
    setup.purchase(SCOPE, charge, 3_600, "conflict-1").await?;
    let waiting = setup.until(&key(charge), Some("waiting")).await?.context("nobody waits")?;
    let id = text(&waiting, "id")?.to_owned();
    for (waiter, state) in [("conflict-2", "waiting"), ("conflict-3", "completed")] {
        if state == "completed" {
            resolve(setup, charge, &json!({})).await?;
        }
        setup.purchase(SCOPE, charge, 3_600, waiter).await?;
        let result = setup.purchased(waiter).await?;
        status(&result, 409)?;
        let message = format!("the key belongs to the promise {id}, which is {state}");
        ensure!(result.json().get("message") == Some(&json!(message)), "{}", result.text());
    }
    status(&setup.purchased("conflict-1").await?, 200)
}

async fn unknown(setup: &PromisesSetup) -> Result<()> {
    let reply = setup.send(Request::get("/restate/call/Promises/acme:shop:stripe:ch_none/get")).await?;
    status(&reply, 404)?;
    ensure!(reply.json().get("message") == Some(&json!("there is no such promise")), "{}", reply.text());
    // Restate keeps nothing of such questions.
    let kept = "select id from sys_invocation where target like 'Promises/%/get' and status = 'completed'";
    ensure!(setup.restate.lock().await.query(kept).await?.is_empty(), "questions are kept");
    for unscoped in ["ch_1", "acme:ch_1", "acme:shop:"] {
        let reply = setup.send(setup.call(unscoped, "resolve").json(&json!({}))).await?;
        status(&reply, 400).with_context(|| unscoped.to_owned())?;
    }
    Ok(())
}

async fn nobody_comes(setup: &PromisesSetup) -> Result<()> {
    resolve(setup, "ch_nobody", &json!({})).await?;
    setup.until(&key("ch_nobody"), None).await?;
    setup.purchase(SCOPE, "ch_nobody", 1, "nobody").await?;
    status(&setup.purchased("nobody").await?, 408)?;
    let log = fs::read_to_string(setup.directory.path().join("promises.log"))?;
    let said = format!("nobody waited for {:?} in time", key("ch_nobody"));
    ensure!(log.contains(&said), "the log does not say `{said}`: {log}");
    Ok(())
}

async fn bodies(setup: &PromisesSetup) -> Result<()> {
    let form = "MessageSid=SM1&MessageStatus=sent";
    for (charge, kind, body, expected) in [
        ("ch_form", Some("application/x-www-form-urlencoded"), form, json!(form)),
        ("ch_text", Some("text/plain"), "paid \"in full\"\n", json!("paid \"in full\"\n")),
        ("ch_empty", None, "", json!(null)),
        ("ch_json", Some("application/json; charset=utf-8"), "{\"amount\": 1.50}", json!({"amount": 1.5})),
    ] {
        setup.purchase(SCOPE, charge, 3_600, charge).await?;
        setup.until(&key(charge), Some("waiting")).await?;
        let mut request = setup.call(&key(charge), "resolve").body(body);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        status(&setup.send(request).await?, 200).context(charge)?;
        let result = setup.purchased(charge).await?;
        ensure!(result.json().get("event") == Some(&expected), "{charge}: {}", result.text());
    }
    let request = setup.call(&key("ch_bytes"), "resolve").header("content-type", "application/xml").body([0xff, 0xfe]);
    status(&setup.send(request).await?, 415)
}

async fn bounds(setup: &PromisesSetup) -> Result<()> {
    for (charge, bytes, expected) in [("ch_largest", LARGEST, 200), ("ch_larger", LARGEST + 1, 413)] {
        let payload = json!("x".repeat(bytes - 2));
        let reply = setup.send(setup.call(&key(charge), "resolve").json(&payload)).await?;
        status(&reply, expected).context(charge)?;
    }
    setup.purchase(SCOPE, "ch_largest", 3_600, "largest").await?;
    let result = setup.purchased("largest").await?;
    let length = result.json().get("event").and_then(Value::as_str).map(str::len);
    ensure!(length == Some(LARGEST - 2), "{length:?} characters have arrived");
    let reply = setup.send(setup.call(&key("ch_reason"), "reject").json(&json!("x".repeat(4_096)))).await?;
    status(&reply, 413)?;
    for (waiter, ttl_s) in [("no-time", 0), ("too-long", 30 * 24 * 3_600 + 1)] {
        setup.purchase(SCOPE, "ch_ttl", ttl_s, waiter).await?;
        let result = setup.purchased(waiter).await?;
        status(&result, 400)?;
        let message = "ttl_s has to be between 1 and 2592000";
        ensure!(result.json().get("message") == Some(&json!(message)), "{}", result.text());
    }
    Ok(())
}

async fn private(setup: &PromisesSetup) -> Result<()> {
    let awakeable = format!("sign_1{}", "A".repeat(38));
    for (handler, body) in [
        ("await", json!({"awakeable": awakeable})),
        ("complete", json!({"number": "00", "completion": {"resolved": "1"}})),
        ("expire", json!("00")),
    ] {
        let reply = setup.send(setup.call(&key("ch_private"), handler).json(&body)).await?;
        let source = reply.header("x-restate-error-source").unwrap_or_default();
        ensure!(reply.status >= 400 && source == "ingress", "{handler}: {} {}", reply.status, reply.text());
    }
    ensure!(setup.get(&key("ch_private")).await?.is_none(), "there is a promise");
    Ok(())
}
