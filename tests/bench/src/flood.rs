//! A flood of webhooks of 1 MiB, at the listener's buffer limit, beside a steady stream of other requests: what the stream
//! waits, and what Envoy holds in memory. The same flood comes to an Envoy that only buffers the bodies.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::delivery::{Sender, Size};
use crate::gateway::BenchGateway;
use crate::statistics::Summary;
use crate::steady::{self, Latencies};
use crate::variant;
use crate::{Files, Options};

/// Requests of the stream in a second.
const RATE: u32 = 200;
/// How long a stream lasts.
const LENGTH: Duration = Duration::from_secs(8);
/// Deliveries that are under way at a time.
const DELIVERIES: usize = 32;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(10);

/// What is measured.
struct Case {
    name: String,
    /// Our filter; Envoy's own, which buffers, if `None`
    module: Option<PathBuf>,
    sender: Sender,
    floods: bool,
}

/// What was measured in one stream.
struct Turn {
    latencies: Latencies,
    /// Deliveries in a second
    rate: f64,
    /// Resident memory before the flood, the most during it, and after it, in MiB
    memory: [f64; 3],
}

/// Measures all cases in turns and prints a table. Returns the same as JSON.
pub(crate) fn measure(files: &Files, options: &Options, run_dir: &Path) -> Result<Value> {
    let cases = cases(files, options);
    let turns = steady::in_turns("flood", options.rounds, LENGTH, &cases, |case| turn(files, case, run_dir))?;
    let title = format!("a keyed stream of {RATE}/s, ms");
    println!("\n{title:40}{} {:>12} {:>22}", steady::heads(), "deliveries/s", "MiB before/most/after");
    let mut report = Vec::new();
    for (case, turns) in cases.iter().zip(&turns) {
        let latencies = Latencies::median(&turns.iter().map(|turn| turn.latencies).collect::<Vec<_>>());
        let rate = Summary::of(turns.iter().map(|turn| turn.rate)).median;
        let [before, most, after] =
            [0, 1, 2].map(|place| Summary::of(turns.iter().filter_map(|turn| turn.memory.get(place).copied())).median);
        let memory = format!("{before:.0} / {most:.0} / {after:.0}");
        println!("{:40}{} {rate:12.0} {memory:>22}", case.name, latencies.columns());
        report.push(json!({
            "case": case.name, "latencies": latencies.to_json(), "deliveries_per_second": rate,
            "memory_mib": {"before": before, "most": most, "after": after},
        }));
    }
    Ok(report.into())
}

fn cases(files: &Files, options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let builds = [("ours".to_owned(), files.module.clone())].into_iter().chain(options.compare.iter().cloned());
    let builds: Vec<_> = builds.collect();
    let (header, json) = (Sender::Github, Sender::Stripe);
    for (build, module) in &builds {
        cases.push(Case {
            name: format!("{build}: no flood"),
            module: Some(module.clone()),
            sender: header,
            floods: false,
        });
    }
    cases.push(Case { name: "Envoy that buffers: flood".to_owned(), module: None, sender: header, floods: true });
    for (sender, place) in [(header, "id in a header"), (json, "id in JSON")] {
        for (build, module) in &builds {
            let name = format!("{build}: flood, {place}");
            cases.push(Case { name, module: Some(module.clone()), sender, floods: true });
        }
    }
    cases
}

fn turn(files: &Files, case: &Case, run_dir: &Path) -> Result<Turn> {
    let variant = variant::beside_deliveries(case.name.clone(), case.module.as_ref(), case.sender);
    let gateway = BenchGateway::start(&files.envoy, std::slice::from_ref(&variant), 1, run_dir)?;
    let port = *gateway.ports.first().context("no port")?;
    gateway.check(&variant, port)?;
    steady::stream(port, &variant.kind.request(), RATE, Instant::now(), LENGTH / 8)?;
    let before = mebibytes(&gateway)?;
    let (ended, delivered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let began = Instant::now();
    let (timed, most) = thread::scope(|scope| {
        let count = if case.floods { DELIVERIES } else { 0 };
        let senders: Vec<_> = (0..count).map(|_| scope.spawn(|| deliver(port, &ended, &delivered))).collect();
        let memory = scope.spawn(|| look(&gateway, &ended));
        let timed = steady::stream(port, &variant.kind.request(), RATE, began, LENGTH);
        ended.store(true, Ordering::SeqCst);
        for sender in senders {
            sender.join().unwrap_or_else(|_| Err(anyhow!("a sender panicked")))?;
        }
        let most = memory.join().unwrap_or_else(|_| Err(anyhow!("the looker panicked")))?;
        Ok::<_, anyhow::Error>((timed?, most))
    })?;
    let rate = delivered.load(Ordering::SeqCst) as f64 / began.elapsed().as_secs_f64();
    Ok(Turn { latencies: Latencies::of(&timed), rate, memory: [before, most, mebibytes(&gateway)?] })
}

/// Sends one delivery after the other until the stream has ended.
fn deliver(port: u16, ended: &AtomicBool, delivered: &AtomicUsize) -> Result<()> {
    let (mut connection, mut request) = (Connection::open(port)?, Size::Large.request());
    while !ended.load(Ordering::SeqCst) {
        connection.exchange(&mut request, 0).context("a delivery")?;
        delivered.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// The most memory until the stream has ended, in MiB.
fn look(gateway: &BenchGateway, ended: &AtomicBool) -> Result<f64> {
    let mut most: f64 = 0.0;
    while !ended.load(Ordering::SeqCst) {
        most = most.max(mebibytes(gateway)?);
        thread::sleep(LOOK);
    }
    Ok(most)
}

fn mebibytes(gateway: &BenchGateway) -> Result<f64> {
    Ok(gateway.resident()? as f64 / f64::from(1 << 20))
}
