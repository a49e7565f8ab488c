//! Operations: the answer of an earlier call by its operation id, also of a call without a key.

use anyhow::{Context as _, Result, ensure};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::stack::Stack;
use serde_json::{Value, json};

use super::asking::told;
use super::{
    ALICE, BOB, Caller, ExpectedAnswer, RecoverySetup, code, command, discreet, effects, refund, send, test, until,
};

/// Routes to the handler of refunds that need no key.
const QUOTES: &str = "/api/v1/quotes";
const LATER: &str = "/api/v1/quotes-later";
/// Routes to a workflow: with the client's own workflow key, waited for and not waited for, and with a key that holds the caller.
const SIGNUPS: &str = "/api/v1/signups";
const SIGNUPS_LATER: &str = "/api/v1/signups-later";
const SIGNUPS_APART: &str = "/api/v1/signups-apart";

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    let tests = vec![
        test("a call without a key, whose client asks for its answer", without_key),
        test("others, and ids that nobody was given, are told what everybody is told", others),
        test("failed work, and work that is gone", failed),
        test("a workflow that another caller has started", workflow_of_another),
    ];
    tests.into_iter().map(|test| test.within("operations")).collect()
}

/// Adds operations to a policy, and the routes of these tests.
pub(crate) fn with_operations(policy: &str) -> Result<String> {
    let mut policy: Value = serde_json::from_str(policy)?;
    let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("the routes")?;
    let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let quotes = |path: &str, one_way: bool| {
        json!({
            "endpoint": name(path), "path": path, "policy": "ACCEPTED", "target": "Refunds/create", "recovery": false,
            "one_way": one_way,
        })
    };
    let workflow = |path: &str, one_way: bool, key: &str| {
        json!({
            "endpoint": name(path), "path": format!("{path}/{{id}}"), "policy": "PROHIBITED",
            "target": format!("Signups/{key}/run"), "one_way": one_way,
        })
    };
    routes.extend([
        workflow(SIGNUPS, false, "{id}"),
        workflow(SIGNUPS_LATER, true, "{id}"),
        workflow(SIGNUPS_APART, false, "{tenant}:{project}:{subject}:{id}"),
        quotes(QUOTES, false),
        quotes(LATER, true),
        json!({
            "endpoint": "careful-payouts", "path": super::in_flight::CAREFUL_PAYOUTS, "policy": "REQUIRED_A",
            "target": "Accounts/{tenant}:{project}:{account}/payout", "in_flight": "conflict",
        }),
    ]);
    let backend = policy.get_mut("backend").and_then(Value::as_object_mut).context("the backend")?;
    backend.insert(
        "operations".to_owned(),
        json!({"path": "/api/v1/operations/{operation_id}", "secret": [super::SECRET]}),
    );
    policy.as_object_mut().context("a policy")?.insert("allow_inline_secrets".to_owned(), json!(true));
    Ok(policy.to_string())
}

fn quote(path: &str, order: &str, how: &Value) -> Request {
    let mut body = json!({"order_id": order, "amount": 4200});
    if let (Some(body), Some(how)) = (body.as_object_mut(), how.as_object()) {
        body.extend(how.clone());
    }
    Request::post(path).json(&body)
}

fn ask(id: &str) -> Request {
    Request::get(&format!("/api/v1/operations/{id}"))
}

fn ask_now(id: &str) -> Request {
    Request::get(&format!("/api/v1/operations/{id}/output"))
}

/// The operation id of an answer, which has the form that clients are promised.
fn operation_id(reply: &Reply) -> Result<String> {
    let id = reply.header("x-operation-id").with_context(|| format!("no operation id: {reply:?} {}", reply.text()))?;
    let (invocation, tag) = id.split_once('.').with_context(|| format!("no tag: {id}"))?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    ensure!(invocation.starts_with("inv_") && tag.len() == 22 && plain(invocation) && plain(tag), "{id}");
    Ok(id.to_owned())
}

