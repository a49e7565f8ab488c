//! What a reload costs the requests under way: a steady stream while the filter's configuration is replaced by ECDS, beside
//! the same stream while nothing is replaced. `docs/operate.md` says what the numbers mean.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use harness::dynamic_module::adapt;
use serde_json::{Value, json};

use crate::client;
use crate::gateway::BenchGateway;
use crate::statistics::Summary;
use crate::steady::{self, Latencies, Timed};
use crate::variant::{self, malformed};
use crate::{Files, Options, config, policy};

/// Requests in a second.
const RATE: u32 = 1_000;
/// How long a stream lasts.
const LENGTH: Duration = Duration::from_secs(10);
/// Between two swaps.
const INTERVAL: Duration = Duration::from_secs(1);
/// Swaps without a stream, of which the CPU time is measured.
const QUIET_SWAPS: u32 = 5;
/// How long the other workers, and what is left of the old policy, may take after a swap is in force.
const SETTLED: Duration = Duration::from_millis(300);
/// Between two questions whether a swap is in force.
const POLL: Duration = Duration::from_millis(20);

/// What is measured.
#[derive(Clone)]
struct Case {
    /// The build of the module
    build: String,
    module: PathBuf,
    workers: u32,
    routes: usize,
    swaps: bool,
}

/// What was measured in one stream.
struct Turn {
    latencies: Latencies,
    /// The longest latency that begins in each swap's interval, in ms
    stalls: Vec<f64>,
    /// From each move of the file until the new policy answers, in ms
    in_force: Vec<f64>,
    /// The CPU time of a swap on one worker without requests, in ms
    cpu: Vec<f64>,
}

/// Measures all cases in turns and prints a table. Returns the same as JSON.
pub(crate) fn measure(files: &Files, options: &Options, run_dir: &Path) -> Result<Value> {
    let cases = cases(files, options);
    let turns = steady::in_turns("reload", options.rounds, LENGTH, &cases, |case| turn(files, case, run_dir))?;
    println!(
        "\n{:30} {:>7}{} {:>9} {:>15} {:>9} {:>10}",
        format!("a stream of {RATE}/s, ms"),
        "workers",
        steady::heads(),
        "of a swap",
        "middle half",
        "in force",
        "worker CPU"
    );
    let mut report = Vec::new();
    for (case, turns) in cases.iter().zip(&turns) {
        let latencies = Latencies::median(&turns.iter().map(|turn| turn.latencies).collect::<Vec<_>>());
        let stall = Summary::of(turns.iter().flat_map(|turn| turn.stalls.iter().copied()));
        let in_force = Summary::of(turns.iter().flat_map(|turn| turn.in_force.iter().copied()));
        let cpu = Summary::of(turns.iter().flat_map(|turn| turn.cpu.iter().copied()));
        let swap = if case.swaps {
            let half = format!("{:.1} – {:.1}", stall.lower_quartile, stall.upper_quartile);
            format!(" {:9.1} {half:>15} {:9.0} {:10.1}", stall.median, in_force.median, cpu.median)
        } else {
            String::new()
        };
        println!("{:30} {:>7}{}{swap}", case.name(), case.workers, latencies.columns());
        report.push(json!({
            "build": case.build, "routes": case.routes, "workers": case.workers, "swaps": case.swaps,
            "latencies": latencies.to_json(), "longest_of_a_swap_ms": case.swaps.then_some(stall.median),
            "in_force_ms": case.swaps.then_some(in_force.median),
            "worker_cpu_ms": case.swaps.then_some(cpu.median),
        }));
    }
    Ok(report.into())
}

impl Case {
    fn name(&self) -> String {
        let swaps = if self.swaps { "swaps" } else { "no swap" };
        format!("{}: {} routes, {swaps}", self.build, self.routes)
    }
}

fn cases(files: &Files, options: &Options) -> Vec<Case> {
    let builds = [("ours".to_owned(), files.module.clone())].into_iter().chain(options.compare.iter().cloned());
    let builds: Vec<_> = builds.collect();
    let mut cases = Vec::new();
    for workers in [1, 2] {
        for (routes, swaps) in [(10, false), (10, true), (10_000, false), (10_000, true)] {
            for (build, module) in &builds {
                cases.push(Case { build: build.clone(), module: module.clone(), workers, routes, swaps });
            }
        }
    }
    cases
}

