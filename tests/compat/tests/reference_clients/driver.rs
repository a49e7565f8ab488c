//! The drivers of clients/DRIVER.md: how they are started, and what they tell.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::runner::long;
use harness::process::Process;
use harness::tools::repository;
use serde::Deserialize;
use serde_json::json;

use super::model::Plan;

/// A reference client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceClient {
    pub(super) name: &'static str,
    /// Its driver, in `EDGE_CLIENTS`.
    driver: &'static str,
    /// The driver's setting of this name.
    http: Option<&'static str>,
    /// Whether only `make test-long` runs it.
    is_long: bool,
    /// Whether it runs in a browser, which sends six requests at once to one host, and none past CORS.
    pub(super) is_browser: bool,
}

const fn client(name: &'static str, driver: &'static str) -> ReferenceClient {
    ReferenceClient { name, driver, http: None, is_long: false, is_browser: false }
}

/// The Python client with another HTTP library than `httpx.Client`.
const fn python(name: &'static str, http: &'static str) -> ReferenceClient {
    ReferenceClient { http: Some(http), is_long: true, ..client(name, "python/driver") }
}

/// All of them.
pub(super) const CLIENTS: [ReferenceClient; 7] = [
    ReferenceClient { is_browser: true, ..client("chromium", "typescript/driver-chromium") },
    client("jvm", "jvm/driver"),
    client("typescript", "typescript/driver"),
    client("python", "python/driver"),
    client("go", "go/driver"),
    python("python-requests", "requests"),
    python("python-httpx-async", "httpx-async"),
];

impl ReferenceClient {
    /// Whether it can run here. The Chromium of its driver is for one platform (clients/DRIVER.md).
    pub(super) fn is_there(self) -> bool {
        self.program().is_file() && (!self.is_browser || cfg!(all(target_os = "linux", target_arch = "x86_64")))
    }

    /// Whether this run of the tests is about it.
    pub(super) fn is_asked_for(self) -> bool {
        !self.is_long || long()
    }

    /// Its driver's program.
    pub(super) fn program(self) -> PathBuf {
        let folder = env::var_os("EDGE_CLIENTS").map_or_else(|| repository().join("target/clients"), PathBuf::from);
        repository().join(folder).join(self.driver)
    }

    /// The host of an intent's URL. A browser takes every name below `localhost` for this machine.
    pub(super) fn host(self, number: usize) -> String {
        if self.is_browser { format!("host-{}.localhost", number % 16) } else { "127.0.0.1".to_owned() }
    }
}

/// Who sends.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// All by which the gateway knows the caller: a client keeps it with each request.
    pub(super) owner: String,
    pub(super) token: String,
}

/// What a driver is started with, but for its store and its caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverSettings {
    pub(super) attempts: u32,
    pub(super) attempt_timeout: Duration,
    pub(super) budget: Duration,
    pub(super) max_retry_after: Duration,
    pub(super) concurrency: u32,
}

impl Default for DriverSettings {
    fn default() -> Self {
        Self {
            attempts: 8,
            attempt_timeout: Duration::from_millis(500),
            budget: Duration::from_secs(20),
            max_retry_after: Duration::from_secs(1),
            concurrency: 32,
        }
    }
}

impl DriverSettings {
    /// The same for a browser, whose preflight requests and queues count for the time of an attempt (clients/DRIVER.md).
    pub(super) fn of_browser(self) -> Self {
        Self { attempt_timeout: self.attempt_timeout.max(Duration::from_secs(2)), ..self }
    }
}

/// What a driver is told to send.
#[derive(Clone, Debug)]
pub(super) struct DriverIntent {
    pub(super) plan: Plan,
    pub(super) url: String,
    pub(super) abort_after: Option<Duration>,
}

