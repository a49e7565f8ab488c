//! The sample service behind Restate, and what its ledger tells.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::Request;
use crate::ports::{Ports, loopback, loopback_url};
use crate::process::Process;

const READY: Duration = Duration::from_secs(30);

/// A running sample service.
pub struct Service {
    /// The process.
    pub process: Process,
    port: u16,
    ledger_port: u16,
}

/// One run of a handler, as the handler saw it.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedCall {
    /// `Service/handler`.
    pub handler: String,
    /// Key of the virtual object, if it is one.
    pub object_key: Option<String>,
    /// `inv_…`.
    pub invocation_id: String,
    /// Every request header that Restate handed on. It keeps `idempotency-key` to itself: see [`crate::restate::Invocation`].
    pub headers: Vec<(String, String)>,
}

/// Some calls, and how many there are in all.
#[derive(Clone, Debug, Deserialize)]
pub struct Calls {
    /// How often handlers ran since the service started.
    pub total: usize,
    /// Those that were asked for, oldest first.
    pub calls: Vec<RecordedCall>,
}

impl RecordedCall {
    /// The first line of a header that the handler saw.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value.as_str())
    }
}

impl Service {
    /// Starts the service and waits until it answers. Its log goes to `run_dir`, which has to exist.
    pub async fn start(program: &Path, run_dir: &Path, port: u16, ledger_port: u16) -> Result<Self> {
        Self::start_with(Command::new(program), run_dir, port, ledger_port).await
    }

    /// As [`Service::start`], with a registry of webhooks that believes `root_key`.
    pub async fn start_with_registry(program: &Path, run_dir: &Path, ports: &Ports, root_key: &str) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["--registry", &loopback(ports.registry).to_string()]).env("DEMO_REGISTRY_ROOT_KEY", root_key);
        Self::start_with(command, run_dir, ports.service, ports.ledger).await
    }

    async fn start_with(mut command: Command, run_dir: &Path, port: u16, ledger_port: u16) -> Result<Self> {
        command.args(["--listen", &loopback(port).to_string(), "--side", &loopback(ledger_port).to_string()]);
        let log: PathBuf = run_dir.join("service.log");
        let mut service =
            Self { process: Process::spawn("the sample service", &mut command, &log)?, port, ledger_port };
        let ledger_url = service.ledger_url();
        service
            .process
            .ready(READY, async || {
                let reply = Request::get("/health").send(&ledger_url).await?;
                ensure!(reply.status == 200, "/health answers {}", reply.status);
                Ok(())
            })
            .await?;
        Ok(service)
    }

    /// Where Restate calls the handlers.
    pub fn url(&self) -> String {
        loopback_url(self.port)
    }

    /// Where the ledger can be read.
    pub fn ledger_url(&self) -> String {
        loopback_url(self.ledger_port)
    }

    /// Effects per id: order, conversation, the cart's object key, what a webhook is about.
    pub async fn effects(&self) -> Result<BTreeMap<String, u64>> {
        self.get("/effects").await
    }

    /// The handler runs after the first `after` ones.
    pub async fn calls(&self, after: usize) -> Result<Calls> {
        self.get(&format!("/calls?after={after}")).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let reply = Request::get(path).send(&self.ledger_url()).await?;
        serde_json::from_slice(&reply.body).with_context(|| format!("{path} of the ledger: {}", reply.text()))
    }
}
