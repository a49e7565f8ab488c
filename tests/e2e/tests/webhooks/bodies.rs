//! The ways in which a body comes, ends, or is too long.

use anyhow::{Context as _, Result, ensure};
use e2e::deliveries::{self, now};
use e2e::raw::{Reply, Request};
use e2e::runner::Test;

use super::Protocol::{self, Http1, Http2};
use super::{
    Connection, GITHUB_INLINE, GITHUB_PATH, LIMIT, NARROW, NARROW_BUFFER, SHIPPED, STRIPE, STRIPE_PATH, TRAILERS,
    UPGRADES, WIDE, WebhooksSetup, over_both, problem, stripe, test,
};

const TOO_LARGE: &str = "body_too_large";
/// The default of `max_body_bytes`.
const DEFAULT_LIMIT: usize = 1 << 20;

pub(crate) fn tests() -> Vec<Test<WebhooksSetup>> {
    let mut tests = vec![
        test("in chunks of one byte", |setup: &WebhooksSetup| framed(setup, SHIPPED, &[1], "")),
        test("in chunks of several sizes", |setup: &WebhooksSetup| {
            framed(setup, SHIPPED, &[1, 7, 4_096, 2, 16_000], "")
        }),
        test("in chunks, with trailers", |setup: &WebhooksSetup| {
            for listener in [SHIPPED, TRAILERS] {
                framed(setup, listener, &[10, 4_000], "Idempotency-Key: k-1\r\nX-Subject: evil\r\n")?;
            }
            Ok(())
        }),
        test("over HTTP/2, with trailers", trailers),
        test("a sender that takes its time", slowly),
        test("a length that is wrong before it is too long", lengths),
        test("the gateway's own limit, where it is smaller", narrow),
        test("on an upgraded connection, which has no end", upgraded),
    ];
    tests.extend(over_both("as long as the limit, and one byte longer", at_the_limit));
    tests.extend(over_both("as long as the default limit, and one byte longer", at_the_default_limit));
    tests
}

/// An event of `size` bytes.
fn padded(path: &str, id: &str, size: usize) -> Request {
    let start = format!("{{\"id\": \"{id}\", \"padding\": \"");
    let padding = "x".repeat(size.saturating_sub(start.len() + 2));
    deliveries::stripe(path, &[STRIPE.1], now(), format!("{start}{padding}\"}}"))
}

/// The same request in chunks of these sizes, again and again.
fn chunked(request: &Request, sizes: &[usize], trailers: &str) -> Vec<u8> {
    let mut bytes = head(request, "transfer-encoding: chunked");
    let mut rest = request.body.as_slice();
    for size in sizes.iter().cycle() {
        let (chunk, after) = rest.split_at(rest.len().min(*size));
        if chunk.is_empty() {
            break;
        }
        bytes.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        rest = after;
    }
    bytes.extend(format!("0\r\n{trailers}\r\n").as_bytes());
    bytes
}

/// The head alone.
pub(crate) fn head(request: &Request, framing: &str) -> Vec<u8> {
    let request = Request { body: Vec::new(), trailers: Vec::new(), ..request.clone() };
    let whole = String::from_utf8_lossy(&request.http1()).replace("content-length: 0", framing);
    whole.into_bytes()
}

fn framed(setup: &WebhooksSetup, listener: &str, sizes: &[usize], trailers: &str) -> Result<()> {
    let request = padded(STRIPE_PATH, "evt_chunks", 20_000).header("Idempotency-Key", "k-1");
    let seen = setup.gateway.written(listener, &chunked(&request, sizes, trailers))?;
    let key = "t-acme:health-prod:service:webhook-ingest:stripe-evt_chunks";
    super::expect_forwarded(&seen, &super::delivered(&request, Some(key)))?;

    let mut tampered = request;
    tampered.body.push(b' ');
    let seen = setup.gateway.written(listener, &chunked(&tampered, sizes, trailers))?;
    super::expect_refused(&seen, 401, "webhook_signature_invalid")?;
    setup.sound(listener)
}

fn trailers(setup: &WebhooksSetup) -> Result<()> {
    for size in [0, 100, 20_000] {
        let github = deliveries::github(GITHUB_PATH, GITHUB_INLINE, "g-1", "x".repeat(size));
        let request = github.trailer("idempotency-key", "k-1").trailer("x-harmless", "stays");
        let seen = setup.gateway.http2(SHIPPED, &request)?;
        let key = "t-acme:health-prod:service:webhook-ingest:github-g-1";
        let mut expected = super::delivered(&request, Some(key));
        // Where there is no body Envoy forwards none, and no trailers over HTTP/1.1 then either.
        expected.trailers = seen.received.first().map(|received| received.trailers.clone()).unwrap_or_default();
        let harmless = ("x-harmless".to_owned(), b"stays".to_vec());
        ensure!(expected.trailers.iter().all(|line| *line == harmless), "trailers {:?}", expected.trailers);
        super::expect_forwarded(&seen, &expected).with_context(|| format!("{size} bytes"))?;

        let mut tampered = request;
        tampered.body.push(b' ');
        setup.refused(SHIPPED, Http2, &tampered, 401, "webhook_signature_invalid")?;
    }
    Ok(())
}

