//! Bodies while the caller is looked up: the gateway reads none of a body that the route does not need, and loses nothing of it.

use std::thread;

use anyhow::{Result, anyhow, ensure};
use e2e::raw::{Connection, Request};
use e2e::runner::Test;
use harness::faults::Fault;

use super::setup::{KeysSetup, LASTING, forwarded, order, refused, test};

pub(crate) fn tests() -> Vec<Test<KeysSetup>> {
    vec![
        test("a body of 20 MiB that begins before the caller is known arrives as it was sent", long),
        test("the same in chunks, with trailers", chunked),
        test("the same, of a caller that is refused", refused_long),
        test("a client that leaves while its key is looked up", leaving),
    ]
}

/// Bytes of which no two places look the same.
fn body(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends a request whose caller becomes known only when a part of its body is on the way.
fn arrives(setup: &KeysSetup, key: &str, request: &Request) -> Result<()> {
    let address = setup.gateway.address(LASTING)?;
    setup.unkey.server().fail(Fault::Held);
    let bytes = request.http1();
    let sending = thread::spawn(move || -> Result<u16> {
        let mut connection = Connection::open(address)?;
        connection.send(&bytes)?;
        Ok(connection.answer("POST")?.status)
    });
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

fn chunked(setup: &KeysSetup) -> Result<()> {
    for round in 0..10 {
        let key = setup.key(&format!("chunked{round}"));
        let request = upload(&key).trailer("x-end", "1").body(body((300 << 10) + round));
        arrives(setup, &key, &request)?;
    }
    Ok(())
}

fn refused_long(setup: &KeysSetup) -> Result<()> {
    refused(&setup.gateway, LASTING, &upload("sk_nobody_with_a_body").body(body(1 << 20)), 401, "api_key_invalid")
        .map(drop)
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
