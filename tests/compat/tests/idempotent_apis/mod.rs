//! The middlewares of `examples/fastapi`, `express`, `spring` and `gohttp` behind the filter in a real Envoy: each key has one effect,
//! whatever happens between the claim and the stored answer. All frameworks have the same tests. An effect is a call of the payment provider,
//! which is the test's: it can hold an answer back, so that a request is in flight as long as the test wants.

mod answers;
mod around;
mod payments;
pub(crate) mod servers;

use std::process::Command;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, sharing, until};
use harness::ports::{free, loopback};
use harness::process::Process;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::idempotent_apis::answers::{is_in_flight, is_new, is_replay, is_unavailable};
use crate::idempotent_apis::payments::{Payment, Payments};
use crate::idempotent_apis::servers::{Framework, Times, collection, packages, run};

/// Between two attempts of a client that waits for a lease to end.
const POLL: Duration = Duration::from_millis(50);
/// The listeners: one with ordinary callers, and one whose callers' names are as long as they may be.
const API: &str = "api";
const LONG: &str = "long";
/// 53 letters, so that with the longest tenant, project, subject and raw key there are 640 bytes.
const LONG_TYPE: &str = "service_account_of_a_machine_with_a_very_long_name_aa";

/// No lease and no retention ends during a test.
const LASTING: Times = Times { lease: 86_400, retention: 86_400 };
/// A lease ends soon.
const SHORT_LEASE: Times = Times { lease: 1, retention: 86_400 };
/// An answer is forgotten soon.
const SHORT_RETENTION: Times = Times { lease: 86_400, retention: 1 };

/// Requests that are sent one after the other, and what they bring about. `sequences.json` has them.
#[derive(Clone, Deserialize)]
struct Sequence {
    name: String,
    /// Whether the callers' names are as long as they may be
    #[serde(default)]
    long: bool,
    /// What the provider answers
    #[serde(default)]
    payments: Vec<Payment>,
    steps: Vec<Step>,
    /// The operations of the provider that were called
    calls: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(default)]
struct Step {
    tenant: String,
    user: String,
    method: String,
    path: String,
    key: bool,
    key_end: String,
    body: Option<Value>,
    expect: Expected,
}

impl Default for Step {
    fn default() -> Self {
        let [tenant, user, method, path] = ["acme", "alice", "POST", "/orders"].map(str::to_owned);
        Self { tenant, user, method, path, key: true, key_end: String::new(), body: None, expect: Expected::default() }
    }
}

