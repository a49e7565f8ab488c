//! Bodies while the caller is looked up: the gateway reads none of a body that the route does not need, and loses nothing of it.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use e2e::raw::{Connection, Request};
use e2e::runner::{Test, runtime};
use harness::faults::Fault;
use tokio::net::TcpStream;

use super::setup::{KeysSetup, LASTING, forwarded, order, test};

pub(crate) fn tests() -> Vec<Test<KeysSetup>> {
    vec![
        test("a body of 20 MiB that begins before the caller is known arrives as it was sent", long),
        test("the same over HTTP/2, where the end comes with the last part", http2),
        test("a part of a body before the caller is known, and the last one after the request has gone on", in_two),
        test("a client that leaves while its key is looked up", leaving),
    ]
}

/// Bytes of which no two places look the same.
fn body(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends a request whose caller becomes known only when a part of its body is on the way.
fn arrives(setup: &KeysSetup, key: &str, request: &Request) -> Result<()> {
    let bytes = request.http1();
    arrives_sent(setup, key, request, move |address| {
        let mut connection = Connection::open(address)?;
        connection.send(&bytes)?;
        Ok(connection.answer("POST")?.status)
    })
}

/// As [`arrives`], sent so.
fn arrives_sent(
    setup: &KeysSetup,
    key: &str,
    request: &Request,
    send: impl FnOnce(SocketAddr) -> Result<u16> + Send + 'static,
) -> Result<()> {
    let address = setup.gateway.address(LASTING)?;
    setup.unkey.server().fail(Fault::Held);
    let sending = thread::spawn(move || send(address));
    setup.gateway.until("the key is looked up", |_| Ok(setup.asked(key) == 1))?;
    setup.gateway.until("a part of the body has come", |gateway| {
        Ok(gateway.stat("http.gateway.downstream_cx_rx_bytes_total")? > 64 << 10)
    })?;
    ensure!(forwarded(&setup.gateway)?.is_empty(), "it went on before its caller was known");
    setup.unkey.server().recover();
    let status = sending.join().map_err(|_| anyhow!("the client panicked"))??;
    ensure!(status == 200, "status {status}");
    let received = forwarded(&setup.gateway)?;
    let [one] = received.as_slice() else { anyhow::bail!("{} requests went on", received.len()) };
    ensure!(one.body == request.body, "{} of {} bytes, or others", one.body.len(), request.body.len());
    Ok(())
}

fn upload(key: &str) -> Request {
    Request { target: b"/api/v1/uploads".to_vec(), ..order(key) }
}

fn long(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("long");
    arrives(setup, &key, &upload(&key).body(body(20 << 20)))
}

fn http2(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("http2");
    // More than Envoy lets a client send before it reads.
    let request = upload(&key).body(body((20 << 20) + 5));
    let sent = request.clone();
    arrives_sent(setup, &key, &request, move |address| Ok(e2e::http2::exchange(address, &sent)?.status))
}

fn in_two(setup: &KeysSetup) -> Result<()> {
    let (first, last) = (b"the first part, ".as_slice(), b"and the last one".as_slice());
    let key = setup.key("in-two");
    setup.unkey.server().fail(Fault::Held);
    let address = setup.gateway.address(LASTING)?;
    let (mut body, response, connection) = runtime()?.block_on(async {
        let (sender, connection) = h2::client::handshake(TcpStream::connect(address).await?).await?;
        let connection = tokio::spawn(connection);
        let head = http::Request::builder().method("POST").uri("http://api.example.com/api/v1/uploads");
        let head = head.header("x-partner-key", &key).header("idempotency-key", "k-1").body(())?;
        let (response, mut body) = sender.ready().await?.send_request(head, false)?;
        body.send_data(Bytes::from_static(first), false)?;
        anyhow::Ok((body, response, connection))
    })?;
    setup.gateway.until("the key is looked up", |_| Ok(setup.asked(&key) == 1))?;
    setup.unkey.server().recover();
    setup
        .gateway
        .until("the request has gone on", |gateway| Ok(gateway.stat("^cluster.backend.*upstream_rq_active$")? == 1))?;
    // The end stands in the last part.
    body.send_data(Bytes::from_static(last), true)?;
    let status = runtime()?.block_on(async { anyhow::Ok(response.await?.status().as_u16()) })?;
    connection.abort();
    ensure!(status == 200, "status {status}");
    let received = forwarded(&setup.gateway)?;
    let [one] = received.as_slice() else { anyhow::bail!("{} requests went on", received.len()) };
    ensure!(one.body == [first, last].concat(), "the body is {}", one.body.escape_ascii());
    Ok(())
}

fn leaving(setup: &KeysSetup) -> Result<()> {
    let key = setup.key("leaving");
    setup.unkey.server().fail(Fault::Held);
    let mut connection = Connection::open(setup.gateway.address(LASTING)?)?;
    connection.send(&order(&key).http1())?;
    setup.gateway.until("the key is looked up", |_| Ok(setup.asked(&key) == 1))?;
    drop(connection);
    setup
        .gateway
        .until("the client has left", |gateway| Ok(gateway.stat("http.gateway.downstream_rq_active")? == 0))?;
    setup.unkey.server().recover();
    // The result is there for the next request.
    super::setup::accepted(&setup.gateway, LASTING, &order(&key), "leaving")?;
    ensure!(setup.asked(&key) == 1, "Unkey was asked {} times", setup.asked(&key));
    Ok(())
}
