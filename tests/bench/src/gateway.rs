//! A running Envoy: when it is ready, what its worker threads have used, what it holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::dynamic_module::adapt;
use harness::ports::free;
use harness::process::Process;
use tokio::runtime::Builder;

use crate::client::{self, Reply};
use crate::config::{self, SEEN};
use crate::variant::Variant;

/// Compiling a dozen modules takes seconds on a busy machine.
const READY: Duration = Duration::from_secs(120);
/// Between two questions whether it is ready; what a measured start can be off by.
const POLL: Duration = Duration::from_millis(1);
/// The beginning of the names of worker threads.
const WORKER: &str = "wrk:worker_";

/// The socket in the run directory at which claims are answered.
pub(crate) const GUARD_SOCKET: &str = "guard.sock";

/// A running Envoy.
pub(crate) struct BenchGateway {
    process: Process,
    /// One for each variant, in their order.
    pub(crate) ports: Vec<u16>,
    /// From the program's start until the last listener answered.
    pub(crate) started_in: Duration,
}

impl BenchGateway {
    /// Starts Envoy with a listener for each variant, and waits until every one of them answers.
    pub(crate) fn start(envoy: &Path, variants: &[Variant], workers: u32, run_dir: &Path) -> Result<Self> {
        let ports = variants.iter().map(|_| free()).collect::<Result<Vec<u16>>>()?;
        let listeners: Vec<_> = variants.iter().zip(ports.iter().copied()).collect();
        let config = run_dir.join("envoy.json");
        let (stores, guard) = (run_dir.join("stores.sock"), run_dir.join(GUARD_SOCKET));
        let mut written = config::envoy(&listeners, &stores.to_string_lossy(), &guard.to_string_lossy());
        if variants.iter().any(|variant| variant.filter.is_dynamic_module()) {
            adapt(&mut written);
        }
        fs::write(&config, written.to_string()).with_context(|| format!("cannot write {}", config.display()))?;
        let mut command = Command::new(envoy);
        command.arg("--config-path").arg(&config).args(["--concurrency", &workers.to_string()]);
        command.args(["--disable-hot-restart", "--log-level", "warning"]);
        // Files that are replaced while Envoy runs are only read by a node with a name.
        command.args(["--service-node", "bench", "--service-cluster", "bench"]);
        let started = Instant::now();
        let process = Process::spawn("Envoy", &mut command, &run_dir.join("envoy.log"))?;
        let mut gateway = Self { process, ports, started_in: Duration::ZERO };
        for (variant, port) in listeners {
            let request = variant.kind.request();
            while client::ask(port, &request).is_err() {
                ensure!(gateway.process.exited()?.is_none(), "Envoy ended; its log:\n{}", gateway.log());
                ensure!(started.elapsed() < READY, "{} never answered; Envoy's log:\n{}", variant.name, gateway.log());
                thread::sleep(POLL);
            }
        }
        gateway.started_in = started.elapsed();
        Ok(gateway)
    }

    /// Asks Envoy to end, and waits until it has.
    pub(crate) fn end(mut self) -> Result<()> {
        let runtime = Builder::new_current_thread().enable_time().build().context("cannot make a runtime")?;
        let has_ended = runtime.block_on(self.process.terminate(READY))?;
        ensure!(has_ended, "Envoy did not end by itself; its log:\n{}", self.log());
        Ok(())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Whether a variant does to a request what it is there for, and refuses a key outside the grammar.
    pub(crate) fn check(&self, variant: &Variant, port: u16) -> Result<()> {
        let reply = client::ask(port, &variant.kind.request())?;
        ensure!(reply.status == 200, "{} answers {}", variant.name, reply.status);
        same(variant, &reply, SEEN, Some(&variant.seen(&client::key(0))))?;
        for (name, value) in variant.answer() {
            same(variant, &reply, name, *value)?;
        }
        if let Some((request, status)) = variant.refusal() {
            let reply = client::ask(port, &request)?;
            ensure!(reply.status == status, "{} answers {}, not {status}", variant.name, reply.status);
        }
        Ok(())
    }

    /// The CPU time that the worker threads have used so far. Nothing may be under way: the kernel brings a thread's
    /// account up to date when it stops.
    pub(crate) fn worker_cpu(&self) -> Result<Duration> {
        let accounts: Vec<PathBuf> = self.workers()?.into_iter().map(|worker| worker.join("schedstat")).collect();
        let read_one = |account: &PathBuf| -> Result<u64> {
            let line = fs::read_to_string(account).with_context(|| format!("cannot read {}", account.display()))?;
            let used: Option<u64> = line.split(' ').next().and_then(|field| field.parse().ok());
            used.with_context(|| format!("{}: {line}", account.display()))
        };
        let read = || -> Result<u64> { accounts.iter().map(read_one).sum() };
        let mut last = read()?;
        loop {
            thread::sleep(POLL);
            let now = read()?;
            if now == last {
                return Ok(Duration::from_nanos(now));
            }
            last = now;
        }
    }

    fn workers(&self) -> Result<Vec<PathBuf>> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process.record().pid));
        let entries = fs::read_dir(&tasks).with_context(|| format!("{}: this needs Linux", tasks.display()))?;
        let is_worker =
            |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(WORKER));
        let workers: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_worker).collect();
        ensure!(!workers.is_empty(), "Envoy has no thread {WORKER}…");
        Ok(workers)
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.record().pid);
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let kilobytes: Option<u64> = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
        Ok(kilobytes.with_context(|| format!("{path} has no VmRSS"))? * 1_024)
    }
}

fn same(variant: &Variant, reply: &Reply, name: &str, expected: Option<&str>) -> Result<()> {
    let got = reply.header(name);
    ensure!(got == expected, "{}: {name} is {got:?}, expected {expected:?}", variant.name);
    Ok(())
}
