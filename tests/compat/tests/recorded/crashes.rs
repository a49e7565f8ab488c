//! Programs that are killed while calls are under way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, separate, until};
use harness::ports::loopback;

use super::setup::{Part, Recorded, Shape};
use super::{POLL, is_problem};

/// `EDGE_RECORDED_OPERATIONS`: how many operations there are while programs are killed.
const OPERATIONS: usize = 400;
const CLIENTS: usize = 50;
/// How often a program is killed meanwhile.
const KILLS: usize = 12;
/// What is killed in turn; the next node of Restate each time.
const PARTS: [Part; 4] = [Part::Recorder, Part::Api, Part::Restate(0), Part::Gateway];
/// The same where Restate is a cluster.
const OF_CLUSTER: [Part; 6] =
    [Part::Restate(0), Part::Recorder, Part::Restate(1), Part::Api, Part::Restate(2), Part::Gateway];

pub(super) fn group() -> Group {
    let one = |name: &str, test: fn() -> Result<()>| Test::new(name.to_owned(), move |(): &()| test());
    separate(vec![
        one("a call that was cut has an unknown outcome", || cut("fail")),
        one("with retry a call that was cut runs again", || cut("retry")),
        one("programs are killed in turn, with fail", || killed("fail", 1, &PARTS)),
        one("programs are killed in turn, with retry", || killed("retry", 1, &PARTS)),
        one("programs and nodes of a cluster are killed in turn, with fail", || killed("fail", 3, &OF_CLUSTER)),
        one("programs and nodes of a cluster are killed in turn, with retry", || killed("retry", 3, &OF_CLUSTER)),
    ])
}

pub(super) fn side_by_side<T: Send>(count: usize, send: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (start, send) = (Barrier::new(count), &send);
    thread::scope(|scope| {
        let start = &start;
        let one = |number| {
            scope.spawn(move || {
                start.wait();
                send(number)
            })
        };
        let clients: Vec<_> = (0..count).map(one).collect();
        clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?).collect()
    })
}

/// The recorder is killed while the API works, then the API itself.
fn cut(on_unknown: &'static str) -> Result<()> {
    let setup = Recorded::start(&Shape { on_unknown, nodes: 1, elsewhere: false })?;
    for (item, part) in [("cut-recorder", Part::Recorder), ("cut-api", Part::Api)] {
        let effect = format!("POST /orders/{item}");
        let target = format!("/orders/{item}?hold=1");
        let request = setup.request("POST", &target)?.header("idempotency-key", item).body("{}");
        thread::scope(|scope| {
            let lost = scope.spawn(|| setup.send(&request));
            until("the API works", POLL, || Ok(setup.effects(&effect)? == 1))?;
            setup.crash(part, || Ok(()))?;
            if on_unknown == "retry" {
                until("the API works again", POLL, || Ok(setup.effects(&effect)? >= 2))?;
                let release = Request::new("GET", "/release");
                raw::exchange(loopback(setup.ports.api), "GET", &release.http1())?;
            }
            lost.join().map_err(|_| anyhow!("a client panicked"))?.map(drop)
        })?;
        for _ in 0..2 {
            let reply = settled(&setup, &request)?;
            match on_unknown {
                "fail" => is_problem(&reply, 500, "outcome_unknown", "never")?,
                _ => ensure!(reply.status == 200, "{reply:?}"),
            }
        }
        ensure!(setup.effects(&effect)? == if on_unknown == "fail" { 1 } else { 2 }, "{:?}", setup.effects(&effect));
    }
    Ok(())
}

/// Sends a request until the answer is no more that of a gateway, a recorder or a Restate that is away.
fn settled(setup: &Recorded, request: &Request) -> Result<Reply> {
    let last = Mutex::new(None);
    until("the request has an answer", POLL, || {
        let Ok(reply) = setup.send(request) else { return Ok(false) };
        let is_away = matches!(reply.status, 502..=504);
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        Ok(!is_away)
    })?;
    last.into_inner().unwrap_or_else(PoisonError::into_inner).context("no answer")
}

fn killed(on_unknown: &'static str, nodes: usize, parts: &'static [Part]) -> Result<()> {
    let operations =
        std::env::var("EDGE_RECORDED_OPERATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(OPERATIONS);
    let setup = &Recorded::start(&Shape { on_unknown, nodes, elsewhere: false })?;
    let (next, done) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let kills = (1..=KILLS).map(|kill| kill * operations / (KILLS + 1));
    let (answers, led) = thread::scope(|scope| {
        // Each operation may take its time, not all of them together.
        let reached = |what: &str, goal: usize| -> Result<()> {
            for count in done.load(Ordering::Relaxed)..goal {
                until(what, POLL, || Ok(done.load(Ordering::Relaxed) > count))?;
            }
            Ok(())
        };
        let killer = scope.spawn(move || -> Result<u32> {
            let mut led = 0;
            for (at, part) in kills.zip(parts.iter().copied().cycle()) {
                reached("operations are done", at)?;
                if let Part::Restate(node) = part {
                    led += setup.led()?.get(node).context("there is no such node")?;
                }
                // A node is away until an operation has begun and ended without it: each client has one under way.
                setup.crash(part, || {
                    let goal = done.load(Ordering::Relaxed) + CLIENTS + 1;
                    reached("operations are done without a node", goal.min(operations))
                })?;
            }
            Ok(led)
        });
        let answers = side_by_side(CLIENTS, |_| {
            let mut answers = BTreeMap::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= operations {
                    return Ok(answers);
                }
                let item = format!("k{number}");
                let request =
                    setup.request("POST", &format!("/orders/{item}"))?.header("idempotency-key", item.as_str());
                let first = settled(setup, &request.body("{}"))?;
                let request =
                    setup.request("POST", &format!("/orders/{item}"))?.header("idempotency-key", item.as_str());
                let again = settled(setup, &request.body("{}"))?;
                ensure!(
                    (first.status, &first.body) == (again.status, &again.body),
                    "{item}: {first:?}, then {again:?}"
                );
                done.fetch_add(1, Ordering::Relaxed);
                answers.insert(item, first);
            }
        });
        let led = killer.join().map_err(|_| anyhow!("the killer panicked"))??;
        ensure!(led > 0, "no node that was killed led a partition");
        anyhow::Ok((answers?, led))
    })?;
    let answers: BTreeMap<String, Reply> = answers.into_iter().flatten().collect();
    ensure!(answers.len() == operations, "{} operations have an answer", answers.len());
    let (mut unknown, all_effects) = (0, setup.all_effects()?);
    for (item, reply) in &answers {
        let effects = all_effects.get(&format!("POST /orders/{item}")).copied().unwrap_or_default();
        if reply.status == 200 {
            ensure!(effects == 1 || effects > 1 && on_unknown == "retry", "{item}: {effects} effects and {reply:?}");
        } else {
            is_problem(reply, 500, "outcome_unknown", "never")?;
            ensure!(on_unknown == "fail" && effects <= 1, "{item}: {effects} effects and {reply:?}");
            unknown += 1;
        }
    }
    println!(
        "{operations} operations, {KILLS} kills, {led} partitions without their leader, {unknown} unknown outcomes"
    );
    Ok(())
}
