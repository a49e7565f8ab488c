//! Fifty tenants that behave well, while one tenant or a stranger does the worst that a small number of connections allows.
//! The upstream is a stand-in: it answers the filter's own calls as Restate would. Two more attacks have tests of their own, because
//! they need more than that: waits for results (`waits`, with a real Restate), and made-up webhook ids against the gateway's
//! limit of deliveries (`lookups::crowds`).
//!
//! A test fails if more than 1 % of the others' requests fail. How much slower they are is printed and not checked: on a busy
//! machine it says nothing. `EDGE_FAIRNESS_ROUNDS` makes the scenario longer (2 rounds without it).

mod attacks;

use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use attacks::{ATTACKS, Attack};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::{self, Request};
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::{Map, Value, json};

const LISTENER: &str = "fairness";
const TENANTS: usize = 50;
/// So many of the tenants' requests are under way at once.
const AT_ONCE: usize = 4;
const ROUNDS: usize = 2;
/// One failed request in so many is too many.
const ONE_IN: usize = 100;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = ATTACKS.iter().map(|attack| {
        Test::new(attack.name, move |setup: &FairnessSetup| setup.withstands(attack)).within("others_are_served_while")
    });
    Ok(vec![sharing(FairnessSetup::start, tests.collect()).alone()])
}

struct FairnessSetup {
    gateway: TestGateway,
    tokens: Vec<String>,
    /// Numbers of keys, so that each is used once.
    keys: AtomicUsize,
}

/// What became of the tenants' requests.
#[derive(Default)]
struct Outcome {
    times: Vec<Duration>,
    failed: Vec<String>,
}

impl Outcome {
    /// The time in which 99 of 100 were answered.
    fn p99(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() * 99 / 100).copied().unwrap_or_default()
    }
}

/// The scheduler's signature covers the whole request.
fn policy() -> Value {
    let bindings = (0..TENANTS).map(|tenant| {
        let binding = json!({"tenant": name(tenant), "project": "shop", "provider": "gitlab", "secrets": [TOKEN]});
        (webhook(tenant), binding)
    });
    json!({
        "version": 1,
        "allow_inline_secrets": true,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {"retention": "170h"}},
        "routes": [
            {"endpoint": "refunds", "path": "/api/v1/refunds/{order}", "policy": "REQUIRED_A", "target": "Refunds/create",
                "collision": "enforce"},
            {"endpoint": "reports", "path": "/api/v1/reports/run", "policy": "REQUIRED_A", "target": "Reports/run"},
            {"endpoint": "hooks", "path": "/webhooks/{provider}/{webhook_id}", "policy": "REQUIRED_B",
                "target": "Webhooks/ingest", "webhook": {}},
        ],
        "callers": {"scheduler": {
            "subject": "service:scheduler", "routes": ["reports"], "secrets": ["sched_b3bVnQ3N4dYkRr0e1zT5"],
            "signature": {
                "algorithm": "hmac-sha256",
                "signature": {
                    "header": "X-Schedule-Signature", "pairs": {"separator": ",", "key": "v1"}, "encoding": "hex",
                },
                "timestamp": {"pair": "t", "unit": "s", "max_age_s": 300},
                "template": "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}",
            },
        }},
        "webhooks": {"static": bindings.collect::<Map<_, _>>()},
    })
}

const TOKEN: &str = "gitlab-token-of-everybody";

fn name(tenant: usize) -> String {
    format!("tenant-{tenant}")
}

fn webhook(tenant: usize) -> String {
    format!("wh_01JABCDE{tenant:02}")
}

impl FairnessSetup {
    fn start() -> Result<Self> {
        let policy = policy().to_string();
        // The filter has to withstand this by itself: the gateway limits nothing.
        let changes = vec![
            Change::DeliveriesAnHour(None),
            Change::Manager("max_request_headers_kb", json!(96)),
            Change::Manager("common_http_protocol_options", json!({"max_headers_count": 1000})),
            Change::Manager("http2_protocol_options", json!({"max_concurrent_streams": 1000})),
        ];
        let gateway = TestGateway::start(&[(LISTENER.to_owned(), ListenerSpec { policy, changes })])?;
        let token = |tenant| gateway.token(&json!({"tenant_id": name(tenant), "project_id": "shop", "sub": "alice"}));
        // As Restate marks a result that it has stored.
        let mut answer = Answer::default();
        for (name, value) in [("x-restate-id", "inv_1fair"), ("idempotency-expires", "2026-01-02T00:00:00Z")] {
            answer.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        }
        gateway.capture().answer(answer);
        // The last one attacks.
        let tokens = (0..=TENANTS).map(token).collect::<Result<_>>()?;
        Ok(Self { gateway, tokens, keys: AtomicUsize::new(0) })
    }

