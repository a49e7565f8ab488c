//! What a backend spends on the filter's account: CPU time of Restate and of the guard service for a claim, which is a fresh
//! call of a handler that does nothing, and for the same call again, which Restate answers from its store. `docs/operate.md`
//! computes with these numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harness::http::Request as Asked;
use harness::ports::{Ports, loopback, loopback_url};
use harness::process::Process;
use harness::restate::{Restate, RestateOptions};
use serde_json::{Value, json};

use crate::client::{Connections, Request};
use crate::statistics::Summary;

/// How many calls are under way at a time.
const CONNECTIONS: usize = 16;
/// How long a process may take to be ready.
const READY: Duration = Duration::from_secs(60);
/// Calls that warm up a new server, unmeasured.
const WARM_UP: usize = 2_000;
/// Calls of a turn.
const CALLS: usize = 6_000;
/// The guard's only handler.
const CLAIM: &str = "/restate/call/IdempotencyGuard/claim";
/// The numbers of partitions that are compared.
const PARTITIONS: [u16; 2] = [1, 8];

/// The programs that are measured.
pub(crate) struct BackendFiles {
    pub(crate) restate: PathBuf,
    pub(crate) guard: PathBuf,
}

/// What a kind of call costs the backend.
struct BackendCost {
    partitions: u16,
    what: &'static str,
    /// CPU time of Restate for each call, in µs
    restate: Summary,
    /// CPU time of the guard service for each call, in µs
    guard: Summary,
    /// Calls per second of a client with 16 connections
    rate: Summary,
}

/// One turn.
struct Sample {
    restate: f64,
    guard: f64,
    rate: f64,
}

/// Measures fresh and repeated claims, and prints a table. Returns the same as JSON.
pub(crate) fn measure(files: &BackendFiles, rounds: usize, run_dir: &Path) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut costs = Vec::new();
    for partitions in PARTITIONS {
        eprintln!("backend: {partitions} partitions, {rounds} rounds of {CALLS} calls");
        let directory = run_dir.join(format!("partitions-{partitions}"));
        fs::create_dir_all(&directory)?;
        let backend = runtime.block_on(Backend::start(files, partitions, &directory))?;
        costs.extend(backend.measure(partitions, rounds)?);
    }
    println!(
        "\n{:34} {:>10} {:>12} {:>12} {:>12}",
        "a call of the guard", "partitions", "Restate, µs", "guard, µs", "calls/s"
    );
    for BackendCost { partitions, what, restate, guard, rate } in &costs {
        let (restate, guard, rate) = (restate.median, guard.median, rate.median);
        println!("{what:34} {partitions:>10} {restate:12.0} {guard:12.0} {rate:12.0}");
    }
    Ok(costs
        .iter()
        .map(|cost| {
            json!({
                "call": cost.what, "partitions": cost.partitions, "restate_cpu_us": cost.restate.median,
                "guard_cpu_us": cost.guard.median, "calls_per_second": cost.rate.median,
            })
        })
        .collect())
}

/// A Restate that knows the guard service.
struct Backend {
    restate: Restate,
    guard: Process,
    ports: Ports,
}

impl Backend {
    async fn start(files: &BackendFiles, partitions: u16, directory: &Path) -> Result<Self> {
        let ports = Ports::free()?;
        let mut command = Command::new(&files.guard);
        command.arg("--listen").arg(loopback(ports.service).to_string());
        let guard = Process::spawn("the guard", &mut command, &directory.join("guard.log"))?;
        let options = RestateOptions {
            program: files.restate.clone(),
            run_dir: directory.to_owned(),
            ingress_port: ports.restate_ingress,
            admin_port: ports.restate_admin,
            node_port: ports.restate_node,
            env: vec![("RESTATE_DEFAULT_NUM_PARTITIONS".to_owned(), partitions.to_string())],
        };
        let mut backend = Self { restate: Restate::start(options).await?, guard, ports };
        let url = loopback_url(backend.ports.service);
        // The guard may still be about to listen.
        let restate = &mut backend.restate;
        let began = Instant::now();
        while let Err(error) = restate.register(&url).await {
            anyhow::ensure!(began.elapsed() < READY, "the guard cannot be registered: {error:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let claim = Asked::post(CLAIM).header("idempotency-key", "first").json(&json!("first"));
        let answer = claim.send(&backend.restate.ingress_url()).await?;
        anyhow::ensure!(answer.status == 200, "a claim is answered {}: {}", answer.status, answer.text());
        Ok(backend)
    }

    fn measure(&self, partitions: u16, rounds: usize) -> Result<[BackendCost; 2]> {
        let body = br#""1.raw.LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ""#;
        let length = body.len().to_string();
        let headers = [("host", "restate"), ("content-type", "application/json"), ("content-length", &length)];
        let request = Request::new("POST", CLAIM, headers).with_key().with_body(body);
        let mut fresh = Connections::open(self.ports.restate_ingress, CONNECTIONS, request.clone())?;
        fresh.send(WARM_UP)?;
        let (mut first, mut again) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            first.push(self.turn(&mut fresh)?);
            // Its keys begin anew, so every one of them was used before.
            let mut repeated = Connections::open(self.ports.restate_ingress, CONNECTIONS, request.clone())?;
            again.push(self.turn(&mut repeated)?);
        }
        let cost = |what, samples: &[Sample]| BackendCost {
            partitions,
            what,
            restate: Summary::of(samples.iter().map(|sample| sample.restate)),
            guard: Summary::of(samples.iter().map(|sample| sample.guard)),
            rate: Summary::of(samples.iter().map(|sample| sample.rate)),
        };
        Ok([cost("first claim of a key (a fresh call)", &first), cost("the same claim again (a replay)", &again)])
    }

    fn turn(&self, connections: &mut Connections) -> Result<Sample> {
        let (restate, guard) = (cpu(&self.restate.process)?, cpu(&self.guard)?);
        let began = Instant::now();
        connections.send(CALLS)?;
        let seconds = began.elapsed().as_secs_f64();
        let each = |used: f64| used * 1e6 / CALLS as f64;
        Ok(Sample {
            restate: each(cpu(&self.restate.process)? - restate),
            guard: each(cpu(&self.guard)? - guard),
            rate: CALLS as f64 / seconds,
        })
    }
}

/// The CPU time of all threads of a process so far, in seconds.
fn cpu(process: &Process) -> Result<f64> {
    /// The kernel's unit of `utime` and `stime` (proc_pid_stat(5)); 100 on every Linux of today.
    const TICKS: f64 = 100.0;
    let path = format!("/proc/{}/stat", process.record().pid);
    let line = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The second field is the program's name in parentheses; `utime` and `stime` are the fields 14 and 15.
    let fields = line.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).context("/proc has another form")?;
    let ticks: Option<u64> = fields.skip(11).take(2).map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks.context("/proc has another form")? as f64 / TICKS)
}