/// Between two pieces a whole delivery goes through another connection: by then Envoy has seen the piece.
fn slowly(setup: &WebhooksSetup) -> Result<()> {
    let request = stripe("evt_slow");
    let bytes = request.http1();
    let address = setup.gateway.address(SHIPPED)?;
    let mut connection = Connection::open(address)?;
    for piece in bytes.chunks(bytes.len().div_ceil(40)) {
        setup.sound(SHIPPED)?;
        connection.send(piece)?;
    }
    let reply = connection.answer("POST")?;
    ensure!(reply.status == 200, "{}", super::text(&reply));
    let received = setup.gateway.capture().take();
    ensure!(received.len() == 1, "the upstream got {} requests", received.len());
    ensure!(received.first().is_some_and(|message| message.body == request.body), "another body");
    Ok(())
}

fn lengths(setup: &WebhooksSetup) -> Result<()> {
    let request = stripe("evt_length");
    for (framing, status) in [
        (format!("content-length: {}", LIMIT + 1), 413),
        ("content-length: 18446744073709551615".to_owned(), 413),
        ("content-length: 18446744073709551616".to_owned(), 400),
        ("content-length: -1".to_owned(), 400),
        ("content-length: 10\r\ncontent-length: 11".to_owned(), 400),
        ("content-length: 5\r\ntransfer-encoding: chunked".to_owned(), 400),
    ] {
        // The answer comes although the body never does.
        let seen = setup.gateway.written(SHIPPED, &head(&request, &framing)).with_context(|| framing.clone())?;
        ensure!(seen.reply.status == status, "{framing}: status {} instead of {status}", seen.reply.status);
        ensure!(seen.received.is_empty(), "{framing}: the upstream got\n{}", seen.upstream());
        if status == 413 {
            problem(&seen.reply, status, TOO_LARGE)?;
        }
        setup.sound(SHIPPED)?;
    }
    Ok(())
}

fn at_the_limit(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    limit(setup, SHIPPED, protocol, STRIPE_PATH, LIMIT)
}

/// Envoy's own limit is the same by default: which of the two answers would depend on how the bytes arrive.
fn at_the_default_limit(setup: &WebhooksSetup, protocol: Protocol) -> Result<()> {
    limit(setup, WIDE, protocol, "/api/v1/accepted/stripe/wh_stripe01", DEFAULT_LIMIT)
}

fn limit(setup: &WebhooksSetup, listener: &str, protocol: Protocol, path: &str, limit: usize) -> Result<()> {
    let whole = padded(path, "evt_limit", limit);
    ensure!(whole.body.len() == limit, "{} bytes", whole.body.len());
    let longer = padded(path, "evt_limit", limit + 1);
    setup.forwarded(listener, protocol, &whole, Some("stripe-evt_limit"))?;
    setup.refused(listener, protocol, &longer, 413, TOO_LARGE)?;
    if protocol == Http1 {
        let seen = setup.gateway.written(listener, &chunked(&whole, &[4_096], ""))?;
        let key = "t-acme:health-prod:service:webhook-ingest:stripe-evt_limit";
        super::expect_forwarded(&seen, &super::delivered(&whole, Some(key)))?;
        let seen = setup.gateway.written(listener, &chunked(&longer, &[4_096], ""))?;
        super::expect_refused(&seen, 413, TOO_LARGE)?;
        // One chunk, so that the limit is passed at once.
        let seen = setup.gateway.written(listener, &chunked(&longer, &[limit + 1], ""))?;
        super::expect_refused(&seen, 413, TOO_LARGE)?;
        setup.sound(listener)?;
    }
    Ok(())
}

/// The listener's buffer bounds what waits over HTTP/1.1. Over HTTP/2 a stream's window does, which is larger.
fn narrow(setup: &WebhooksSetup) -> Result<()> {
    let fits = padded(STRIPE_PATH, "evt_narrow", NARROW_BUFFER / 2);
    let longer = padded(STRIPE_PATH, "evt_narrow", NARROW_BUFFER * 3);
    setup.forwarded(NARROW, Http1, &fits, Some("stripe-evt_narrow"))?;
    for bytes in [longer.http1(), chunked(&longer, &[1_000], "")] {
        let seen = setup.gateway.written(NARROW, &bytes)?;
        own_limit(&seen.reply)?;
        ensure!(seen.received.is_empty(), "the upstream got\n{}", seen.upstream());
        setup.sound(NARROW)?;
    }
    setup.forwarded(NARROW, Http2, &longer, Some("stripe-evt_narrow"))
}

/// Envoy's own answer, as a problem document: it says nothing of the filter's limit.
fn own_limit(reply: &Reply) -> Result<()> {
    ensure!(reply.status == 413, "status {} instead of 413: {}", reply.status, super::text(reply));
    let document = reply.json();
    let member = |name: &str| document.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    ensure!(member("code") == TOO_LARGE, "another problem: {}", super::text(reply));
    ensure!(!member("detail").contains(|char: char| char.is_ascii_digit()), "a limit: {}", super::text(reply));
    Ok(())
}

/// A gateway that upgrades connections hands the filter a body that never ends: it does not wait for it.
fn upgraded(setup: &WebhooksSetup) -> Result<()> {
    let request = stripe("evt_upgrade").header("Connection", "Upgrade").header("Upgrade", "websocket");
    setup.refused(UPGRADES, Http1, &request, 400, "request_invalid")?;
    let endless = Request { body: Vec::new(), ..request };
    setup.refused(UPGRADES, Http1, &endless, 400, "request_invalid")
}
