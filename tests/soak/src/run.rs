//! One run: start, operations and faults, the check, the summary.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use harness::tools::Tools;
use tokio::task::JoinSet;

use crate::checker::{ClientObservation, Rule, Violation, check};
use crate::client::{Notes, RetryingClient};
use crate::faults::{FaultRecord, plan, strike};
use crate::operations::{CallerSecrets, Operation};
use crate::policy::Sabotage;
use crate::report::{RunSummary, progress};
use crate::system::{RunningSystem, SystemOptions};

/// Between two lines of progress.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// How long after the planned time the last operation may end.
const OVERTIME: Duration = Duration::from_secs(600);
const RESTATE_DATA: &str = harness::restate::DATA;
const OPENBAO_DATA: &str = "openbao-data";
/// What a log says when code has failed.
const COMPLAINTS: [&str; 4] = ["panicked", "failed: Uncaught", "[critical]", "segmentation fault"];

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The programs.
    pub tools: Tools,
    /// The program `idempotency-guard`.
    pub guard: PathBuf,
    /// Configurations, data and logs.
    pub directory: PathBuf,
    /// Restate nodes.
    pub nodes: usize,
    /// Logical operations, at least: clients go on as long as there are faults to come.
    pub operations: u64,
    /// Faults.
    pub faults: usize,
    /// Clients that work at the same time.
    pub clients: usize,
    /// The time over which operations and faults are spread.
    pub time: Duration,
    /// What operations and faults are made from.
    pub seed: u64,
    /// What is wrong on purpose.
    pub sabotage: Option<Sabotage>,
}

/// Runs, and gives what came of it. It has to run within a `LocalSet`.
pub async fn run(options: &RunOptions) -> Result<RunSummary> {
    let RunOptions { nodes, operations, faults, clients, time, seed, sabotage, .. } = options;
    println!(
        "soak: seed {seed}, {operations} operations of {clients} clients and {faults} faults in {} s, Restate nodes: {nodes}",
        time.as_secs()
    );
    let system = RunningSystem::start(&SystemOptions {
        tools: options.tools.clone(),
        guard: options.guard.clone(),
        directory: options.directory.clone(),
        nodes: *nodes,
        sabotage: *sabotage,
    })
    .await?;
    println!("everything is up; logs are in {}", options.directory.display());

    let system = Arc::new(system);
    let notes = Arc::new(Notes::begin());
    let record = Arc::new(FaultRecord::default());
    let observations: Arc<Mutex<Vec<ClientObservation>>> = Arc::default();
    let (next, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let over = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for _ in 0..*clients {
        let (system, notes, observations) = (system.clone(), notes.clone(), observations.clone());
        let (next, done, over) = (next.clone(), done.clone(), over.clone());
        let (operations, time, seed) = (*operations, *time, *seed);
        working.spawn(async move {
            let surroundings = CallerSecrets { tokens: &system.tokens, webhook_secret: &system.webhook_secret };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                // Clients go on as long as there are faults to come.
                if number >= operations && over.load(Ordering::Relaxed) {
                    return;
                }
                // Spread over the time; after an outage they come as fast as clients are free.
                let due = time.mul_f64(number as f64 / operations.max(1) as f64);
                tokio::time::sleep(due.saturating_sub(notes.elapsed())).await;
                let random = fastrand::Rng::with_seed(seed.rotate_left(17) ^ number);
                let mut client = RetryingClient { gateways: &system.gateways, notes: &notes, random };
                let seen = Operation::of(seed, number).run(&surroundings, &mut client).await;
                observations.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let striking = async {
        strike(system.clone(), plan(*seed, *faults, *time), notes.clone(), record.clone()).await?;
        over.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    let telling = async {
        loop {
            tokio::time::sleep(TOLD_EVERY).await;
            println!("{}", progress(&notes, &record, done.load(Ordering::Relaxed), *operations));
        }
    };
    let working = async {
        while let Some(ended) = working.join_next().await {
            ended.context("a client")?;
        }
        Ok(())
    };
    // A process that does not come back ends the run, whatever the clients do.
    let both = async { tokio::try_join!(working, striking) };
    tokio::select! {
        ended = tokio::time::timeout(*time + OVERTIME, both) => match ended {
            Ok(ended) => drop(ended?),
            Err(_) => {
                let (states, ended) = system.states();
                bail!("not done {} s after the planned end; {}; {}", OVERTIME.as_secs(), states.join(", "), ended.join(", "));
            }
        },
        () = telling => {}
    }
    let took = notes.elapsed();
    println!("{:>6.1} s  all operations and faults are done; reading the ledger", took.as_secs_f64());
    let ledger = system.ledger().await?;
    let observations = std::mem::take(&mut *observations.lock().unwrap_or_else(PoisonError::into_inner));
    let mut violations = check(&observations, &ledger);
    let (_, ended) = system.states();
    let crashed = record.died().into_iter().chain(ended).chain(complaints(&options.directory)?);
    violations.extend(crashed.map(|detail| Violation { rule: Rule::Crashed, detail }));
    let noted = notes.noted().clone();
    let summary = RunSummary {
        seed: *seed,
        kinds: (0..done.load(Ordering::Relaxed)).map(|number| Operation::of(*seed, number).kind).collect(),
        took,
        noted,
        struck: record.struck(),
        observations,
        ledger,
        violations,
    };
    summary.write(&options.directory)?;
    Ok(summary)
}

/// Lines in the logs that tell of code that failed: a panic, a trap of the filter's VM, a critical message of Envoy.
fn complaints(directory: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            // Data has files that are called logs, too.
            if !path.ends_with(RESTATE_DATA) && !path.ends_with(OPENBAO_DATA) {
                found.extend(complaints(&path)?);
            }
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8_lossy(&text);
            let complains = |line: &&str| COMPLAINTS.iter().any(|words| line.contains(words));
            found.extend(text.lines().filter(complains).map(|line| format!("{}: {line}", path.display())));
        }
    }
    Ok(found)
}
