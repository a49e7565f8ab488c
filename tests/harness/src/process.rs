//! Child processes: output to a log file, readiness by asking, and an end for certain.
//!
//! Each child leads a process group of its own, so that Ctrl-C in the terminal reaches this program only, which then ends the
//! whole group. A child is ended when its [`Process`] is dropped, unless it was [detached](Process::detach).

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _, stderr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// Between two questions whether a process is ready, or gone.
const POLL: Duration = Duration::from_millis(20);
/// How much of a log an error shows.
const TAIL_BYTES: u64 = 4_000;
/// How long a killed process may take to leave; more than the kernel ever needs.
const LEAVE: Duration = Duration::from_secs(10);

/// A running child and its log.
pub struct Process {
    child: Child,
    record: Record,
    detached: bool,
}

/// What is needed to find a process again from another program.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Record {
    /// What it is, for people.
    pub name: String,
    /// The process, and the group it leads.
    pub pid: i32,
    /// When it started, in the kernel's ticks: tells it from a later process of the same number. Absent without `/proc`.
    pub started: Option<u64>,
    /// Its standard output and error.
    pub log: PathBuf,
}

/// Every process that this program started, ended or not.
static SPAWNED: Mutex<Vec<Record>> = Mutex::new(Vec::new());

fn spawned() -> MutexGuard<'static, Vec<Record>> {
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The processes that this program started and that are still there.
pub fn still_running() -> Vec<Record> {
    spawned().iter().filter(|record| record.is_running()).cloned().collect()
}

/// Waits until a person or the system asks this program to end (SIGINT, SIGTERM, SIGHUP), and says which, in a word or two.
pub async fn interrupted() -> &'static str {
    let wait = async |kind| match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => "interrupted",
        () = wait(SignalKind::terminate()) => "terminated",
        () = wait(SignalKind::hangup()) => "hung up",
    }
}

impl Process {
    /// Starts `command` with standard output and error going to `log`, and no input.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", command.get_program().display()))?;
        let pid = i32::try_from(child.id()).context("a process id beyond the kernel's limit")?;
        let record = Record { name: name.to_owned(), pid, started: start_time(pid), log: log.to_owned() };
        spawned().push(record.clone());
        Ok(Self { child, record, detached: false })
    }

    /// How to find this process from another program.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The path of its log.
    pub fn log(&self) -> &Path {
        &self.record.log
    }

    /// Asks `probe` until it says yes. An error tells why not, with the end of the log: the process ended, or `deadline` passed.
    pub async fn ready(&mut self, deadline: Duration, probe: impl AsyncFn() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited()? {
                bail!("{} ended with {status} before it was ready; {}", self.record.name, self.tail());
            }
            match probe().await {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > deadline => {
                    bail!("{} was not ready within {deadline:?} ({error:#}); {}", self.record.name, self.tail())
                }
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// The exit status, if it has ended.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot ask for {}", self.record.name))
    }

    /// Ends the process and its group with SIGKILL, and waits until it is gone. Nothing to do if it has ended.
    pub fn kill(&mut self) -> Result<()> {
        self.record.signal_group(Signal::SIGKILL)?;
        self.child.wait().with_context(|| format!("cannot wait for {}", self.record.name))?;
        self.record.wait_until_gone()
    }

    /// Stops the process and its group where they are (SIGSTOP), until [`Process::resume`].
    pub fn pause(&self) -> Result<()> {
        self.record.signal_group(Signal::SIGSTOP)
    }

    /// Lets a paused process run on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.record.signal_group(Signal::SIGCONT)
    }

    /// Asks the process to end (SIGTERM), waits for `patience` at most, and then kills it. Returns whether it ended by itself.
    pub async fn terminate(&mut self, patience: Duration) -> Result<bool> {
        self.record.signal_group(Signal::SIGTERM)?;
        let start = Instant::now();
        while self.exited()?.is_none() {
            if start.elapsed() > patience {
                self.kill()?;
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill()?;
        Ok(true)
    }

    /// Lets the process run on when this value, and this program, end.
    pub fn detach(mut self) -> Record {
        self.detached = true;
        self.record.clone()
    }

    fn tail(&self) -> String {
        match tail(&self.record.log) {
            Ok(text) if text.trim().is_empty() => format!("its log is empty ({})", self.record.log.display()),
            Ok(text) => format!("the end of {}:\n{text}", self.record.log.display()),
            Err(error) => format!("its log {} cannot be read: {error}", self.record.log.display()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.detached
            && let Err(error) = self.kill()
        {
            // Nobody is left to hand an error to, and standard error may be closed.
            let _ = writeln!(stderr(), "{error:#}");
        }
    }
}

impl Record {
    /// Whether this very process, or another of its group, is still there.
    pub fn is_running(&self) -> bool {
        let same = match (self.started, start_time(self.pid)) {
            (Some(then), Some(now)) => then == now,
            // The leader is gone (or there is no /proc): the number cannot be another's while the group has members.
            _ => true,
        };
        same && group_exists(self.pid)
    }

    /// Ends it and its group, and waits until it is gone. Returns whether there was anything to end.
    pub fn kill(&self) -> Result<bool> {
        if !self.is_running() {
            return Ok(false);
        }
        self.signal_group(Signal::SIGKILL)?;
        self.wait_until_gone()?;
        Ok(true)
    }

    fn signal_group(&self, signal: Signal) -> Result<()> {
        match killpg(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("cannot send {signal} to {} (process {})", self.name, self.pid))
            }
        }
    }

    fn wait_until_gone(&self) -> Result<()> {
        let start = Instant::now();
        while group_exists(self.pid) {
            if start.elapsed() > LEAVE {
                bail!("{} (process {}) is still there after SIGKILL", self.name, self.pid);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Whether a group has a member that still runs; one that is only waiting to be collected does not count.
fn group_exists(group: i32) -> bool {
    if kill(Pid::from_raw(-group), None).is_err() {
        return false;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .any(|stat| stat.group == group && !matches!(stat.state, 'Z' | 'X'))
}

fn start_time(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

#[derive(Debug, PartialEq)]
struct Stat {
    state: char,
    group: i32,
    started: u64,
}

/// What the kernel tells of a process in `/proc/{pid}/stat`.
fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 3, 5 and 22 of proc(5); the second, the program's name, is in parentheses and may hold anything.
fn parse_stat(line: &str) -> Option<Stat> {
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        group: fields.nth(1)?.parse().ok()?,
        started: fields.nth(16)?.parse().ok()?,
    })
}

/// The end of a text file, from the start of a line.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.split_once('\n') {
        Some((_, rest)) if length > TAIL_BYTES => Ok(rest.to_owned()),
        _ => Ok(text),
    }
}
