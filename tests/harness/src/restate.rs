//! The backend: a single Restate node with its data in the run directory, and what it stored.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Reply, Request};
use crate::ports::{loopback, loopback_url};
use crate::process::Process;

/// Restate's data within the run directory; some 200 MB even if nothing happens.
pub const DATA: &str = "restate-data";

const READY: Duration = Duration::from_secs(60);

/// How to run Restate.
#[derive(Clone, Debug)]
pub struct RestateOptions {
    /// The program.
    pub program: PathBuf,
    /// Where data and log go. It has to exist.
    pub run_dir: PathBuf,
    /// Where requests come in.
    pub ingress_port: u16,
    /// The admin interface.
    pub admin_port: u16,
    /// Traffic between nodes.
    pub node_port: u16,
    /// Further environment, such as `RESTATE_WORKER__CLEANUP_INTERVAL`. It goes before what is set here, such as
    /// `RESTATE_NODE_NAME` and `RESTATE_DEFAULT_NUM_PARTITIONS`.
    pub env: Vec<(String, String)>,
}

/// A running Restate.
pub struct Restate {
    /// The process; replaced by [`Restate::restart`].
    pub process: Process,
    options: RestateOptions,
}

/// An invocation as Restate keeps it.
#[derive(Clone, Debug, Deserialize)]
pub struct Invocation {
    /// `inv_…`; clients know it as the operation id.
    pub id: String,
    /// `Service/handler`, or `Service/object key/handler`.
    pub target: String,
    /// The key it deduplicates by. Where the request had none this is a ULID of Restate's own.
    pub idempotency_key: Option<String>,
    /// `completed`, `running` and so on.
    pub status: String,
}

impl Restate {
    /// Starts Restate and waits until it takes requests.
    pub async fn start(options: RestateOptions) -> Result<Self> {
        let mut restate = Self::spawn(options)?;
        restate.ready().await?;
        Ok(restate)
    }

    /// Starts Restate, and does not wait.
    pub fn spawn(options: RestateOptions) -> Result<Self> {
        Ok(Self { process: spawn(&options)?, options })
    }

    /// Kills it as a crash would, then starts it again on the same data.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = spawn(&self.options)?;
        self.ready().await
    }

    /// Where requests come in.
    pub fn ingress_url(&self) -> String {
        loopback_url(self.options.ingress_port)
    }

    /// Traffic between nodes, and metrics.
    pub fn node_url(&self) -> String {
        loopback_url(self.options.node_port)
    }

    /// The admin interface.
    pub fn admin_url(&self) -> String {
        loopback_url(self.options.admin_port)
    }

    /// Registers the services at `url`, waits until their handlers can be called, and returns their names.
    pub async fn register(&mut self, url: &str) -> Result<Vec<String>> {
        let request = Request::post("/deployments").json(&json!({"uri": url}));
        let reply = request.send(&self.admin_url()).await?;
        ensure!(matches!(reply.status, 200 | 201), "Restate does not register {url}: {}", refusal(&reply));
        let registered = names(&reply.json(), "name");
        self.knows(&registered).await?;
        Ok(registered)
    }

    /// Waits until handlers of these services can be called at this node.
    pub async fn knows(&mut self, services: &[String]) -> Result<()> {
        let ingress = self.ingress_url();
        self.process
            .ready(READY, async || {
                let health = Request::get("/restate/health").send(&ingress).await?.json();
                let known = names(&health, "");
                ensure!(services.iter().all(|name| known.contains(name)), "it knows {known:?} so far");
                Ok(())
            })
            .await
    }

    /// Rows of a SQL query over Restate's own tables.
    pub async fn query(&self, sql: &str) -> Result<Vec<Value>> {
        query(&self.admin_url(), sql).await
    }

    /// Every invocation that Restate keeps, oldest first.
    pub async fn invocations(&self) -> Result<Vec<Invocation>> {
        let sql = "select id, target, idempotency_key, status from sys_invocation order by created_at, id";
        let rows = self.query(sql).await?;
        rows.into_iter().map(|row| serde_json::from_value(row).context("a row of sys_invocation")).collect()
    }

    /// Waits until it takes requests and answers queries.
    pub async fn ready(&mut self) -> Result<()> {
        let (admin, ingress) = (self.admin_url(), self.ingress_url());
        self.process
            .ready(READY, async || {
                for (url, path) in [(&admin, "/health"), (&ingress, "/restate/health")] {
                    let reply = Request::get(path).send(url).await?;
                    ensure!(reply.status == 200, "{path} answers {}", reply.status);
                }
                // The tables come up a little later than the rest.
                query(&admin, "select id from sys_invocation limit 1").await.map(drop)
            })
            .await
    }
}

fn spawn(options: &RestateOptions) -> Result<Process> {
    let mut command = Command::new(&options.program);
    command
        .arg("--base-dir")
        .arg(options.run_dir.join(DATA))
        .args(["--listen-mode", "tcp"])
        .env("RESTATE_NODE_NAME", "demo")
        .env("DO_NOT_TRACK", "1")
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        // One partition is plenty here, and starts faster.
        .env("RESTATE_DEFAULT_NUM_PARTITIONS", "1")
        .env("RESTATE_BIND_ADDRESS", loopback(options.node_port).to_string())
        .env("RESTATE_INGRESS__BIND_ADDRESS", loopback(options.ingress_port).to_string())
        .env("RESTATE_ADMIN__BIND_ADDRESS", loopback(options.admin_port).to_string())
        .envs(options.env.iter().map(|(name, value)| (name, value)));
    Process::spawn("Restate", &mut command, &options.run_dir.join("restate.log"))
}

async fn query(admin_url: &str, sql: &str) -> Result<Vec<Value>> {
    let request = Request::post("/query").header("accept", "application/json").json(&json!({"query": sql}));
    let reply = request.send(admin_url).await?;
    ensure!(reply.status == 200, "Restate refuses `{sql}`: {}", refusal(&reply));
    match reply.json().get_mut("rows").map(Value::take) {
        Some(Value::Array(rows)) => Ok(rows),
        _ => bail!("no rows in {}", reply.text()),
    }
}

fn refusal(reply: &Reply) -> String {
    format!("{} {}", reply.status, reply.text())
}

/// The service names in an answer that lists services as strings, or as objects with `member`.
fn names(answer: &Value, member: &str) -> Vec<String> {
    let services = answer.get("services").and_then(Value::as_array).into_iter().flatten();
    services
        .filter_map(|service| service.as_str().or_else(|| service.get(member)?.as_str()))
        .map(str::to_owned)
        .collect()
}