    /// The token of a tenant that does not behave well.
    fn attacker(&self) -> &str {
        self.tokens.last().map(String::as_str).unwrap_or_default()
    }

    fn withstands(&self, attack: &Attack) -> Result<()> {
        let quiet = self.tenants_ask()?;
        let held = (attack.begin)(self).with_context(|| format!("`{}` does not begin", attack.name))?;
        let sent: usize = held.iter().map(|held| held.sent).sum();
        let attacked = self.tenants_ask()?;
        drop(held);
        let (before, during) = (quiet.p99(), attacked.p99());
        eprintln!(
            "{}: {sent} bytes sent; of {} requests of others {} failed; p99 {before:?} without the attack, \
             {during:?} with it ({:.1} times)",
            attack.name,
            attacked.times.len(),
            attacked.failed.len(),
            during.as_secs_f64() / before.as_secs_f64().max(1e-6),
        );
        ensure!(quiet.failed.is_empty(), "without the attack: {:?}", quiet.failed.first());
        let (failed, all) = (attacked.failed.len(), attacked.times.len());
        ensure!(
            failed * ONE_IN <= all,
            "{failed} of {all} requests of others failed, such as {:?}",
            attacked.failed.first()
        );
        Ok(())
    }

    /// Each tenant sends requests with keys, asks for results, and gets deliveries.
    fn tenants_ask(&self) -> Result<Outcome> {
        let rounds = env::var("EDGE_FAIRNESS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
        let next = AtomicUsize::new(0);
        let ask = || -> Result<Outcome> {
            let mut outcome = Outcome::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= rounds * TENANTS {
                    return Ok(outcome);
                }
                for request in self.requests(number % TENANTS)? {
                    self.send(&request, &mut outcome)?;
                }
            }
        };
        let outcomes: Vec<Result<Outcome>> = thread::scope(|scope| {
            let askers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(ask)).collect();
            askers.into_iter().map(|asker| asker.join().unwrap_or_else(|_| Ok(Outcome::default()))).collect()
        });
        let mut all = Outcome::default();
        for outcome in outcomes {
            let Outcome { times, failed } = outcome?;
            all.times.extend(times);
            all.failed.extend(failed);
        }
        // The upstream keeps requests until somebody takes them.
        drop(self.gateway.capture().take());
        ensure!(all.times.len() == rounds * TENANTS * 3, "{} requests were sent", all.times.len());
        Ok(all)
    }

    /// A request that is compared, a request for a result, and a delivery.
    fn requests(&self, tenant: usize) -> Result<[Request; 3]> {
        let token = self.tokens.get(tenant).context("a tenant")?;
        let key = format!("key-{}", self.keys.fetch_add(1, Ordering::Relaxed));
        let compared = Request::post("/api/v1/refunds/order-1").bearer(token).header("idempotency-key", key.as_str());
        let path = format!("/api/v1/refunds/order-1/by-idempotency-key/{key}/output");
        let result = Request::new("GET", path).bearer(token);
        let delivery = Request::post(format!("/webhooks/gitlab/{}", webhook(tenant)));
        Ok([compared, result, delivery.header("x-gitlab-token", TOKEN).header("idempotency-key", key)])
    }

    fn send(&self, request: &Request, outcome: &mut Outcome) -> Result<()> {
        let begun = Instant::now();
        let reply = raw::exchange(self.gateway.address(LISTENER)?, &request.method, &request.http1());
        outcome.times.push(begun.elapsed());
        match reply {
            Ok(reply) if reply.status == 200 => {}
            Ok(reply) => {
                let body = String::from_utf8_lossy(&reply.body).into_owned();
                outcome.failed.push(format!(
                    "{} {}: {} {body}",
                    request.method,
                    request.target.escape_ascii(),
                    reply.status
                ));
            }
            Err(error) => {
                outcome.failed.push(format!("{} {}: {error:#}", request.method, request.target.escape_ascii()))
            }
        }
        Ok(())
    }
}
