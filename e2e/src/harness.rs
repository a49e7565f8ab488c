//! Running trials, and an end for every process they started.

use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Result;
use edge_idempotency_demo::process::still_running;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

/// For what is asynchronous, from tests that are not.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().enable_all().build());
    runtime.as_ref().map_err(|error| anyhow::anyhow!("no runtime: {error}"))
}

/// A trial whose error is shown with its causes, in one paragraph.
pub fn trial(name: impl Into<String>, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || test().map_err(|error| format!("{error:#}").into()))
}

/// Runs trials as `cargo test` expects it, and ends what they started: also when they are interrupted.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    if let Ok(runtime) = runtime() {
        runtime.spawn(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                end_processes();
                std::process::exit(130);
            }
        });
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    end_processes();
    conclusion.exit_code()
}

/// Trials hold what they share in places that are never dropped.
fn end_processes() {
    for process in still_running() {
        if let Err(error) = process.kill() {
            eprintln!("{error:#}");
        }
    }
}