/// What a client told of an intent.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum ClientReport {
    /// There is an answer.
    Answer(ReportedAnswer),
    /// There is none.
    Failed(ReportedFailure),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct ReportedAnswer {
    id: Option<String>,
    pub(super) key: String,
    pub(super) status: u16,
    pub(super) body: String,
    pub(super) replayed: bool,
    pub(super) attempts: u32,
    pub(super) operation_id: Option<String>,
    pub(super) code: Option<String>,
    pub(super) retry: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct ReportedFailure {
    id: Option<String>,
    pub(super) key: String,
    pub(super) error: String,
    /// None where the client does not tell it.
    pub(super) attempts: Option<u32>,
    message: String,
}

impl ClientReport {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Answer(answer) => answer.id.as_deref(),
            Self::Failed(failure) => failure.id.as_deref(),
        }
    }

    pub(super) fn key(&self) -> &str {
        match self {
            Self::Answer(answer) => &answer.key,
            Self::Failed(failure) => &failure.key,
        }
    }

    pub(super) const fn attempts(&self) -> Option<u32> {
        match self {
            Self::Answer(answer) => Some(answer.attempts),
            Self::Failed(failure) => failure.attempts,
        }
    }
}

/// What a driver told before it ended.
#[derive(Debug, Default)]
pub(super) struct DriverReports {
    /// Of the intents that it was told to send, by their names.
    pub(super) sent: BTreeMap<String, ClientReport>,
    /// Of those that were in its store, by their keys.
    pub(super) resumed: BTreeMap<String, ClientReport>,
}

/// A running driver. It is killed when this is dropped.
pub(super) struct Driver {
    process: Process,
    output: PathBuf,
    pub(super) started: Instant,
}

/// How long a driver may take for its intents, on a machine that does other work as well.
const DEADLINE: Duration = Duration::from_secs(300);

impl Driver {
    /// Starts a driver whose store, input and output are in `directory`, for the intents and, with `resume`, for what is in the store.
    pub(super) fn start(
        client: ReferenceClient,
        directory: &Path,
        caller: &Caller,
        settings: &DriverSettings,
        (resume, intents): (bool, &[DriverIntent]),
    ) -> Result<Self> {
        let store = directory.join("store");
        let milliseconds = |duration: Duration| duration.as_millis() as u64;
        let argument = json!({
            "store": store, "owner": caller.owner, "token": caller.token, "base_ms": 2, "cap_ms": 20, "attempts": settings.attempts,
            "attempt_timeout_ms": milliseconds(settings.attempt_timeout), "budget_ms": milliseconds(settings.budget),
            "max_retry_after_ms": milliseconds(settings.max_retry_after), "concurrency": settings.concurrency, "resume": resume,
            "http": client.http,
        });
        let (input, output) = (directory.join("input"), directory.join("output"));
        let mut lines = File::create(&input)?;
        for intent in intents {
            let line = json!({
                "id": intent.plan.name, "method": "POST", "url": intent.url, "body": intent.plan.body(),
                "abort_after_ms": intent.abort_after.map(milliseconds),
            });
            writeln!(lines, "{line}")?;
        }
        // The shell is replaced by the driver; it only opens the files.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$1" <"$2" >"$3""#]).arg(client.program()).arg(argument.to_string());
        command.args([&input, &output]);
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        let started = Instant::now();
        let process = Process::spawn(client.name, &mut command, &directory.join("log"))?;
        Ok(Self { process, output, started })
    }

    /// Waits until it has ended by itself.
    pub(super) fn finish(mut self) -> Result<DriverReports> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.process.exited()? {
                break status;
            }
            ensure!(start.elapsed() < DEADLINE, "the driver has not ended within {DEADLINE:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        };
        ensure!(status.success(), "the driver ended with {status}: {}", self.said());
        self.reports()
    }

    /// Kills it and all processes that it has started.
    pub(super) fn kill(mut self) -> Result<DriverReports> {
        self.process.kill()?;
        self.reports()
    }

    /// What it told so far.
    fn reports(&self) -> Result<DriverReports> {
        let text = fs::read_to_string(&self.output)?;
        let mut reports = DriverReports::default();
        // A driver that was killed may have written a part of its last line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let report: ClientReport =
                serde_json::from_str(line).with_context(|| format!("the driver printed {line}"))?;
            let (told, name) = match report.id() {
                Some(id) => (&mut reports.sent, id.to_owned()),
                None => (&mut reports.resumed, report.key().to_owned()),
            };
            let again = told.insert(name.clone(), report);
            ensure!(again.is_none(), "{name} was told twice: {again:?} and {line}");
        }
        Ok(reports)
    }

    /// The end of its standard error.
    fn said(&self) -> String {
        let log = fs::read_to_string(self.process.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
    }
}
