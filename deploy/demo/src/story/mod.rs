//! The story: everything is started, played against, compared and stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, id};
use std::time::Instant;

use anyhow::{Context as _, Result};
use harness::ports::Ports;
use harness::process::still_running;
use harness::restate::DATA;
use harness::stack::{Stack, StackOptions};
use harness::tools::built;

use crate::narrator::Narrator;
use crate::style::{Style, say};
use crate::table::Table;
use crate::{left_over, tools};

mod checks;
mod lookups;
mod operations;
mod own_api;
mod promises;
mod recovery;
mod scheduler;
mod steps;
mod webhooks;

const INTRODUCTION: &str = "\
What you are going to see: clients call an API through Envoy. Behind Envoy stands Restate, which runs each
(service, handler, idempotency key) once and gives a retry the stored result. It does not know whose key it is:
to Restate, the `refund-1001` of one customer and that of another are the same. The filter in Envoy gives every
key its owner, and sees to it that no other key gets through.";

/// Plays the story. Success means that everything was as expected and nothing was left running.
pub(crate) async fn run(run_directory: &Path, rendered: bool) -> Result<ExitCode> {
    let style = Style::detect();
    let directory = run_directory.join(format!("story-{}", id()));
    let mut remains = Remains { directory: directory.clone(), keep_logs: true };
    let start = Instant::now();
    say(INTRODUCTION);
    say("\npreparing the sample service");
    let renderer = if rendered { Some(renderer().await?) } else { None };
    let options =
        StackOptions { ports: Some(Ports::from_env()?), renderer, ..StackOptions::new(tools().await?, &directory) };

    let outcome = play(options, style).await;
    let logs = || format!("logs are in {}", directory.display());
    let table = outcome.with_context(|| format!("the story broke off ({}; {})", left_over(), logs()))?;

    say(format!("\n{}", table.render(style)));
    say(format!("{} ({:.1} s)", table.count(), start.elapsed().as_secs_f32()));
    if table.ok() {
        remains.keep_logs = false;
        Ok(ExitCode::SUCCESS)
    } else {
        say(logs());
        Ok(ExitCode::FAILURE)
    }
}

/// The command that makes configurations.
async fn renderer() -> Result<PathBuf> {
    tokio::task::spawn_blocking(|| built("EDGE_CLI", "edge-idempotency")).await?
}

/// Cleans up behind the story, however it ends: logs are of use if something went wrong, Restate's data is not.
struct Remains {
    directory: PathBuf,
    keep_logs: bool,
}

impl Drop for Remains {
    fn drop(&mut self) {
        let waste = if self.keep_logs { self.directory.join(DATA) } else { self.directory.clone() };
        // What is not there, because the story ended before it was made, need not be removed.
        let _ = fs::remove_dir_all(waste);
    }
}

async fn play(options: StackOptions, style: Style) -> Result<Table> {
    let stack = Stack::start(options, &|progress| say(progress)).await?;
    say(format!("ready; $GATEWAY is {}, $ALICE and so on are tokens", stack.gateway_url()));
    let mut narrator = Narrator::new(&stack, style);
    let told = steps::tell(&mut narrator).await;
    let mut table = narrator.table;
    if let Err(error) = told {
        // What has been seen so far helps to find out why.
        say(format!("\n{}", table.render(style)));
        return Err(error);
    }
    stack.stop()?;
    table.step("Everything is stopped");
    table.check("processes left", 0, still_running().len());
    Ok(table)
}
