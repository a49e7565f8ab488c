//! The guard in other languages, as docs/backends.md shows it: each program of `examples/guard` runs with Restate's SDK of its language,
//! behind a real Restate, and the filter in a real Envoy refuses another request under a used key because of it. And a handler in each
//! language, and in Rust, that reads its key from the header of the policy (`guards/keys.*`).

use std::env;
use std::net::TcpStream;
use std::path::PathBuf;
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
use harness::ports::{free, loopback, loopback_url};
use harness::process::Process;
use harness::tokens;
use harness::tools::repository;
use serde_json::{Value, json};

/// A busy machine may need long to start a Java program.
const READY: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
const LISTENER: &str = "guards";
/// The header of the policy.
const KEY_HEADER: &str = "x-idempotency-key";

/// The programs of a language.
#[derive(Clone, Copy)]
enum Program {
    Guard,
    Keys,
}

/// A program, and how it is installed below [`installed`].
#[derive(Clone, Copy)]
struct Language {
    name: &'static str,
    file: &'static str,
}

const LANGUAGES: [Language; 4] = [
    Language { name: "typescript", file: "guard.ts" },
    Language { name: "python", file: "guard.py" },
    Language { name: "go", file: "guard.go" },
    Language { name: "java", file: "IdempotencyGuard.java" },
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let (mut tests, mut left_out) = (Vec::new(), Vec::new());
    for language in LANGUAGES {
        let name = format!("{}: another request under a used key is refused", language.name);
        if installed().join(language.name).is_dir() {
            tests.push(Test::new(name, move |setup: &GuardsSetup| guards(setup, language)));
            let name = format!("{}: a handler sees the key, and not a client's", language.name);
            tests.push(Test::new(name, move |setup: &GuardsSetup| keys(setup, language)));
        } else {
            eprintln!(
                "SKIPPED: the guard in {} is not installed, so examples/guard/{} is not tested. `crates/xtask/scripts/tools.sh guards` installs it.",
                language.name, language.file
            );
            left_out.push(name);
        }
    }
    tests.push(Test::new("rust: a handler sees the key, and not a client's", keys_in_rust));
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
            "identity": {"sources": [tokens::source()]},
            "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {"retention": "170h"}, "key_header": KEY_HEADER},
            "routes": [
                {"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create", "collision": "enforce"},
                {"endpoint": "conversations.send", "path": "/messages", "policy": "ACCEPTED", "target": "Conversations/sendMessage"},
                {"endpoint": "keys.show", "path": "/keys", "policy": "ACCEPTED", "target": "Keys/show"},
            ],
        });
        let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
        let chain = Chain::start(TestEnvironment::default(), &[(LISTENER.to_owned(), listener)])?;
        Ok(Self { chain, turn: Mutex::default() })
    }

    /// Sends a request with a key of the client's own making beside its key, if it has one.
    fn send(&self, path: &str, key: Option<&str>, body: Option<&Value>) -> Result<Reply> {
        let gateway = &self.chain.gateway;
        let token = gateway.user_token()?;
        let mut request = Request::new("POST", path).bearer(&token).header(KEY_HEADER, "t-globex:shop:user:u1:forged");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        raw::exchange(gateway.address(LISTENER)?, "POST", &request.http1())
    }

    fn refund(&self, key: &str, order: &str) -> Result<Reply> {
        let gateway = &self.chain.gateway;
        let token = gateway.user_token()?;
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

fn command(language: Language, program: Program, port: u16) -> Command {
    let files = installed().join(language.name);
    let (name, class, sources) = match program {
        Program::Guard => ("guard", "IdempotencyGuard", "examples/guard"),
        Program::Keys => ("keys", "Keys", "tests/compat/tests/guards"),
    };
    let mut command = match language.name {
        "typescript" => {
            let mut node = Command::new(files.join("node"));
            node.arg(files.join(format!("{name}.mts")));
            node
        }
        "python" => {
            let mut python = Command::new("python3");
            python.args(["-m", "hypercorn", "--bind", &loopback(port).to_string(), &format!("{name}:app")]);
            python.current_dir(repository().join(sources));
            python.env("PYTHONPATH", files.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
        "go" => Command::new(files.join(name)),
        _ => {
            let mut java = Command::new("java");
            let path = format!("{}:{}", files.join("classes").display(), files.join("jars/*").display());
            java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, class]);
            java
        }
    };
    command.env("PORT", port.to_string());
    command
}

/// Starts a program and registers it as docs/backends.md says. From then on Restate calls it, and not the one before.
fn register(setup: &GuardsSetup, language: Language, program: Program) -> Result<(Process, String)> {
    let port = free()?;
    let log = setup.chain.directory.path().join(format!("{}.log", language.name));
    let mut guard = Process::spawn(language.name, &mut command(language, program, port), &log)?;
    runtime()?.block_on(guard.ready(READY, async || {
        TcpStream::connect(loopback(port)).map(drop).context("the program does not listen yet")
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
    let (_guard, deployment) = register(setup, language, Program::Guard)?;
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
    // So `retention` prints these lines (`crates/command/src/restate_admin/plan.rs`).
    ensure!(member("retry_policy").get("on_max_attempts") == Some(&json!("Pause")), "{service}");
    Ok(())
}

/// The handler answers with what it sees: the namespaced key with a key, nothing without, and never what the client sends.
fn keys(setup: &GuardsSetup, language: Language) -> Result<()> {
    let _turn = setup.turn.lock().map_err(|_| anyhow::anyhow!("another test panicked"))?;
    let _program = register(setup, language, Program::Keys)?;
    let key = format!("{}-seen", language.name);
    for (key, seen) in [(Some(&key), json!(namespaced(&key))), (None, json!("none"))] {
        let reply = setup.send("/keys", key.map(String::as_str), None)?;
        ensure!(reply.status == 200 && reply.json() == seen, "{key:?}: {} {}", reply.status, reply.json());
    }
    Ok(())
}

/// The sample service notes what its handlers see.
fn keys_in_rust(setup: &GuardsSetup) -> Result<()> {
    for (key, id) in [(Some("rust-seen"), "with"), (None, "without")] {
        let body = json!({"conversation_id": id, "text": "hello"});
        let reply = setup.send("/messages", key, Some(&body))?;
        ensure!(reply.status == 200, "{key:?}: {} {}", reply.status, reply.json());
        let calls = runtime()?.block_on(setup.chain.service.calls(0))?.calls;
        let run = calls.iter().rfind(|call| call.handler == "Conversations/sendMessage").context("no run")?;
        ensure!(run.header(KEY_HEADER).map(str::to_owned) == key.map(namespaced), "{key:?}: {:?}", run.headers);
    }
    Ok(())
}

fn namespaced(key: &str) -> String {
    format!("t-acme:shop:user:u1:{key}")
}
