//! Bodies arrive as they were sent, both ways: HTTP/1.1 and HTTP/2, in odd pieces, with trailers, through filters that read bodies before
//! and behind ours. Both ends compare every byte. `make test-long` sends thousands of such requests through each Envoy it has.

mod chains;
mod exchange;

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::capture::{Capture, restate_answer};
use e2e::config::{Change, ListenerSpec};
use e2e::ext_proc::Processor;
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::http2;
use e2e::raw::{Connection, Reply};
use e2e::runner::{Group, Test, long, runtime, sharing};
use harness::tokens;
use serde_json::json;

use chains::names;
use exchange::{Exchange, GITHUB_SECRET, ROUTES, Sender};

/// The gateway's buffer: the longest body that the filter waits for, and 64 KiB.
const BUFFER: u32 = (1 << 20) + (64 << 10);
/// Requests that one connection of HTTP/2 has at once, and connections of HTTP/1.1 side by side.
const AT_ONCE: usize = 4;

/// Requests that are sent through a chain without our filter, where something was lost with it.
const COMPARED: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

struct IntegritySetup {
    gateway: TestGateway,
    token: String,
    /// They run as long as the gateway does.
    _running: (Capture, Vec<Processor>),
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests = Vec::new();
    for name in names() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            tests.push(Test::new(format!("{name}, {protocol:?}"), move |setup: &IntegritySetup| {
                whole(setup, name, protocol)
            }));
        }
    }
    Ok(vec![sharing(start, tests)])
}

fn start() -> Result<IntegritySetup> {
    let capture = Capture::answering(|request| restate_answer(request).unwrap_or_else(|| exchange::answer(request)))?;
    let mut processors = Vec::new();
    let mut listeners = Vec::new();
    for (name, filters) in chains::all(&mut processors)? {
        let mut changes = vec![Change::Trailers, Change::ConnectionBuffer(BUFFER), Change::DeliveriesAnHour(None)];
        changes.extend(filters);
        listeners.push((name, ListenerSpec { policy: policy(), changes }));
    }
    let around = TestEnvironment { backend: Some(capture.address()), ..TestEnvironment::default() };
    let gateway = TestGateway::start_within(&around, &listeners)?;
    let token = gateway.user_token()?;
    Ok(IntegritySetup { gateway, token, _running: (capture, processors) })
}

fn policy() -> String {
    let routes: Vec<_> = ROUTES.iter().map(|route| route.declaration()).collect();
    json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {}},
        "allow_inline_secrets": true,
        "webhooks": {"static": {"wh_01JGITHUB": {
            "tenant": "acme", "project": "shop", "provider": "github", "secrets": [GITHUB_SECRET],
        }}},
        "routes": routes,
    })
    .to_string()
}

/// How many requests each chain gets over each protocol.
fn requests() -> usize {
    if long() { 80 } else { 6 }
}

fn whole(setup: &IntegritySetup, chain: &str, protocol: Protocol) -> Result<()> {
    let exchanges = exchange::some(requests(), seed(chain, protocol));
    let faults = setup.run(chain, protocol, &exchanges)?;
    if !faults.is_empty() {
        // Older Envoys lose bodies by themselves, for example between two `ext_proc`.
        let plain: Vec<_> = exchange::some(COMPARED, 3).into_iter().map(Exchange::plain).collect();
        let of_envoy = setup.run(&chains::without_ours(chain), protocol, &plain)?;
        if !of_envoy.is_empty() {
            println!(
                "\nSKIPPED: body_integrity::{chain}, {protocol:?}: not whole {} of {}, and without the filter {} of {COMPARED}, so Envoy \
                 alone does it: {}",
                faults.len(),
                exchanges.len(),
                of_envoy.len(),
                first(&of_envoy).lines().next().unwrap_or_default().trim()
            );
            return Ok(());
        }
    }
    ensure!(faults.is_empty(), "{} of {} requests:\n{}", faults.len(), exchanges.len(), first(&faults));
    Ok(())
}

fn first(faults: &[String]) -> String {
    faults.iter().take(12).map(|fault| format!("  {fault}\n")).collect()
}

/// Another one for each chain and protocol, and the same in each run.
fn seed(chain: &str, protocol: Protocol) -> u64 {
    chain.bytes().fold(protocol as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}

impl IntegritySetup {
    /// Sends all of them, and says what did not arrive whole.
    fn run(&self, chain: &str, protocol: Protocol, exchanges: &[Exchange]) -> Result<Vec<String>> {
        let address = self.gateway.address(chain)?;
        let sender = Sender { token: &self.token, keeps_trailers: chains::keeps_trailers(chain) };
        match protocol {
            Protocol::Http1 => over_http1(address, sender, exchanges),
            Protocol::Http2 => runtime()?.block_on(over_http2(address, sender, exchanges)),
        }
    }
}

fn over_http1(address: SocketAddr, sender: Sender<'_>, exchanges: &[Exchange]) -> Result<Vec<String>> {
    let share = exchanges.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        let clients: Vec<_> =
            exchanges.chunks(share).map(|share| scope.spawn(move || one_by_one(address, sender, share))).collect();
        let faults = clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?);
        Ok(faults.collect::<Result<Vec<_>>>()?.concat())
    })
}

fn one_by_one(address: SocketAddr, sender: Sender<'_>, exchanges: &[Exchange]) -> Result<Vec<String>> {
    let mut connection = Connection::open(address)?;
    let mut faults = Vec::new();
    for exchange in exchanges {
        let reply = on_connection(&mut connection, &exchange.pieces(sender));
        let is_over = reply.as_ref().map_or(true, |reply| reply.text_header("connection") == Some("close"));
        if is_over {
            connection = Connection::open(address)?;
        }
        faults.extend(exchange.fault(reply));
    }
    Ok(faults)
}

fn on_connection(connection: &mut Connection, pieces: &[Vec<u8>]) -> Result<Reply> {
    // Who answers before the end may close the connection; the answer tells.
    let sent = pieces.iter().try_for_each(|piece| connection.send(piece));
    connection.answer("POST").with_context(|| format!("sending: {sent:?}"))
}

async fn over_http2(address: SocketAddr, sender: Sender<'_>, exchanges: &[Exchange]) -> Result<Vec<String>> {
    let connection = http2::Connection::open(address).await?;
    let client = async |number: usize| {
        let mut faults = Vec::new();
        for exchange in exchanges.iter().skip(number).step_by(AT_ONCE) {
            let reply = connection.exchange(&exchange.request(sender), exchange.lengths()).await;
            faults.extend(exchange.fault(reply));
        }
        faults
    };
    let (first, second, third, fourth) = tokio::join!(client(0), client(1), client(2), client(3));
    Ok([first, second, third, fourth].concat())
}
