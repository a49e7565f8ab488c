//! The whole chain: client, Envoy with the filter, Restate, a service that counts its effects.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::config::plain_policy;
use e2e::gateway::tools;
use e2e::payouts::{confirm, is_under_way, statement};
use e2e::runner::{Group, Test, runtime, sharing, until_async};
use harness::http::{Reply, Request};
use harness::restate::Invocation;
use harness::scheduler::Dispatch;
use harness::stack::{Stack, StackOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

const REFUNDS: &str = "/api/v1/refunds";
const DEVICES: &str = "/api/v1/notifications/devices";
const PROJECTS: &str = "/api/v1/projects";

const BURST: usize = 20;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        test("a fresh call, then replays", fresh_then_replays),
        test("a handler's refusal is replayed too", refusals_are_replayed),
        test("another user, project or tenant with the same raw key", other_callers),
        test("the same cart of two tenants", carts),
        test("twenty at once have one effect", burst),
        test("a duplicate in flight gets the answer of the first, and cannot be told from it", in_flight),
        test("Case C never has a key", case_c),
        test("Case C: a third party gets one token for an order", third_party),
        test("a dispatch sent twice has one effect", dispatched_twice),
        test("what is refused does not execute", refused),
        test("the backend's own paths are closed", closed_paths),
        test("the filter's mark from a client means nothing", forged_mark),
        test("credentials and spoofed identities stay outside", journal),
    ];
    Ok(vec![sharing(RestateSetup::start, tests)])
}

/// A test, one at a time: what is new in the backend then belongs to it.
fn test(name: &str, body: impl AsyncFnOnce(&RestateSetup) -> Result<()> + Send + 'static) -> Test<RestateSetup> {
    Test::new(name, move |setup: &RestateSetup| runtime()?.block_on(body(setup)))
}

struct RestateSetup {
    stack: Stack,
    _directory: TempDir,
}

#[derive(Clone, Copy)]
struct Caller {
    tenant: &'static str,
    project: &'static str,
    user: &'static str,
}

const ALICE: Caller = Caller { tenant: "acme", project: "health-prod", user: "alice" };

impl Caller {
    fn namespaced(&self, raw: &str) -> String {
        let Self { tenant, project, user } = self;
        format!("t-{tenant}:{project}:user:{user}:{raw}")
    }
}

impl RestateSetup {
    /// The demo.
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut policy = plain_policy()?;
        let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("no routes")?;
        routes.push(json!({
            "endpoint": "accounts.payout", "path": "/api/v1/accounts/{account}/payout", "policy": "REQUIRED_A",
            "target": "Accounts/{tenant}:{project}:{account}/payout",
        }));
        let options = StackOptions { policy: policy.to_string(), ..StackOptions::new(tools()?, directory.path()) };
        let stack = runtime()?.block_on(Stack::start(options, &|_| {}))?;
        Ok(Self { stack, _directory: directory })
    }

    async fn send(&self, caller: Option<&Caller>, request: Request) -> Result<Reply> {
        let Some(caller) = caller else { return request.send(&self.stack.gateway_url()).await };
        let claims = json!({"tenant_id": caller.tenant, "project_id": caller.project, "sub": caller.user});
        request.bearer(&self.stack.signer.mint(&claims)?).send(&self.stack.gateway_url()).await
    }

    /// Everything that Restate stored under a key.
    async fn stored(&self, key: &str) -> Result<Vec<Invocation>> {
        let all = self.stack.restate.invocations().await?;
        Ok(all.into_iter().filter(|invocation| invocation.idempotency_key.as_deref() == Some(key)).collect())
    }

    /// The one invocation under a key.
    async fn only(&self, key: &str) -> Result<Invocation> {
        let mut stored = self.stored(key).await?;
        ensure!(stored.len() == 1, "{} invocations under {key}", stored.len());
        stored.pop().context("no invocation")
    }

    /// How many hits of handlers Envoy has counted for an endpoint.
    async fn hits(&self, endpoint: &str) -> Result<u64> {
        let stats =
            Request::get("/stats?filter=handler_internal_dedup_hit_total").send(&self.stack.envoy.admin_url()).await?;
        let stats = stats.text();
        // A WebAssembly module has labels in its names, and a dynamic one has Envoy's tags.
        let labels = [format!("endpoint={endpoint}"), format!("endpoint.{endpoint}")];
        let of_endpoint = stats.lines().filter(|line| labels.iter().any(|label| line.contains(label)));
        Ok(of_endpoint.filter_map(|line| line.rsplit_once(": ")?.1.parse::<u64>().ok()).sum())
    }

    /// Waits until Envoy has counted so many hits: counts reach it within a second.
    async fn hits_become(&self, endpoint: &str, expected: u64) -> Result<()> {
        let what = format!("{expected} hits of {endpoint}");
        until_async(&what, Duration::from_millis(50), async || {
            let hits = self.hits(endpoint).await?;
            ensure!(hits <= expected, "{hits} hits of {endpoint} instead of {expected}");
            Ok(hits == expected)
        })
        .await
    }

    async fn effects(&self, id: &str) -> Result<u64> {
        Ok(self.stack.service.effects().await?.get(id).copied().unwrap_or_default())
    }

    /// How many invocations Restate has, and how often handlers ran.
    async fn totals(&self) -> Result<(usize, usize)> {
        let runs = self.stack.service.calls(usize::MAX).await?.total;
        Ok((self.stack.restate.invocations().await?.len(), runs))
    }
}

