//! The stand-in in front of a real Restate with the demo's services and both stores of lookups: the three cases, recovery by key
//! and by operation, and work in flight.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::chain::start_backend;
use e2e::deliveries::{now, stripe};
use e2e::lookup_stores::{LookupStores, ROOT_KEY};
use e2e::payouts::{confirm, is_under_way};
use e2e::raw::{Reply, Request};
use e2e::runner::{Test, runtime, until};
use harness::ports::{Ports, loopback};
use harness::restate::Restate;
use harness::senders::{STRIPE_PATH, Senders};
use harness::service::Service;
use harness::tokens::Signer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::captured::{DEVICES, REFUNDS, claims, shown};
use super::config::{PAYOUTS, policy};
use super::standin::{Options, StandIn, Way};

/// The whole chain.
pub(crate) struct KrakendBackendSetup {
    gateway: StandIn,
    stores: LookupStores,
    restate: Restate,
    service: Service,
    signer: Signer,
    senders: Senders,
    _directory: TempDir,
}

impl KrakendBackendSetup {
    pub(crate) fn start(way: Way) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ports = Ports::free()?;
        let (restate, service) = start_backend(directory.path(), &ports)?;
        let stores = LookupStores::stand_ins()?;
        let (signer, senders) = (Signer::generate(), Senders::generate());
        let mut environment = senders.environment();
        environment.push(("UNKEY_ROOT_KEY".to_owned(), ROOT_KEY.to_owned()));
        environment.push(("OPENBAO_TOKEN".to_owned(), stores.token().clone()));
        let url = |address: &dyn std::fmt::Display| json!({"url": format!("http://{address}")});
        let gateway = StandIn::start(Options {
            way,
            race: false,
            module: None,
            plugins: None,
            policy: &policy()?,
            upstreams: json!({
                "backend": url(&loopback(ports.restate_ingress)),
                "unkey": url(&stores.unkey.server().address()),
                "openbao": url(&stores.openbao_proxy.address()),
            }),
            others: Vec::new(),
            own: Vec::new(),
            environment,
            signer: &signer,
            directory: directory.path(),
        })?;
        Ok(Self { gateway, stores, restate, service, signer, senders, _directory: directory })
    }

    /// Sends a request of a user of the tenant `acme`.
    fn send_as(&self, user: &str, request: Request) -> Result<Reply> {
        self.gateway.send(&request.bearer(&self.signer.mint(&claims("acme", user))?))
    }

    fn effects(&self, id: &str) -> Result<u64> {
        Ok(runtime()?.block_on(self.service.effects())?.get(id).copied().unwrap_or_default())
    }
}

pub(crate) fn tests(way: Way) -> Vec<Test<KrakendBackendSetup>> {
    let test = |name: &str, body: fn(&KrakendBackendSetup) -> Result<()>| {
        let test = Test::new(name, move |setup: &KrakendBackendSetup| body(setup));
        test.within(way.name()).within("restate")
    };
    vec![
        test("a retried key has one effect, and the second answer is marked", replayed),
        test("callers do not share keys, and other bodies under a key are refused", apart),
        test("results are asked for by key, both ways", by_key),
        test("results are asked for by operation, both ways", by_operation),
        test("work under way is waited for", under_way),
        test("a delivery of a webhook in the policy, and its copy", static_webhook),
        test("a delivery whose webhook is looked up, and its copy", looked_up),
        test("a handler that keeps its own keys", own_keys),
    ]
}

fn refund(key: &str, order: &str) -> Request {
    let body = json!({"order_id": order, "amount": 4200}).to_string();
    let request = Request::new("POST", REFUNDS).header("content-type", "application/json").body(body);
    request.header("Idempotency-Key", key)
}

fn get(path: String) -> Request {
    Request::new("GET", path)
}

