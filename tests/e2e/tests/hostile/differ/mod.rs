//! The standing adversary: random requests through Envoy with RBAC rules before the filter. Whatever the upstream got is held against
//! rules, and a request that is only framed otherwise has to arrive. Whom the filter lets in is proved without a gateway, by the model of
//! `crates/engine/tests/properties`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`api`] | routes, rules and listeners |
//! | [`case`] | a request, and how it stands on the wire |
//! | [`generate`] | a case's number to a case; [`paths`], [`hosts`], [`lines`], [`framing`] and [`tables`] mutate it |
//! | [`client`], [`upstream`] | who sends it, and who gets it |
//! | [`judge`] | what is wrong |
//! | [`report`] | counts and findings |
//! | [`outcomes`] | a line for each case, to compare two hosts |

mod api;
mod case;
mod client;
mod framing;
mod generate;
mod hosts;
mod judge;
mod lines;
mod outcomes;
mod paths;
mod random;
mod report;
mod tables;
mod upstream;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::runner::{Group, Test, sharing};
use harness::tokens::Signer;
use serde_json::json;

use api::{LISTENERS, Listener};
use case::Case;
use client::{CaseOutcome, Client, Tokens};
use outcomes::OutcomeLines;
use report::Report;
use upstream::Upstream;

/// What a run of the tests does without being told otherwise.
const CASES: u64 = 500;
/// So many cases are sent before those of the batch before are judged: what comes late is still found.
const BATCH: usize = 2_000;
/// Clients that send at the same time. So many, because Envoy closes a connection of HTTP/2 that was misused only after a
/// second, without a word.
const CLIENTS: usize = 128;

/// What `make hostile` says in the environment.
struct Settings {
    seed: u64,
    /// The numbers of the cases, in order.
    numbers: Vec<u64>,
    /// Where a line for each case goes.
    outcomes: Option<PathBuf>,
    /// Whether somebody watches.
    shown: bool,
}

impl Settings {
    fn read() -> Result<Self> {
        let set = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let parse = |name: &str, text: &str| text.parse::<u64>().with_context(|| format!("{name}={text} is no number"));
        let number = |name: &str| set(name).map(|text| parse(name, &text)).transpose();
        let only = set("HOSTILE_ONLY");
        let (seed, cases) = (number("HOSTILE_SEED")?.unwrap_or(1), number("HOSTILE_CASES")?);
        let shown = cases.is_some() || only.is_some();
        let numbers = match only {
            Some(list) => list.split(',').map(|text| parse("HOSTILE_ONLY", text)).collect::<Result<_>>()?,
            None => (0..cases.unwrap_or(CASES)).collect(),
        };
        Ok(Self { seed, numbers, outcomes: set("HOSTILE_OUTCOMES").map(PathBuf::from), shown })
    }
}

pub(crate) fn group() -> Group {
    let run = Test::new("adversary: random requests", |setup: &DifferentialSetup| setup.run());
    sharing(DifferentialSetup::start, vec![run])
}

struct DifferentialSetup {
    gateway: TestGateway,
    upstream: Upstream,
    tokens: Tokens,
    addresses: BTreeMap<Listener, SocketAddr>,
}

/// A case that was sent, and what came of it.
type SentCase = (Case, CaseOutcome);

impl DifferentialSetup {
    fn start() -> Result<Self> {
        let upstream = Upstream::start()?;
        let around = TestEnvironment { backend: Some(upstream.address()), ..TestEnvironment::default() };
        let spec = |listener: &Listener| (listener.name().to_owned(), listener.spec());
        let specs: Vec<_> = LISTENERS.iter().map(spec).collect();
        let gateway = TestGateway::start_within(&around, &specs)?;
        let addresses = LISTENERS.iter().map(|listener| Ok((*listener, gateway.address(listener.name())?)));
        let addresses = addresses.collect::<Result<_>>()?;
        let one = json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"});
        let other = json!({"tenant_id": "globex", "project_id": "shop", "sub": "u2"});
        let expired = json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1", "exp": 1_000_000_000});
        let tokens = Tokens {
            one: gateway.token(&one)?,
            other: gateway.token(&other)?,
            expired: gateway.token(&expired)?,
            forged: Signer::generate().mint(&one)?,
        };
        Ok(Self { gateway, upstream, tokens, addresses })
    }

