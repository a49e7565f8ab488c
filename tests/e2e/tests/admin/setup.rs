//! The demo's stack, and runs of the command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Test, runtime};
use harness::demo_policy::POLICY;
use harness::http::{Reply, Request};
use harness::ports::Ports;
use harness::restate::{Restate, RestateOptions};
use harness::service::Service;
use harness::stack::{Stack, StackOptions};
use harness::tools::built;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const TENANT: &str = "acme";
pub(crate) const PROJECT: &str = "health-prod";

/// The command's path.
pub(crate) fn command() -> Result<PathBuf> {
    built("EDGE_CLI", "edge-idempotency")
}

/// What a run of the command left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn exits(self, code: i32) -> Result<Self> {
        ensure!(self.code == code, "exit status {} instead of {code}\n{}\n{}", self.code, self.stdout, self.stderr);
        Ok(self)
    }

    /// One of the two outputs has the text.
    pub(crate) fn says(&self, text: &str) -> Result<()> {
        ensure!(self.stdout.contains(text) || self.stderr.contains(text), "`{text}` is not in {self:?}");
        Ok(())
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))
    }

    /// The audit lines: what each is about, and its result.
    pub(crate) fn audit(&self) -> Result<Vec<(String, String)>> {
        let lines = self.stdout.lines().map(|line| {
            let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let member = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            ensure!(
                !member("time").is_empty() && !member("who").is_empty() && member("key").starts_with("sha256:"),
                "{line}"
            );
            Ok((member("what"), member("result")))
        });
        lines.collect()
    }
}

/// Runs the command without a terminal.
pub(crate) fn run_command<A: AsRef<OsStr>>(
    program: &Path,
    admin: &str,
    environment: &[(&str, &str)],
    args: impl IntoIterator<Item = A>,
) -> Result<Ran> {
    let output = Command::new(program)
        .args(args)
        .env_remove("RESTATE_AUTH_TOKEN")
        .env("RESTATE_ADMIN_URL", admin)
        .env("USER", "tester")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("output that is not UTF-8");
    Ok(Ran {
        code: output.status.code().context("the command was ended by a signal")?,
        stdout: text(output.stdout)?,
        stderr: text(output.stderr)?,
    })
}

/// The demo's stack. Tests run one at a time.
pub(crate) struct AdminSetup {
    pub(crate) stack: Stack,
    pub(crate) policy: PathBuf,
    program: PathBuf,
    pub(crate) directory: TempDir,
}

/// A test of the stack.
pub(crate) fn test(name: &str, body: impl AsyncFnOnce(&AdminSetup) -> Result<()> + Send + 'static) -> Test<AdminSetup> {
    Test::new(name, move |setup: &AdminSetup| runtime()?.block_on(body(setup)))
}

impl AdminSetup {
    pub(crate) fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("policy-of-the-test.json");
        std::fs::write(&file, POLICY)?;
        let options = StackOptions::new(tools()?, directory.path());
        let stack = runtime()?.block_on(Stack::start(options, &|_| {}))?;
        Ok(Self { stack, policy: file, program: command()?, directory })
    }

    /// Runs the command against the stack's Restate.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<Ran> {
        run_command(&self.program, &self.stack.restate.admin_url(), &[], args)
    }

    /// As [`AdminSetup::run`], for results of a user at an endpoint.
    pub(crate) fn run_for(&self, action: &str, endpoint: &str, user: &str, key: &str, more: &[&str]) -> Result<Ran> {
        let (policy, subject) = (self.policy.display().to_string(), format!("user:{user}"));
        let args =
            ["keys", action, "--policy", &policy, "--endpoint", endpoint, "--tenant", TENANT, "--project", PROJECT];
        let own = ["--subject", &subject, "--key", key];
        self.run(args.into_iter().chain(own).chain(more.iter().copied()))
    }

    /// Sends a request through the gateway.
    pub(crate) async fn send(&self, user: &str, path: &str, key: &str, body: &Value) -> Result<Reply> {
        let claims = json!({"tenant_id": TENANT, "project_id": PROJECT, "sub": user});
        let request = Request::post(path).header("idempotency-key", key).json(body);
        request.bearer(&self.stack.signer.mint(&claims)?).send(&self.stack.gateway_url()).await
    }

    /// Stores a result under a namespaced key, past the gateway.
    pub(crate) async fn store(&self, key: &str) -> Result<()> {
        let request = Request::post("/restate/call/Conversations/sendMessage").header("idempotency-key", key);
        let body = json!({"conversation_id": "c", "text": "hello"});
        let reply = request.json(&body).send(&self.stack.restate.ingress_url()).await?;
        ensure!(reply.header("x-restate-id").is_some(), "{key} is not stored: {} {}", reply.status, reply.text());
        Ok(())
    }

    /// The keys of invocations for which a condition is true, sorted.
    pub(crate) async fn keys(&self, condition: &str) -> Result<Vec<String>> {
        let sql = format!("select idempotency_key from sys_invocation where {condition} order by idempotency_key");
        let rows = self.stack.restate.query(&sql).await?;
        Ok(rows.iter().filter_map(|row| row.get("idempotency_key")?.as_str().map(str::to_owned)).collect())
    }

    pub(crate) async fn effects(&self, order: &str) -> Result<u64> {
        Ok(self.stack.service.effects().await?.get(order).copied().unwrap_or_default())
    }
}

/// A Restate that keeps results for a day at most, and the sample service.
pub(crate) struct Clamped {
    pub(crate) restate: Restate,
    pub(crate) directory: TempDir,
    program: PathBuf,
    _service: Service,
}

impl Clamped {
    pub(crate) fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (ports, tools) = (Ports::free()?, tools()?);
        runtime()?.block_on(async {
            let service = Service::start(&tools.service, directory.path(), ports.service, ports.ledger).await?;
            let mut restate = Restate::start(RestateOptions {
                program: tools.restate,
                run_dir: directory.path().to_owned(),
                ingress_port: ports.restate_ingress,
                admin_port: ports.restate_admin,
                node_port: ports.restate_node,
                env: vec![("RESTATE_MAX_IDEMPOTENCY_RETENTION".to_owned(), "1d".to_owned())],
            })
            .await?;
            restate.register(&service.url()).await?;
            Ok(Self { restate, directory, program: command()?, _service: service })
        })
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<Ran> {
        run_command(&self.program, &self.restate.admin_url(), &[], args)
    }
}
