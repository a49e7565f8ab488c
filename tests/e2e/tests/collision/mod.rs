//! Collision detection in a real Envoy, with a real Restate, and with the guard as a program of its own.

mod bodies;
mod comparing;
mod guard;
mod observing;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::chain::Chain;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestEnvironment;
use e2e::http2;
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing, until};
use e2e::wire::PATIENCE;
use harness::guard::{Guard, GuardOptions};
use harness::ports::Ports;
use harness::tokens;
use serde_json::{Value, json};

const LISTENER: &str = "collision";
/// How often a test repeats an observed request at most: on a busy machine a claim may take longer than the filter waits for it.
pub(crate) const ATTEMPTS: usize = 20;
const POLL: Duration = Duration::from_millis(20);

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [comparing::tests(), bodies::tests(), guard::tests()];
    Ok(vec![
        sharing(CollisionSetup::start, tests.into_iter().flatten().collect()),
        sharing(observing::start, observing::tests()),
    ])
}

pub(crate) struct CollisionSetup {
    pub(crate) chain: Chain,
    token: String,
    pub(crate) guard: Mutex<Guard>,
}

/// A test that has everything to itself.
fn test(name: &str, body: impl FnOnce(&CollisionSetup) -> Result<()> + Send + 'static) -> Test<CollisionSetup> {
    Test::new(name, move |setup: &CollisionSetup| body(setup))
}

/// A policy with these members of `backend.guard` and these routes.
pub(crate) fn with_routes(guard: &Value, routes: &[Value]) -> Value {
    json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": guard},
        "routes": routes,
    })
}

pub(crate) fn route(endpoint: &str, target: &str, members: Value) -> Value {
    let mut route =
        json!({"endpoint": endpoint, "path": format!("/api/{endpoint}"), "policy": "REQUIRED_A", "target": target});
    if let (Value::Object(route), Value::Object(members)) = (&mut route, members) {
        route.extend(members);
    }
    route
}

fn enforced(endpoint: &str, target: &str) -> Value {
    route(endpoint, target, json!({"collision": "enforce"}))
}

fn policy() -> Value {
    with_routes(
        &json!({"retention": "170h"}),
        &[
            enforced("refunds", "Refunds/create"),
            enforced("refunds-strict", "Refunds/create"),
            // Each test that counts has endpoints of its own, because counts come with a delay.
            enforced("refunds-at-once", "Refunds/create"),
            enforced("framed", "Webhooks/ingest"),
            enforced("half-way", "Webhooks/ingest"),
        ],
    )
}

/// The answer of `send`, which is repeated after a 503 with the code `dependency_unavailable`, as a client does.
pub(crate) fn repeated(send: impl Fn() -> Result<Reply>) -> Result<Reply> {
    let start = Instant::now();
    loop {
        let reply = send()?;
        if !is_unavailable(&reply) || start.elapsed() > PATIENCE {
            return Ok(reply);
        }
        std::thread::sleep(POLL);
    }
}

fn is_unavailable(reply: &Reply) -> bool {
    reply.status == 503 && member(reply, "code") == "dependency_unavailable"
}

impl CollisionSetup {
    fn start() -> Result<Self> {
        let listener = ListenerSpec { policy: policy().to_string(), changes: vec![Change::Trailers] };
        let around = TestEnvironment { concurrency: 2, ..TestEnvironment::default() };
        let mut chain = Chain::start(around, &[(LISTENER.to_owned(), listener)])?;
        let options = GuardOptions::new(chain.directory.path(), Ports::free()?.service)?;
        let guard = runtime()?.block_on(async {
            let guard = Guard::start(options).await?;
            chain.restate.register(&guard.url()).await?;
            anyhow::Ok(guard)
        })?;
        let token = chain.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
        Ok(Self { chain, token, guard: Mutex::new(guard) })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
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

    /// Sends a request over HTTP/2.
    pub(crate) fn http2(&self, request: &Request) -> Result<Reply> {
        http2::exchange(self.address()?, &self.authenticated(request))
    }

    /// Sends a request and checks the status of its answer. A 503 that is not expected is repeated, as a client does.
    pub(crate) fn answered(&self, what: &str, request: &Request, status: u16) -> Result<Reply> {
        let reply = if status == 503 { self.send(request) } else { repeated(|| self.send(request)) };
        let reply = reply.context(what.to_owned())?;
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