#[derive(Clone, Default, Deserialize)]
struct Expected {
    status: u16,
    answer: Origin,
    /// `Idempotency-Retry`
    retry: Option<String>,
    #[serde(default)]
    cookie: bool,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Origin {
    /// The handler has run.
    #[default]
    New,
    /// It is the replay of a step.
    First,
    Second,
    Third,
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    let sequences: Vec<Sequence> = serde_json::from_str(include_str!("sequences.json"))?;
    let groups = |framework: Framework| -> Result<[Group; 2]> {
        let name = framework.name();
        let mut tests: Vec<Test<ApiSetup>> = Vec::new();
        for sequence in sequences.clone() {
            tests.push(Test::new(sequence.name.clone(), move |setup: &ApiSetup| setup.plays(&sequence)));
        }
        tests.extend([
            Test::new("duplicates of a request in flight are answered 409, and another body 422", in_flight),
            Test::new("many at once have one effect", at_once),
            Test::new("a caller that goes away: the retry gets the answer", goes_away),
            Test::new("a crash in the work: the claim holds until its lease ends", crash_and_hold),
            Test::new("a crash in the work: after the lease the key runs again", crash_and_retry),
            Test::new("an attempt that is slower than its lease does not overwrite", slow),
            Test::new("after the retention the key runs again", forgotten),
            Test::new("the store is down: nothing runs", store_is_down),
            Test::new("the store goes down in the work: the answer is not shown", store_goes_down),
        ]);
        let tests = tests.into_iter().map(|test| test.within(name)).collect();
        let is_installed = packages(framework).is_dir();
        if !is_installed {
            let (_, tool) = collection(framework);
            eprintln!(
                "SKIPPED: {name} is not installed, so examples/{name} is not tested. `crates/xtask/scripts/tools.sh {tool}` installs it."
            );
        }
        let groups = [sharing(move || ApiSetup::start(framework), tests), around::group(framework)?];
        Ok(groups.map(|group| if is_installed { group } else { group.left_out() }))
    };
    let all: Result<Vec<_>> = [Framework::FastApi, Framework::Express, Framework::Spring, Framework::GoHttp]
        .into_iter()
        .map(groups)
        .collect();
    Ok(all?.into_iter().flatten().collect())
}

/// The gateway, the API behind it, and the payment provider behind that.
struct ApiSetup {
    framework: Framework,
    gateway: TestGateway,
    payments: Payments,
    port: u16,
    directory: TempDir,
    api: Mutex<Process>,
}

impl ApiSetup {
    fn start(framework: Framework) -> Result<Self> {
        let (directory, payments) = (tempfile::tempdir()?, Payments::start()?);
        let port = free()?;
        let api = run(framework, port, payments.address, directory.path(), LASTING)?;
        let policy = |subject_type: &str| {
            json!({
                "version": 1,
                "identity": {
                    "sources": [{
                        "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                        "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": subject_type},
                    }],
                },
                "backend": {"kind": "generic"},
                "routes": [
                    {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A", "collision": "forward"},
                    {"endpoint": "orders.cancel", "methods": ["DELETE"], "path": "/orders/{item}", "policy": "REQUIRED_A", "collision": "forward"},
                    {"endpoint": "refunds.create", "path": "/refunds", "policy": "ACCEPTED"},
                ],
            })
        };
        let listener = |name: &str, subject_type: &str| {
            let spec = ListenerSpec { policy: policy(subject_type).to_string(), changes: vec![Change::EveryPath] };
            (name.to_owned(), spec)
        };
        let around = TestEnvironment { backend: Some(loopback(port)), ..TestEnvironment::default() };
        let gateway = TestGateway::start_within(&around, &[listener(API, "user"), listener(LONG, LONG_TYPE)])?;
        Ok(Self { framework, gateway, payments, port, directory, api: Mutex::new(api) })
    }

    fn api(&self) -> MutexGuard<'_, Process> {
        self.api.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the API with SIGKILL, and starts it again with the same table.
    fn restart(&self, times: Times) -> Result<()> {
        let mut api = self.api();
        api.kill()?;
        *api = run(self.framework, self.port, self.payments.address, self.directory.path(), times)?;
        Ok(())
    }

    /// A table with another name is a store that answers with errors.
    fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        let statement = format!("ALTER TABLE {from} RENAME TO {to}");
        let program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=30).execute(sys.argv[2])";
        let mut python = Command::new("python3");
        python.args(["-c", program]).arg(self.directory.path().join("results.db")).arg(statement);
        ensure!(python.status()?.success(), "the table cannot be renamed");
        Ok(())
    }

    fn send(&self, listener: &str, request: &Request) -> Result<Reply> {
        raw::exchange(self.gateway.address(listener)?, &request.method, &request.http1())
    }

    /// An order of Alice's for an item; the key is the item's name.
    fn order(&self, item: &str) -> Result<Request> {
        let token = self.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
        let order = Request::new("POST", "/orders").bearer(&token).header("content-type", "application/json");
        Ok(order.header("idempotency-key", item).body(json!({"item": item, "amount": 5}).to_string()))
    }

    fn plays(&self, sequence: &Sequence) -> Result<()> {
        let item = sequence.name.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        self.payments.answer(&item, &sequence.payments);
        let mut replies: Vec<Reply> = Vec::new();
        for (place, step) in sequence.steps.iter().enumerate() {
            let reply = self.step(sequence.long, &item, step)?;
            is_expected(&reply, &step.expect, &replies).with_context(|| {
                let body = String::from_utf8_lossy(&reply.body);
                format!("step {}: {} {:?} {body}", place + 1, reply.status, reply.headers)
            })?;
            replies.push(reply);
        }
        let calls = self.payments.calls(&item);
        let operations: Vec<&String> = calls.iter().map(|call| &call.operation).collect();
        ensure!(operations.iter().copied().eq(&sequence.calls), "the provider was called for {operations:?}");
        Ok(())
    }

