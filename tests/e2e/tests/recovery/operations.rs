//! Operations: the answer of an earlier call by its operation id, also of a call without a key.

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::discovery::Discovery;
use e2e::gateway::{TestEnvironment, TestGateway, tools};
use e2e::payouts::{confirm, is_under_way, statement};
use e2e::runner::Test;
use harness::http::{Reply, Request};
use harness::ports::loopback;
use harness::stack::Stack;
use serde_json::{Value, json};

use super::asking::told;
use super::in_flight::account;
use super::{
    ALICE, BOB, Caller, ExpectedAnswer, RecoverySetup, attach, code, command, discreet, effects, output, refund, send,
    test, until,
};

/// Routes to the handler of refunds that need no key.
const QUOTES: &str = "/api/v1/quotes";
const LATER: &str = "/api/v1/quotes-later";
/// Payouts that are not waited for. They run until the test confirms.
const PAYOUTS_LATER: &str = "/api/v1/accounts/{account}/payouts-later";
const OF_THE_TENANT: &str = "/api/v1/quotes-of-the-tenant";
/// Routes to a workflow: with the client's own workflow key, waited for and not waited for, and with a key that holds the caller.
const SIGNUPS: &str = "/api/v1/signups";
const SIGNUPS_LATER: &str = "/api/v1/signups-later";
const SIGNUPS_APART: &str = "/api/v1/signups-apart";

pub(crate) fn tests() -> Vec<Test<RecoverySetup>> {
    let tests = vec![
        test("a call without a key, whose client asks for its answer", without_key),
        test("a call with a key, its replay and its recovery have one operation id", with_key),
        test("others, and ids that nobody was given, are told what everybody is told", others),
        test("work that is not waited for is asked for at its Location", one_way),
        test("work under way is waited for, within the bound", under_way),
        test("failed work, and work that is gone", failed),
        test("an operation of a tenant", of_a_tenant),
        test("no path leads anywhere else", nothing_else),
        test("a workflow that another caller has started", workflow_of_another),
        test("the secret is replaced while the gateway runs", rotation),
    ];
    tests.into_iter().map(|test| test.within("operations")).collect()
}