    fn run(&self) -> Result<()> {
        let settings = Settings::read()?;
        if let ([number], None) = (settings.numbers.as_slice(), &settings.outcomes) {
            return self.one(settings.seed, *number);
        }
        let count = u64::try_from(settings.numbers.len())?;
        let start = Instant::now();
        let mut report = Report::new(settings.seed);
        let mut lines = settings.outcomes.map(OutcomeLines::to);
        let mut clients: Vec<Client<'_>> = (0..CLIENTS).map(|_| Client::new(&self.addresses, &self.tokens)).collect();
        let mut waiting: Vec<SentCase> = Vec::new();
        let mut told = 0;
        for numbers in settings.numbers.chunks(BATCH) {
            let judged = numbers.first().copied().unwrap_or_default();
            let sent = batch(&mut clients, settings.seed, numbers);
            self.judge(std::mem::replace(&mut waiting, sent), &mut report, &mut lines);
            self.after(judged, settings.seed, &mut report)?;
            if settings.shown {
                report.findings().iter().skip(told).for_each(|finding| eprintln!("{finding}"));
                told = report.findings().len();
                if report.cases() > 0 {
                    eprintln!("{}", report.progress(count, start.elapsed()));
                }
            }
        }
        drop(clients);
        self.settle()?;
        self.judge(waiting, &mut report, &mut lines);
        self.after(settings.numbers.last().copied().unwrap_or_default() + 1, settings.seed, &mut report)?;
        lines.map_or(Ok(()), |lines| lines.write())?;
        if settings.shown {
            report.findings().iter().skip(told).for_each(|finding| eprintln!("{finding}"));
            eprintln!("\n{}", report.summary(start.elapsed()));
        }
        ensure!(report.cases() == count, "{} cases were judged", report.cases());
        if report.disagreements() > 0 {
            bail!("{} disagreements, the first of them:\n{}", report.disagreements(), report.findings().join("\n"));
        }
        Ok(())
    }

    /// One case, and all there is to say about it.
    fn one(&self, seed: u64, number: u64) -> Result<()> {
        let case = generate::case(seed, number);
        let outcome = Client::new(&self.addresses, &self.tokens).send(&case);
        self.settle()?;
        let records = self.upstream.take(number);
        let wrong = judge::judge(&case, &outcome, &records);
        eprintln!("\n{}", report::told(&case, &outcome, &records, &wrong));
        let mut report = Report::new(seed);
        self.after(number + 1, seed, &mut report)?;
        ensure!(wrong.is_empty(), "a rule is broken");
        ensure!(report.disagreements() == 0, "{}", report.findings().join("\n"));
        Ok(())
    }

    fn judge(&self, sent: Vec<SentCase>, report: &mut Report, lines: &mut Option<OutcomeLines>) {
        for (case, outcome) in sent {
            let records = self.upstream.take(case.number);
            let wrong = judge::judge(&case, &outcome, &records);
            report.add(&case, &outcome, &records, &wrong);
            if let Some(lines) = lines {
                lines.add(&case, &outcome, &records);
            }
        }
    }

    /// What holds after every batch: nothing came that belongs to no case or to one that is judged, a plain request
    /// works on every listener, and nothing trapped.
    fn after(&self, judged: u64, seed: u64, report: &mut Report) -> Result<()> {
        for astray in self.upstream.astray() {
            report.find(format!("  the upstream got what belongs to no case, near case {judged}: {astray}"));
        }
        for late in self.upstream.late(judged.saturating_sub(u64::try_from(BATCH)?)) {
            let records = judge::shown_records(&self.upstream.take(late));
            report.find(format!("  after its judgement, make hostile SEED={seed} ONLY={late}:\n{records}"));
        }
        for listener in LISTENERS {
            let plain = generate::plain(listener);
            let outcome = Client::new(&self.addresses, &self.tokens).send(&plain);
            let records = self.upstream.take(plain.number);
            let wrong = judge::judge(&plain, &outcome, &records);
            if !wrong.is_empty() {
                let told = report::told(&plain, &outcome, &records, &wrong);
                report.find(format!("  near case {judged}, a plain request:\n{told}"));
            }
        }
        let log = self.gateway.log()?;
        if let Some(line) = log.lines().find(|line| line.contains("[critical]") || line.contains("panicked")) {
            report.find(format!("Envoy's log near case {judged}: {line}"));
        }
        Ok(())
    }

    /// Waits until no request is under way any more.
    fn settle(&self) -> Result<()> {
        self.gateway.until("no request is under way", |gateway| {
            Ok(gateway.stat("^http.gateway.downstream_rq_active$")? == 0
                && gateway.stat("^cluster.backend.*upstream_rq_active$")? == 0)
        })
    }
}

/// Sends the cases with these numbers, several at a time.
fn batch(clients: &mut [Client<'_>], seed: u64, numbers: &[u64]) -> Vec<SentCase> {
    let next = AtomicUsize::new(0);
    let sent = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let case = generate::case(seed, *number);
                    let outcome = client.send(&case);
                    sent.lock().unwrap_or_else(PoisonError::into_inner).push((case, outcome));
                }
            });
        }
    });
    sent.into_inner().unwrap_or_else(PoisonError::into_inner)
}
