//! Framings of a body, and bodies that do not come as a whole.

use anyhow::{Context as _, Result, ensure};
use e2e::frames::{self, Flow, Stream};
use e2e::raw::{Connection, Request};
use e2e::runner::Test;

use super::{CollisionSetup, post, repeated, test};

pub(crate) fn tests() -> Vec<Test<CollisionSetup>> {
    vec![
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

fn framings(setup: &CollisionSetup) -> Result<()> {
    let (endpoint, key) = ("framed", "framing");
    let whole = post(endpoint, key).header("content-type", "a/b").body(body(key, 50_000, b'a'));
    setup.answered("content-length", &whole, 200)?;
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
    let chunked = repeated(|| e2e::raw::exchange(setup.address()?, "POST", &written))?;
    let http2 = repeated(|| setup.http2(&whole))?;
    let trailers = repeated(|| setup.http2(&whole.clone().trailer("x-sum", "1")))?;
    for (what, reply) in [("chunks of 777 bytes", chunked), ("HTTP/2", http2), ("HTTP/2 with trailers", trailers)] {
        ensure!(reply.status == 200, "{what}: {} {}", reply.status, reply.json());
    }
    let mut other = whole.trailer("x-sum", "1");
    *other.body.last_mut().context("a body")? = b'b';
    super::is_reuse(&repeated(|| setup.http2(&other))?)?;
    ensure!(setup.chain.effects(key)? == 1, "one effect");
    Ok(())
}

/// The key can still be used with another body, and that is the first claim.
fn half_way(setup: &CollisionSetup) -> Result<()> {
    for protocol in ["HTTP/1.1", "HTTP/2"] {
        let key = format!("half-way-{}", protocol.len());
        let whole = post("half-way", &key).header("content-type", "a/b").body(body(&key, 50_000, b'a'));
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
        let other = post("half-way", &key).header("content-type", "a/b").body(body(&key, 50_000, b'b'));
        setup.answered("another body", &other, 200)?;
        setup.until("the claim is counted", || Ok(setup.claims("match", "half-way")? >= 1))?;
        let mismatches = setup.claims("mismatch", "half-way")?;
        ensure!(mismatches == 0, "{protocol}: the request half way made a claim");
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
    let whole = post("framed", "continue").header("content-type", "a/b").header("expect", "100-continue");
    let written = setup.authenticated(&whole.body(body("continue", 5000, b'a'))).http1();
    let head = written.len() - 5000;
    let mut connection = Connection::open(setup.address()?)?;
    connection.send(written.get(..head).context("a head")?)?;
    setup.until("the gateway answers 100", || connection.has_answer())?;
    connection.send(written.get(head..).context("a body")?)?;
    let reply = connection.answer("POST")?;
    ensure!(reply.status == 200, "{}", reply.status);
    Ok(())
}
