//! The stand-in for KrakenD as a process.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::raw::{Reply, Request, exchange};
use e2e::runner::{runtime, until};
use harness::ports::{Ports, loopback};
use harness::process::Process;
use harness::tokens::Signer;
use harness::tools::repository;
use serde_json::Value;

use super::config::{StandInEnvironment, krakend};

/// Between two questions whether something has happened.
const POLL: Duration = Duration::from_millis(10);
const READY: Duration = Duration::from_secs(60);

/// How the bridge gets into the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a plugin, which the gateway opens.
    Plugin,
    /// Built into the gateway.
    Executor,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Executor => "executor",
        }
    }
}

/// Whether `make build` found no Go, and has said so.
pub(crate) fn without_go() -> bool {
    directory().join("without-go").is_file()
}

/// Whether it could build neither the plugin nor anything with the race detector, and has said so.
pub(crate) fn without_c_compiler() -> bool {
    directory().join("without-plugin").is_file()
}

/// What a stand-in is started with.
pub(crate) struct Options<'a> {
    pub(crate) way: Way,
    /// With the race detector.
    pub(crate) race: bool,
    pub(crate) policy: &'a Value,
    /// The bridge's `upstreams`.
    pub(crate) upstreams: Value,
    /// Further members of the bridge's own configuration.
    pub(crate) own: Vec<(&'static str, Value)>,
    /// What the policy reads.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) signer: &'a Signer,
    /// Where configuration and log go.
    pub(crate) directory: &'a Path,
}

/// A running stand-in.
pub(crate) struct StandIn {
    process: Process,
    address: SocketAddr,
    metrics: SocketAddr,
}

impl StandIn {
    /// Starts it and waits until it takes requests. The error holds the end of its log.
    pub(crate) fn start(options: Options<'_>) -> Result<Self> {
        let Options { way, race, directory, .. } = options;
        let built = built()?;
        let built = if race { built.join("race") } else { built };
        let keys = directory.join("keys.json");
        fs::write(&keys, options.signer.jwks())?;
        let metrics = loopback(Ports::free()?.admin);
        let around = StandInEnvironment {
            module: &module()?,
            keys: &keys,
            plugins: &built.join("plugins"),
            metrics_port: metrics.port(),
            upstreams: options.upstreams,
            own: options.own,
        };
        let file = directory.join("krakend.json");
        fs::write(&file, serde_json::to_vec_pretty(&krakend(way, options.policy, &around)?)?)?;
        let mut command = Command::new(built.join(format!("standin-{}", way.name())));
        command.args(["run", "-dc"]).arg(&file).args(["--listen", "127.0.0.1:0"]);
        command.envs(options.environment);
        let mut process = Process::spawn("the stand-in for KrakenD", &mut command, &directory.join("krakend.log"))?;
        let log = process.log().to_owned();
        runtime()?.block_on(process.ready(READY, async || listening(&log).map(drop)))?;
        let address = listening(&log)?;
        Ok(Self { process, address, metrics })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request over a connection of its own.
    pub(crate) fn send(&self, request: &Request) -> Result<Reply> {
        exchange(self.address, &request.method, &request.http1())
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.process.log())?).into_owned())
    }

    /// The goroutines of the process, but for those of connections.
    pub(crate) fn goroutines(&self) -> Result<u64> {
        let reply = self.send(&Request::new("GET", "/__standin/stats"))?;
        reply.json().get("goroutines").and_then(Value::as_u64).context("no number of goroutines")
    }

    /// The stacks of all goroutines.
    pub(crate) fn stacks(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.send(&Request::new("GET", "/__standin/goroutines"))?.body).into_owned())
    }

    fn metrics(&self) -> Result<String> {
        let request = Request::new("GET", "/metrics");
        let reply = exchange(self.metrics, "GET", &request.http1())?;
        ensure!(reply.status == 200, "/metrics: {}", reply.status);
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// The sum of the samples of a metric, of all its labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let text = self.metrics()?;
        let of_metric = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let mut lines = text.lines().filter(of_metric).peekable();
        ensure!(lines.peek().is_some(), "there is no metric {name}:\n{text}");
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Asks until it is so.
    pub(crate) fn until(&self, what: &str, so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        until(what, POLL, || so(self))
    }
}

/// The address that the log tells.
fn listening(log: &Path) -> Result<SocketAddr> {
    let log = fs::read_to_string(log)?;
    let address = log.lines().find_map(|line| line.split_once(" listening on ")).context("it does not listen yet")?.1;
    Ok(address.trim().parse()?)
}

/// Where `make build` leaves what it builds.
fn built() -> Result<PathBuf> {
    let directory = directory();
    ensure!(directory.is_dir(), "{} is not there: run `make build`", directory.display());
    Ok(directory)
}

/// A program that `make build` leaves there.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    Ok(built()?.join(name))
}

/// The built module.
fn module() -> Result<PathBuf> {
    Ok(e2e::gateway::tools()?.filter.path().to_owned())
}

fn directory() -> PathBuf {
    std::env::var_os("EDGE_KRAKEND").map_or_else(|| repository().join("target/krakend"), PathBuf::from)
}
