//! Case B: deliveries signed as their providers sign them, in every way a body can come, and what the upstream gets.

mod bodies;
mod broken;
mod targets;
mod verdicts;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries::{self, now};
use e2e::gateway::{Received, Seen, TestEnvironment, TestGateway, sorted};
use e2e::raw::{Connection, Reply, Request};
use e2e::runner::{Group, Test, sharing};
use e2e::wire::HeaderLine;
use serde_json::{Value, json};

const POLICY: &str = include_str!("policy.json");
const PUBLIC_URL: &str = "https://api.example.com";

/// Secrets by the variables in which the filter finds them.
const STRIPE: (&str, &str) = ("E2E_STRIPE", "whsec_stripe_current");
const STRIPE_PREVIOUS: (&str, &str) = ("E2E_STRIPE_PREVIOUS", "whsec_stripe_previous");
const GITHUB: (&str, &str) = ("E2E_GITHUB", "github, in the environment");
const TWILIO: (&str, &str) = ("E2E_TWILIO", "twilio_auth_token");
const STANDARD: (&str, &str) = ("E2E_STANDARD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
const SECRETS: [(&str, &str); 5] = [STRIPE, STRIPE_PREVIOUS, GITHUB, TWILIO, STANDARD];
/// That of `wh_github01`, which stands in the document.
const GITHUB_INLINE: &str = "github, in the document";

const STRIPE_PATH: &str = "/api/v1/hooks/stripe/wh_stripe01";
const GITHUB_PATH: &str = "/api/v1/hooks/github/wh_github01";
const TWILIO_PATH: &str = "/api/v1/hooks/twilio/wh_twilio01";
const STANDARD_PATH: &str = "/api/v1/hooks/standard_webhooks/wh_standard";

/// The most that the routes below `/api/v1/hooks` take.
const LIMIT: usize = 65_536;

/// The listener as it is shipped.
const SHIPPED: &str = "shipped";
/// One that lets trailers pass over HTTP/1.1.
const TRAILERS: &str = "trailers";
/// One that buffers less than the filter would take, and one that buffers more than the default limit.
const NARROW: &str = "narrow";
const NARROW_BUFFER: usize = 16_384;
const WIDE: &str = "wide";
const WIDE_BUFFER: usize = (1 << 20) + 65_536;
/// One that upgrades connections.
const UPGRADES: &str = "upgrades";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [verdicts::tests(), bodies::tests(), broken::tests()];
    Ok(vec![
        sharing(WebhooksSetup::start, tests.into_iter().flatten().collect()),
        sharing(targets::start, targets::tests()),
    ])
}

struct WebhooksSetup {
    gateway: TestGateway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

fn surroundings() -> TestEnvironment {
    let environment = SECRETS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    TestEnvironment { environment: environment.into(), ..TestEnvironment::default() }
}

fn listener(changes: &[Change]) -> ListenerSpec {
    let names = SECRETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    ListenerSpec { policy: POLICY.to_owned(), changes: [&[Change::Environment(names)], changes].concat() }
}

impl WebhooksSetup {
    fn start() -> Result<Self> {
        let listeners = [
            (SHIPPED, listener(&[])),
            (TRAILERS, listener(&[Change::Trailers])),
            (NARROW, listener(&[Change::ConnectionBuffer(u32::try_from(NARROW_BUFFER)?)])),
            (UPGRADES, listener(&[Change::Manager("upgrade_configs", json!([{"upgrade_type": "websocket"}]))])),
            (WIDE, listener(&[Change::ConnectionBuffer(u32::try_from(WIDE_BUFFER)?)])),
        ];
        let gateway =
            TestGateway::start_within(&surroundings(), &listeners.map(|(name, listener)| (name.to_owned(), listener)))?;
        Ok(Self { gateway })
    }

    fn send(&self, listener: &str, protocol: Protocol, request: &Request) -> Result<Seen> {
        match protocol {
            Protocol::Http1 => self.gateway.http1(listener, request),
            Protocol::Http2 => self.gateway.http2(listener, request),
        }
    }

    /// A delivery that is forwarded: with this key behind the namespace of `acme`, or without one.
    fn forwarded(&self, listener: &str, protocol: Protocol, request: &Request, key: Option<&str>) -> Result<()> {
        let label = || format!("{protocol:?} {} on `{listener}`", request.target.escape_ascii());
        let seen = self.send(listener, protocol, request).with_context(label)?;
        let key = key.map(|key| format!("t-acme:health-prod:service:webhook-ingest:{key}"));
        expect_forwarded(&seen, &delivered(request, key.as_deref())).with_context(label)
    }

