//! What hostile and careless clients can send, over raw sockets and HTTP/2: each gets an answer, the upstream gets exactly
//! what it may, and the next request works. `differ` sends random ones.

mod differ;
mod identity;
mod keys;
mod paths;
mod trailers;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Received, Seen, TestGateway, sorted};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use e2e::wire::HeaderLine;
use serde_json::{Value, json};

/// The listener as it is shipped.
const SHIPPED: &str = "shipped";
/// The listener of a gateway that leaves paths and trailers to the filter.
const BARE: &str = "bare";

/// Every policy's path, `REQUIRED_A` first.
const REQUIRED_A: &str = "/api/v1/x";
const ACCEPTED: &str = "/api/v1/accepted";
const INTERNAL: &str = "/api/v1/internal";
const PROHIBITED: &str = "/api/v1/prohibited";
const REQUIRED_B: &str = "/api/v1/hooks/stripe/wh_01JABCDE";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [keys::tests(), trailers::tests(), identity::tests(), paths::tests()];
    Ok(vec![sharing(HostileSetup::start, tests.into_iter().flatten().collect()), differ::group()])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// What has to become of a request.
#[derive(Clone, Debug)]
enum ExpectedFate {
    /// The upstream gets exactly this.
    Forwarded(Received),
    /// The filter answers with this status, code and reason, and the upstream gets nothing.
    Refused(u16, &'static str, Option<&'static str>),
    /// Envoy answers by itself, and the upstream gets nothing.
    RefusedByEnvoy(u16),
}

struct HostileSetup {
    gateway: TestGateway,
    /// Of `user:u1` in project `shop` of tenant `acme`.
    token: String,
}

impl HostileSetup {
    fn start() -> Result<Self> {
        let policy = include_str!("policy.json").to_owned();
        let changes = vec![Change::PathsAsWritten, Change::AuthorityAsWritten, Change::Trailers, Change::EveryPath];
        let shipped = ListenerSpec { policy: policy.clone(), changes: Vec::new() };
        let gateway =
            TestGateway::start(&[(SHIPPED.to_owned(), shipped), (BARE.to_owned(), ListenerSpec { policy, changes })])?;
        let token = gateway.token(&claims())?;
        Ok(Self { gateway, token })
    }

    /// Sends a request, and a plain one after it.
    fn check(&self, listener: &str, protocol: Protocol, request: &Request, expected: &ExpectedFate) -> Result<()> {
        let seen = match protocol {
            Protocol::Http1 => self.gateway.http1(listener, request),
            Protocol::Http2 => self.gateway.http2(listener, request),
        };
        let label = || format!("{protocol:?} {} {} on `{listener}`", request.method, request.target.escape_ascii());
        let seen = seen.with_context(label)?;
        judge(&seen, expected).with_context(label)?;
        self.plain(listener).with_context(|| format!("the plain request after {}", label()))
    }

    /// A request as it should be, which works.
    fn plain(&self, listener: &str) -> Result<()> {
        let request = Request::post(REQUIRED_A).bearer(&self.token).header("idempotency-key", "plain");
        let seen = self.gateway.http1(listener, &request)?;
        judge(&seen, &forwarded(REQUIRED_A, Some("plain")))?;
        let log = self.gateway.log()?;
        let trap = log.lines().find(|line| line.contains("[critical]") || line.contains("panicked"));
        ensure!(trap.is_none(), "Envoy's log: {}", trap.unwrap_or_default());
        Ok(())
    }
}

fn claims() -> Value {
    json!({"tenant_id": "acme", "project_id": "shop", "uid": "u1"})
}

/// A `Request::post` of the token's owner, forwarded to `target` with this raw key.
fn forwarded(target: &str, key: Option<&str>) -> ExpectedFate {
    let key = key.map(|key| format!("t-acme:shop:user:u1:{key}"));
    ExpectedFate::Forwarded(received(target, key.as_deref(), &OWNER))
}

/// The identity headers of the token's owner.
const OWNER: [(&str, &str); 3] = [("x-tenant-id", "acme"), ("x-project-id", "shop"), ("x-subject", "user:u1")];

/// A `Request::post` at the upstream.
fn received(target: &str, key: Option<&str>, identity: &[(&str, &str)]) -> Received {
    let line = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let mut headers: Vec<HeaderLine> = identity.iter().map(|(name, value)| line(name, value)).collect();
    headers.push(line("content-type", "application/json"));
    headers.extend(key.map(|key| line("idempotency-key", key)));
    Received {
        method: "POST".to_owned(),
        target: target.as_bytes().to_vec(),
        authority: b"api.example.com".to_vec(),
        headers: sorted(headers),
        body: b"{}".to_vec(),
        trailers: Vec::new(),
    }
}

fn judge(seen: &Seen, expected: &ExpectedFate) -> Result<()> {
    let Seen { reply, received } = seen;
    let body = || String::from_utf8_lossy(&reply.body).into_owned();
    match expected {
        ExpectedFate::Forwarded(expected) => {
            ensure!(reply.status == 200, "status {} instead of 200: {}", reply.status, body());
            ensure!(received.len() == 1, "the upstream got {} requests", received.len());
            let same = received.first() == Some(expected);
            ensure!(same, "the upstream got\n{}\n  instead of\n{expected}", seen.upstream());
        }
        ExpectedFate::Refused(status, code, reason) => {
            ensure!(received.is_empty(), "the upstream got\n{}", seen.upstream());
            ensure!(reply.status == *status, "status {} instead of {status}: {}", reply.status, body());
            let kind = reply.text_header("content-type");
            ensure!(kind == Some("application/problem+json"), "content-type {kind:?}: {}", body());
            let problem = reply.json();
            let text = |name: &str| problem.get(name).and_then(Value::as_str);
            ensure!(text("code") == Some(code), "{} instead of {code}", body());
            ensure!(text("reason") == *reason, "{} instead of reason {reason:?}", body());
            ensure!(problem.get("status") == Some(&json!(status)), "{} instead of {status}", body());
        }
        ExpectedFate::RefusedByEnvoy(status) => {
            ensure!(received.is_empty(), "the upstream got\n{}", seen.upstream());
            ensure!(reply.status == *status, "status {} instead of {status}: {}", reply.status, body());
            let kind = reply.text_header("content-type");
            ensure!(kind != Some("application/problem+json"), "the filter answers, not Envoy: {}", body());
        }
    }
    Ok(())
}

/// One test for each protocol.
fn over_both(
    name: &str,
    check: impl Fn(&HostileSetup, Protocol) -> Result<()> + Clone + Send + 'static,
) -> Vec<Test<HostileSetup>> {
    [("http1", Protocol::Http1), ("http2", Protocol::Http2)]
        .into_iter()
        .map(|(label, protocol)| {
            let check = check.clone();
            Test::new(format!("{name}, {label}"), move |setup| check(setup, protocol))
        })
        .collect()
}
