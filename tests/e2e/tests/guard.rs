//! The program `idempotency-guard`, registered with a real Restate as docs/backends.md says: the first claim under a key is kept, and
//! every later one gets it.

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::tools;
use e2e::runner::{Group, Test, runtime, sharing};
use harness::guard::{Guard, GuardOptions};
use harness::http::{Reply, Request};
use harness::ports::Ports;
use harness::restate::{Restate, RestateOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        test("what is no fingerprint is refused", refusals),
        test("the retention is the one of the command line", retention),
        test("nothing is logged", quiet),
    ];
    Ok(vec![sharing(|| runtime()?.block_on(GuardSetup::start()), tests)])
}

fn test(name: &str, body: impl AsyncFnOnce(&mut GuardSetup) -> Result<()> + Send + 'static) -> Test<Mutex<GuardSetup>> {
    Test::new(name, |setup: &Mutex<GuardSetup>| runtime()?.block_on(async { body(&mut *setup.lock().await).await }))
}

struct GuardSetup {
    restate: Restate,
    guard: Guard,
    _directory: TempDir,
}

impl GuardSetup {
    async fn start() -> Result<Mutex<Self>> {
        let directory = tempfile::tempdir()?;
        let ports = Ports::free()?;
        let guard = Guard::start(GuardOptions::new(directory.path(), ports.service)?).await?;
        let mut restate = Restate::start(RestateOptions {
            program: tools()?.restate,
            run_dir: directory.path().to_owned(),
            ingress_port: ports.restate_ingress,
            admin_port: ports.restate_admin,
            node_port: ports.restate_node,
            env: Vec::new(),
        })
        .await?;
        restate.register(&guard.url()).await?;
        Ok(Mutex::new(Self { restate, guard, _directory: directory }))
    }

    async fn claim(&self, key: &str, body: &str) -> Result<Reply> {
        let request = Request::post("/restate/call/IdempotencyGuard/claim").header("idempotency-key", key);
        request.header("content-type", "application/json").body(body).send(&self.restate.ingress_url()).await
    }
}

async fn refusals(setup: &mut GuardSetup) -> Result<()> {
    refused(setup, "refusals").await
}

/// Sends claims under keys with this prefix, all but the first of which are refused.
async fn refused(setup: &GuardSetup, prefix: &str) -> Result<()> {
    let longest = format!("\"{}\"", "x".repeat(256));
    let reply = setup.claim(&format!("{prefix}-longest"), &longest).await?;
    ensure!(reply.status == 200 && reply.text() == longest, "256 bytes: {} {}", reply.status, reply.text());
    for (key, body, status) in [
        ("long", format!("\"{}\"", "x".repeat(257)), 413),
        ("object", "{\"a\": 1}".to_owned(), 400),
        ("empty", String::new(), 400),
    ] {
        let reply = setup.claim(&format!("{prefix}-{key}"), &body).await?;
        ensure!(reply.status == status, "{key}: {} {}", reply.status, reply.text());
    }
    Ok(())
}

async fn retention(setup: &mut GuardSetup) -> Result<()> {
    let reply = Request::get("/services/IdempotencyGuard").send(&setup.restate.admin_url()).await?;
    let service: Value = reply.json();
    let seen = (service.get("idempotency_retention"), service.get("journal_retention"));
    ensure!(seen == (Some(&json!("7d 2h")), Some(&json!("0s"))), "{service}");
    Ok(())
}

/// After claims of every kind the log has only what the program says at its start.
async fn quiet(setup: &mut GuardSetup) -> Result<()> {
    // The log begins anew.
    setup.guard.restart().await?;
    for body in [r#""v1:quiet""#, r#""v1:other""#] {
        let reply = setup.claim("key-quiet", body).await?;
        ensure!(reply.status == 200 && reply.text() == r#""v1:quiet""#, "{} {}", reply.status, reply.text());
    }
    refused(setup, "quiet").await?;
    let log = std::fs::read_to_string(setup.guard.process.log()).context("the guard's log")?;
    ensure!(log.lines().count() == 3 && log.contains("/deployments"), "{log}");
    for secret in ["v1:", "xxx", "key-quiet", "quiet-long"] {
        ensure!(!log.contains(secret), "{secret} is logged: {log}");
    }
    Ok(())
}
