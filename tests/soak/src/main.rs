//! `soak`: runs, tells, and ends with 1 if a rule was broken.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Parser, Subcommand};
use harness::private;
use harness::process::interrupted;
use harness::tools::{Tools, built, repository};
use soak::policy::Sabotage;
use soak::run::{RunOptions, run};
use tokio::task::LocalSet;

/// A file in a directory that a soak has made.
const MARK: &str = "soak.lock";

/// Runs operations through two Envoys with the filter, a cluster of Restate nodes, services and a secret store, while each of them is
/// killed, paused and restarted; and checks what happened (docs/operate.md).
///
/// EDGE_HOST, EDGE_WASM, EDGE_DYNAMIC_MODULE, EDGE_ENVOY, EDGE_RESTATE, EDGE_OPENBAO and EDGE_GUARD name other programs.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Logical operations, at least: clients go on as long as there are faults to come
    #[arg(long, default_value_t = 2000)]
    operations: u64,
    /// Faults
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// What operations and faults are made from; any number if it is left out
    #[arg(long)]
    seed: Option<u64>,
    /// Restate nodes
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Clients that work at the same time
    #[arg(long, default_value_t = 48)]
    clients: usize,
    /// The time over which operations and faults are spread; 8 for each fault if it is left out
    #[arg(long)]
    seconds: Option<u64>,
    /// Where configurations, data and logs go: an empty directory, or one of an earlier run, which is removed
    #[arg(long)]
    directory: Option<PathBuf>,
    /// A set-up that is wrong on purpose: the check has to find it
    #[arg(long)]
    sabotage: Option<Sabotage>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the services that have the effects (the soak starts them by itself)
    Service {
        /// Where Restate calls them
        #[arg(long)]
        listen: SocketAddr,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let local = LocalSet::new();
    let outcome = match options.command {
        Some(Command::Service { listen }) => soak::service::serve(listen).await.map(|()| true),
        None => tokio::select! {
            outcome = local.run_until(soak(options)) => outcome,
            // Every process ends with the runtime that holds it.
            what = interrupted() => Err(anyhow!("{what}")),
        },
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether no rule was broken.
async fn soak(options: Options) -> Result<bool> {
    let directory = options.directory.unwrap_or_else(|| repository().join("target/soak"));
    // Held until the end: two runs would take each other's files.
    let _mine = take(&directory)?;
    let least = if options.faults == 0 { options.operations / 50 + 1 } else { options.faults as u64 * 8 };
    let (tools, guard) = tokio::task::spawn_blocking(|| {
        let tools = Tools::locate_with(|| std::env::current_exe().context("this program"))?;
        anyhow::Ok((tools, built("EDGE_GUARD", "idempotency-guard")?))
    })
    .await??;
    let summary = run(&RunOptions {
        tools,
        guard,
        directory: directory.clone(),
        nodes: options.nodes.max(1),
        operations: options.operations,
        faults: options.faults,
        clients: options.clients.max(1),
        time: Duration::from_secs(options.seconds.unwrap_or(least)),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
        sabotage: options.sabotage,
    })
    .await?;
    print!("{summary}");
    let gaps = summary.gaps();
    if summary.is_right() && options.sabotage.is_none() && !gaps.is_empty() {
        bail!("the run is too small to say anything: {}", gaps.join("; "));
    }
    Ok(summary.is_right())
}

/// Empties a directory of an earlier run, or makes it. Anybody else's is left alone.
fn take(directory: &Path) -> Result<File> {
    let mark = directory.join(MARK);
    private::create_folder(directory)?;
    let empty =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?.next().is_none();
    ensure!(empty || mark.exists(), "{} is not empty, and no soak has made it", directory.display());
    let file = File::create(&mark).with_context(|| format!("cannot write {}", mark.display()))?;
    ensure!(file.try_lock().is_ok(), "another soak is at work in {}", directory.display());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path != mark {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(file)
}
