//! Bodies of every length and framing, for `enforce` and `observe`.

use anyhow::{Context as _, Result, ensure};
use e2e::frames::{self, Flow, Stream};
use e2e::raw::{Connection, Request};
use e2e::runner::Test;

use super::{CollisionSetup, LIMIT, member, post, test};

pub(crate) fn tests() -> Vec<Test<CollisionSetup>> {
    vec![
        test("bodies of every length", lengths),
        test("chunked bodies, and trailers over HTTP/1.1 and HTTP/2", framings),
        test("a client that is gone half way makes no claim", half_way),
        test("a client that waits for 100 Continue", continues),
    ]
}

/// A body of this length with one effect, `id`, if there is room for it.
fn body(id: &str, length: usize, fill: u8) -> Vec<u8> {
    let mut body = format!("MessageSid={id}&").into_bytes();
    body.resize(length, fill);
    body
}

/// The service's answer to a body: 200, or 422 where it is too short to be about something.
const fn status_of(length: usize) -> u16 {
    if length > 40 { 200 } else { 422 }
}

fn lengths(setup: &CollisionSetup) -> Result<()> {
    const LENGTHS: [usize; 7] = [0, 1, 41, 16_384, 70_000, LIMIT - 1, LIMIT];
    for endpoint in ["enforced", "observed"] {
        let key = |length: usize| format!("length-{endpoint}-{length}");
        let request =
            |length: usize, body: Vec<u8>| post(endpoint, &key(length)).header("content-type", "a/b").body(body);
        let first = || {
            LENGTHS.iter().try_for_each(|length| {
                let request = request(*length, body(&key(*length), *length, b'a'));
                let reply = setup.answered(&key(*length), &request, status_of(*length))?;
                ensure!(member(&reply, "code") != "idempotency_key_reused", "{length}: {}", reply.json());
                Ok(())
            })
        };
        // A long body differs in its last bytes only; a short one has no room for that.
        let other = |length: usize| {
            let longer = if length > 40 { length } else { length + 1 };
            request(length, body(&key(length), longer, b'b'))
        };
        if endpoint == "enforced" {
            first()?;
            first()?;
            LENGTHS.iter().try_for_each(|length| setup.reused(&key(*length), &other(*length)))?;
        } else {
            let all = LENGTHS.len() as u64;
            setup.all_observed(endpoint, all, "match", first)?;
            setup.all_observed(endpoint, all, "match", first)?;
            let others = || {
                LENGTHS
                    .iter()
                    .try_for_each(|length| setup.answered(&key(*length), &other(*length), status_of(*length)).map(drop))
            };
            setup.all_observed(endpoint, all, "mismatch", others)?;
            setup.until("the mismatches are counted", || Ok(setup.collisions("observe", endpoint)? >= all))?;
        }
        for length in LENGTHS {
            // What has no room for an effect is one call nevertheless.
            let stored = setup.chain.stored(&format!("t-acme:shop:user:alice:{}", key(length)))?;
            ensure!(stored.len() == 1, "{}: {stored:?}", key(length));
            ensure!(setup.chain.effects(&key(length))? == u64::from(length > 40), "{}: its effect", key(length));
        }
    }
    // Declared above the limit, and not declared.
    let above =
        |endpoint: &str, key: &str| post(endpoint, key).header("content-type", "a/b").body(body(key, LIMIT + 1, b'a'));
    let refused = setup.answered("declared", &above("enforced", "above-declared"), 413)?;
    ensure!(member(&refused, "code") == "body_too_large", "{}", refused.json());
    let refused = setup.answered("chunked", &above("enforced", "above-chunked").trailer("x-t", "1"), 413)?;
    ensure!(member(&refused, "code") == "body_too_large", "{}", refused.json());
    setup.answered("observed", &above("observed", "above-observed"), 200)?;
    setup.answered("observed, chunked", &above("observed", "above-observed-2").trailer("x-t", "1"), 200)?;
    for key in ["above-observed", "above-observed-2"] {
        ensure!(setup.chain.effects(key)? == 1, "{key} is forwarded");
    }
    setup.until("both are counted", || Ok(setup.claims("body_too_large", "observed")? == 2))
}