fn turn(files: &Files, case: &Case, run_dir: &Path) -> Result<Turn> {
    let file = run_dir.join("discovered.json");
    put(&file, case, 0)?;
    let variant = variant::discovered(case.name(), file.clone());
    let gateway = BenchGateway::start(&files.envoy, std::slice::from_ref(&variant), case.workers, run_dir)?;
    let port = *gateway.ports.first().context("no port")?;
    gateway.check(&variant, port)?;
    // The first requests of a VM are slower, and belong to no swap.
    steady::stream(port, &variant.kind.request(), RATE, Instant::now(), INTERVAL)?;
    let began = Instant::now();
    let (timed, swapped) = thread::scope(|scope| {
        let stream = scope.spawn(|| steady::stream(port, &variant.kind.request(), RATE, began, LENGTH));
        let swapped = if case.swaps { swap(&file, case, port, began) } else { Ok(Vec::new()) };
        let timed = stream.join().unwrap_or_else(|_| Err(anyhow!("a client panicked")))?;
        Ok::<_, anyhow::Error>((timed, swapped?))
    })?;
    let stalls = swapped.iter().map(|(at, _)| longest(&timed, *at)).collect();
    let in_force = swapped.iter().map(|(_, took)| took.as_secs_f64() * 1e3).collect();
    let cpu = if case.swaps { cpu_of_swaps(&gateway, &file, case, port)? } else { Vec::new() };
    Ok(Turn { latencies: Latencies::of(&timed), stalls, in_force, cpu })
}

/// What some swaps cost a worker while there are no requests, each in ms.
fn cpu_of_swaps(gateway: &BenchGateway, file: &Path, case: &Case, port: u16) -> Result<Vec<f64>> {
    // Numbers that the stream's swaps have not used.
    let numbers = 1_000..1_000 + QUIET_SWAPS;
    let one = |number| {
        let next = prepare(file, case, number)?;
        let before = gateway.worker_cpu()?;
        fs::rename(&next, file).context("the file cannot be moved")?;
        wait_for(number, port)?;
        thread::sleep(SETTLED);
        Ok((gateway.worker_cpu()? - before).as_secs_f64() * 1e3 / f64::from(case.workers))
    };
    numbers.map(one).collect()
}

/// The longest latency of requests from `at` until the next swap, in ms. A request that was sent shortly before has waited
/// no longer than these.
fn longest(timed: &[Timed], at: Duration) -> f64 {
    let of_swap = timed.iter().filter(|one| (at..at + INTERVAL).contains(&one.at));
    of_swap.map(|one| one.latency.as_secs_f64() * 1e3).fold(0.0, f64::max)
}

/// Swaps the policy once each interval; returns when, and how long each took until it was in force.
fn swap(file: &Path, case: &Case, port: u16, began: Instant) -> Result<Vec<(Duration, Duration)>> {
    let mut swapped = Vec::new();
    for number in 1.. {
        let at = INTERVAL * number - INTERVAL / 2;
        if at + INTERVAL > LENGTH {
            break;
        }
        let next = prepare(file, case, number)?;
        thread::sleep(at.saturating_sub(began.elapsed()));
        let at = began.elapsed();
        fs::rename(&next, file).context("the file cannot be moved")?;
        wait_for(number, port)?;
        swapped.push((at, began.elapsed().saturating_sub(at)));
    }
    Ok(swapped)
}

/// Waits until policy number `number` answers.
fn wait_for(number: u32, port: u16) -> Result<()> {
    let began = Instant::now();
    let expected = format!("<{}>; rel=\"describedby\"", docs_url(number));
    while client::ask(port, &malformed())?.header("link") != Some(&*expected) {
        ensure!(began.elapsed() < 10 * INTERVAL, "policy {number} is not in force");
        thread::sleep(POLL);
    }
    Ok(())
}

fn put(file: &Path, case: &Case, number: u32) -> Result<()> {
    fs::rename(prepare(file, case, number)?, file).context("the file cannot be moved")
}

/// Writes policy number `number` beside the file.
fn prepare(file: &Path, case: &Case, number: u32) -> Result<PathBuf> {
    let mut policy = policy::whole(case.routes);
    let members = policy.as_object_mut();
    members.context("no policy")?.insert("docs_url".to_owned(), docs_url(number).into());
    let next = file.with_extension("next");
    let mut resources = config::discovered(&case.module, &policy);
    adapt(&mut resources);
    fs::write(&next, resources.to_string()).with_context(|| format!("cannot write {}", next.display()))?;
    Ok(next)
}

/// What tells one policy from the next: errors link to it.
fn docs_url(number: u32) -> String {
    format!("https://developers.example.com/idempotency?policy={number}")
}
