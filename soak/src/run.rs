//! One run: start, operations and faults, the check, the summary.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use edge_idempotency_demo::tools::Tools;
use tokio::task::JoinSet;

use crate::checker::{ClientObservation, check};
use crate::client::{Notes, RetryingClient};
use crate::faults::{FaultRecord, plan, strike};
use crate::operations::{CallerSecrets, Operation};
use crate::policy::Sabotage;
use crate::report::{RunSummary, progress};
use crate::world::{World, WorldOptions};

/// Between two lines of progress.
const TOLD_EVERY: Duration = Duration::from_secs(5);

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
    /// Logical operations.
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
    let world = World::start(&WorldOptions {
        tools: options.tools.clone(),
        guard: options.guard.clone(),
        directory: options.directory.clone(),
        nodes: *nodes,
        sabotage: *sabotage,
    })
    .await?;
    println!("everything is up; logs are in {}", options.directory.display());

    let world = Arc::new(world);
    let notes = Arc::new(Notes::begin());
    let record = Arc::new(FaultRecord::default());
    let observations: Arc<Mutex<Vec<ClientObservation>>> = Arc::default();
    let (next, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut working = JoinSet::new();
    for _ in 0..*clients {
        let (world, notes, observations) = (world.clone(), notes.clone(), observations.clone());
        let (next, done) = (next.clone(), done.clone());
        let (operations, time, seed) = (*operations, *time, *seed);
        working.spawn(async move {
            let surroundings = CallerSecrets { tokens: &world.tokens, webhook_secret: &world.webhook_secret };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= operations {
                    return;
                }
                // Spread over the time; after an outage they come as fast as clients are free.
                let due = time.mul_f64(number as f64 / operations as f64);
                tokio::time::sleep(due.saturating_sub(notes.elapsed())).await;
                let random = fastrand::Rng::with_seed(seed.rotate_left(17) ^ number);
                let mut client = RetryingClient { gateways: &world.gateways, notes: &notes, random };
                let seen = Operation::of(seed, number).run(&surroundings, &mut client).await;
                observations.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let striking =
        tokio::task::spawn_local(strike(world.clone(), plan(*seed, *faults, *time), notes.clone(), record.clone()));
    let telling = {
        let (notes, record, done, operations) = (notes.clone(), record.clone(), done.clone(), *operations);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(TOLD_EVERY).await;
                println!("{}", progress(&notes, &record, done.load(Ordering::Relaxed), operations));
            }
        })
    };
    while let Some(ended) = working.join_next().await {
        ended.context("a client")?;
    }
    striking.await.context("the faults")??;
    telling.abort();
    let took = notes.elapsed();
    println!("{:>6.1} s  all operations and faults are done; reading the ledger", took.as_secs_f64());
    let ledger = world.ledger().await?;
    let observations = std::mem::take(&mut *observations.lock().unwrap_or_else(PoisonError::into_inner));
    let violations = check(&observations, &ledger);
    let noted = notes.noted().clone();
    let done = done.load(Ordering::Relaxed);
    Ok(RunSummary {
        seed: *seed,
        operations: done,
        took,
        noted,
        struck: record.struck(),
        observations,
        ledger,
        violations,
    })
}
