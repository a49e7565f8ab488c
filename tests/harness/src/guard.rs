//! The filter's own service `IdempotencyGuard`, run as a program of its own (docs/backends.md).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpStream;

use crate::ports::{loopback, loopback_url};
use crate::process::Process;
use crate::tools::built;

const READY: Duration = Duration::from_secs(30);

/// A running guard. Restate does not know it until it is registered.
pub struct Guard {
    /// The process. Its log begins anew with each start.
    pub process: Process,
    options: GuardOptions,
}

/// How to run the guard.
#[derive(Clone, Debug)]
pub struct GuardOptions {
    /// The program `idempotency-guard`.
    pub program: PathBuf,
    /// The directory of the log `guard.log`. It has to exist.
    pub run_dir: PathBuf,
    /// Where Restate calls the handler.
    pub port: u16,
    /// How long a claim is kept, in the form of the program's option `--retention`.
    pub retention: String,
}

impl GuardOptions {
    /// The program that `EDGE_GUARD` names, or else the one beside the running program. Claims are kept for 170 hours.
    pub fn new(run_dir: &Path, port: u16) -> Result<Self> {
        let program = built("EDGE_GUARD", "idempotency-guard")?;
        Ok(Self { program, run_dir: run_dir.to_owned(), port, retention: "170h".to_owned() })
    }
}

impl Guard {
    /// Starts the guard and waits until it listens.
    pub async fn start(options: GuardOptions) -> Result<Self> {
        let mut process = spawn(&options)?;
        ready(&mut process, options.port).await?;
        Ok(Self { process, options })
    }

    /// Kills it as a crash would (if it still runs), then starts it again and waits until it listens.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = spawn(&self.options)?;
        ready(&mut self.process, self.options.port).await
    }

    /// Where Restate calls the handler.
    pub fn url(&self) -> String {
        loopback_url(self.options.port)
    }
}

fn spawn(options: &GuardOptions) -> Result<Process> {
    let mut command = Command::new(&options.program);
    command.args(["--listen", &loopback(options.port).to_string(), "--retention", &options.retention]);
    Process::spawn("the guard", &mut command, &options.run_dir.join("guard.log"))
}

async fn ready(process: &mut Process, port: u16) -> Result<()> {
    let listens = async || TcpStream::connect(loopback(port)).await.map(drop).context("it does not listen");
    process.ready(READY, listens).await
}
