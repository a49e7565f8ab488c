//! The programs that the tests start: the APIs of the examples, and those with other middlewares around.

use std::env;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::runner::runtime;
use harness::ports::{loopback, loopback_url};
use harness::process::Process;
use harness::tools::repository;

/// How long an API may take to listen on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// Whose applications the middlewares are for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Framework {
    FastApi,
    Express,
    Spring,
    GoHttp,
}

impl Framework {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FastApi => "fastapi",
            Self::Express => "express",
            Self::Spring => "spring",
            Self::GoHttp => "gohttp",
        }
    }
}

/// How long the API keeps claims and answers, in seconds.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) lease: u32,
    pub(super) retention: u32,
}

/// The variable that says where a framework is installed, and the tool that it is installed with.
pub(super) const fn collection(framework: Framework) -> (&'static str, &'static str) {
    match framework {
        Framework::FastApi | Framework::Express => ("EDGE_PATH_READERS", "path-readers"),
        Framework::Spring | Framework::GoHttp => ("EDGE_IDEMPOTENT_APIS", "idempotent-apis"),
    }
}

/// Where the packages or programs of a framework are installed.
pub(super) fn packages(framework: Framework) -> PathBuf {
    let (variable, tool) = collection(framework);
    let installed = env::var_os(variable).map_or_else(|| repository().join(".tools").join(tool), PathBuf::from);
    installed.join(match framework {
        Framework::FastApi => "fastapi/packages",
        Framework::Express => "express/node_modules",
        Framework::Spring => "spring",
        Framework::GoHttp => "gohttp",
    })
}

/// Runs an application of `folder` with FastAPI, beside the middleware of the example.
pub(super) fn python(port: u16, application: &str, folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "uvicorn", "--host", "127.0.0.1", "--port", &port.to_string(), application, "--app-dir"]);
    command.arg(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let example = repository().join("examples/fastapi");
    command.env("PYTHONPATH", format!("{}:{}", packages(Framework::FastApi).display(), example.display()));
    command
}

/// Runs a program with the packages of Express.
pub(crate) fn node(port: u16, program: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(program).env("NODE_PATH", packages(Framework::Express)).env("PORT", port.to_string());
    command
}

/// Runs a class that is compiled beside the filter of the example.
pub(super) fn java(port: u16, class: &str) -> Command {
    let (mut command, files) = (Command::new("java"), packages(Framework::Spring));
    let path = format!("{}:{}", files.join("classes").display(), files.join("jars/*").display());
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, class]).env("PORT", port.to_string());
    command
}

/// Runs a program that is built with the middleware of the example.
pub(super) fn go(port: u16, program: &str) -> Command {
    let mut command = Command::new(packages(Framework::GoHttp).join(program));
    command.env("PORT", port.to_string());
    command
}

pub(super) fn until_it_listens(port: u16, mut process: Process) -> Result<Process> {
    runtime()?
        .block_on(process.ready(READY, async || {
            TcpStream::connect(loopback(port)).map(drop).context("the API does not listen yet")
        }))?;
    Ok(process)
}

/// Starts the API of an example, and waits until it listens.
pub(super) fn run(
    framework: Framework,
    port: u16,
    payments: SocketAddr,
    directory: &Path,
    times: Times,
) -> Result<Process> {
    let examples = repository().join("examples");
    let mut command = match framework {
        Framework::FastApi => python(port, "app:app", &examples.join("fastapi")),
        Framework::Express => node(port, &examples.join("express/app.js")),
        Framework::Spring => java(port, "App"),
        Framework::GoHttp => go(port, "orders"),
    };
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command.env("PAYMENTS_URL", loopback_url(payments.port())).env("IDEMPOTENCY_DB", directory.join("results.db"));
    command.env("IDEMPOTENCY_LEASE_SECONDS", times.lease.to_string());
    command.env("IDEMPOTENCY_RETENTION_SECONDS", times.retention.to_string());
    until_it_listens(port, Process::spawn("the API", &mut command, &directory.join("api.log"))?)
}