/// Both ways to ask give this answer.
async fn both_give(stack: &Stack, caller: &Caller, id: &str, first: &Reply, retry: Option<&str>) -> Result<()> {
    let key = Some(if first.status < 400 { "completed" } else { "failed" });
    for request in [ask(id), ask_now(id), ask(id).http2(), ask_now(id).http2()] {
        let reply = send(stack, caller, request).await?;
        ExpectedAnswer { status: first.status, key, replayed: true, retry }.check(&reply)?;
        ensure!(reply.body == first.body, "{} instead of {}", reply.text(), first.text());
        ensure!(operation_id(&reply)? == id, "another id: {reply:?}");
        ensure!(reply.header("cache-control") == Some("no-store"), "{:?}", reply.headers);
        ensure!(reply.header("location").is_none(), "{:?}", reply.headers);
    }
    Ok(())
}

/// The effect is there once, however often its answer was asked for.
async fn once(stack: &Stack, order: &str) -> Result<()> {
    ensure!(effects(stack, order).await? == 1, "another number of effects of {order}");
    Ok(())
}

async fn without_key(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, quote(QUOTES, "no-key", &json!({}))).await?;
    ensure!(first.status == 200 && first.header("idempotency-status").is_none(), "{first:?}");
    discreet(&first)?;
    let id = operation_id(&first)?;
    both_give(stack, &ALICE, &id, &first, None).await?;
    once(stack, "no-key").await?;
    // Each call without a key is an operation of its own.
    let second = send(stack, &ALICE, quote(QUOTES, "no-key-2", &json!({}))).await?;
    ensure!(operation_id(&second)? != id, "two calls have one operation");
    // Where the handler deduplicates, the call has an id too.
    let device = Request::post("/api/v1/notifications/devices").json(&json!({"device_token": "operations"}));
    let first = send(stack, &ALICE, device).await?;
    both_give(stack, &ALICE, &operation_id(&first)?, &first, None).await
}

async fn others(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, quote(QUOTES, "of-alice", &json!({}))).await?;
    let id = operation_id(&first)?;
    let later = send(stack, &ALICE, quote(LATER, "of-alice-later", &json!({"provider_ms": 1000}))).await?;
    let later = operation_id(&later)?;
    let purged = send(stack, &ALICE, refund("of-alice-purged", &json!({}))).await?;
    command(stack, "of-alice-purged", "purge").await?;
    let purged = operation_id(&purged)?;
    until("it is gone", async || Ok(send(stack, &ALICE, ask_now(&purged)).await?.status == 404)).await?;
    let before = stack.restate.invocations().await?.len();

    let unknown = send(stack, &BOB, ask_now("inv_1never.AAAAAAAAAAAAAAAAAAAAAA")).await?;
    code(&unknown, "operation_unknown")?;
    ExpectedAnswer { status: 404, key: None, replayed: false, retry: Some("same_key") }.check(&unknown)?;
    let (invocation, tag) = id.split_once('.').context("a tag")?;
    let (other_invocation, _) = later.split_once('.').context("a tag")?;
    let mut asked: Vec<(Caller, String)> = [
        // Forged, truncated, and put together from two.
        format!("{invocation}.AAAAAAAAAAAAAAAAAAAAAA"),
        id.get(..id.len() - 1).context("an id")?.to_owned(),
        invocation.to_owned(),
        format!("{}.{tag}", invocation.get(..invocation.len() - 1).context("an invocation")?),
        format!("{other_invocation}.{tag}"),
        format!("{id}="),
        // Restate has dropped it.
        purged,
    ]
    .map(|id| (ALICE, id))
    .into();
    let strangers = [
        BOB,
        Caller { project: "billing", ..ALICE },
        Caller { tenant: "globex", ..ALICE },
        Caller { user: "Alice", ..ALICE },
    ];
    asked.extend(strangers.iter().flat_map(|caller| [(*caller, id.clone()), (*caller, later.clone())]));
    for (caller, id) in asked {
        for request in [ask(&id), ask_now(&id), ask_now(&id).http2()] {
            let reply = send(stack, &caller, request).await?;
            let (told, expected) = (told(&reply), told(&unknown));
            let same = told.status == expected.status && told.headers == expected.headers && told.body == expected.body;
            ensure!(same, "{id} tells {} more: {reply:?} {}", caller.user, reply.text());
        }
    }
    ensure!(stack.restate.invocations().await?.len() == before, "asking has begun something");
    for (caller, expected) in [
        (Caller { project: "", user: "", ..ALICE }, "identity_missing"),
        (Caller { tenant: "a:b", ..ALICE }, "identity_invalid"),
    ] {
        code(&send(stack, &caller, ask(&id)).await?, expected)?;
    }
    // Without a token Envoy's own authentication answers.
    let anonymous = ask(&id).send(&stack.gateway_url()).await?;
    ensure!(anonymous.status == 401 && anonymous.code().is_empty(), "{anonymous:?}");
    both_give(stack, &ALICE, &id, &first, None).await
}

