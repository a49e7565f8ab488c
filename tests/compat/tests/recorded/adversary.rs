//! Hostile callers: random requests of users of two tenants, who use the same keys, write paths in every way, and claim to be others or
//! what only gateway and recorder say. Each brings its number in `x-mark`, and the API tells for which number an answer was made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use e2e::http2;
use e2e::raw::{self, Reply, Request};
use e2e::reading::path_behind_decoded_first;
use fastrand::Rng;
use harness::ports::loopback;
use serde_json::{Value, json};

use super::crashes::side_by_side;
use super::setup::{AS_WRITTEN, Recorded, UNIFORM};
use super::{HEADERS, METHOD, TARGET, seen};

/// `EDGE_RECORDED_REQUESTS` and `EDGE_RECORDED_SEED` set others.
const REQUESTS: usize = 3_000;
const SEED: usize = 1;
const CLIENTS: usize = 50;

/// Keys that every caller uses: some look like those of others, or like the recorder's own.
const KEYS: [&str; 6] = [
    "k1",
    "K1",
    "\"k1\"",
    "t-globex:shop:user:alice:k1",
    "k1.AAAAAAAAAAAAAAAA.00",
    "k1.AAAAAAAAAAAAAAAA.00.AAAAAAAAAAAAAAAA.00",
];
/// What stands in the place of a slash.
const SLASHES: [&str; 9] =
    ["//", "/./", "/x/../", "/%2e/", "/x/%2E%2e/", "%2f", "\\", "/orders/i2/../../", "/notes/i1/%2e%2e/../"];
/// What stands behind a path, with spaces between.
const ENDS: &str = r"/ /. /.. ? ?a=1 ?/../i2 #x %00 %zz ;a=1 /../i2 /%2e%2e/i2 %2f..%2fi2 %3fx \..\i2 %252e";
/// Lines that are not the client's to write, and those that are about a connection.
const LINES: [(&str, &str); 25] = [
    ("idempotency-key", "k2"),
    ("idempotency_key", "k2"),
    ("idempotency-key", ""),
    ("idempotency-fingerprint", "forged"),
    ("idempotency-fingerprint", ""),
    ("idempotency_fingerprint", "forged"),
    ("x-edge-idempotency", "elsewhere"),
    ("x_edge_idempotency", "elsewhere"),
    ("x-tenant-id", "globex"),
    ("x_tenant_id", "globex"),
    ("x-project-id", "other"),
    ("x-subject", "user:bob"),
    ("x_subject", "user:bob"),
    ("x-restate-id", "inv_1"),
    ("idempotent-replayed", "true"),
    ("idempotency-retry", "new_key"),
    ("x-http-method-override", "PUT"),
    ("x-envoy-original-path", "/orders/i2"),
    ("x-forwarded-host", "elsewhere.example"),
    ("connection", "idempotency-key, x-tenant-id, x-edge-idempotency"),
    ("connection", "idempotency-fingerprint, x-subject"),
    ("upgrade", "websocket"),
    ("te", "trailers"),
    ("expect", "100-continue"),
    ("content-type", "application/grpc"),
];

/// A request, and what is known of it.
struct Attempt {
    caller: (&'static str, &'static str),
    listener: &'static str,
    is_http2: bool,
    request: Request,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    First,
    Replay,
    /// By gateway, filter or recorder, or by Express before the API's own code.
    Refused(u16),
    /// What no client library sends, or what Envoy closes the connection for.
    Unanswered,
}

impl Attempt {
    fn random(setup: &Recorded, seed: usize, number: usize) -> Result<Self> {
        let random = &mut Rng::with_seed((u64::try_from(seed)? << 32) | u64::try_from(number)?);
        let caller = (pick(random, &["acme", "globex"])?, pick(random, &["alice", "bob"])?);
        let routes = [("POST", "orders"), ("POST", "orders"), ("PUT", "orders"), ("POST", "notes"), ("GET", "orders")];
        let (method, collection) = pick(random, &routes)?;
        let mut target = format!("/{collection}/i{}", random.u8(1..=3));
        for _ in 0..random.usize(0..=2) {
            mutate(&mut target, random, loopback(setup.ports.status))?;
        }
        let mut request = setup.request_of(caller, method, target)?.header("x-mark", number.to_string());
        if method != "GET" || random.u8(..) < 25 {
            request = request.body(pick(random, &["tea", "gold"])?);
            if random.u8(..) < 230 {
                request = request.header(pick(random, &["idempotency-key", "Idempotency-Key"])?, pick(random, &KEYS)?);
            }
        }
        for _ in 0..random.usize(0..=2) {
            let (name, value) = pick(random, &LINES)?;
            request = request.header(&if random.bool() { name.to_ascii_uppercase() } else { name.to_owned() }, value);
        }
        let is_http2 = random.u8(..) < 80;
        if is_http2 {
            request.headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
        }
        Ok(Self { caller, listener: pick(random, &[UNIFORM, AS_WRITTEN])?, is_http2, request })
    }