/// What an answer says of its key, and whether it is a replay.
fn check(reply: &Reply, status: u16, key: Option<&str>, replayed: bool) -> Result<()> {
    let header = |name: &str| reply.text_header(name);
    let replay = replayed.then_some("true");
    let fine = reply.status == status
        && header("idempotency-status") == key
        && header("idempotent-replayed") == replay
        && header("x-restate-id").is_none();
    ensure!(fine, "not {status}, {key:?}, replayed {replayed}: {}", shown(reply));
    Ok(())
}

fn code(reply: &Reply, status: u16, code: &str) -> Result<()> {
    let told = reply.json().get("code").and_then(Value::as_str).map(str::to_owned);
    ensure!((reply.status, told.as_deref()) == (status, Some(code)), "not {status} {code}: {}", shown(reply));
    Ok(())
}

fn replayed(setup: &KrakendBackendSetup) -> Result<()> {
    let first = setup.send_as("alice", refund("r-1", "order-1"))?;
    check(&first, 200, Some("stored"), false)?;
    for _ in 0..3 {
        let again = setup.send_as("alice", refund("r-1", "order-1"))?;
        check(&again, 200, Some("replayed"), true)?;
        ensure!(again.body == first.body, "{} instead of {}", shown(&again), shown(&first));
    }
    ensure!(setup.effects("order-1")? == 1, "the refund ran more than once");
    let id = first.text_header("x-operation-id").context("no operation id")?;
    ensure!(id.contains('.'), "the operation id is the backend's own, without the module's part: {id}");
    Ok(())
}

fn apart(setup: &KrakendBackendSetup) -> Result<()> {
    for user in ["alice", "bob"] {
        check(&setup.send_as(user, refund("shared", &format!("order-{user}")))?, 200, Some("stored"), false)?;
        ensure!(setup.effects(&format!("order-{user}"))? == 1, "{user}'s refund did not run once");
    }
    code(&setup.send_as("alice", refund("shared", "another-order"))?, 422, "idempotency_key_reused")?;
    ensure!(setup.effects("another-order")? == 0, "a refused refund ran");
    Ok(())
}

fn by_key(setup: &KrakendBackendSetup) -> Result<()> {
    let first = setup.send_as("alice", refund("r-2", "order-2"))?;
    check(&first, 200, Some("stored"), false)?;
    for path in ["", "/output"] {
        let path = format!("{REFUNDS}/by-idempotency-key/r-2{path}");
        let reply = setup.send_as("alice", get(path.clone()))?;
        check(&reply, 200, Some("completed"), true)?;
        ensure!(reply.body == first.body, "{}", shown(&reply));
        code(&setup.send_as("bob", get(path))?, 404, "idempotency_key_unknown")?;
    }
    Ok(())
}

fn by_operation(setup: &KrakendBackendSetup) -> Result<()> {
    let first = setup.send_as("alice", refund("r-3", "order-3"))?;
    check(&first, 200, Some("stored"), false)?;
    let id = first.text_header("x-operation-id").context("no operation id")?.to_owned();
    for path in ["", "/output"] {
        let path = format!("/api/v1/operations/{id}{path}");
        let reply = setup.send_as("alice", get(path.clone()))?;
        ensure!(reply.status == 200 && reply.body == first.body, "{}", shown(&reply));
        code(&setup.send_as("bob", get(path))?, 404, "operation_unknown")?;
    }
    Ok(())
}

