//! Envoy with the filter, a recording upstream behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context as _, Result, ensure};
use harness::envoy::{Envoy, EnvoyOptions, Stores};
use harness::http;
use harness::ports::{Ports, loopback};
use harness::tokens::Signer;
use harness::tools::{Filter, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::capture::{Answer, Capture};
use crate::config::{self, ListenerSpec};
use crate::http2;
use crate::raw::{self, Reply, Request};
use crate::runner::{runtime, until};
use crate::wire::{HeaderLine, Message, shown, shown_lines};

/// Header lines of a request that Envoy itself adds or rewrites, and why.
pub const ADDED_TO_REQUESTS: [(&str, &str); 7] = [
    ("content-length", "how the body is framed is between Envoy and the upstream; the body itself is compared"),
    ("transfer-encoding", "likewise"),
    ("x-forwarded-for", "the client's address: `use_remote_address`"),
    ("x-envoy-external-address", "likewise"),
    ("x-forwarded-proto", "the scheme, which HTTP/1.1 does not carry"),
    ("x-request-id", "a trace id; Envoy makes its own for every outside request"),
    ("x-envoy-expected-rq-timeout-ms", "the route's timeout, for the upstream"),
];

/// Header lines that the filter sets for Envoy's router, which takes them for itself.
pub const TOLD_TO_THE_ROUTER: [&str; 4] =
    ["x-envoy-upstream-rq-timeout-ms", "x-envoy-retry-on", "x-envoy-retriable-status-codes", "x-envoy-max-retries"];

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
    pub headers: Vec<HeaderLine>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer lines, sorted by name.
    pub trailers: Vec<HeaderLine>,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, target, authority, headers, body, trailers } = self;
        write!(f, "    {method} {} for {}", target.escape_ascii(), authority.escape_ascii())?;
        write!(f, "{}\n    body {}", shown_lines(headers), shown(body))?;
        if trailers.is_empty() { Ok(()) } else { write!(f, "\n    trailers{}", shown_lines(trailers)) }
    }
}

/// One request's answer, and everything that reached the upstream because of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the client got.
    pub reply: Reply,
    /// What the upstream got: at most one request, if all is well.
    pub received: Vec<Received>,
}

impl Seen {
    /// The requests that the upstream got, for an error message.
    pub fn upstream(&self) -> String {
        if self.received.is_empty() {
            return "    nothing".to_owned();
        }
        self.received.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

/// What is around the listeners.
#[derive(Clone, Debug)]
pub struct TestEnvironment {
    /// Variables in Envoy's environment, beside those of this process.
    pub environment: Vec<(String, String)>,
    /// Where Envoy sends what it forwards, instead of the capture.
    pub backend: Option<SocketAddr>,
    /// Worker threads.
    pub concurrency: u32,
    /// The filter's log at the level `trace`, from the start.
    pub trace: bool,
    /// What webhooks are looked up in.
    pub stores: Option<Stores>,
    /// The module in the place of the one that `EDGE_HOST` chooses.
    pub filter: Option<Filter>,
}

impl Default for TestEnvironment {
    /// One worker in front of the capture.
    fn default() -> Self {
        Self { environment: Vec::new(), backend: None, concurrency: 1, trace: false, stores: None, filter: None }
    }
}

/// A running gateway.
pub struct TestGateway {
    envoy: Envoy,
    listeners: BTreeMap<String, SocketAddr>,
    signer: Signer,
    capture: Capture,
    /// One request at a time, so that what the upstream got belongs to it.
    turn: Mutex<()>,
    /// Configuration and logs, as long as the gateway is there.
    directory: TempDir,
}

impl TestGateway {
    /// Starts Envoy with these listeners. Tokens are optional; without one a request has no identity.
    pub fn start(listeners: &[(String, ListenerSpec)]) -> Result<Self> {
        Self::start_within(&TestEnvironment::default(), listeners)
    }

    /// As [`TestGateway::start`], in other surroundings.
    pub fn start_within(around: &TestEnvironment, listeners: &[(String, ListenerSpec)]) -> Result<Self> {
        // The admin interface's port is free when it is found, and has to be when Envoy opens it.
        static STARTING: Mutex<()> = Mutex::new(());
        let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let capture = Capture::start()?;
        let signer = Signer::generate();
        let directory = tempfile::tempdir()?;
        let backend = around.backend.unwrap_or(capture.address());
        let mut options = options(directory.path(), backend, &signer.jwks())?;
        options.concurrency = around.concurrency;
        options.environment.clone_from(&around.environment);
        options.stores.clone_from(&around.stores);
        if let Some(filter) = &around.filter {
            options.filter = filter.clone();
        }
        if around.trace {
            options.program = traced(&options, directory.path())?;
        }
        let path = directory.path().join("envoy.json");
        config::write(&path, &options, listeners)?;
        let envoy = runtime()?.block_on(Envoy::start_with(options, &path))?;
        drop(starting);
        let listeners = runtime()?.block_on(listener_addresses(&envoy))?;
        Ok(Self { envoy, listeners, signer, capture, turn: Mutex::new(()), directory })
    }

    /// Kills Envoy as a crash would, and starts it again. Its listeners need ports of their own ([`config::Change::Port`]).
    pub fn restart(&mut self) -> Result<()> {
        runtime()?.block_on(self.envoy.restart())
    }

    /// Sends a request over HTTP/1.1.
    pub fn http1(&self, listener: &str, request: &Request) -> Result<Seen> {
        self.http1_answered(listener, request, &Answer::default())
    }

    /// Sends a request over HTTP/2.
    pub fn http2(&self, listener: &str, request: &Request) -> Result<Seen> {
        self.http2_answered(listener, request, &Answer::default())
    }

    /// As [`TestGateway::http1`]; the upstream gives this answer.
    pub fn http1_answered(&self, listener: &str, request: &Request, answer: &Answer) -> Result<Seen> {
        let address = self.address(listener)?;
        self.exchange(answer, || raw::exchange(address, &request.method, &request.http1()))
    }

    /// As [`TestGateway::http2`]; the upstream gives this answer.
    pub fn http2_answered(&self, listener: &str, request: &Request, answer: &Answer) -> Result<Seen> {
        let address = self.address(listener)?;
        self.exchange(answer, || http2::exchange(address, request))
    }

    /// Sends a `POST` as it was written.
    pub fn written(&self, listener: &str, bytes: &[u8]) -> Result<Seen> {
        let address = self.address(listener)?;
        self.exchange(&Answer::default(), || raw::exchange(address, "POST", bytes))
    }

    /// A token for these claims.
    pub fn token(&self, claims: &Value) -> Result<String> {
        self.signer.mint(claims)
    }

    /// A token of the user `u1` of the tenant `acme` in the project `shop`.
    pub fn user_token(&self) -> Result<String> {
        self.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"}))
    }

    /// Envoy's own log so far.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.envoy.process.log())?).into_owned())
    }

    /// Envoy's access log so far: it is written with a delay.
    pub fn access_log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.envoy.access_log())?).into_owned())
    }

    /// What Envoy's admin interface says.
    pub fn admin(&self, path: &str) -> Result<String> {
        let reply = runtime()?.block_on(http::Request::get(path).send(&self.envoy.admin_url()))?;
        ensure!(reply.status == 200, "{path} of the admin interface: {}", reply.text());
        Ok(reply.text())
    }

    /// `host:port` of Envoy's admin interface.
    pub fn admin_address(&self) -> String {
        self.envoy.admin_url().replace("http://", "")
    }

    /// The sum of the counters and gauges whose names match a regular expression.
    pub fn stat(&self, names: &str) -> Result<u64> {
        let text = self.admin(&format!("/stats?filter={names}"))?;
        Ok(text.lines().filter_map(|line| line.rsplit_once(": ")?.1.parse::<u64>().ok()).sum())
    }

    /// How much memory Envoy has, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most memory that Envoy has had at once, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.envoy.process.record().pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        Ok(line.context("Envoy has no memory")?.trim().parse::<u64>()? * 1024)
    }

    /// Asks until it is so.
    pub fn until(&self, what: &str, so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        until(what, POLL, || so(self))
    }

    /// Another token for the cluster `openbao`.
    pub fn rotate_openbao_token(&self, token: &str) -> Result<()> {
        self.envoy.rotate_openbao_token(token)
    }

    /// What reaches the upstream, for tests that send several requests at once.
    pub const fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Where configuration and logs are.
    pub fn run_dir(&self) -> &Path {
        self.directory.path()
    }

    /// Where a listener listens.
    pub fn address(&self, listener: &str) -> Result<SocketAddr> {
        self.listeners.get(listener).copied().with_context(|| format!("no listener is named {listener}"))
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
}

