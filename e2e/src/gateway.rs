//! Envoy with the filter, a recording upstream behind it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use edge_idempotency_demo::envoy::{Envoy, EnvoyOptions};
use edge_idempotency_demo::ports::{Ports, loopback};
use edge_idempotency_demo::tokens::Signer;
use edge_idempotency_demo::tools::Tools;
use serde_json::Value;
use tempfile::TempDir;

use crate::capture::{Answer, Capture};
use crate::config::Config;
use crate::harness::runtime;
use crate::http2;
use crate::raw::{self, Reply, Request};
use crate::wire::{Line, Message};

/// Header lines of a request that Envoy itself adds or rewrites, and why.
pub const ADDED_TO_REQUESTS: [(&str, &str); 7] = [
    ("content-length", "how the body is framed is between Envoy and the upstream; the body itself is compared"),
    ("transfer-encoding", "likewise"),
    ("x-forwarded-for", "the client's address: `use_remote_address`"),
    ("x-forwarded-proto", "the scheme, which HTTP/1.1 does not carry"),
    ("x-request-id", "a trace id; Envoy makes its own for every outside request"),
    ("x-envoy-expected-rq-timeout-ms", "the route's timeout, for the upstream"),
    ("x-envoy-external-address", "the client's address, if it is a public one"),
];

/// Header lines of an answer that Envoy itself adds or rewrites, and why.
pub const ADDED_TO_REPLIES: [(&str, &str); 6] = [
    ("content-length", "how the body is framed is between Envoy and the client; the body itself is compared"),
    ("transfer-encoding", "likewise"),
    ("connection", "Envoy closes a connection whose request it did not read to the end"),
    ("date", "the time of the answer"),
    ("server", "Envoy puts its own name there"),
    ("x-envoy-upstream-service-time", "how long the upstream took"),
];

/// A request as the upstream got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: Vec<u8>,
    /// `Host`.
    pub authority: Vec<u8>,
    /// Header lines without [`ADDED_TO_REQUESTS`], sorted by name: Envoy keeps the order within one name only.
    pub headers: Vec<Line>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer lines, sorted by name.
    pub trailers: Vec<Line>,
}

/// One request's answer, and everything that reached the upstream because of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the client got.
    pub reply: Reply,
    /// What the upstream got: at most one request, if all is well.
    pub received: Vec<Received>,
}

/// A running gateway.
pub struct Gateway {
    /// Mints the tokens that the gateway believes.
    pub signer: Signer,
    envoy: Envoy,
    address: SocketAddr,
    capture: Capture,
    /// One request at a time, so that what the upstream got belongs to it.
    turn: Mutex<()>,
    directory: TempDir,
}

impl Gateway {
    /// Starts Envoy with a policy document and the shipped configuration as `change` leaves it. Tokens are optional.
    pub fn start(policy: &str, change: impl FnOnce(&mut Config) -> Result<()>) -> Result<Self> {
        // Ports are free ones when they are found, and have to be when Envoy opens them.
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let tools = tools()?;
        let capture = Capture::start()?;
        let signer = Signer::generate();
        let directory = tempfile::tempdir()?;
        let ports = Ports::free()?;
        let options = EnvoyOptions {
            program: tools.envoy,
            run_dir: directory.path().to_owned(),
            wasm: tools.wasm,
            policy: policy.to_owned(),
            jwks: signer.jwks(),
            require_token: false,
            backend: capture.address(),
            gateway_port: ports.gateway,
            admin_port: ports.admin,
            concurrency: 1,
        };
        let mut config = Config::shipped(&options)?;
        change(&mut config)?;
        let path = directory.path().join("envoy.json");
        config.write(&path)?;
        let envoy = runtime()?.block_on(Envoy::start_with(options, &path))?;
        Ok(Self { signer, envoy, address: loopback(ports.gateway), capture, turn: Mutex::new(()), directory })
    }

    /// Sends bytes on a connection of their own; `method` tells whether the answer has a body.
    pub fn send(&self, method: &str, bytes: &[u8], answer: &Answer) -> Result<Seen> {
        self.exchange(answer, || raw::exchange(self.address, method, bytes))
    }

    /// Sends a request over HTTP/1.1.
    pub fn http1(&self, request: &Request) -> Result<Seen> {
        self.send(&request.method, &request.http1(), &Answer::default())
    }

    /// Sends a request over HTTP/2.
    pub fn http2(&self, request: &Request) -> Result<Seen> {
        self.exchange(&Answer::default(), || http2::exchange(self.address, request))
    }

    fn exchange(&self, answer: &Answer, send: impl FnOnce() -> Result<Reply>) -> Result<Seen> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.capture.answer(answer.clone());
        let late = self.capture.take();
        ensure!(late.is_empty(), "the upstream got something after the last answer: {late:?}");
        let reply = send()?;
        let received = self.capture.take().into_iter().map(received).collect::<Result<_>>()?;
        Ok(Seen { reply, received })
    }

    /// Envoy's own log.
    pub fn log(&self) -> &Path {
        self.envoy.process.log()
    }

    /// Where configuration and logs are, as long as the gateway is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A token for these claims.
    pub fn token(&self, claims: &Value) -> Result<String> {
        self.signer.mint(claims)
    }
}

/// The programs, found once.
pub fn tools() -> Result<Tools> {
    static TOOLS: Mutex<Option<Tools>> = Mutex::new(None);
    let mut found = TOOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tools) = &*found {
        return Ok(tools.clone());
    }
    let tools = Tools::locate()?;
    *found = Some(tools.clone());
    Ok(tools)
}

fn received(message: Message) -> Result<Received> {
    let line = String::from_utf8_lossy(&message.start).into_owned();
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let target = message.start.get(method.len() + 1..).and_then(|rest| rest.strip_suffix(b" HTTP/1.1"));
    let target = target.with_context(|| format!("no request line: {line}"))?.to_vec();
    let hosts = message.headers.iter().filter(|(name, _)| name == "host");
    let authority = hosts.map(|(_, value)| value.as_slice()).collect::<Vec<_>>().join(&b", "[..]);
    let own = |name: &str| name == "host" || is_added(&ADDED_TO_REQUESTS, name);
    let headers = message.headers.into_iter().filter(|(name, _)| !own(name)).collect();
    let (headers, trailers) = (sorted(headers), sorted(message.trailers));
    Ok(Received { method, target, authority, headers, body: message.body, trailers })
}

/// Whether Envoy adds lines of this name.
pub fn is_added(names: &[(&str, &str)], name: &str) -> bool {
    names.iter().any(|(added, _)| *added == name)
}

/// Lines by name, those of one name in their order.
pub fn sorted(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    lines
}