    /// A delivery that is refused, and one after it that is not.
    fn refused(&self, listener: &str, protocol: Protocol, request: &Request, status: u16, code: &str) -> Result<()> {
        let label = || format!("{protocol:?} {} on `{listener}`", request.target.escape_ascii());
        let seen = self.send(listener, protocol, request).with_context(label)?;
        expect_refused(&seen, status, code).with_context(label)?;
        self.sound(listener)
    }

    /// A delivery as it should be, which is forwarded; and no VM has failed.
    fn sound(&self, listener: &str) -> Result<()> {
        let request = stripe("evt_sound");
        self.forwarded(listener, Protocol::Http1, &request, Some("stripe-evt_sound")).context("the next delivery")?;
        let log = self.gateway.log()?;
        let trap = log.lines().find(|line| line.contains("[critical]") || line.contains("panicked"));
        ensure!(trap.is_none(), "Envoy's log: {}", trap.unwrap_or_default());
        Ok(())
    }
}

/// An event of Stripe with this id, signed now.
fn stripe(id: &str) -> Request {
    deliveries::stripe(STRIPE_PATH, &[STRIPE.1], now(), event(id))
}

fn event(id: &str) -> String {
    json!({"id": id, "object": "event", "data": {"object": {"id": "not this one"}}}).to_string()
}

/// What the upstream gets of a delivery: no signature, no identity that came in, the key and the identity of the binding.
fn delivered(request: &Request, key: Option<&str>) -> Received {
    const GONE: [&str; 8] = [
        "content-length",
        "transfer-encoding",
        "stripe-signature",
        "x-hub-signature-256",
        "x-twilio-signature",
        "webhook-signature",
        "idempotency-key",
        "authorization",
    ];
    let kept = request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    // Twilio's token stays only where the key is made of it.
    let is_unread = |name: &str, value: &[u8]| {
        name == "i-twilio-idempotency-token" && !key.is_some_and(|key| key.as_bytes().ends_with(value))
    };
    let is_kept = |(name, value): &HeaderLine| !GONE.contains(&name.as_str()) && !is_unread(name, value);
    let mut headers: Vec<HeaderLine> = kept.filter(is_kept).collect();
    let line = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    headers.push(line("x-tenant-id", "acme"));
    headers.push(line("x-project-id", "health-prod"));
    headers.push(line("x-subject", "service:webhook-ingest"));
    headers.extend(key.map(|key| line("idempotency-key", key)));
    Received {
        method: "POST".to_owned(),
        target: b"/restate/call/Refunds/create".to_vec(),
        authority: request.authority.clone().into_bytes(),
        headers: sorted(headers),
        body: request.body.clone(),
        trailers: Vec::new(),
    }
}

fn expect_forwarded(seen: &Seen, expected: &Received) -> Result<()> {
    let Seen { reply, received } = seen;
    ensure!(reply.status == 200, "status {} instead of 200: {}", reply.status, text(reply));
    ensure!(received.len() == 1, "the upstream got {} requests", received.len());
    let same = received.first() == Some(expected);
    ensure!(same, "the upstream got\n{}\n  instead of\n{expected}", seen.upstream());
    Ok(())
}

fn expect_refused(seen: &Seen, status: u16, code: &str) -> Result<()> {
    ensure!(seen.received.is_empty(), "the upstream got\n{}", seen.upstream());
    problem(&seen.reply, status, code)
}

fn problem(reply: &Reply, status: u16, code: &str) -> Result<()> {
    ensure!(reply.status == status, "status {} instead of {status}: {}", reply.status, text(reply));
    ensure!(reply.json().get("code").and_then(Value::as_str) == Some(code), "{} instead of {code}", text(reply));
    Ok(())
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// A test that has the gateway for itself.
fn test(
    name: impl Into<String>,
    check: impl FnOnce(&WebhooksSetup) -> Result<()> + Send + 'static,
) -> Test<WebhooksSetup> {
    Test::new(name, move |setup: &WebhooksSetup| check(setup))
}

/// One test for each protocol.
fn over_both(
    name: &str,
    check: impl Fn(&WebhooksSetup, Protocol) -> Result<()> + Clone + Send + 'static,
) -> Vec<Test<WebhooksSetup>> {
    [("http1", Protocol::Http1), ("http2", Protocol::Http2)]
        .into_iter()
        .map(|(label, protocol)| {
            let check = check.clone();
            test(format!("{name}, {label}"), move |setup| check(setup, protocol))
        })
        .collect()
}
