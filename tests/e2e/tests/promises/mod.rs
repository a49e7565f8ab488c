//! `Promises` with a real Restate: random interleavings, answers, the clients of four languages, and a node that is killed.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::chain::start_backend;
use e2e::runner::{Group, Test, runtime, until_async};
use harness::http::{Reply, Request};
use harness::ports::{Ports, free, loopback, loopback_url};
use harness::process::Process;
use harness::restate::Restate;
use harness::service::Service;
use harness::tools::built;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

mod answers;
mod clients;
mod interleavings;
mod killed;

const READY: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![interleavings::group(), answers::group(), answers::brief(), clients::group(), killed::group()])
}

/// Restate, the sample service with its handler that waits, and the program `promises`.
struct PromisesSetup {
    restate: Mutex<Restate>,
    ingress: String,
    service: Service,
    /// One test at a time, where a test changes what is registered.
    turn: Mutex<()>,
    directory: TempDir,
    _program: Process,
}

impl PromisesSetup {
    fn start(options: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ports = Ports::free()?;
        let (mut restate, service) = start_backend(directory.path(), &ports)?;
        let program = runtime()?.block_on(async {
            // The sample service hosts `Promises`, too: Restate calls what was registered last.
            let mut command = Command::new(built("EDGE_PROMISES", "promises")?);
            command.args(options);
            let (program, url) = listening("promises", &mut command, &directory, |command, address| {
                command.args(["--listen", address]);
            })
            .await?;
            restate.register(&url).await?;
            anyhow::Ok(program)
        })?;
        let ingress = restate.ingress_url();
        Ok(Self {
            restate: Mutex::new(restate),
            ingress,
            service,
            turn: Mutex::default(),
            directory,
            _program: program,
        })
    }

    /// A handler of `Promises` for this key.
    fn call(&self, key: &str, handler: &str) -> Request {
        Request::post(&format!("/restate/call/Promises/{key}/{handler}"))
    }

    async fn send(&self, request: Request) -> Result<Reply> {
        request.send(&self.ingress).await
    }

    /// What there is under a key; nothing if there is nothing.
    async fn get(&self, key: &str) -> Result<Option<Value>> {
        let reply = self.send(Request::get(&format!("/restate/call/Promises/{key}/get"))).await?;
        ensure!(
            !reply.text().contains("sign_") && !reply.text().contains("prom_"),
            "an awakeable leaks: {}",
            reply.text()
        );
        match reply.status {
            200 => Ok(Some(reply.json())),
            404 => Ok(None),
            status => anyhow::bail!("{status} {}", reply.text()),
        }
    }

    /// Waits until a promise under the key is in this state, `None`: until there is none.
    async fn until(&self, key: &str, state: Option<&str>) -> Result<Option<Value>> {
        until_async(&format!("{key} is {state:?}"), POLL, async || {
            let found = self.get(key).await?;
            Ok(found.as_ref().and_then(|found| found.get("state")?.as_str()) == state)
        })
        .await?;
        self.get(key).await
    }

    /// A handler begins to wait for a charge. `waiter` is its idempotency key.
    async fn purchase(&self, scope: (&str, &str), charge: &str, ttl_s: u64, waiter: &str) -> Result<()> {
        let purchase = json!({"charge": charge, "ttl_s": ttl_s});
        let reply = self.send(purchase_request("send", scope, waiter).json(&purchase)).await?;
        ensure!(reply.status == 202, "{} {}", reply.status, reply.text());
        Ok(())
    }

    /// What came of it.
    async fn purchased(&self, waiter: &str) -> Result<Reply> {
        self.send(Request::post("/restate/attach").json(&purchase_target(waiter))).await
    }

    /// Whether something has come of it.
    async fn has_ended(&self, waiter: &str) -> Result<bool> {
        Ok(self.send(Request::post("/restate/output").json(&purchase_target(waiter))).await?.status != 470)
    }
}

fn purchase_request(how: &str, (tenant, project): (&str, &str), waiter: &str) -> Request {
    Request::post(&format!("/restate/{how}/Purchases/create"))
        .header("idempotency-key", waiter)
        .header("x-tenant-id", tenant)
        .header("x-project-id", project)
}

fn purchase_target(waiter: &str) -> Value {
    json!({"target": "idempotentInvocation", "service": "Purchases", "handler": "create", "idempotencyKey": waiter})
}

fn test(name: &str, body: impl AsyncFnOnce(&PromisesSetup) -> Result<()> + Send + 'static) -> Test<PromisesSetup> {
    Test::new(name, move |setup: &PromisesSetup| runtime()?.block_on(body(setup)))
}

fn text<'a>(value: &'a Value, member: &str) -> Result<&'a str> {
    value.get(member).and_then(Value::as_str).with_context(|| format!("no {member} in {value}"))
}

fn status(reply: &Reply, expected: u16) -> Result<()> {
    ensure!(reply.status == expected, "status {} instead of {expected}: {}", reply.status, reply.text());
    Ok(())
}

/// Starts a program on a free port, which `listen` tells it, and waits until it listens. Returns its address as a URL.
async fn listening(
    name: &str,
    command: &mut Command,
    directory: &TempDir,
    listen: impl FnOnce(&mut Command, &str),
) -> Result<(Process, String)> {
    let port = free()?;
    listen(command, &loopback(port).to_string());
    let mut process = Process::spawn(name, command, &directory.path().join(format!("{name}.log")))?;
    let listens = async || TcpStream::connect(loopback(port)).map(drop).context("it does not listen yet");
    process.ready(READY, listens).await?;
    Ok((process, loopback_url(port)))
}