/// Adds operations to a policy, and the routes of these tests.
pub(crate) fn with_operations(policy: &str, secrets: &[&str]) -> Result<String> {
    let mut policy: Value = serde_json::from_str(policy)?;
    let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("the routes")?;
    let route = |path: &str, one_way: bool, scope: &str| {
        let recovery = false;
        json!({
            "endpoint": path.rsplit('/').next(), "path": path, "policy": "ACCEPTED", "target": "Refunds/create",
            "recovery": recovery, "one_way": one_way, "scope": scope,
        })
    };
    let payouts = |path: &str, policy: &str, members: &Value| {
        let mut route = json!({
            "endpoint": path.rsplit('/').next(), "path": path, "policy": policy,
            "target": "Accounts/{tenant}:{project}:{account}/payout",
        });
        if let (Some(route), Some(members)) = (route.as_object_mut(), members.as_object()) {
            route.extend(members.clone());
        }
        route
    };
    let workflow = |path: &str, one_way: bool, key: &str| {
        json!({
            "endpoint": path.rsplit('/').next(), "path": format!("{path}/{{id}}"), "policy": "PROHIBITED",
            "target": format!("Signups/{key}/run"), "one_way": one_way,
        })
    };
    routes.extend([
        workflow(SIGNUPS, false, "{id}"),
        workflow(SIGNUPS_LATER, true, "{id}"),
        workflow(SIGNUPS_APART, false, "{tenant}:{project}:{subject}:{id}"),
        route(QUOTES, false, "project"),
        route(LATER, true, "project"),
        route(OF_THE_TENANT, false, "tenant"),
        json!({
            "endpoint": "careful-refunds", "path": super::in_flight::CAREFUL, "policy": "REQUIRED_A",
            "target": "Refunds/create", "in_flight": "conflict",
        }),
        payouts(super::in_flight::PAYOUTS, "REQUIRED_A", &json!({})),
        payouts(super::in_flight::CAREFUL_PAYOUTS, "REQUIRED_A", &json!({"in_flight": "conflict"})),
        payouts(PAYOUTS_LATER, "ACCEPTED", &json!({"one_way": true, "recovery": false})),
    ]);
    let backend = policy.get_mut("backend").and_then(Value::as_object_mut).context("the backend")?;
    backend.insert("operations".to_owned(), json!({"path": "/api/v1/operations/{operation_id}", "secret": secrets}));
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

async fn with_key(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, refund("operation-key", &json!({}))).await?;
    ensure!(first.status == 200, "{first:?}");
    let id = operation_id(&first)?;
    for request in [refund("operation-key", &json!({})), attach("operation-key"), output("operation-key")] {
        let reply = send(stack, &ALICE, request).await?;
        ensure!(reply.header("idempotent-replayed") == Some("true"), "{reply:?}");
        ensure!(operation_id(&reply)? == id, "{reply:?} instead of {id}");
    }
    both_give(stack, &ALICE, &id, &first, None).await?;
    once(stack, "operation-key").await
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

fn payout_later(key: &str) -> Request {
    Request::post(&PAYOUTS_LATER.replace("{account}", key)).json(&json!({"amount": 4200}))
}

/// The client knows no key: it follows `Location` until the work is done.
async fn one_way(stack: &mut Stack) -> Result<()> {
    for (name, request) in [
        ("later-no-key", payout_later("later-no-key")),
        ("later-key", payout_later("later-key").header("idempotency-key", "later-key")),
    ] {
        let accepted = send(stack, &ALICE, request.clone()).await?;
        ensure!(accepted.status == 202, "{accepted:?}");
        discreet(&accepted)?;
        let id = operation_id(&accepted)?;
        ensure!(accepted.json() == json!({"operation_id": id, "status": "processing"}), "{}", accepted.text());
        let location = accepted.header("location").context("no Location")?.to_owned();
        ensure!(location == format!("/api/v1/operations/{id}"), "{location}");
        for path in [format!("{location}/output"), location.clone()] {
            let reply = send(stack, &ALICE, Request::get(&path)).await?;
            ensure!(reply.status == 202 && operation_id(&reply)? == id, "{reply:?}");
            ensure!(reply.header("location") == Some(location.as_str()), "{reply:?}");
        }
        if name == "later-key" {
            let again = send(stack, &ALICE, request.clone()).await?;
            ExpectedAnswer { status: 202, key: Some("processing"), replayed: true, retry: None }.check(&again)?;
        }
        finish(stack, name, &id).await?;
        let reply = send(stack, &ALICE, Request::get(&location)).await?;
        ExpectedAnswer { status: 200, key: Some("completed"), replayed: true, retry: None }.check(&reply)?;
        ensure!(reply.json() == json!({"id": "payout_1", "amount": -4200}), "{}", reply.text());
        if name == "later-key" {
            let again = send(stack, &ALICE, request).await?;
            ensure!(operation_id(&again)? == id && again.header("location") == Some(location.as_str()), "{again:?}");
            ExpectedAnswer { status: 202, key: Some("completed"), replayed: true, retry: None }.check(&again)?;
        }
        ensure!(statement(&stack.restate, &account(name)).await?.entries == 1, "another number of entries");
    }
    Ok(())
}

/// Confirms a payout, and waits until its operation has an answer.
async fn finish(stack: &Stack, name: &str, id: &str) -> Result<()> {
    is_under_way(&stack.restate, &account(name)).await?;
    confirm(&stack.restate, &account(name)).await?;
    until("it is done", async || Ok(send(stack, &ALICE, ask(id)).await?.status == 200)).await
}

async fn under_way(stack: &mut Stack) -> Result<()> {
    let accepted = send(stack, &ALICE, payout_later("operation-slow")).await?;
    let id = operation_id(&accepted)?;
    for request in [ask_now(&id), ask(&id).header("x-envoy-upstream-rq-timeout-ms", "60000")] {
        let reply = send(stack, &ALICE, request).await?;
        ExpectedAnswer { status: 202, key: Some("processing"), replayed: false, retry: None }.check(&reply)?;
        ensure!(reply.json() == json!({"operation_id": id, "status": "processing"}), "{}", reply.text());
        ensure!(reply.header("retry-after") == Some("2"), "{:?}", reply.headers);
        ensure!(reply.header("location") == Some(&*format!("/api/v1/operations/{id}")), "{:?}", reply.headers);
    }
    code(&send(stack, &BOB, ask_now(&id)).await?, "operation_unknown")?;
    finish(stack, "operation-slow", &id).await?;
    ensure!(statement(&stack.restate, &account("operation-slow")).await?.entries == 1, "another number of entries");
    Ok(())
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

/// A caller's project is no part of it, nor does the caller need one.
async fn of_a_tenant(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, quote(OF_THE_TENANT, "of-the-tenant", &json!({}))).await?;
    ensure!(first.status == 200, "{first:?}");
    let id = operation_id(&first)?;
    for caller in [ALICE, Caller { project: "billing", ..ALICE }, Caller { project: "", ..ALICE }] {
        both_give(stack, &caller, &id, &first, None).await?;
    }
    for caller in [BOB, Caller { tenant: "globex", ..ALICE }] {
        code(&send(stack, &caller, ask(&id)).await?, "operation_unknown")?;
    }
    Ok(())
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

async fn nothing_else(stack: &mut Stack) -> Result<()> {
    let first = send(stack, &ALICE, quote(QUOTES, "nothing-else", &json!({}))).await?;
    let id = operation_id(&first)?;
    let (invocation, _) = id.split_once('.').context("a tag")?;
    let before = stack.restate.invocations().await?.len();
    for path in [
        format!("//api/v1//operations/{id}"),
        format!("/api/v1/operations/{id}/"),
        format!("/api/v1/operations/./{id}/output"),
        format!("/api/v1/%6Fperations/{}?delay=1h", id.replace('.', "%2e")),
        // Envoy makes a slash of it.
        format!("/api/v1/operations/{id}\\output"),
    ] {
        let reply = send(stack, &ALICE, Request::get(&path)).await?;
        ensure!(reply.status == 200 && reply.body == first.body, "{path}: {} {}", reply.status, reply.text());
        ensure!(send(stack, &BOB, Request::get(&path)).await?.status == 404, "{path} gives Bob more");
    }
    for path in [
        format!("/restate/output/{invocation}"),
        format!("/restate/attach/{invocation}"),
        format!("/restate/invocation/{invocation}/output"),
        format!("//restate/output/{invocation}"),
        format!("/api/v1/operations/../../../restate/output/{invocation}"),
        format!("/api/v1/operations/{id}/cancel"),
        format!("/api/v1/operations/{invocation}"),
        format!("/api/v1/operations/{invocation}%2Foutput"),
        format!("/api/v1/operations/{id}%2Foutput"),
        format!("/api/v1/operations/{id}%2F..%2F{id}"),
        format!("/api/v1/operations/{id};output"),
        "/api/v1/operations".to_owned(),
        "/api/v1/operations/..%2f..".to_owned(),
    ] {
        let reply = send(stack, &ALICE, Request::get(&path)).await?;
        ensure!(matches!(reply.status, 400 | 404), "{path}: {} {}", reply.status, reply.text());
        ensure!(!reply.text().contains("order_id"), "{path}: {}", reply.text());
        discreet(&reply)?;
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let reply = send(stack, &ALICE, Request { method: method.to_owned(), ..ask(&id) }.body("{}")).await?;
        code(&reply, "method_not_allowed").with_context(|| method.to_owned())?;
        ensure!(reply.header("allow") == Some("GET"), "{:?}", reply.headers);
    }
    let upgraded = ask(&id).header("connection", "upgrade").header("upgrade", "websocket");
    // This gateway upgrades no connection. The behaviour cases have one that does.
    ensure!(send(stack, &ALICE, upgraded).await?.status == 403, "Envoy does not refuse the upgrade");
    // A body and a key change nothing.
    for request in [ask(&id).json(&json!({"a": 1})), ask_now(&id).header("idempotency-key", "k").body("x")] {
        let reply = send(stack, &ALICE, request).await?;
        ensure!(reply.status == 200 && reply.body == first.body, "{} {}", reply.status, reply.text());
    }
    ensure!(stack.restate.invocations().await?.len() == before, "something was begun");
    Ok(())
}

/// A policy without secrets of its own.
fn small_policy() -> String {
    let source = json!({
        "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
        "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
    });
    json!({
        "version": 1, "identity": {"sources": [source]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
        "routes": [
            {"endpoint": "refunds.create", "path": super::REFUNDS, "policy": "REQUIRED_A", "target": "Refunds/create"},
        ],
    })
    .to_string()
}

const LISTENER: &str = "rotated";

/// The filter's configuration is replaced while Envoy runs, as docs/production.md has it.
async fn rotation(stack: &mut Stack) -> Result<()> {
    let (old, new) = ("the-old-secret-of-this-test", "the-new-secret-of-this-test");
    let directory = tempfile::tempdir()?;
    let discovery = Discovery::new(directory.path().join("filter.yaml"), tools()?.filter);
    let put = |secrets: &[&str]| discovery.put(&with_operations(&small_policy(), secrets)?);
    put(&[old])?;
    let backend = loopback(stack.ports.restate_ingress);
    let listener = ListenerSpec { policy: String::new(), changes: vec![Change::Instead(discovery.filter()?)] };
    // The gateway has a runtime of its own.
    let gateway = tokio::task::block_in_place(|| {
        let around = TestEnvironment { backend: Some(backend), ..TestEnvironment::default() };
        TestGateway::start_within(&around, &[(LISTENER.to_owned(), listener)])
    })?;
    let url = format!("http://{}", gateway.address(LISTENER)?);
    let token = gateway.token(&json!({"tenant_id": "acme", "project_id": "health-prod", "sub": "alice"}))?;
    let call = async |request: Request| request.bearer(&token).send(&url).await;
    let made = async || {
        let reply = call(refund("rotation", &json!({}))).await?;
        ensure!(reply.status == 200, "{reply:?} {}", reply.text());
        operation_id(&reply)
    };
    let status = async |id: &str| anyhow::Ok(call(ask_now(id)).await?.status);

    let first = made().await?;
    ensure!(status(&first).await? == 200, "the id of the only secret is not taken");
    put(&[new, old])?;
    until("the new secret makes ids", async || Ok(made().await? != first)).await?;
    let second = made().await?;
    for id in [&first, &second] {
        let reply = call(ask_now(id)).await?;
        ensure!(reply.status == 200 && operation_id(&reply)? == second, "{id}: {reply:?}");
    }
    put(&[new])?;
    until("the old secret is gone", async || Ok(status(&first).await? == 404)).await?;
    ensure!(status(&second).await? == 200 && made().await? == second, "the new secret makes other ids");
    code(&call(ask_now(&first)).await?, "operation_unknown")
}