/// Between two questions whether something is so.
const POLL: Duration = Duration::from_millis(20);

/// A program that starts Envoy with the filter's log at the level `trace`.
fn traced(options: &EnvoyOptions, directory: &Path) -> Result<PathBuf> {
    let path = directory.join("envoy.sh");
    let script = format!(
        "#!/bin/sh\nfor word; do\n  shift\n  [ \"$word\" != {component}:info ] || word={component}:trace\n  set -- \"$@\" \"$word\"\n\
         done\nexec '{}' \"$@\"\n",
        options.program.display(),
        component = options.filter.component(),
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    Ok(path)
}

/// The listeners' addresses, by name.
async fn listener_addresses(envoy: &Envoy) -> Result<BTreeMap<String, SocketAddr>> {
    let reply = http::Request::get("/listeners?format=json").send(&envoy.admin_url()).await?.json();
    let listeners = reply.get("listener_statuses").and_then(Value::as_array).context("Envoy lists no listeners")?;
    let address = |listener: &Value| {
        let port = listener.pointer("/local_address/socket_address/port_value")?.as_u64()?;
        Some((listener.get("name")?.as_str()?.to_owned(), loopback(port.try_into().ok()?)))
    };
    listeners.iter().map(|listener| address(listener).with_context(|| format!("a listener: {listener}"))).collect()
}

/// What Envoy is started with, but for the listeners. Tokens are optional.
pub fn options(run_dir: &Path, backend: SocketAddr, jwks: &str) -> Result<EnvoyOptions> {
    let tools = tools()?;
    let ports = Ports::free()?;
    Ok(EnvoyOptions {
        program: tools.envoy,
        run_dir: run_dir.to_owned(),
        filter: tools.filter,
        policy: String::new(),
        jwks: jwks.to_owned(),
        require_token: false,
        backend,
        gateway_port: ports.gateway,
        admin_port: ports.admin,
        concurrency: 1,
        environment: Vec::new(),
        stores: None,
    })
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

/// A request as the upstream got it, without what Envoy adds.
pub fn received(message: Message) -> Result<Received> {
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
pub fn sorted(mut lines: Vec<HeaderLine>) -> Vec<HeaderLine> {
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    lines
}