    fn send(&self, setup: &Recorded) -> Result<Reply> {
        let address = setup.address(self.listener)?;
        match self.is_http2 {
            true => http2::exchange(address, &self.request),
            false => raw::exchange(address, &self.request.method, &self.request.http1()),
        }
    }

    /// What a lenient server does for it.
    fn operation(&self) -> (String, String) {
        let target = String::from_utf8_lossy(&self.request.target).into_owned();
        let origin = target.split_once("://").filter(|(scheme, _)| !scheme.contains('/'));
        let target = origin.map_or(target.as_str(), |(_, rest)| rest.find('/').map_or("/", |at| rest.split_at(at).1));
        let path = target.split('#').next().unwrap_or_default();
        (self.request.method.clone(), path_behind_decoded_first(path.as_bytes()))
    }

    /// Whether the API was told who asks, and one of this request's keys as that of its caller.
    fn is_told(&self, tenant: &str, subject: &str, key: &str) -> bool {
        let sent = self.request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
        let (of_tenant, of_subject) = self.caller;
        let is_own = key.strip_prefix(&format!("t-{of_tenant}:shop:user:{of_subject}:")).is_some_and(|raw| {
            sent.map(|(_, value)| value.as_slice())
                .any(|value| value == raw.as_bytes() || value == format!("\"{raw}\"").as_bytes())
        });
        tenant == of_tenant && subject == format!("user:{of_subject}") && (is_own || key.is_empty())
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caller, listener, is_http2, request } = self;
        let lines = request.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        let lines: Vec<String> = lines.map(|(name, value)| format!("{name}: {}", value.escape_ascii())).collect();
        let target = request.target.escape_ascii();
        write!(f, "{caller:?} {listener} {is_http2} {} {target} {lines:?}", request.method)
    }
}

fn pick<T: Copy>(random: &mut Rng, list: &[T]) -> Result<T> {
    random.choice(list).copied().context("an empty list")
}

fn mutate(target: &mut String, random: &mut Rng, elsewhere: SocketAddr) -> Result<()> {
    match random.u8(..6) {
        0 => {
            let slash = pick(random, &SLASHES)?;
            replace(target, random, |byte| *byte == b'/', |_| slash.to_owned());
        }
        1 => replace(target, random, u8::is_ascii_lowercase, |byte| format!("%{byte:02x}")),
        2 => replace(target, random, u8::is_ascii_digit, |byte| format!("%{byte:02X}")),
        3 => target.push_str(pick(random, &ENDS.split(' ').collect::<Vec<_>>())?),
        4 => target.make_ascii_uppercase(),
        _ => {
            let before = pick(random, &["http://api.example.com", "http://x@", "http://", "//", "@"])?;
            let host = if before.ends_with("com") { String::new() } else { elsewhere.to_string() };
            target.insert_str(0, &format!("{before}{host}"));
        }
    }
    Ok(())
}

/// Writes a byte of this kind in another way.
fn replace(target: &mut String, random: &mut Rng, is: impl Fn(&u8) -> bool, by: impl FnOnce(u8) -> String) {
    let places: Vec<(usize, u8)> = target.bytes().enumerate().filter(|(_, byte)| is(byte)).collect();
    if let Some((place, byte)) = random.choice(places) {
        target.replace_range(place..=place, &by(byte));
    }
}