async fn failed(stack: &mut Stack) -> Result<()> {
    for (order, how, status) in
        [("op-declined", json!({"provider": "declines"}), 422), ("op-missing", json!({"provider": "missing"}), 404)]
    {
        let first = send(stack, &ALICE, quote(QUOTES, order, &how)).await?;
        ensure!(first.status == status, "{first:?}");
        both_give(stack, &ALICE, &operation_id(&first)?, &first, Some("new_key")).await?;
    }
    // The wait ends with the handler's own 404, which is no unknown operation.
    let how = json!({"provider": "missing", "provider_ms": 800});
    let accepted = send(stack, &ALICE, quote(LATER, "op-missing-later", &how)).await?;
    let id = operation_id(&accepted)?;
    until("it has failed", async || Ok(send(stack, &ALICE, ask(&id)).await?.status != 202)).await?;
    let reply = send(stack, &ALICE, ask(&id)).await?;
    ExpectedAnswer { status: 404, key: Some("failed"), replayed: true, retry: Some("new_key") }.check(&reply)
}

/// A workflow runs once for each workflow key, so Restate names the first caller's invocation to the second.
async fn workflow_of_another(stack: &mut Stack) -> Result<()> {
    let start =
        |path: &str, id: &str, email: &str| Request::post(&format!("{path}/{id}")).json(&json!({"email": email}));
    let first = send(stack, &ALICE, start(SIGNUPS, "w1", "alice@example.com")).await?;
    ensure!(first.status == 200 && first.json().get("email") == Some(&json!("alice@example.com")), "{first:?}");
    let id = operation_id(&first)?;
    both_give(stack, &ALICE, &id, &first, None).await?;

    for request in [start(SIGNUPS, "w1", "bob@example.com"), start(SIGNUPS, "w1", "bob@example.com").http2()] {
        let refused = send(stack, &BOB, request).await?;
        ensure!(refused.status == 409, "the workflow ran again: {refused:?} {}", refused.text());
        nothing_to_ask_by(&refused)?;
    }
    let accepted = send(stack, &BOB, start(SIGNUPS_LATER, "w1", "bob@example.com")).await?;
    ensure!(accepted.status == 202 && accepted.json() == json!({"status": "accepted"}), "{accepted:?}");
    nothing_to_ask_by(&accepted)?;
    code(&send(stack, &BOB, ask_now(&id)).await?, "operation_unknown")?;
    // The caller who started it has its id already; Restate does not tell who asks, so the second answer has none.
    nothing_to_ask_by(&send(stack, &ALICE, start(SIGNUPS_LATER, "w1", "alice@example.com")).await?)?;

    // Who starts a workflow can ask for it.
    let accepted = send(stack, &BOB, start(SIGNUPS_LATER, "w2", "bob@example.com")).await?;
    let location = accepted.header("location").context("no Location")?;
    ensure!(location == format!("/api/v1/operations/{}", operation_id(&accepted)?), "{location}");
    let reply = send(stack, &BOB, Request::get(location)).await?;
    ensure!(reply.status == 200 && reply.json().get("email") == Some(&json!("bob@example.com")), "{reply:?}");

    // A workflow key that holds the caller is another workflow for each of them.
    for (caller, email) in [(ALICE, "alice@example.com"), (BOB, "bob@example.com")] {
        let reply = send(stack, &caller, start(SIGNUPS_APART, "w3", email)).await?;
        ensure!(reply.status == 200 && reply.json().get("email") == Some(&json!(email)), "{reply:?}");
        both_give(stack, &caller, &operation_id(&reply)?, &reply, None).await?;
    }
    Ok(())
}

fn nothing_to_ask_by(reply: &Reply) -> Result<()> {
    for name in ["x-operation-id", "location"] {
        ensure!(reply.header(name).is_none(), "{name}: {reply:?}");
    }
    ensure!(!reply.text().contains("inv_"), "an id: {}", reply.text());
    Ok(())
}
