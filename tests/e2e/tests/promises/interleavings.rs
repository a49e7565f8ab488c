//! Random interleavings of waiting, completing, expiring and repeating, each on a key of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::runner::{Group, Test, long, runtime, sharing, until_async};
use harness::http::{Reply, Request};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::{PromisesSetup, text};

/// As many in `make test-all`.
const RUNS: u64 = 300;
/// At the same time.
const WORKERS: usize = 120;
/// Between two looks: many look at the same time.
const POLL: Duration = Duration::from_millis(200);
const STEPS: usize = 8;
/// The seed without `EDGE_SEED`. What the machine makes of it in time is random enough.
const SEED: u64 = 1;
/// A time to live that no test outlives, and one that many do.
const LONG_S: u64 = 3_600;
const SHORT_S: u64 = 1;
const SCOPES: [(&str, &str); 3] = [("acme", "shop"), ("acme", "lab"), ("globex", "shop")];

pub(super) fn group() -> Group {
    let test = |name, body: fn(&Arc<PromisesSetup>) -> Result<()>| Test::new(name, body);
    sharing(
        || PromisesSetup::start(&["--keep", "1h"]).map(Arc::new),
        vec![test("random interleavings", |setup| {
            runtime()?.block_on(LocalSet::new().run_until(interleavings(setup)))
        })],
    )
}