/// What an answer is, or what is wrong with it.
fn judge(attempts: &[Attempt], number: usize, reply: &Reply) -> Result<Fate> {
    let attempt = attempts.get(number).context("no such request")?;
    if reply.header("x-seen").is_none() {
        let text = String::from_utf8_lossy(&reply.body);
        ensure!(!text.contains("/metrics") && !text.contains("edge_recorder"), "it got to another upstream");
        // A call of gRPC is refused with 200 and a status of its own.
        let is_refusal = (400..500).contains(&reply.status) || reply.header("grpc-status").is_some();
        ensure!(is_refusal, "neither an answer of the API nor a refusal");
        return Ok(Fate::Refused(reply.status));
    }
    let headers = seen(reply, HEADERS)?;
    let told = |name: &str| headers.get(name).and_then(Value::as_str).unwrap_or_default();
    let first: usize = told("x-mark").parse().context("the API got no number")?;
    let made_for = attempts.get(first).context("the API got a number that nobody has")?;
    let same = made_for.caller == attempt.caller && made_for.operation() == attempt.operation();
    ensure!(same, "it was made for request {first}: {made_for}");
    ensure!(attempt.is_told(told("x-tenant-id"), told("x-subject"), told("idempotency-key")), "another caller or key");
    let of_gateway = (told("x-project-id"), told("x-edge-idempotency")) == ("shop", "counter");
    ensure!(of_gateway && told("idempotency-fingerprint") != "forged", "the API was told what the client claims");
    let target = seen(reply, TARGET)?;
    let path = path_behind_decoded_first(target.as_str().unwrap_or_default().as_bytes());
    let (method, of_request) = attempt.operation();
    ensure!(seen(reply, METHOD)? == json!(method) && path == of_request, "the API did {method} {target}");
    let is_replay = reply.header("idempotent-replayed").is_some();
    ensure!(is_replay == (first != number), "the mark of a replay is wrong");
    let compares = method == "POST" && path.starts_with("/orders/");
    ensure!(!compares || made_for.request.body == attempt.request.body, "request {first} had another body");
    Ok(if is_replay { Fate::Replay } else { Fate::First })
}

/// How much the API did. Each request and each key of an operation has one effect, which is its caller's.
fn effects(attempts: &[Attempt], log: &str) -> Result<usize> {
    let (mut numbers, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        let (did, told) = line.split_once('\t').context("an effect")?;
        let [mark, tenant, subject, key, _]: [String; 5] = serde_json::from_str(told)?;
        let Ok(number) = mark.parse::<usize>() else { continue };
        let attempt = attempts.get(number).context("a number that nobody has")?;
        ensure!(attempt.is_told(&tenant, &subject, &key), "another caller or key: {line} for {attempt}");
        ensure!(numbers.insert(number), "a second effect of {attempt}");
        ensure!(key.is_empty() || keys.insert((did, key)), "a second effect of a key: {line}");
    }
    Ok(numbers.len())
}

pub(super) fn run(setup: &Recorded) -> Result<()> {
    let set = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let (count, seed) = (set("EDGE_RECORDED_REQUESTS", REQUESTS), set("EDGE_RECORDED_SEED", SEED));
    let attempts = (0..count).map(|number| Attempt::random(setup, seed, number)).collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let fates = side_by_side(CLIENTS, |_| {
        let mut fates = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(attempt) = attempts.get(number) else { return Ok(fates) };
            fates.push(match attempt.send(setup) {
                Ok(reply) => judge(&attempts, number, &reply).with_context(|| {
                    let seen = reply.text_header("x-seen").unwrap_or_default();
                    format!("seed {seed}, request {number}: {attempt} got {} {seen}", reply.status)
                })?,
                Err(_) => Fate::Unanswered,
            });
        }
    })?;
    let mut counts = BTreeMap::new();
    fates.into_iter().flatten().for_each(|fate| *counts.entry(fate).or_insert(0) += 1);
    let effects = effects(&attempts, &setup.log()?).with_context(|| format!("seed {seed}"))?;
    println!("{count} requests with seed {seed}: {counts:?}, {effects} effects");
    ensure!(setup.trapped()?.is_none(), "{:?}", setup.trapped());
    for fate in [Fate::First, Fate::Replay] {
        ensure!(counts.get(&fate).is_some_and(|found| found * 10 > count), "too few of {fate:?}: {counts:?}");
    }
    Ok(())
}
