//! Many requests at once, of every kind: each gets its own answer, no instance of the module ends, and nothing is left
//! behind. On amd64 this is also the test that the plugin saves the register which wazero's machine code keeps and Go's
//! memmove in a plugin does not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::deliveries::{now, stripe};
use e2e::raw::{Connection, Reply, Request};
use e2e::runner::Test;
use harness::senders::STRIPE_PATH;
use serde_json::{Value, json};

use super::captured::{DEVICES, KrakendSetup, MESSAGES, PROJECTS, REFUNDS, as_received, claims, shown, values};
use super::standin::Way;

const REQUESTS: usize = 9_000;
/// With the race detector everything takes many times as long.
const REQUESTS_WITH_RACE: usize = 1_500;
const CONNECTIONS: usize = 100;
const TENANTS: [&str; 5] = ["acme", "globex", "initech", "umbrella", "hooli"];

/// The log's lines would take most of the time.
pub(crate) fn quiet() -> Vec<(&'static str, Value)> {
    vec![("log_records", json!(false))]
}

pub(crate) fn tests(way: Way) -> Vec<Test<KrakendSetup>> {
    let name = format!("{REQUESTS} mixed requests, {CONNECTIONS} at a time");
    test(way, name, |setup| {
        // Instances, pools and connections that are made once.
        send_all(setup, CONNECTIONS)?;
        at_rest(setup)?;
        let goroutines = setup.gateway.goroutines()?;
        send_all(setup, REQUESTS)?;
        at_rest(setup)?;
        // An instance that is started in between has a goroutine for its ticks, and so has the spare one.
        let back = |_: &_| Ok(setup.gateway.goroutines()? <= goroutines + 2);
        setup.gateway.until("as many goroutines as before", back).with_context(|| {
            let stacks = setup.gateway.stacks().unwrap_or_default();
            format!("there were {goroutines} goroutines before; now there are\n{stacks}")
        })
    })
}

fn test(way: Way, name: String, body: fn(&KrakendSetup) -> Result<()>) -> Vec<Test<KrakendSetup>> {
    let test = Test::new(name, move |setup: &KrakendSetup| {
        setup.clear();
        body(setup)
    });
    vec![test.within(way.name()).within("load")]
}

pub(crate) fn race_tests(way: Way) -> Vec<Test<KrakendSetup>> {
    let name = format!("{REQUESTS_WITH_RACE} mixed requests with the race detector");
    test(way, name, |setup| {
        send_all(setup, REQUESTS_WITH_RACE)?;
        at_rest(setup)?;
        let log = setup.gateway.log()?;
        ensure!(!log.contains("DATA RACE"), "{log}");
        Ok(())
    })
}

/// No stream or call is open, and no instance had to be closed.
fn at_rest(setup: &KrakendSetup) -> Result<()> {
    for name in ["idempotency_bridge_streams", "idempotency_bridge_calls", "idempotency_bridge_held_bytes"] {
        setup.gateway.until(&format!("{name} is 0"), |gateway| Ok(gateway.metric(name)? == 0.0))?;
    }
    let closed = setup.gateway.metric("idempotency_bridge_instances_closed_total")?;
    ensure!(closed == 0.0, "{closed} instances were closed:\n{}", setup.gateway.log()?);
    Ok(())
}

/// What a request is, what has to come of it, and the number that its body has.
struct Planned {
    request: Request,
    status: u16,
    /// The code of the problem document.
    code: Option<&'static str>,
    /// What the upstream gets: the key and the tenant.
    upstream: Option<(Option<String>, String)>,
}