fn under_way(setup: &KrakendBackendSetup) -> Result<()> {
    let (key, account) = ("patient", "acme:health-prod:patient");
    let path = PAYOUTS.replace("{account}", key);
    let payout = Request::new("POST", path.clone()).header("content-type", "application/json");
    let payout = payout.body(r#"{"amount":4200}"#).header("Idempotency-Key", key);
    let asked = get(format!("{path}/by-idempotency-key/{key}"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| setup.send_as("alice", payout.clone()));
        runtime()?.block_on(is_under_way(&setup.restate, account))?;
        let output = setup.send_as("alice", get(format!("{path}/by-idempotency-key/{key}/output")))?;
        ensure!(output.text_header("idempotency-status") == Some("processing"), "{}", shown(&output));
        ensure!(output.status == 202 && output.text_header("retry-after").is_some(), "{}", shown(&output));
        let duplicate = scope.spawn(|| setup.send_as("alice", payout.clone()));
        let attached = scope.spawn(|| setup.send_as("alice", asked));
        // All three have a stream of their own while they wait.
        setup
            .gateway
            .until("three requests wait", |gateway| Ok(gateway.metric("idempotency_bridge_streams")? >= 3.0))?;
        ensure!(!first.is_finished() && !duplicate.is_finished(), "there is an answer before the confirmation");
        runtime()?.block_on(confirm(&setup.restate, account))?;
        let mut replies = Vec::new();
        for waiting in [first, duplicate, attached] {
            replies.push(waiting.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        for reply in &replies {
            let same = replies.first().is_some_and(|first| first.body == reply.body);
            ensure!(reply.status == 200 && same, "{}", shown(reply));
        }
        Ok(())
    })
}

fn delivered_once(setup: &KrakendBackendSetup, delivery: impl Fn() -> Request, about: &str) -> Result<()> {
    check(&setup.gateway.send(&delivery())?, 200, Some("stored"), false)?;
    let copy = setup.gateway.send(&delivery())?;
    check(&copy, 200, Some("replayed"), true)?;
    ensure!(setup.effects(about)? == 1, "the delivery had {} effects", setup.effects(about)?);
    Ok(())
}

/// Stripe's event about a charge.
fn event(id: &str, charge: &str) -> String {
    json!({"id": id, "type": "charge.succeeded", "data": {"object": {"id": charge}}}).to_string()
}

fn static_webhook(setup: &KrakendBackendSetup) -> Result<()> {
    let body = event("evt_static", "ch_static");
    delivered_once(setup, || stripe(STRIPE_PATH, &[&setup.senders.stripe], now(), body.clone()), "ch_static")
}

fn looked_up(setup: &KrakendBackendSetup) -> Result<()> {
    let hook = setup.stores.hook("globex")?;
    let (path, body) = (hook.path(), event("evt_looked_up", "ch_looked_up"));
    delivered_once(setup, || stripe(&path, &[&hook.secret], now(), body.clone()), "ch_looked_up")?;
    // Each instance of the module keeps what it has looked up.
    let (bindings, secrets) = setup.stores.lookups(&hook);
    ensure!((1..=2).contains(&bindings) && (1..=2).contains(&secrets), "{bindings} and {secrets} lookups");
    let forged = stripe(&path, &["whsec_other"], now(), event("evt_forged", "ch_forged"));
    code(&setup.gateway.send(&forged)?, 401, "webhook_signature_invalid")?;
    let unknown = Request { target: b"/webhooks/stripe/wh_unknown".to_vec(), ..hook.delivery("evt_unknown") };
    code(&setup.gateway.send(&unknown)?, 404, "webhook_unknown")?;
    ensure!(setup.effects("ch_forged")? == 0, "a forged delivery had an effect");
    Ok(())
}

fn own_keys(setup: &KrakendBackendSetup) -> Result<()> {
    let body = json!({"device_id": "phone-1", "device_token": "t"}).to_string();
    let request = Request::new("POST", DEVICES).header("content-type", "application/json").body(body);
    for _ in 0..2 {
        check(&setup.send_as("alice", request.clone().header("Idempotency-Key", "ignored"))?, 200, None, false)?;
    }
    let all = runtime()?.block_on(setup.restate.invocations())?;
    let registered = all.iter().filter(|invocation| invocation.target == "Notifications/register");
    ensure!(registered.count() == 2, "the key was not removed: {all:?}");
    // The second answer says that the device was registered before. Counts reach the bridge's metrics within a second.
    until("a hit of the handler", Duration::from_millis(50), || {
        Ok(setup.gateway.metric("handler_internal_dedup_hit_total").is_ok_and(|hits| hits == 1.0))
    })
}
