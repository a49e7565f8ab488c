//! Collision detection in a real Envoy, with a real Restate, and with the guard as a program of its own.

mod bodies;
mod comparing;
mod guard;

use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::chain::Chain;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::Surroundings;
use e2e::harness::{Test, run, runtime, sharing, until};
use e2e::http2;
use e2e::raw::{self, Reply, Request};
use edge_idempotency_demo::ports::{Ports, loopback};
use edge_idempotency_demo::process::Process;
use edge_idempotency_demo::tools::built;
use serde_json::{Value, json};

const LISTENER: &str = "collision";
const READY: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// The limit of the routes whose bodies are measured.
pub(crate) const LIMIT: usize = 100_000;

fn main() -> ExitCode {
    let tests = [comparing::tests(), bodies::tests(), guard::tests()];
    run(Ok(sharing(World::start, tests.into_iter().flatten().collect())))
}

pub(crate) struct World {
    pub(crate) chain: Chain,
    token: String,
    guard: Process,
    /// One test at a time, because some of them stop the guard.
    turn: Mutex<()>,
}

/// A test that has everything to itself.
fn test(name: &str, body: impl FnOnce(&World) -> Result<()> + Send + 'static) -> Test<World> {
    Test::new(name, move |world: &World| {
        let _turn = world.turn.lock().unwrap_or_else(PoisonError::into_inner);
        body(world)
    })
}

fn policy() -> Value {
    let route = |endpoint: &str, target: &str, members: Value| {
        let mut route =
            json!({"endpoint": endpoint, "path": format!("/api/{endpoint}"), "policy": "REQUIRED_A", "target": target});
        if let (Value::Object(route), Value::Object(members)) = (&mut route, members) {
            route.extend(members);
        }
        route
    };
    json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "jwt",
            "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id",
            "project": "project_id",
            "subject": {"field": "sub", "type": "user"}
        }]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {"retention": "170h"}},
        "routes": [
            route("refunds", "Refunds/create", json!({"collision": "enforce"})),
            route("messages", "Conversations/sendMessage", json!({"collision": "enforce"})),
            route("refunds-json", "Refunds/create", json!({"collision": "enforce", "fingerprint": "json"})),
            route("refunds-of-callers", "Refunds/create", json!({"collision": "enforce", "collision_scope": "caller"})),
            route("messages-of-callers", "Conversations/sendMessage", json!({"collision": "enforce", "collision_scope": "caller"})),
            route("projects", "Projects/list", json!({"collision": "enforce", "methods": ["GET"]})),
            route("refunds-strict", "Refunds/create", json!({"collision": "enforce", "guard_failure": "refuse"})),
            // Each test that counts has endpoints of its own, because counts come with a delay.
            route("refunds-at-once", "Refunds/create", json!({"collision": "enforce"})),
            route("refunds-down", "Refunds/create", json!({"collision": "enforce"})),
            route("refunds-gone", "Refunds/create", json!({"collision": "observe"})),
            route("framed-enforced", "Webhooks/ingest", json!({"collision": "enforce"})),
            route("framed-observed", "Webhooks/ingest", json!({"collision": "observe"})),
            route("half-enforced", "Webhooks/ingest", json!({"collision": "enforce"})),
            route("half-observed", "Webhooks/ingest", json!({"collision": "observe"})),
            route("refunds-seen", "Refunds/create", json!({"collision": "observe", "fingerprint": "json"})),
            route("enforced", "Webhooks/ingest", json!({"collision": "enforce", "max_body_bytes": LIMIT})),
            route("observed", "Webhooks/ingest", json!({"collision": "observe", "max_body_bytes": LIMIT})),
        ]
    })
}

