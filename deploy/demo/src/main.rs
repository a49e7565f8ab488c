//! `demo`: plays the story, or leaves the stack running to try by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Parser, Subcommand};
use harness::process::{interrupted, still_running};
use harness::tools::{Tools, repository};

mod callers;
mod narrator;
mod story;
mod style;
mod table;
mod up;

/// Envoy with the edge-idempotency filter, in front of Restate and a sample service.
///
/// Ports are free ones; DEMO_PORT_GATEWAY, DEMO_PORT_ADMIN, DEMO_PORT_RESTATE_INGRESS, DEMO_PORT_RESTATE_ADMIN,
/// DEMO_PORT_RESTATE_NODE, DEMO_PORT_SERVICE, DEMO_PORT_LEDGER, DEMO_PORT_REGISTRY and DEMO_PORT_OPENBAO set them.
/// EDGE_HOST=dynamic-module runs the filter as a dynamic module. EDGE_WASM, EDGE_DYNAMIC_MODULE, EDGE_ENVOY, EDGE_RESTATE, EDGE_OPENBAO and
/// EDGE_DEMO_SERVICE name other programs.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Args, Default)]
struct StoryOptions {
    /// Take the gateway's configuration from `edge-idempotency render envoy`, not from deploy/demo/envoy.yaml. EDGE_CLI names the
    /// program; without it cargo builds it
    #[arg(long)]
    rendered: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Play the story: start everything, show what happens to each request, compare, stop everything (the default)
    Story(StoryOptions),
    /// Start everything, leave it running, and print commands to try
    Up,
    /// Stop what `up` started
    Down,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Options::parse().command.unwrap_or_else(|| Command::Story(StoryOptions::default()));
    let outcome = tokio::select! {
        outcome = run(command) => outcome,
        // By now `run` has been dropped, and with it every process that it had not let go.
        what = interrupted() => Err(anyhow!("{what}; {}", left_over())),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("\nerror: {error:#}");
        ExitCode::FAILURE
    })
}

/// Whether everything that was started has ended, in words.
fn left_over() -> String {
    match still_running().as_slice() {
        [] => "everything stopped, no process left".to_owned(),
        left => {
            let names: Vec<_> = left.iter().map(|record| format!("{} (process {})", record.name, record.pid)).collect();
            format!("STILL RUNNING: {}", names.join(", "))
        }
    }
}

async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Story(options) => story::run(&run_directory(), options.rendered).await,
        Command::Up => up::up(&run_directory()).await,
        Command::Down => up::down(&run_directory()),
    }
}

/// State of running stacks: `.run/` of the repository.
fn run_directory() -> PathBuf {
    repository().join(".run")
}

/// Finds the programs without holding up Ctrl-C: cargo may have to build one of them.
async fn tools() -> Result<Tools> {
    tokio::task::spawn_blocking(Tools::locate).await?
}