fn refund(key: &str, order: &str) -> Request {
    Request::post(REFUNDS).header("Idempotency-Key", key).json(&json!({"order_id": order, "amount": 4200}))
}

fn status(reply: &Reply, expected: u16) -> Result<()> {
    ensure!(reply.status == expected, "status {} instead of {expected}: {}", reply.status, reply.text());
    Ok(())
}

fn problem(reply: &Reply, expected: u16, code: &str) -> Result<()> {
    status(reply, expected)?;
    let kind = reply.header("content-type");
    ensure!(kind == Some("application/problem+json") && reply.code() == code, "{kind:?} {}", reply.text());
    Ok(())
}

fn operation(reply: &Reply) -> Result<&str> {
    reply.header("x-operation-id").with_context(|| format!("no operation id: {reply:?}"))
}

fn header(reply: &Reply, name: &str, expected: Option<&str>) -> Result<()> {
    let seen = reply.header(name);
    ensure!(seen == expected, "{name} is {seen:?} instead of {expected:?}");
    Ok(())
}

/// An answer that was made now.
fn fresh(reply: &Reply) -> Result<()> {
    header(reply, "idempotent-replayed", None)?;
    header(reply, "idempotency-status", Some("stored"))?;
    unnamed_backend(reply)
}

/// An answer that was made before, for `first`.
fn replayed(reply: &Reply, first: &Reply) -> Result<()> {
    status(reply, first.status)?;
    header(reply, "idempotent-replayed", Some("true"))?;
    header(reply, "idempotency-status", Some("replayed"))?;
    ensure!(reply.body == first.body, "{} instead of {}", reply.text(), first.text());
    ensure!(operation(reply)? == operation(first)?, "another operation");
    unnamed_backend(reply)
}

fn unnamed_backend(reply: &Reply) -> Result<()> {
    let named = reply.headers.iter().find(|(name, _)| name.contains("restate"));
    ensure!(named.is_none(), "a header of the backend: {named:?}");
    Ok(())
}