impl World {
    fn start() -> Result<Self> {
        let listener = ListenerSpec { policy: policy().to_string(), changes: vec![Change::Trailers] };
        let around = Surroundings { concurrency: 2, ..Surroundings::default() };
        let mut chain = Chain::start(around, &[(LISTENER.to_owned(), listener)])?;
        let port = Ports::free()?.service;
        let mut command = Command::new(built("EDGE_GUARD", "edge-idempotency-services", "idempotency-guard")?);
        command.args(["--listen", &loopback(port).to_string(), "--retention", "170h"]);
        let mut guard = Process::spawn("the guard", &mut command, &chain.directory.path().join("guard.log"))?;
        let log = guard.log().to_owned();
        runtime()?.block_on(async {
            let said = async || {
                ensure!(std::fs::read_to_string(&log)?.contains("/deployments"), "it has not said how to register it");
                Ok(())
            };
            guard.ready(READY, said).await?;
            chain.restate.register(&format!("http://{}", loopback(port))).await
        })?;
        let token = chain.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
        Ok(Self { chain, token, guard, turn: Mutex::new(()) })
    }

    pub(crate) fn address(&self) -> Result<std::net::SocketAddr> {
        self.chain.gateway.address(LISTENER)
    }

    /// The request with the caller's token.
    pub(crate) fn authenticated(&self, request: &Request) -> Request {
        request.clone().bearer(&self.token)
    }

    pub(crate) fn send(&self, request: &Request) -> Result<Reply> {
        let request = self.authenticated(request);
        raw::exchange(self.address()?, &request.method, &request.http1())
    }

    pub(crate) fn send_http2(&self, request: &Request) -> Result<Reply> {
        http2::exchange(self.address()?, &self.authenticated(request))
    }

    /// Sends a request and checks the status of its answer.
    pub(crate) fn answered(&self, what: &str, request: &Request, status: u16) -> Result<Reply> {
        let reply = self.send(request).context(what.to_owned())?;
        let text = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status == status, "{what}: {} instead of {status}: {text}", reply.status);
        Ok(reply)
    }

    /// Sends a request that is refused because its key was used with another one.
    pub(crate) fn reused(&self, what: &str, request: &Request) -> Result<()> {
        let reply = self.answered(what, request, 422)?;
        is_reuse(&reply).with_context(|| what.to_owned())
    }

    /// The value of a counter of an endpoint, with these labels.
    pub(crate) fn counter(&self, name: &str, labels: &[(&str, &str)], endpoint: &str) -> Result<u64> {
        let text = self.chain.gateway.admin("/stats/prometheus")?;
        let has = |line: &str, (label, value): &(&str, &str)| line.contains(&format!("{label}=\"{value}\""));
        let ours = text.lines().filter(|line| {
            line.split('{').next() == Some(name)
                && has(line, &("endpoint", endpoint))
                && labels.iter().all(|label| has(line, label))
        });
        Ok(ours.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
    }

    /// How many claims of an endpoint had this result.
    pub(crate) fn claims(&self, result: &str, endpoint: &str) -> Result<u64> {
        self.counter("idempotency_lookup_total", &[("store", "guard"), ("result", result)], endpoint)
    }

    /// How many collisions of an endpoint were counted.
    pub(crate) fn collisions(&self, mode: &str, endpoint: &str) -> Result<u64> {
        self.counter("idempotency_key_collision_total", &[("mode", mode)], endpoint)
    }

    pub(crate) fn until(&self, what: &str, so: impl Fn() -> Result<bool>) -> Result<()> {
        until(what, POLL, so)
    }
}

/// Whether an answer says that the key was used with another request.
pub(crate) fn is_reuse(reply: &Reply) -> Result<()> {
    let kind = reply.text_header("content-type");
    ensure!(kind == Some("application/problem+json"), "{kind:?}");
    let (code, retry) = (member(reply, "code"), member(reply, "retry"));
    ensure!(code == "idempotency_key_reused" && retry == "new_key", "{}", reply.json());
    Ok(())
}

/// A member of the answer's body, null if it is not there.
pub(crate) fn member(reply: &Reply, name: &str) -> Value {
    reply.json().get(name).cloned().unwrap_or_default()
}

pub(crate) fn post(endpoint: &str, key: &str) -> Request {
    Request::new("POST", format!("/api/{endpoint}")).header("idempotency-key", key)
}

pub(crate) fn post_json(endpoint: &str, key: &str, body: impl Into<Vec<u8>>) -> Request {
    post(endpoint, key).header("content-type", "application/json").body(body)
}
