//! The guard in other languages, as docs/guard.md shows it: each program of `examples/guard` runs with Restate's SDK of its language,
//! behind a real Restate, and the filter in a real Envoy refuses another request under a used key because of it.

use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::chain::Chain;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestEnvironment;
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing, until};
use harness::http;
use harness::ports::{loopback, loopback_url};
use harness::process::Process;
use harness::tools::repository;
use serde_json::{Value, json};

/// A busy machine may need long to start a Java program.
const READY: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
const LISTENER: &str = "guards";

/// A program, the language of its block on the page, and how it is installed below [`installed`].
#[derive(Clone, Copy)]
struct Language {
    name: &'static str,
    block: &'static str,
    file: &'static str,
}

const LANGUAGES: [Language; 4] = [
    Language { name: "typescript", block: "ts", file: "guard.ts" },
    Language { name: "python", block: "python", file: "guard.py" },
    Language { name: "go", block: "go", file: "guard.go" },
    Language { name: "java", block: "java", file: "IdempotencyGuard.java" },
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let (mut tests, mut left_out) = (Vec::new(), Vec::new());
    for language in LANGUAGES {
        let name = format!("{}: another request under a used key is refused", language.name);
        if installed().join(language.name).is_dir() {
            tests.push(Test::new(name, move |setup: &GuardsSetup| guards(setup, language)));
        } else {
            eprintln!(
                "SKIPPED: the guard in {} is not installed, so examples/guard/{} is not tested. `scripts/tools.sh guards` installs it.",
                language.name, language.file
            );
            left_out.push(name);
        }
    }
    let page = Test::new("the page shows the programs", |_: &GuardsSetup| page());
    tests.push(page);
    let group = sharing(GuardsSetup::start, tests);
    Ok(vec![left_out.into_iter().fold(group, Group::leaving_out)])
}

/// `EDGE_GUARDS`, else `.tools/guards`: a directory for each language.
fn installed() -> PathBuf {
    env::var_os("EDGE_GUARDS").map_or_else(|| repository().join(".tools/guards"), PathBuf::from)
}

struct GuardsSetup {
    chain: Chain,
    /// One guard at a time: all have the same name.
    turn: Mutex<()>,
}

impl GuardsSetup {
    fn start() -> Result<Self> {
        let policy = json!({
            "version": 1,
            "identity": {"sources": [{
                "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
            }]},
            "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {"retention": "170h"}},
            "routes": [{
                "endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create",
                "collision": "enforce",
            }],
        });
        let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
        let chain = Chain::start(TestEnvironment::default(), &[(LISTENER.to_owned(), listener)])?;
        Ok(Self { chain, turn: Mutex::default() })
    }

    fn refund(&self, key: &str, order: &str) -> Result<Reply> {
        let gateway = &self.chain.gateway;
        let token = gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"}))?;
        let request = Request::new("POST", "/refunds").bearer(&token).header("content-type", "application/json");
        let request = request.header("idempotency-key", key).body(json!({"order_id": order, "amount": 1}).to_string());
        let (address, last) = (gateway.address(LISTENER)?, Mutex::new(Reply::default()));
        // The first claim can take longer than the filter waits: a client sends the request again.
        until("the guard answers in time", POLL, || {
            let reply = raw::exchange(address, "POST", &request.http1())?;
            let is_late = reply.status == 503;
            *last.lock().unwrap_or_else(PoisonError::into_inner) = reply;
            Ok(!is_late)
        })?;
        Ok(last.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

fn command(language: Language, port: u16) -> Command {
    let files = installed().join(language.name);
    let mut command = match language.name {
        "typescript" => {
            let mut node = Command::new(files.join("node"));
            node.arg(files.join("guard.mts"));
            node
        }
        "python" => {
            let mut python = Command::new("python3");
            python.args(["-m", "hypercorn", "--bind", &loopback(port).to_string(), "guard:app"]);
            python.current_dir(repository().join("examples/guard"));
            python.env("PYTHONPATH", files.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
        "go" => Command::new(files.join("guard")),
        _ => {
            let mut java = Command::new("java");
            let path = format!("{}:{}", files.join("classes").display(), files.join("jars/*").display());
            java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, "IdempotencyGuard"]);
            java
        }
    };
    command.env("PORT", port.to_string());
    command
}

/// Starts the guard and registers it as docs/guard.md says. From then on Restate calls it, and not the one before.
fn register(setup: &GuardsSetup, language: Language) -> Result<(Process, String)> {
    let port = TcpListener::bind(loopback(0))?.local_addr()?.port();
    let log = setup.chain.directory.path().join(format!("{}.log", language.name));
    let mut guard = Process::spawn(language.name, &mut command(language, port), &log)?;
    runtime()?.block_on(guard.ready(READY, async || {
        TcpStream::connect(loopback(port)).map(drop).context("the guard does not listen yet")
    }))?;
    let deployment = json!({"uri": loopback_url(port)});
    let (admin, request) = (setup.chain.restate.admin_url(), http::Request::post("/deployments").json(&deployment));
    let reply = runtime()?.block_on(request.send(&admin))?;
    ensure!(reply.status == 201, "Restate does not register it: {}", reply.text());
    let id = reply.json().get("id").and_then(Value::as_str).context("a deployment without id")?.to_owned();
    Ok((guard, id))
}

fn guards(setup: &GuardsSetup, language: Language) -> Result<()> {
    let _turn = setup.turn.lock().map_err(|_| anyhow::anyhow!("another test panicked"))?;
    let (_guard, deployment) = register(setup, language)?;
    let [key, order, other] = ["key", "order", "other"].map(|what| format!("{}-{what}", language.name));
    for (order, status) in [(&order, 200), (&order, 200), (&other, 422), (&order, 200)] {
        let reply = setup.refund(&key, order)?;
        ensure!(reply.status == status, "{order}: {} {}", reply.status, reply.json());
        if status == 422 {
            let code = reply.json().get("code").cloned();
            ensure!(code == Some(json!("idempotency_key_reused")), "{}", reply.json());
        }
    }
    ensure!(setup.chain.effects(&order)? == 1 && setup.chain.effects(&other)? == 0, "the effects");
    // It was this guard that Restate called, and it keeps claims as long as the page says.
    let sql = format!(
        "select idempotency_key, cast(completion_retention as bigint) as kept from sys_invocation \
         where target = 'IdempotencyGuard/claim' and pinned_deployment_id = '{deployment}'"
    );
    let claims = runtime()?.block_on(setup.chain.restate.query(&sql))?;
    ensure!(claims.len() == 1, "Restate has {} claims of {deployment}", claims.len());
    let services =
        runtime()?.block_on(http::Request::get("/services/IdempotencyGuard").send(&setup.chain.restate.admin_url()))?;
    let service = services.json();
    let member = |name: &str| service.get(name).cloned().unwrap_or_default();
    ensure!(member("idempotency_retention") == json!("7d 2h"), "{service}");
    // So `retention plan` prints these lines (`cli/src/restate_admin/plan.rs`).
    ensure!(member("retry_policy").get("on_max_attempts") == Some(&json!("Pause")), "{service}");
    Ok(())
}

/// docs/guard.md has each program as it stands in `examples/guard`.
fn page() -> Result<()> {
    let root: &Path = &repository();
    let page = fs::read_to_string(root.join("docs/guard.md"))?;
    for language in LANGUAGES {
        let program = fs::read_to_string(root.join("examples/guard").join(language.file))?;
        let block = format!("```{}\n{program}```", language.block);
        ensure!(page.contains(&block), "docs/guard.md does not have {} as it stands in examples/guard", language.file);
    }
    Ok(())
}
