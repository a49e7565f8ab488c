//! Senders that leave, and many at once.

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::TestGateway;
use e2e::runner::{Test, runtime};

use super::{
    Connection, Protocol, SHIPPED, STRIPE_PATH, WebhooksSetup, bodies, delivered, expect_forwarded, stripe, test,
};

pub(crate) fn tests() -> Vec<Test<WebhooksSetup>> {
    vec![test("senders that leave at any point", leaving), test("streams that are reset at any point", resetting)]
}

/// The gateway is done with every request that it began.
fn idle(setup: &WebhooksSetup) -> Result<()> {
    setup
        .gateway
        .until("no request is under way", |gateway| Ok(gateway.stat("^http.gateway.downstream_(rq|cx)_active$")? == 0))
}

fn leaving(setup: &WebhooksSetup) -> Result<()> {
    let request = stripe("evt_left");
    let whole = request.http1();
    let body = whole.len() - request.body.len();
    let chunks = bodies::head(&request, "transfer-encoding: chunked");
    let chunk = format!("{:x}\r\n", request.body.len());
    let unended = [&chunks, chunk.as_bytes(), &request.body, b"\r\n"].concat();
    let too_long = bodies::head(&request, "content-length: 70000");
    let pieces: [(&str, &[u8]); 8] = [
        ("before anything", b""),
        ("within the head", whole.get(..body / 2).context("half a head")?),
        ("before the body", whole.get(..body).context("a head")?),
        ("within the body", whole.get(..body + 10).context("a piece of the body")?),
        ("before the last byte", whole.get(..whole.len() - 1).context("all but a byte")?),
        ("before the last chunk", &unended),
        ("within the last chunk", &[&unended, b"0\r\n".as_slice()].concat()),
        ("while it is refused", &too_long),
    ];
    for (name, bytes) in pieces {
        let mut connection = Connection::open(setup.gateway.address(SHIPPED)?)?;
        connection.send(bytes)?;
        if !bytes.is_empty() {
            setup
                .gateway
                .until("the bytes have come", |gateway| Ok(gateway.stat("^http.gateway.downstream_cx_active$")? > 0))?;
        }
        drop(connection);
        idle(setup)?;
        ensure!(setup.gateway.capture().take().is_empty(), "{name}: the upstream got something");
        setup.sound(SHIPPED).with_context(|| name.to_owned())?;
    }
    // Before the answer: the delivery counts, and nobody is there to be told.
    let connections = |gateway: &TestGateway| gateway.stat("^http.gateway.downstream_cx_total$");
    let before = connections(&setup.gateway)?;
    let mut connection = Connection::open(setup.gateway.address(SHIPPED)?)?;
    connection.send(&whole)?;
    drop(connection);
    // A busy gateway is idle before it has accepted the connection.
    setup.gateway.until("the connection has come", |gateway| Ok(connections(gateway)? > before))?;
    idle(setup)?;
    let taken = setup.gateway.capture().take();
    ensure!(taken.len() <= 1, "the upstream got {} requests", taken.len());
    // The delivery that was left may reach the upstream after this count, and is then beside the next one.
    let key = |event: &str| format!("t-acme:health-prod:service:webhook-ingest:stripe-{event}");
    let next = stripe("evt_next");
    let mut seen = setup.send(SHIPPED, Protocol::Http1, &next)?;
    let left = ("idempotency-key".to_owned(), key("evt_left").into_bytes());
    seen.received.retain(|received| !received.headers.contains(&left));
    expect_forwarded(&seen, &delivered(&next, Some(&key("evt_next")))).context("the next delivery")?;
    setup.sound(SHIPPED)
}

/// How far a stream gets before it is reset.
#[derive(Clone, Copy, Debug)]
enum Reset {
    Head,
    HalfABody,
    BodyWithoutEnd,
}

fn resetting(setup: &WebhooksSetup) -> Result<()> {
    for reset in [Reset::Head, Reset::HalfABody, Reset::BodyWithoutEnd] {
        runtime()?.block_on(begin_and_reset(setup, reset)).with_context(|| format!("{reset:?}"))?;
        idle(setup)?;
        ensure!(setup.gateway.capture().take().is_empty(), "{reset:?}: the upstream got something");
        setup.sound(SHIPPED)?;
    }
    Ok(())
}

async fn begin_and_reset(setup: &WebhooksSetup, reset: Reset) -> Result<()> {
    let request = stripe("evt_reset");
    let stream = tokio::net::TcpStream::connect(setup.gateway.address(SHIPPED)?).await?;
    let (sender, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let mut head = http::Request::post(format!("http://{}{STRIPE_PATH}", request.authority));
    for (name, value) in &request.headers {
        head = head.header(name, value.as_slice());
    }
    let mut sender = sender.ready().await?;
    let (response, mut body) = sender.send_request(head.body(())?, false)?;
    let (half, rest) = request.body.split_at(request.body.len() / 2);
    match reset {
        Reset::Head => {}
        Reset::HalfABody => body.send_data(half.to_vec().into(), false)?,
        Reset::BodyWithoutEnd => {
            body.send_data(half.to_vec().into(), false)?;
            body.send_data(rest.to_vec().into(), false)?;
        }
    }
    // A whole request on the same connection: by then Envoy has seen the other's frames.
    let path = format!("http://{}/api/v1/nothing", request.authority);
    let (other, _) = sender.ready().await?.send_request(http::Request::post(path).body(())?, true)?;
    ensure!(other.await?.status() == 404, "a path that is not there");
    body.send_reset(h2::Reason::CANCEL);
    ensure!(response.await.is_err(), "an answer to a stream that was reset");
    connection.abort();
    Ok(())
}