    fn step(&self, long: bool, item: &str, step: &Step) -> Result<Reply> {
        let (listener, tenant, user, filler) = if long {
            (LONG, "t".repeat(63), "u".repeat(200), "k".repeat(255 - step.key_end.len()))
        } else {
            (API, step.tenant.clone(), step.user.clone(), item.to_owned())
        };
        let project = if long { "p".repeat(63) } else { "shop".to_owned() };
        let token = self.gateway.token(&json!({"tenant_id": tenant, "project_id": project, "sub": user}))?;
        let mut request = Request::new(&step.method, step.path.replace("{item}", item)).bearer(&token);
        if step.key {
            request = request.header("idempotency-key", format!("{filler}{}", step.key_end));
        }
        if step.method == "POST" {
            let body = step.body.clone().unwrap_or_else(|| json!({"item": item, "amount": 5}));
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let reply = self.send(listener, &request)?;
        // After an exception uvicorn closes the connection. A request that Envoy puts onto it at that moment is answered by Envoy, and
        // has not reached the API: the client sends it again.
        let is_lost = reply.status == 503 && reply.body.starts_with(b"upstream connect error");
        if is_lost { self.send(listener, &request) } else { Ok(reply) }
    }
}

fn is_expected(reply: &Reply, expect: &Expected, earlier: &[Reply]) -> Result<()> {
    ensure!(reply.status == expect.status, "the status is not {}", expect.status);
    let replays = match expect.answer {
        Origin::New => None,
        Origin::First => Some(0),
        Origin::Second => Some(1),
        Origin::Third => Some(2),
    };
    let (replayed, status) = (reply.text_header("idempotent-replayed"), reply.text_header("idempotency-status"));
    let marks = if replays.is_some() { (Some("true"), Some("replayed")) } else { (None, None) };
    ensure!((replayed, status) == marks, "it is marked {replayed:?} and {status:?}");
    ensure!(reply.header("set-cookie").is_some() == expect.cookie, "Set-Cookie");
    let retry = reply.text_header("idempotency-retry");
    ensure!(retry == expect.retry.as_deref(), "the advice is {retry:?}");
    if let Some(place) = replays {
        let first = earlier.get(place).context("no such step")?;
        ensure!(reply.body == first.body, "another body");
        for name in ["content-type", "location", "etag", "content-length"] {
            ensure!(reply.header(name) == first.header(name), "another {name}");
        }
    } else {
        let is_new =
            reply.status >= 300 || reply.body.is_empty() || earlier.iter().all(|other| other.body != reply.body);
        ensure!(is_new, "the answer of another request");
    }
    Ok(())
}

/// What a thread returned.
fn joined<T>(result: thread::Result<Result<T>>) -> Result<T> {
    result.map_err(|_| anyhow!("a thread panicked"))?
}

fn in_flight(setup: &ApiSetup) -> Result<()> {
    let item = "in-flight";
    let order = setup.order(item)?;
    setup.payments.answer(item, &[Payment::Held(200)]);
    let first = thread::scope(|scope| {
        let first = scope.spawn(|| setup.send(API, &order));
        let duplicates = || {
            setup.payments.until_called(item, 1)?;
            for _ in 0..5 {
                let duplicate = setup.send(API, &order)?;
                ensure!(is_in_flight(&duplicate), "a duplicate: {duplicate:?}");
            }
            let other = setup.send(API, &setup.order(item)?.body(json!({"item": item, "amount": 6}).to_string()))?;
            let code = other.json().get("code").cloned();
            ensure!(other.status == 422 && code == Some("idempotency_key_reused".into()), "another body: {other:?}");
            Ok(())
        };
        let outcome = duplicates();
        setup.payments.release(item);
        outcome.and_then(|()| joined(first.join()))
    })?;
    ensure!(is_new(&first), "the first: {first:?}");
    let again = setup.send(API, &order)?;
    ensure!(is_replay(&again) && again.body == first.body, "after it: {again:?}");
    ensure!(setup.payments.calls(item).len() == 1, "{:?}", setup.payments.calls(item));
    Ok(())
}

fn at_once(setup: &ApiSetup) -> Result<()> {
    const CLIENTS: usize = 1_000;
    let item = "at-once";
    let order = setup.order(item)?;
    let start = Barrier::new(CLIENTS);
    let replies = thread::scope(|scope| {
        let send = || {
            start.wait();
            setup.send(API, &order)
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(send)).collect();
        clients.into_iter().map(|client| joined(client.join())).collect::<Result<Vec<_>>>()
    })?;
    ensure!(replies.iter().filter(|reply| is_new(reply)).count() == 1, "not one new answer: {replies:?}");
    let others = replies.iter().filter(|reply| !is_new(reply));
    for reply in others {
        ensure!(is_in_flight(reply) || is_replay(reply), "a duplicate: {reply:?}");
    }
    ensure!(setup.payments.calls(item).len() == 1, "{:?}", setup.payments.calls(item));
    Ok(())
}

fn goes_away(setup: &ApiSetup) -> Result<()> {
    let item = "goes-away";
    let order = setup.order(item)?;
    setup.payments.answer(item, &[Payment::Held(200)]);
    let mut caller = raw::Connection::open(setup.gateway.address(API)?)?;
    let outcome = caller.send(&order.http1()).and_then(|()| setup.payments.until_called(item, 1));
    drop(caller);
    let retry = outcome.and_then(|()| setup.send(API, &order));
    setup.payments.release(item);
    // The claim is the work's, which goes on.
    let retry = retry?;
    ensure!(is_in_flight(&retry), "a retry in the meantime: {retry:?}");
    let answer = retry_until(setup, &order, "the work is done", is_replay)?;
    ensure!(setup.payments.calls(item).len() == 1, "{answer:?}: {:?}", setup.payments.calls(item));
    Ok(())
}

/// Lets an attempt claim the key and call the provider, and kills the API before the answer is stored.
fn crash(setup: &ApiSetup, item: &str, order: &Request, times: Times) -> Result<()> {
    setup.payments.answer(item, &[Payment::Held(200)]);
    thread::scope(|scope| {
        let lost = scope.spawn(|| setup.send(API, order));
        let outcome = setup.payments.until_called(item, 1).and_then(|()| setup.restart(times));
        setup.payments.release(item);
        let lost = joined(lost.join())?;
        ensure!(lost.status == 503, "the attempt that was killed: {lost:?}");
        outcome
    })
}

fn crash_and_hold(setup: &ApiSetup) -> Result<()> {
    let item = "crash-and-hold";
    let order = setup.order(item)?;
    crash(setup, item, &order, LASTING)?;
    for _ in 0..2 {
        let retry = setup.send(API, &order)?;
        ensure!(is_in_flight(&retry), "while the lease holds: {retry:?}");
    }
    ensure!(setup.payments.calls(item).len() == 1, "{:?}", setup.payments.calls(item));
    Ok(())
}

fn crash_and_retry(setup: &ApiSetup) -> Result<()> {
    let item = "crash-and-retry";
    let order = setup.order(item)?;
    setup.restart(SHORT_LEASE)?;
    crash(setup, item, &order, LASTING)?;
    let retry = retry_until(setup, &order, "the lease ends", is_new)?;
    let replay = setup.send(API, &order)?;
    ensure!(is_replay(&replay) && replay.body == retry.body, "after the retry: {replay:?}");
    // The work ran twice, and the provider was told so by the same key.
    let calls = setup.payments.calls(item);
    let [first, second] = calls.as_slice() else { return Err(anyhow!("not two calls: {calls:?}")) };
    ensure!(first == second && first.key.is_some(), "the provider cannot tell that it is the same payment: {calls:?}");
    Ok(())
}

fn slow(setup: &ApiSetup) -> Result<()> {
    let item = "slow";
    let order = setup.order(item)?;
    setup.restart(SHORT_LEASE)?;
    setup.payments.answer(item, &[Payment::Held(200)]);
    let (slow, later) = thread::scope(|scope| {
        let slow = scope.spawn(|| setup.send(API, &order));
        let outcome =
            setup.payments.until_called(item, 1).and_then(|()| retry_until(setup, &order, "the lease ends", is_new));
        setup.payments.release(item);
        let slow = joined(slow.join())?;
        outcome.map(|later| (slow, later))
    })?;
    ensure!(is_in_flight(&slow), "the slow attempt: {slow:?}");
    let again = setup.send(API, &order)?;
    ensure!(is_replay(&again) && again.body == later.body, "the stored answer: {again:?}, and it was {later:?}");
    setup.restart(LASTING)
}

fn forgotten(setup: &ApiSetup) -> Result<()> {
    let item = "forgotten";
    let order = setup.order(item)?;
    setup.restart(SHORT_RETENTION)?;
    let first = setup.send(API, &order)?;
    ensure!(is_new(&first), "the first: {first:?}");
    let again = retry_until(setup, &order, "the retention ends", is_new)?;
    ensure!(again.body != first.body && setup.payments.calls(item).len() == 2, "{again:?}");
    setup.restart(LASTING)
}

/// Sends a request again until its answer is so. Until then the key is claimed, or its answer is a replay.
fn retry_until(setup: &ApiSetup, order: &Request, what: &str, so: impl Fn(&Reply) -> bool) -> Result<Reply> {
    let last = Mutex::new(None);
    until(what, POLL, || {
        let reply = setup.send(API, order)?;
        ensure!(so(&reply) || is_in_flight(&reply) || is_replay(&reply), "a retry: {reply:?}");
        let done = so(&reply);
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        Ok(done)
    })?;
    last.into_inner().unwrap_or_else(PoisonError::into_inner).context("no retry")
}

fn store_is_down(setup: &ApiSetup) -> Result<()> {
    let item = "store-is-down";
    let order = setup.order(item)?;
    setup.rename_table("idempotency_results", "gone")?;
    let refused = setup.send(API, &order);
    setup.rename_table("gone", "idempotency_results")?;
    let refused = refused?;
    ensure!(is_unavailable(&refused), "while the store is down: {refused:?}");
    ensure!(setup.payments.calls(item).is_empty(), "the handler ran: {:?}", setup.payments.calls(item));
    let retry = setup.send(API, &order)?;
    ensure!(is_new(&retry), "when it is there again: {retry:?}");
    Ok(())
}

fn store_goes_down(setup: &ApiSetup) -> Result<()> {
    let (kept, freed) = ("store-goes-down", "store-goes-down-with-an-error");
    let (orders, answers) = ([setup.order(kept)?, setup.order(freed)?], [Payment::Held(200), Payment::Held(403)]);
    for (item, answer) in [kept, freed].into_iter().zip(answers) {
        setup.payments.answer(item, &[answer]);
    }
    let replies = thread::scope(|scope| {
        let callers = orders.each_ref().map(|order| scope.spawn(move || setup.send(API, order)));
        let outcome = [kept, freed].into_iter().try_for_each(|item| setup.payments.until_called(item, 1));
        let outcome = outcome.and_then(|()| setup.rename_table("idempotency_results", "gone"));
        [kept, freed].into_iter().for_each(|item| setup.payments.release(item));
        let replies: Vec<_> = callers.into_iter().map(|caller| joined(caller.join())).collect();
        outcome.and_then(|()| setup.rename_table("gone", "idempotency_results")).map(|()| replies)
    })?;
    let [stored, other] = <[Result<Reply>; 2]>::try_from(replies).map_err(|_| anyhow!("not two answers"))?;
    let (stored, other) = (stored?, other?);
    ensure!(is_unavailable(&stored), "an answer that a retry would not get: {stored:?}");
    // No retry would get this one either way.
    ensure!(other.status == 403, "an answer that is never stored: {other:?}");
    for order in &orders {
        let retry = setup.send(API, order)?;
        ensure!(is_in_flight(&retry), "the claim ends with its lease: {retry:?}");
    }
    Ok(())
}