fn framings(setup: &CollisionSetup) -> Result<()> {
    for endpoint in ["framed-enforced", "framed-observed"] {
        let key = format!("framing-{endpoint}");
        let whole = post(endpoint, &key).header("content-type", "a/b").body(body(&key, 50_000, b'a'));
        if endpoint == "framed-observed" {
            setup.observed(&whole, "match", || setup.answered("content-length", &whole, 200).map(drop))?;
        } else {
            setup.answered("content-length", &whole, 200)?;
        }
        setup.answered("chunked with trailers", &whole.clone().trailer("x-sum", "1"), 200)?;
        // A `GET` without a body has no `content-length`.
        let head = Request { method: "GET".to_owned(), body: Vec::new(), ..whole.clone() };
        let head = setup.authenticated(&head.header("transfer-encoding", "chunked")).http1();
        let mut written = [b"POST", head.get(3..).context("a method")?].concat();
        for part in whole.body.chunks(777) {
            written.extend(format!("{:x}\r\n", part.len()).bytes());
            written.extend(part);
            written.extend(b"\r\n");
        }
        written.extend(b"0\r\n\r\n");
        setup.patiently("chunks of 777 bytes", &whole, || e2e::raw::exchange(setup.address()?, "POST", &written))?;
        for (what, request) in
            [("HTTP/2", whole.clone()), ("HTTP/2 with trailers", whole.clone().trailer("x-sum", "1"))]
        {
            setup.patiently(what, &request, || setup.http2(&request))?;
        }
        let mut other = whole.clone().trailer("x-sum", "1");
        *other.body.last_mut().context("a body")? = b'b';
        if endpoint == "framed-enforced" {
            let reply = setup.repeated(&other, || setup.http2(&other))?;
            super::is_reuse(&reply)?;
        } else {
            setup.observed(&other, "mismatch", || setup.patiently("another body", &other, || setup.http2(&other)))?;
            setup.until("the mismatch is counted", || Ok(setup.collisions("observe", endpoint)? >= 1))?;
        }
        ensure!(setup.chain.effects(&key)? == 1, "{key}: one effect");
    }
    Ok(())
}

/// The key can still be used with another body, and that is the first claim.
fn half_way(setup: &CollisionSetup) -> Result<()> {
    for (endpoint, protocol) in [
        ("half-enforced", "HTTP/1.1"),
        ("half-observed", "HTTP/1.1"),
        ("half-enforced", "HTTP/2"),
        ("half-observed", "HTTP/2"),
    ] {
        let key = format!("half-way-{endpoint}-{}", protocol.len());
        let whole = post(endpoint, &key).header("content-type", "a/b").body(body(&key, 50_000, b'a'));
        let ended = setup.chain.gateway.stat("downstream_rq_rx_reset")?;
        let begun = setup.chain.gateway.stat("downstream_rq_total")?;
        if protocol == "HTTP/2" {
            let stream = unfinished(&setup.authenticated(&whole));
            frames::Connection::open(setup.address()?)?.exchange(&stream)?;
        } else {
            let written = setup.authenticated(&whole).http1();
            let mut connection = Connection::open(setup.address()?)?;
            connection.send(written.get(..written.len() - 1).context("a request")?)?;
            setup.until("the gateway has the request", || {
                Ok(setup.chain.gateway.stat("downstream_rq_total")? > begun)
            })?;
            drop(connection);
        }
        setup.until("the gateway sees that it has ended", || {
            Ok(setup.chain.gateway.stat("downstream_rq_rx_reset")? > ended)
        })?;
        let other = post(endpoint, &key).header("content-type", "a/b").body(body(&key, 50_000, b'b'));
        let send = || setup.answered("another body", &other, 200).map(drop);
        if endpoint == "half-observed" {
            setup.observed(&other, "match", send)?;
        } else {
            send()?;
            setup.until("the claim is counted", || Ok(setup.claims("match", endpoint)? >= 1))?;
        }
        let mismatches = setup.claims("mismatch", endpoint)?;
        ensure!(mismatches == 0, "{endpoint}, {protocol}: the request half way made a claim");
    }
    Ok(())
}

/// The request over HTTP/2 without the last byte of its body, ended by RST_STREAM.
fn unfinished(request: &Request) -> Stream {
    let text = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    let mut head = vec![
        text(":method", request.method.as_bytes()),
        text(":scheme", b"http"),
        text(":authority", request.authority.as_bytes()),
        text(":path", &request.target),
    ];
    head.extend(request.headers.iter().cloned());
    let sent = request.body.len().saturating_sub(1);
    let data = request.body.get(..sent).unwrap_or_default().chunks(16_000).map(<[u8]>::to_vec).collect();
    Stream { head, data, flow: Flow::Reset, ..Stream::default() }
}

/// The gateway asks for the body by itself.
fn continues(setup: &CollisionSetup) -> Result<()> {
    for endpoint in ["enforced", "observed"] {
        let key = format!("continue-{endpoint}");
        let whole = post(endpoint, &key).header("content-type", "a/b").header("expect", "100-continue");
        let written = setup.authenticated(&whole.body(body(&key, 5000, b'a'))).http1();
        let head = written.len() - 5000;
        let mut connection = Connection::open(setup.address()?)?;
        connection.send(written.get(..head).context("a head")?)?;
        setup.until("the gateway answers 100", || connection.has_answer())?;
        connection.send(written.get(head..).context("a body")?)?;
        let reply = connection.answer("POST")?;
        ensure!(reply.status == 200, "{}", reply.status);
    }
    Ok(())
}
