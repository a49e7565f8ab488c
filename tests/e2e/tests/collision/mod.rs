//! Collision detection in a real Envoy, with a real Restate, and with the guard as a program of its own.

mod bodies;
mod comparing;
mod guard;
mod observing;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::chain::Chain;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestEnvironment;
use e2e::http2;
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing, until};
use e2e::wire::PATIENCE;
use harness::guard::{Guard, GuardOptions};
use harness::ports::Ports;
use serde_json::{Value, json};

const LISTENER: &str = "collision";
/// A listener whose policy names a guard that Restate does not know.
pub(crate) const WITHOUT_GUARD: &str = "without-guard";
/// A listener whose backend is of the kind `generic`. Restate stands for it: it takes a key on any path of a service.
pub(crate) const GENERIC: &str = "generic";
/// How often a test repeats an observed request at most: on a busy machine a claim may take longer than the filter waits for it.
pub(crate) const ATTEMPTS: usize = 20;
const POLL: Duration = Duration::from_millis(20);

/// The limit of the routes whose bodies are measured.
pub(crate) const LIMIT: usize = 100_000;

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
    /// How many whole requests each endpoint got.
    sent: Mutex<BTreeMap<String, u64>>,
}

/// A test that has everything to itself.
fn test(name: &str, body: impl FnOnce(&CollisionSetup) -> Result<()> + Send + 'static) -> Test<CollisionSetup> {
    Test::new(name, move |setup: &CollisionSetup| body(setup))
}

/// A policy with these members of `backend.guard` and these routes.
pub(crate) fn with_routes(guard: &Value, routes: &[Value]) -> Value {
    json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "jwt",
            "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id",
            "project": "project_id",
            "subject": {"field": "sub", "type": "user"}
        }]},
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

/// A route that compares, and whose requests wait for a guard that is slow: clients repeat them.
pub(crate) fn enforced(endpoint: &str, target: &str, members: Value) -> Value {
    let mut route = route(endpoint, target, json!({"collision": "enforce"}));
    if let (Value::Object(route), Value::Object(members)) = (&mut route, members) {
        route.extend(members);
    }
    route
}