async fn interleavings(setup: &Arc<PromisesSetup>) -> Result<()> {
    let seed = env::var("EDGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let places = Arc::new(Semaphore::new(WORKERS));
    let mut running = JoinSet::new();
    for run in 0..if long() { 1_000 } else { RUNS } {
        let (setup, places) = (setup.clone(), places.clone());
        running.spawn_local(async move {
            let _place = places.acquire_owned().await?;
            History::new(seed, run).play(&setup).await.with_context(|| format!("EDGE_SEED={seed}, run {run}"))
        });
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    while let Some(ended) = running.join_next().await {
        ended??.into_iter().for_each(|what| *seen.entry(what).or_default() += 1);
    }
    // All that can happen has happened. How often depends on the machine.
    for what in
        ["resolved", "rejected", "expired", "conflict", "at once", "kept", "late", "replayed", "by id", "by an old id"]
    {
        ensure!(seen.contains_key(what), "EDGE_SEED={seed}: never {what}: {seen:?}");
    }
    Ok(())
}

/// What was done with a key, and what everybody was told.
struct History {
    random: fastrand::Rng,
    scope: (&'static str, &'static str),
    charge: String,
    ttl_s: u64,
    waiters: Vec<String>,
    /// Each payload or reason, and the answer to it.
    completions: Vec<(String, Value)>,
    sent: usize,
    ids: BTreeSet<String>,
    seen: Vec<&'static str>,
}

/// A completion on its way.
struct Sent {
    payload: String,
    request: Request,
    by_id: bool,
}

impl History {
    fn new(seed: u64, run: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ run.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // The same charge is another one in each scope.
        let scope = SCOPES.into_iter().cycle().nth(run as usize % SCOPES.len()).unwrap_or(("acme", "shop"));
        let charge = format!("ch_{seed:x}_{}", run / 3);
        let ttl_s = if random.bool() { LONG_S } else { SHORT_S };
        let (waiters, completions, ids, seen) = Default::default();
        Self { random, scope, charge, ttl_s, waiters, completions, sent: 0, ids, seen }
    }

    fn key(&self) -> String {
        format!("{}:{}:stripe:{}", self.scope.0, self.scope.1, self.charge)
    }

    async fn play(mut self, setup: &PromisesSetup) -> Result<Vec<&'static str>> {
        for _ in 0..STEPS {
            match self.random.u8(0..10) {
                0..4 => {
                    self.wait(setup, self.ttl_s).await?;
                    // Else what follows races with the handler, which only begins.
                    if self.random.bool() {
                        self.registered(setup).await?;
                    }
                }
                4..6 => {
                    let sent = self.completion();
                    let reply = setup.send(sent.request.clone()).await?;
                    self.told(setup, sent, reply).await?;
                }
                6 => {
                    let (one, two) = (self.completion(), self.completion());
                    let (first, second) =
                        tokio::join!(setup.send(one.request.clone()), setup.send(two.request.clone()));
                    self.told(setup, one, first?).await?;
                    self.told(setup, two, second?).await?;
                }
                7 => {
                    if let Some(id) = self.random.choice(self.ids.clone()) {
                        self.complete_by_id(setup, &id).await?;
                    }
                }
                8 if self.ttl_s == SHORT_S => {
                    until_async("it expires", POLL, async || {
                        Ok(setup.get(&self.key()).await?.is_none_or(|found| state(&found) == "kept"))
                    })
                    .await?;
                }
                _ => self.look(setup).await.map(drop)?,
            }
        }
        self.drain(setup).await?;
        // Nobody waits any more, so each id is an old one.
        if let Some(id) = self.ids.first().cloned() {
            self.complete_by_id(setup, &id).await?;
        }
        self.judge(setup).await?;
        Ok(self.seen)
    }

    /// Until the last handler has the key, or knows that it does not get it.
    async fn registered(&mut self, setup: &PromisesSetup) -> Result<()> {
        let Some(last) = self.waiters.last().cloned() else { return Ok(()) };
        until_async("the handler waits", POLL, async || {
            let found = setup.get(&self.key()).await?;
            Ok(found.is_some_and(|found| state(&found) != "kept") || setup.has_ended(&last).await?)
        })
        .await?;
        self.look(setup).await.map(drop)
    }

    /// Whatever is kept gets a handler that waits, and each handler that waits gets something.
    async fn drain(&mut self, setup: &PromisesSetup) -> Result<()> {
        loop {
            let mut all_ended = true;
            for waiter in &self.waiters {
                all_ended = all_ended && setup.has_ended(waiter).await?;
            }
            match self.look(setup).await?.as_ref().map(state) {
                Some("waiting") => {
                    let sent = self.completion();
                    let reply = setup.send(sent.request.clone()).await?;
                    self.told(setup, sent, reply).await?;
                }
                Some("kept") => {
                    self.wait(setup, LONG_S).await?;
                    self.registered(setup).await?;
                }
                _ if all_ended => return Ok(()),
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// What there is, of which the id is noted.
    async fn look(&mut self, setup: &PromisesSetup) -> Result<Option<Value>> {
        let found = setup.get(&self.key()).await?;
        self.ids.extend(found.as_ref().and_then(|found| found.get("id")?.as_str()).map(str::to_owned));
        Ok(found)
    }

    async fn wait(&mut self, setup: &PromisesSetup, ttl_s: u64) -> Result<()> {
        let waiter = format!("{}-{}", self.key(), self.waiters.len());
        setup.purchase(self.scope, &self.charge, ttl_s, &waiter).await?;
        self.waiters.push(waiter);
        Ok(())
    }

    /// A payload or a reason, which says under which key it came.
    fn payload(&mut self) -> (String, &'static str) {
        self.sent += 1;
        let handler = if self.random.u8(0..4) == 0 { "reject" } else { "resolve" };
        (format!("{}#{}", self.key(), self.sent), handler)
    }

    fn completion(&mut self) -> Sent {
        let (payload, handler) = self.payload();
        let request = setup_call(&format!("Promises/{}", self.key()), handler, &payload);
        Sent { payload, request, by_id: false }
    }

    async fn complete_by_id(&mut self, setup: &PromisesSetup, id: &str) -> Result<()> {
        let (payload, handler) = self.payload();
        let target = |scope: &str| format!("PromiseIds/{scope}:{id}");
        let another = setup.send(setup_call(&target("umbrella:shop"), handler, "another's")).await?;
        ensure!(another.status == 404, "another tenant completes it: {}", another.text());
        let request = setup_call(&target(&format!("{}:{}", self.scope.0, self.scope.1)), handler, &payload);
        let reply = setup.send(request.clone()).await?;
        self.told(setup, Sent { payload, request, by_id: true }, reply).await
    }

    async fn told(&mut self, setup: &PromisesSetup, sent: Sent, reply: Reply) -> Result<()> {
        let Sent { payload, request, by_id } = sent;
        if self.random.u8(0..3) == 0 {
            let again = setup.send(request).await?;
            ensure!(again.header("idempotency-expires").is_some(), "not replayed: {again:?}");
            ensure!((again.status, &again.body) == (reply.status, &reply.body), "{} {}", reply.text(), again.text());
            self.seen.push("replayed");
        }
        match reply.status {
            200 => {
                let answer = reply.json();
                self.ids.extend(answer.get("id").and_then(Value::as_str).map(str::to_owned));
                self.completions.push((payload, answer));
                self.seen.extend(by_id.then_some("by id"));
                Ok(())
            }
            404 if by_id => {
                self.seen.push("by an old id");
                Ok(())
            }
            status => bail!("{status} {}", reply.text()),
        }
    }

    async fn judge(&mut self, setup: &PromisesSetup) -> Result<()> {
        let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
        let mut owners = 0;
        for waiter in &self.waiters {
            let reply = setup.purchased(waiter).await?;
            let what = outcome(&reply).with_context(|| waiter.clone())?;
            self.seen.push(what.name());
            match what {
                Outcome::Conflict(named) => {
                    let rest = named.get("prm_0123456789abcdef_".len()..).unwrap_or_default();
                    ensure!(!rest.is_empty() && self.ids.iter().all(|id| id.ends_with(rest)), "{named} is another's");
                }
                Outcome::Expired => owners += 1,
                Outcome::Resolved(payload) | Outcome::Rejected(payload) => {
                    owners += 1;
                    *arrived.entry(payload).or_default() += 1;
                }
            }
        }
        ensure!(owners > 0 || self.waiters.is_empty(), "nobody ever had the key");
        for (payload, answer) in &self.completions {
            let first = answer.get("first").and_then(Value::as_bool).with_context(|| format!("{answer}"))?;
            let times = arrived.remove(payload).unwrap_or_default();
            // Told to be the first: it has arrived, once. Told not to be: it has arrived nowhere.
            ensure!(times == usize::from(first), "{payload} was answered {answer} and arrived {times} times");
            self.seen.push(match (first, state(answer)) {
                (false, _) => "late",
                (true, "kept") => "kept",
                (true, _) => "at once",
            });
        }
        ensure!(arrived.is_empty(), "of another key, or from nowhere: {arrived:?}");
        Ok(())
    }
}

fn setup_call(object: &str, handler: &str, payload: &str) -> Request {
    let request = Request::post(&format!("/restate/call/{object}/{handler}"));
    request.header("idempotency-key", payload).json(&json!(payload))
}

fn state(found: &Value) -> &str {
    found.get("state").and_then(Value::as_str).unwrap_or_default()
}

enum Outcome {
    Resolved(String),
    Rejected(String),
    Expired,
    Conflict(String),
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Self::Resolved(_) => "resolved",
            Self::Rejected(_) => "rejected",
            Self::Expired => "expired",
            Self::Conflict(_) => "conflict",
        }
    }
}

fn outcome(reply: &Reply) -> Result<Outcome> {
    let body = reply.json();
    Ok(match reply.status {
        200 => Outcome::Resolved(text(&body, "event")?.to_owned()),
        500 => Outcome::Rejected(text(&body, "message")?.to_owned()),
        408 => Outcome::Expired,
        409 => {
            let message = text(&body, "message")?;
            let id = message.split([' ', ',']).find(|word| word.starts_with("prm_"));
            Outcome::Conflict(id.with_context(|| format!("it names nobody: {message}"))?.to_owned())
        }
        status => bail!("{status} {}", reply.text()),
    })
}