async fn fresh_then_replays(setup: &RestateSetup) -> Result<()> {
    let first = setup.send(Some(&ALICE), refund("replay-1", "order-replay")).await?;
    status(&first, 200)?;
    fresh(&first)?;
    let invocation = setup.only(&ALICE.namespaced("replay-1")).await?;
    ensure!(invocation.id == operation(&first)?, "the operation is not the invocation {}", invocation.id);
    ensure!(invocation.target == "Refunds/create", "{invocation:?}");

    let again = refund("replay-1", "order-replay");
    let quoted = refund("\"replay-1\";v=1", "order-replay");
    let other_payload = refund("replay-1", "order-of-another-payload");
    for retry in [again.clone(), again.http2(), quoted, other_payload] {
        replayed(&setup.send(Some(&ALICE), retry).await?, &first)?;
    }
    setup.only(&ALICE.namespaced("replay-1")).await?;
    let effects = [setup.effects("order-replay").await?, setup.effects("order-of-another-payload").await?];
    ensure!(effects == [1, 0], "effects {effects:?}");
    ensure!(setup.stored("replay-1").await?.is_empty(), "the raw key is stored");
    Ok(())
}

async fn refusals_are_replayed(setup: &RestateSetup) -> Result<()> {
    let order = json!({"order_id": "order-declined", "amount": 1, "provider": "declines"});
    let declined = Request::post(REFUNDS).header("idempotency-key", "declined-1").json(&order);
    let first = setup.send(Some(&ALICE), declined.clone()).await?;
    status(&first, 422)?;
    fresh(&first)?;
    replayed(&setup.send(Some(&ALICE), declined).await?, &first)?;
    setup.only(&ALICE.namespaced("declined-1")).await.map(drop)
}

async fn other_callers(setup: &RestateSetup) -> Result<()> {
    let callers = [
        ALICE,
        Caller { user: "bob", ..ALICE },
        Caller { project: "billing", ..ALICE },
        Caller { tenant: "globex", ..ALICE },
        // What would be the same without a separator that no part can hold.
        Caller { tenant: "acme-health", project: "prod", ..ALICE },
    ];
    let mut operations = BTreeSet::new();
    for (caller, count) in callers.iter().zip(1..) {
        let reply = setup.send(Some(caller), refund("shared-1", "order-shared")).await?;
        status(&reply, 200)?;
        fresh(&reply)?;
        operations.insert(operation(&reply)?.to_owned());
        let effects = setup.effects("order-shared").await?;
        ensure!(effects == count, "{effects} effects after {count} callers");
        let invocation = setup.only(&caller.namespaced("shared-1")).await?;
        ensure!(invocation.id == operation(&reply)?, "the operation is not the invocation {}", invocation.id);
        let seen = reply.json().get("seen").cloned().unwrap_or_default();
        let user = format!("user:{}", caller.user);
        let expected = json!({"tenant": caller.tenant, "project": caller.project, "subject": user});
        ensure!(seen == expected, "the handler saw {seen}");
    }
    ensure!(operations.len() == callers.len(), "operations {operations:?}");
    Ok(())
}

async fn carts(setup: &RestateSetup) -> Result<()> {
    let checkout = || Request::post("/api/v1/carts/c%3F1/checkout").json(&json!({"total": 9}));
    let globex = Caller { tenant: "globex", ..ALICE };
    for (caller, number) in [(&ALICE, 1), (&globex, 1), (&ALICE, 2)] {
        let reply = setup.send(Some(caller), checkout()).await?;
        status(&reply, 200)?;
        header(&reply, "idempotency-status", None)?;
        let answer = reply.json();
        let cart = format!("{}:{}:c?1", caller.tenant, caller.project);
        ensure!(answer.get("cart") == Some(&json!(cart)), "the object is {answer}");
        ensure!(answer.get("order") == Some(&json!(number)), "order {number} of the cart: {answer}");
    }
    let keyed = setup.send(Some(&ALICE), checkout().header("idempotency-key", "cart-1")).await?;
    fresh(&keyed)?;
    replayed(&setup.send(Some(&ALICE), checkout().header("idempotency-key", "cart-1")).await?, &keyed)
}