/// The kinds take turns.
fn planned(setup: &KrakendSetup, tokens: &[String], number: usize) -> Result<Planned> {
    let at = (number / 10) % TENANTS.len();
    let (tenant, token) = TENANTS.get(at).zip(tokens.get(at)).context("no such tenant")?;
    let (body, raw) = (json!({"n": number}).to_string(), format!("key-{number}"));
    let post = |path: &str| Request::new("POST", path).header("content-type", "application/json").body(body.clone());
    let keyed = |path: &str| post(path).bearer(token).header("Idempotency-Key", raw.clone());
    let key = format!("t-{tenant}:health-prod:user:alice:{raw}");
    let forwarded = |request: Request, key: Option<String>, tenant: &str| Planned {
        request,
        status: 200,
        code: None,
        upstream: Some((key, tenant.to_owned())),
    };
    let refused =
        |request: Request, status: u16, code: Option<&'static str>| Planned { request, status, code, upstream: None };
    let event = json!({"id": format!("evt_{number}"), "n": number}).to_string();
    let array = setup.signer.mint(&json!({"tenant_id": [tenant], "project_id": "p", "sub": "alice"}))?;
    Ok(match number % 10 {
        // Its fingerprint is claimed with a call of the module's own.
        0 => forwarded(keyed(REFUNDS), Some(key), tenant),
        1 | 2 => forwarded(keyed(MESSAGES), Some(key), tenant),
        3 => forwarded(keyed(DEVICES), None, tenant),
        4 => {
            let delivery = stripe(STRIPE_PATH, &[&setup.senders.stripe], now(), event);
            let key = format!("t-acme:health-prod:service:webhook-ingest:stripe-evt_{number}");
            forwarded(delivery.header("X-Claim-Tenant", tenant.as_bytes()), Some(key), "acme")
        }
        5 => refused(stripe(STRIPE_PATH, &["whsec_other"], now(), event), 401, Some("webhook_signature_invalid")),
        6 => refused(post(MESSAGES).bearer(token), 400, Some("idempotency_key_required")),
        7 => refused(post(MESSAGES).header("Idempotency-Key", raw), 401, None),
        8 => refused(post(MESSAGES).bearer(&array).header("Idempotency-Key", raw), 401, Some("identity_missing")),
        _ => {
            let request = Request::new("GET", PROJECTS).bearer(token).header("Idempotency-Key", raw);
            refused(request, 400, Some("idempotency_key_prohibited"))
        }
    })
}

/// Sends them all, and compares each answer and all that reached the upstream.
fn send_all(setup: &KrakendSetup, count: usize) -> Result<()> {
    let tokens = TENANTS.map(|tenant| setup.signer.mint(&claims(tenant, "alice")));
    let tokens = tokens.into_iter().collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let expected = thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(|| worker(setup, &tokens, &next, count))).collect();
        let mut expected = BTreeMap::new();
        for worker in workers {
            match worker.join() {
                Ok(sent) => expected.extend(sent?),
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(expected)
    })
    .with_context(|| setup.gateway.log().unwrap_or_default())?;

    let mut seen = BTreeMap::new();
    for message in setup.capture.take() {
        let got = as_received(message)?;
        let body: Value = serde_json::from_slice(&got.body)?;
        let number = body.get("n").and_then(Value::as_u64).context("a body without its number")?;
        let key = values(&got, "idempotency-key");
        ensure!(key.len() <= 1, "{got}");
        let before = seen.insert(number, (key.into_iter().next(), values(&got, "x-tenant-id").join(" and ")));
        ensure!(before.is_none(), "request {number} reached the upstream twice");
    }
    for (number, expected) in &expected {
        let seen = seen.get(number);
        ensure!(seen == Some(expected), "request {number} reached the upstream with {seen:?}, not with {expected:?}");
    }
    ensure!(seen.len() == expected.len(), "{} requests reached the upstream, not {}", seen.len(), expected.len());
    Ok(())
}

type Forwarded = BTreeMap<u64, (Option<String>, String)>;

/// Sends requests over one connection until none is left, and returns what has to reach the upstream.
fn worker(setup: &KrakendSetup, tokens: &[String], next: &AtomicUsize, count: usize) -> Result<Forwarded> {
    let mut expected = BTreeMap::new();
    let mut connection = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(expected);
        }
        let Planned { request, status, code, upstream } = planned(setup, tokens, number)?;
        let mut open = match connection.take() {
            Some(open) => open,
            None => Connection::open(setup.gateway.address())?,
        };
        open.send(&request.http1())?;
        let reply = open.answer(&request.method)?;
        check(&reply, status, code).with_context(|| format!("request {number}: {:?}", request))?;
        if reply.text_header("connection") != Some("close") {
            connection = Some(open);
        }
        expected.extend(upstream.map(|upstream| (number as u64, upstream)));
    }
}

fn check(reply: &Reply, status: u16, code: Option<&str>) -> Result<()> {
    let json = reply.json();
    let told = json.get("code").and_then(Value::as_str);
    ensure!((reply.status, told) == (status, code), "not {status} {code:?}: {}", shown(reply));
    Ok(())
}
