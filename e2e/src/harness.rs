//! Running trials that share what is slow to start, and an end for every process they started.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Result, anyhow, bail};
use edge_idempotency_demo::process::still_running;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

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
}

/// Trials that share what `start` gives: it is there from the first that runs until the last has run.
pub fn sharing<T>(start: impl FnOnce() -> Result<T> + Send + 'static, tests: Vec<Test<T>>) -> Vec<Trial>
where
    T: Send + Sync + 'static,
{
    let shared =
        Arc::new(Shared { state: Mutex::new(State::New(Box::new(start))), left: AtomicUsize::new(tests.len()) });
    let trials = tests.into_iter().map(|test| {
        let shared = Arc::clone(&shared);
        Trial::test(test.name, move || shared.with(test.body).map_err(|error| format!("{error:#}").into()))
    });
    trials.collect()
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Tests that have not run.
    left: AtomicUsize,
}

enum State<T> {
    New(Box<dyn FnOnce() -> Result<T> + Send>),
    Running(Arc<T>),
    Failed(String),
    Done,
}

impl<T> Shared<T> {
    fn with(&self, test: impl FnOnce(&T) -> Result<()>) -> Result<()> {
        let result = self.running().and_then(|running| test(&running));
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Done;
        }
        result
    }

    fn running(&self) -> Result<Arc<T>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match std::mem::replace(&mut *state, State::Done) {
            State::New(start) => match start() {
                Ok(running) => State::Running(Arc::new(running)),
                Err(error) => State::Failed(format!("{error:#}")),
            },
            other => other,
        };
        match &*state {
            State::Running(running) => Ok(Arc::clone(running)),
            State::Failed(error) => bail!("what this test shares with others did not start: {error}"),
            State::New(_) | State::Done => bail!("what this test shares with others is gone"),
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
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    end_processes();
    conclusion.exit_code()
}

/// Child processes lead groups of their own, so that no signal to this one reaches them.
fn end_with_signals() -> Result<()> {
    for (kind, code) in [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143)] {
        runtime()?.spawn(async move {
            if let Ok(mut signals) = signal(kind)
                && signals.recv().await.is_some()
            {
                end_processes();
                std::process::exit(code);
            }
        });
    }
    Ok(())
}

/// Where a name filter left tests out, what they share was not dropped.
fn end_processes() {
    for process in still_running() {
        if let Err(error) = process.kill() {
            eprintln!("{error:#}");
        }
    }
}