async fn burst(setup: &RestateSetup) -> Result<()> {
    let order = json!({"order_id": "order-burst", "amount": 1, "provider_ms": 300});
    let request = Request::post(REFUNDS).header("idempotency-key", "burst-1").json(&order);
    let claims = json!({"tenant_id": ALICE.tenant, "project_id": ALICE.project, "sub": ALICE.user});
    let request = request.bearer(&setup.stack.signer.mint(&claims)?);
    let url = setup.stack.gateway_url();
    let sent: Vec<_> = (0..BURST)
        .map(|_| {
            let (request, url) = (request.clone(), url.clone());
            tokio::spawn(async move { request.send(&url).await })
        })
        .collect();
    let mut answers = BTreeSet::new();
    for reply in sent {
        let reply = reply.await??;
        status(&reply, 200)?;
        answers.insert((operation(&reply)?.to_owned(), reply.text()));
    }
    ensure!(answers.len() == 1, "different answers: {answers:?}");
    ensure!(setup.effects("order-burst").await? == 1, "more than one effect");
    setup.only(&ALICE.namespaced("burst-1")).await.map(drop)
}

/// Restate's answers to a call that runs and to its duplicate are the same, so none of them has a mark
/// (docs/decisions/0028-duplicates-in-flight.md). A Restate that tells them apart makes this test fail, and then the mark is worth
/// another look.
async fn in_flight(setup: &RestateSetup) -> Result<()> {
    const AT_ONCE: usize = 3;
    let account = "acme:health-prod:in-flight";
    let payout = Request::post("/api/v1/accounts/in-flight/payout").header("Idempotency-Key", "in-flight-1");
    let payout = payout.json(&json!({"amount": 4200}));
    let claims = json!({"tenant_id": ALICE.tenant, "project_id": ALICE.project, "sub": ALICE.user});
    let payout = payout.bearer(&setup.stack.signer.mint(&claims)?);
    let send = || {
        let (request, url) = (payout.clone(), setup.stack.gateway_url());
        tokio::spawn(async move { request.send(&url).await })
    };
    let mut sent = vec![send()];
    is_under_way(&setup.stack.restate, account).await?;
    sent.extend((1..AT_ONCE).map(|_| send()));
    let active = format!("cluster.backend-requests.upstream_rq_active: {AT_ONCE}");
    until_async("all of them are at Restate", Duration::from_millis(20), async || {
        let stats = Request::get("/stats?filter=upstream_rq_active").send(&setup.stack.envoy.admin_url()).await?;
        Ok(stats.text().lines().any(|line| line == active))
    })
    .await?;
    confirm(&setup.stack.restate, account).await?;
    let mut answers = BTreeSet::new();
    for reply in sent {
        let reply = reply.await??;
        status(&reply, 200)?;
        fresh(&reply)?;
        answers.insert((operation(&reply)?.to_owned(), reply.text()));
    }
    ensure!(answers.len() == 1, "different answers: {answers:?}");
    // The access log has them under one invocation (docs/operate.md).
    let id = answers.first().map(|(id, _)| id.clone()).context("no answer")?;
    until_async("the access log has all of them", Duration::from_millis(50), async || {
        let log = std::fs::read_to_string(setup.stack.envoy.access_log())?;
        let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_one = |line: &Value| {
            let record = &line["edge_idempotency"];
            record["restate_invocation_id"] == json!(id) && record["idempotency_outcome"] == json!("stored")
        };
        Ok(records.filter(is_one).count() == AT_ONCE)
    })
    .await?;
    ensure!(statement(&setup.stack.restate, account).await?.entries == 1, "more than one payout");
    let again = send().await??;
    header(&again, "idempotency-status", Some("replayed"))?;
    header(&again, "idempotent-replayed", Some("true"))
}