fn policy() -> Value {
    let (limited, observed) = (json!({"max_body_bytes": LIMIT}), json!({"collision": "observe"}));
    with_routes(
        &json!({"retention": "170h"}),
        &[
            enforced("refunds", "Refunds/create", json!({})),
            enforced("messages", "Conversations/sendMessage", json!({})),
            enforced("refunds-json", "Refunds/create", json!({"fingerprint": "json"})),
            enforced("refunds-headers", "Refunds/create", json!({"fingerprint_headers": ["prefer", "If-Match"]})),
            enforced("projects", "Projects/list", json!({"methods": ["GET"]})),
            enforced("refunds-strict", "Refunds/create", json!({})),
            // Each test that counts has endpoints of its own, because counts come with a delay.
            enforced("refunds-at-once", "Refunds/create", json!({})),
            route("refunds-gone", "Refunds/create", observed.clone()),
            enforced("framed-enforced", "Webhooks/ingest", json!({})),
            route("framed-observed", "Webhooks/ingest", observed.clone()),
            enforced("half-enforced", "Webhooks/ingest", json!({})),
            route("half-observed", "Webhooks/ingest", observed),
            enforced("enforced", "Webhooks/ingest", limited),
            route("observed", "Webhooks/ingest", json!({"collision": "observe", "max_body_bytes": LIMIT})),
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
        let listener = |policy: Value| ListenerSpec { policy: policy.to_string(), changes: vec![Change::Trailers] };
        let around = TestEnvironment { concurrency: 2, ..TestEnvironment::default() };
        let listeners = [
            (LISTENER, policy()),
            (WITHOUT_GUARD, guard::policy_without_guard()),
            (GENERIC, guard::policy_of_generic_backend()),
        ];
        let listeners = listeners.map(|(name, policy)| (name.to_owned(), listener(policy)));
        let mut chain = Chain::start(around, &listeners)?;
        let options = GuardOptions::new(chain.directory.path(), Ports::free()?.service)?;
        let guard = runtime()?.block_on(async {
            let guard = Guard::start(options).await?;
            chain.restate.register(&guard.url()).await?;
            anyhow::Ok(guard)
        })?;
        let token = chain.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
        Ok(Self { chain, token, guard: Mutex::new(guard), sent: Mutex::default() })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.chain.gateway.address(LISTENER)
    }

    /// The request with the caller's token.
    pub(crate) fn authenticated(&self, request: &Request) -> Request {
        request.clone().bearer(&self.token)
    }

    pub(crate) fn send(&self, request: &Request) -> Result<Reply> {
        self.note(request);
        let request = self.authenticated(request);
        raw::exchange(self.address()?, &request.method, &request.http1())
    }

    /// Sends a request over HTTP/2 without counting it.
    pub(crate) fn http2(&self, request: &Request) -> Result<Reply> {
        http2::exchange(self.address()?, &self.authenticated(request))
    }

    /// As [`repeated`]; `send` sends this request, which is counted.
    pub(crate) fn repeated(&self, request: &Request, send: impl Fn() -> Result<Reply>) -> Result<Reply> {
        repeated(|| {
            self.note(request);
            send()
        })
    }

    /// As [`CollisionSetup::repeated`], and the answer has to be 200.
    pub(crate) fn patiently(&self, what: &str, request: &Request, send: impl Fn() -> Result<Reply>) -> Result<()> {
        let reply = self.repeated(request, send)?;
        ensure!(reply.status == 200, "{what}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
        Ok(())
    }

    /// Counts a whole request that a test sends.
    pub(crate) fn note(&self, request: &Request) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        *sent.entry(endpoint(request)).or_default() += 1;
    }

    /// Sends a request and checks the status of its answer. A 503 that is not expected is repeated, as a client does.
    pub(crate) fn answered(&self, what: &str, request: &Request, status: u16) -> Result<Reply> {
        let once = || {
            let request = self.authenticated(request);
            raw::exchange(self.address()?, &request.method, &request.http1())
        };
        let reply = if status == 503 { self.send(request) } else { self.repeated(request, once) };
        let reply = reply.context(what.to_owned())?;
        let text = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status == status, "{what}: {} instead of {status}: {text}", reply.status);
        Ok(reply)
    }

    /// As [`CollisionSetup::all_observed`] for one request.
    pub(crate) fn observed(&self, request: &Request, result: &str, send: impl Fn() -> Result<()>) -> Result<()> {
        self.all_observed(&endpoint(request), 1, result, send)
    }

    /// Repeats `send`, which sends so many requests to an endpoint that observes, until the claims of all of them have this
    /// result: a claim can come too late.
    pub(crate) fn all_observed(
        &self,
        endpoint: &str,
        requests: u64,
        result: &str,
        send: impl Fn() -> Result<()>,
    ) -> Result<()> {
        for _ in 0..ATTEMPTS {
            self.decided(endpoint)?;
            let before = self.claims(result, endpoint)?;
            send()?;
            self.decided(endpoint)?;
            if self.claims(result, endpoint)? >= before + requests {
                return Ok(());
            }
        }
        bail!("not all claims of {endpoint} had the result {result} in {ATTEMPTS} attempts")
    }

    /// Waits until each request of an endpoint that observes has a result of its claim.
    fn decided(&self, endpoint: &str) -> Result<()> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner).get(endpoint).copied().unwrap_or_default();
        let counted = || self.counter("idempotency_lookup_total", &[("store", "guard")], endpoint);
        self.until("each claim has a result", || Ok(counted()? >= sent))
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

/// The endpoint of a request, from its path `/api/{endpoint}`.
fn endpoint(request: &Request) -> String {
    let target = String::from_utf8_lossy(&request.target).into_owned();
    let path = target.split('?').next().unwrap_or_default();
    path.trim_start_matches("/api/").to_owned()
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
