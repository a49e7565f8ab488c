//! Running trials that share what is slow to start, and an end for every process they started.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use edge_idempotency_demo::process::still_running;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::wire::PATIENCE;

/// For what is asynchronous, from tests that are not.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().enable_all().build());
    runtime.as_ref().map_err(|error| anyhow!("no runtime: {error}"))
}

type Body<T> = Box<dyn FnOnce(&T) -> Result<()> + Send>;

/// A test, and its name.
pub struct Test<T> {
    name: String,
    body: Body<T>,
}

impl<T> Test<T> {
    /// A test of something shared.
    pub fn new(name: impl Into<String>, body: impl FnOnce(&T) -> Result<()> + Send + 'static) -> Self {
        Self { name: name.into(), body: Box::new(body) }
    }

    /// The same test, within a group of this name.
    #[must_use]
    pub fn within(self, group: &str) -> Self {
        Self { name: format!("{group}::{}", self.name), ..self }
    }
}

/// Trials that share what `start` gives: it is there from the first that runs, and dropped with the last.
pub fn sharing<T>(start: impl FnOnce() -> Result<T> + Send + 'static, tests: Vec<Test<T>>) -> Vec<Trial>
where
    T: Send + Sync + 'static,
{
    let shared = Arc::new(Mutex::new(Shared::New(Box::new(start))));
    let trials = tests.into_iter().map(|Test { name, body }| {
        let shared = Arc::clone(&shared);
        Trial::test(name, move || {
            let result = Shared::running(&shared).and_then(|running| body(&running));
            result.map_err(|error| format!("{error:#}").into())
        })
    });
    trials.collect()
}

enum Shared<T> {
    New(Box<dyn FnOnce() -> Result<T> + Send>),
    Running(Arc<T>),
    Failed(String),
}

impl<T> Shared<T> {
    fn running(shared: &Mutex<Self>) -> Result<Arc<T>> {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = match std::mem::replace(&mut *shared, Self::Failed("it panicked".to_owned())) {
            Self::New(start) => match start() {
                Ok(running) => Self::Running(Arc::new(running)),
                Err(error) => Self::Failed(format!("{error:#}")),
            },
            other => other,
        };
        match &*shared {
            Self::Running(running) => Ok(Arc::clone(running)),
            Self::Failed(error) => bail!("what this test shares with others did not start: {error}"),
            Self::New(_) => bail!("what this test shares with others did not start"),
        }
    }
}

/// Runs trials as `cargo test` expects it, and ends what they started: also when they are interrupted.
pub fn run(trials: Result<Vec<Trial>>) -> ExitCode {
    let trials = match trials {
        Ok(trials) => trials,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = end_with_signals() {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Child processes lead groups of their own, so that no signal to this one reaches them.
fn end_with_signals() -> Result<()> {
    for (kind, code) in [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143)] {
        runtime()?.spawn(async move {
            if let Ok(mut signals) = signal(kind)
                && signals.recv().await.is_some()
            {
                still_running().iter().for_each(|process| drop(process.kill()));
                std::process::exit(code);
            }
        });
    }
    Ok(())
}

/// Asks `so` every `poll` until it is so, for [`PATIENCE`] at most. `what` is for the error.
pub fn until(what: &str, poll: Duration, so: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !so()? {
        ensure!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(poll);
    }
    Ok(())
}

/// As [`until`], for what is asynchronous.
pub async fn until_async(what: &str, poll: Duration, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !so().await? {
        ensure!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(poll).await;
    }
    Ok(())
}