async fn case_c(setup: &RestateSetup) -> Result<()> {
    let (invocations, runs) = setup.totals().await?;
    let hits = setup.hits("notifications.register").await?;
    for key in ["case-c-1", "case-c-1", "not a key at all", "t-acme:health-prod:user:bob:1"] {
        let request = Request::post(DEVICES).json(&json!({"device_token": "phone-c"}));
        let request = request.header("Idempotency-Key", key).header("idempotency_key", key);
        let reply = setup.send(Some(&ALICE), request).await?;
        status(&reply, 200)?;
        header(&reply, "idempotency-status", None)?;
        header(&reply, "idempotent-replayed", None)?;
    }
    // Nothing was deduplicated on the way: the handler ran every time, and did the work once.
    let calls = setup.stack.service.calls(runs).await?.calls;
    ensure!(calls.len() == 4, "{} runs instead of 4", calls.len());
    ensure!(setup.effects("acme/health-prod/phone-c").await? == 1, "the handler's own deduplication");
    let forms = ["idempotency-key", "idempotency_key"];
    let seen = calls.iter().find(|call| forms.iter().any(|name| call.header(name).is_some()));
    ensure!(seen.is_none(), "a handler saw a key: {seen:?}");
    // Where a request has no key Restate makes one of its own, a ULID.
    let all = setup.stack.restate.invocations().await?;
    for invocation in all.iter().skip(invocations) {
        let key = invocation.idempotency_key.as_deref().unwrap_or_default();
        let own = key.is_empty() || (key.len() == 26 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        ensure!(own, "{} is stored under {key}", invocation.target);
    }
    // A handler in Restate cannot set the header that reports a hit, so its answer says it.
    setup.hits_become("notifications.register", hits + 3).await
}

/// Whoever repeats the work of an order (Restate after a lost answer, the client after Restate has given up, another request), the
/// payment provider charges once. Only a capture that was there already is a hit.
async fn third_party(setup: &RestateSetup) -> Result<()> {
    let before = setup.hits("orders.capture").await?;
    let bob_at_globex = Caller { tenant: "globex", project: "health-prod", user: "bob" };
    let rows = [
        (ALICE, "o-1", 0, 200, Some(false)),
        (ALICE, "o-1", 0, 200, Some(true)),
        // Restate repeats the call itself.
        (ALICE, "o-2", 2, 200, Some(false)),
        // Restate gives up after three attempts, and the client repeats the request.
        (ALICE, "o-3", 3, 500, None),
        (ALICE, "o-3", 3, 200, Some(false)),
        (ALICE, "o-3", 3, 200, Some(true)),
        (bob_at_globex, "o-1", 0, 200, Some(false)),
    ];
    for (caller, order, lost, expected, duplicate) in rows {
        let path = format!("/api/v1/orders/{order}/capture");
        let request = Request::post(&path).json(&json!({"amount": 4200, "lost_answers": lost}));
        let reply = setup.send(Some(&caller), request).await?;
        status(&reply, expected)?;
        let seen = reply.json().get("duplicate").and_then(Value::as_bool);
        ensure!(seen == duplicate, "{order}, {lost} lost: {}", reply.text());
        let effects = setup.effects(&format!("{}:{}:{order}", caller.tenant, caller.project)).await?;
        ensure!(effects == 1, "{order}, {lost} lost: {effects} charges");
    }
    setup.hits_become("orders.capture", before + 2).await
}

/// The scheduler's dispatch, again after a minute and twenty at once, and what nobody else can do with its key.
async fn dispatched_twice(setup: &RestateSetup) -> Result<()> {
    let secret = &setup.stack.senders.scheduler;
    let dispatch = |report: &str| Dispatch {
        schedule: "e2e-report",
        due_ms: 1_793_000_000_000,
        tenant: "acme",
        project: "health-prod",
        body: json!({"report": report}),
    };
    let run = dispatch("report-twice");
    let first = setup.send(None, run.signed(secret, 60)).await?;
    status(&first, 200)?;
    fresh(&first)?;
    let seen = first.json().get("seen").cloned().unwrap_or_default();
    let expected = json!({"tenant": "acme", "project": "health-prod", "subject": "service:scheduler"});
    ensure!(seen == expected, "the handler saw {seen}");
    let url = setup.stack.gateway_url();
    let again = run.signed(secret, 0);
    let burst: Vec<_> = (0..BURST)
        .map(|_| {
            let (request, url) = (again.clone(), url.clone());
            tokio::spawn(async move { request.send(&url).await })
        })
        .collect();
    for reply in burst {
        replayed(&reply.await??, &first)?;
    }
    // A user's token beside the signature changes nothing.
    replayed(&setup.send(Some(&ALICE), run.signed(secret, 0)).await?, &first)?;
    let invocation = setup.only(&run.namespaced()).await?;
    ensure!(invocation.target == "Reports/run", "{invocation:?}");

    let before = setup.totals().await?;
    let unsigned = setup.send(Some(&ALICE), run.unsigned()).await?;
    problem(&unsigned, 400, "idempotency_key_invalid")?;
    ensure!(unsigned.json().get("reason") == Some(&json!("charset")), "{}", unsigned.text());
    let forged = [run.signed("guessed", 0), run.signed(secret, 301), again.clone().body(r#"{"report":"forged"}"#)];
    for request in forged {
        problem(&setup.send(Some(&ALICE), request).await?, 401, "signature_invalid")?;
    }
    ensure!(setup.totals().await? == before, "something was executed");
    ensure!(setup.effects("report-twice").await? == 1, "more than one effect");
    ensure!(setup.effects("forged").await? == 0, "a forged report");

    let other = Dispatch { due_ms: 1_793_000_086_400, ..dispatch("report-twice") };
    fresh(&setup.send(None, other.signed(secret, 0)).await?)?;
    ensure!(setup.effects("report-twice").await? == 2, "another run is another effect");
    // Signed journals hold no signature.
    let calls = setup.stack.service.calls(0).await?.calls;
    let leak = calls.iter().find(|call| call.header("x-schedule-signature").is_some());
    ensure!(leak.is_none(), "a signature reached a handler: {leak:?}");
    Ok(())
}

async fn refused(setup: &RestateSetup) -> Result<()> {
    let before = setup.totals().await?;
    let keyless = Request::post(REFUNDS).json(&json!({"order_id": "order-refused", "amount": 1}));
    problem(&setup.send(Some(&ALICE), keyless.clone()).await?, 400, "idempotency_key_required")?;
    let malformed = setup.send(Some(&ALICE), refund("a key", "order-refused")).await?;
    problem(&malformed, 400, "idempotency_key_invalid")?;
    let listed = Request::get(PROJECTS).header("idempotency-key", "k");
    problem(&setup.send(Some(&ALICE), listed).await?, 400, "idempotency_key_prohibited")?;
    let reserved = Caller { tenant: "_tenant", ..ALICE };
    problem(&setup.send(Some(&reserved), refund("k", "order-refused")).await?, 403, "identity_invalid")?;
    let projectless = Caller { project: "", ..ALICE };
    problem(&setup.send(Some(&projectless), refund("k", "order-refused")).await?, 401, "identity_missing")?;
    // Without a token Envoy's own authentication answers.
    status(&setup.send(None, refund("k", "order-refused")).await?, 401)?;
    ensure!(setup.totals().await? == before, "something was executed");
    ensure!(setup.effects("order-refused").await? == 0, "there was an effect");
    Ok(())
}

async fn closed_paths(setup: &RestateSetup) -> Result<()> {
    let first = setup.send(Some(&ALICE), refund("closed-1", "order-closed")).await?;
    status(&first, 200)?;
    let key = ALICE.namespaced("closed-1");
    let result = format!("/restate/invocation/Refunds/create/{key}/output");
    let id = first.header("x-operation-id").context("no operation id")?;
    let (output, attach_by_id) = (format!("/restate/output/{id}"), format!("/restate/attach/{id}"));
    // What is closed would give everything away.
    for path in [&result, &output, &attach_by_id] {
        status(&Request::get(path).send(&setup.stack.restate.ingress_url()).await?, 200)?;
    }

    let before = setup.totals().await?;
    let attach = format!("/restate/invocation/Refunds/create/{key}/attach");
    let dynamic_module = [
        "/Conversations/sendMessage",
        "/Refunds/create",
        "/Cart/acme:health-prod:c-1/checkout",
        "/Notifications/register",
        "/Projects/list",
        "/restate/health",
        "/restate/send/Refunds/create",
        "/restate/call/Refunds/create",
        "/restate/lookup",
        "/restate/awakeables/prom_1/resolve",
        &result,
        &attach,
        &output,
        &attach_by_id,
    ];
    let mut paths: Vec<String> =
        dynamic_module.iter().flat_map(|path| [(*path).to_owned(), format!("/{path}/")]).collect();
    let others =
        ["/Refunds", "/Refunds/create/send", "/./Refunds//create", "/%52efunds/create", "/api/../Refunds/create"];
    paths.extend(others.into_iter().chain(["/restate", "/restate/"]).map(str::to_owned));
    for path in paths {
        for method in ["GET", "POST"] {
            let plain = Request::new(method, &path).json(&json!({"order_id": "order-closed", "amount": 1}));
            let keyed = plain.clone().header("idempotency-key", &key);
            let marked = keyed.clone().header("x-edge-idempotency", "1").header("X_Edge_Idempotency", "1");
            for request in [plain, keyed, marked.clone(), marked.http2()] {
                for caller in [None, Some(&ALICE)] {
                    let reply = setup.send(caller, request.clone()).await?;
                    problem(&reply, 404, "not_found").with_context(|| format!("{method} {path}"))?;
                }
            }
        }
    }
    ensure!(setup.totals().await? == before, "something was executed");
    ensure!(setup.effects("order-closed").await? == 1, "there was an effect");
    Ok(())
}

async fn forged_mark(setup: &RestateSetup) -> Result<()> {
    let marked = |request: Request| request.header("x-edge-idempotency", "1").header("x_edge_idempotency", "1");
    let reply = setup.send(Some(&ALICE), marked(refund("marked-1", "order-marked"))).await?;
    status(&reply, 200)?;
    setup.only(&ALICE.namespaced("marked-1")).await?;

    let before = setup.totals().await?;
    let keyless = Request::post(REFUNDS).json(&json!({"order_id": "order-marked", "amount": 1}));
    problem(&setup.send(Some(&ALICE), marked(keyless)).await?, 400, "idempotency_key_required")?;
    for path in ["/api/v1/nothing", "/", "/nothing", "/openapi"] {
        problem(&setup.send(Some(&ALICE), marked(Request::post(path))).await?, 404, "not_found")?;
    }
    ensure!(setup.totals().await? == before, "something was executed");
    Ok(())
}

async fn journal(setup: &RestateSetup) -> Result<()> {
    let (_, runs) = setup.totals().await?;
    let spoofed = ["x-tenant-id", "X-Project-Id", "x-subject", "x_tenant_id", "x_subject"];
    let secrets = [
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "origin",
        "access-control-request-method",
        "x-restate-id",
        "x-http-method-override",
    ];
    let request = refund("journal-1", "order-journal").header("x-harmless", "stays");
    let request = secrets.iter().chain(&spoofed).fold(request, |request, name| request.header(name, "planted"));
    status(&setup.send(Some(&ALICE), request).await?, 200)?;
    let calls = setup.stack.service.calls(runs).await?.calls;
    let call = calls.first().context("the handler did not run")?;
    let planted = call.headers.iter().find(|(name, value)| value.contains("planted") || name == "authorization");
    ensure!(planted.is_none(), "the handler saw {planted:?}");
    let expected = [
        ("x-tenant-id", "acme"),
        ("x-project-id", "health-prod"),
        ("x-subject", "user:alice"),
        ("x-harmless", "stays"),
    ];
    for (name, value) in expected {
        ensure!(call.header(name) == Some(value), "{name} is {:?}", call.header(name));
    }
    let rows = setup.stack.restate.query("select * from sys_journal").await?;
    let holding = |text: &str| rows.iter().find(|row| Value::to_string(row).contains(text));
    ensure!(holding("x-harmless").is_some(), "Restate's journal shows no headers");
    let bearing = holding("planted").or_else(|| holding("Bearer "));
    ensure!(bearing.is_none(), "Restate's journal holds {bearing:?}");
    Ok(())
}
