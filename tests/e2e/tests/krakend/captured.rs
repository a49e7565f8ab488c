//! What reaches a recording upstream behind the stand-in, and what clients get.

use anyhow::{Result, ensure};
use e2e::capture::Capture;
use e2e::gateway::{Received, received};
use e2e::raw::{Reply, Request};
use e2e::runner::Test;
use e2e::wire::Message;
use harness::senders::Senders;
use harness::tokens::Signer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::config::policy;
use super::standin::{Options, StandIn, Way};

pub(crate) const REFUNDS: &str = "/api/v1/refunds";
pub(crate) const MESSAGES: &str = "/api/v1/conversations/send-message";
pub(crate) const DEVICES: &str = "/api/v1/notifications/devices";
pub(crate) const PROJECTS: &str = "/api/v1/projects";

/// A stand-in in front of a capture.
pub(crate) struct KrakendSetup {
    pub(crate) gateway: StandIn,
    pub(crate) capture: Capture,
    pub(crate) signer: Signer,
    pub(crate) senders: Senders,
    _directory: TempDir,
}

impl KrakendSetup {
    pub(crate) fn start(way: Way, race: bool) -> Result<Self> {
        Self::start_with(way, race, Vec::new())
    }

    /// With further members of the bridge's configuration.
    pub(crate) fn start_with(way: Way, race: bool, own: Vec<(&'static str, Value)>) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (capture, signer, senders) = (Capture::start()?, Signer::generate(), Senders::generate());
        let upstream = json!({"url": capture.url()});
        let gateway = StandIn::start(Options {
            way,
            race,
            policy: &policy()?,
            upstreams: json!({"backend": upstream, "unkey": upstream, "openbao": upstream}),
            own,
            environment: environment(&senders),
            signer: &signer,
            directory: directory.path(),
        })?;
        Ok(Self { gateway, capture, signer, senders, _directory: directory })
    }

    /// Forgets what a test before this one left, if it failed.
    pub(crate) fn clear(&self) {
        self.capture.take();
    }

    /// The request with a token for these claims.
    pub(crate) fn signed(&self, request: Request, claims: &Value) -> Result<Request> {
        Ok(request.bearer(&self.signer.mint(claims)?))
    }

    /// Sends a request that has to be forwarded, and returns what the upstream got.
    pub(crate) fn forwarded(&self, request: &Request) -> Result<Received> {
        let reply = self.gateway.send(request)?;
        ensure!(reply.status == 200, "{}\n{}", shown(&reply), self.gateway.log()?);
        let mut all = self.capture.take();
        let one = all.pop().ok_or_else(|| anyhow::anyhow!("the upstream got nothing"))?;
        ensure!(all.is_empty(), "the upstream got more than one request: {all:?}");
        as_received(one)
    }

    /// Sends a request that has to be refused with a problem document, and checks that nothing reaches the upstream.
    pub(crate) fn refused(&self, request: &Request, status: u16, code: &str) -> Result<Reply> {
        let reply = self.gateway.send(request)?;
        let told = reply.json().get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
        ensure!((reply.status, told.as_str()) == (status, code), "not {status} {code}: {}", shown(&reply));
        let kind = reply.text_header("content-type");
        ensure!(kind == Some("application/problem+json"), "no problem document: {}", shown(&reply));
        self.nothing_forwarded()?;
        Ok(reply)
    }

    /// Nothing has reached the upstream.
    pub(crate) fn nothing_forwarded(&self) -> Result<()> {
        let all = self.capture.take();
        ensure!(all.is_empty(), "the upstream got {all:?}");
        Ok(())
    }
}

/// A request as the upstream got it, without the lines that say how it was framed and when: names in lower case.
pub(crate) fn as_received(mut message: Message) -> Result<Received> {
    message.headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    received(message)
}

/// The variables that the policy reads. The stores are not there in these tests.
pub(crate) fn environment(senders: &Senders) -> Vec<(String, String)> {
    let mut environment = senders.environment();
    environment.extend(["UNKEY_ROOT_KEY", "OPENBAO_TOKEN"].map(|name| (name.to_owned(), "planted".to_owned())));
    environment
}

pub(crate) fn shown(reply: &Reply) -> String {
    format!("{} {:?} {}", reply.status, reply.headers, String::from_utf8_lossy(&reply.body))
}

/// The values under a name, as text.
pub(crate) fn values(received: &Received, name: &str) -> Vec<String> {
    let of_name = received.headers.iter().filter(|(known, _)| known == name);
    of_name.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
}

pub(crate) fn claims(tenant: &str, user: &str) -> Value {
    json!({"tenant_id": tenant, "project_id": "health-prod", "sub": user})
}

pub(crate) fn keyed(path: &str, key: &str) -> Request {
    Request::post(path).header("Idempotency-Key", key)
}

/// A test that is alone with its setup.
fn test(way: Way, name: &str, body: fn(&KrakendSetup) -> Result<()>) -> Test<KrakendSetup> {
    let test = Test::new(name, move |setup: &KrakendSetup| {
        setup.clear();
        body(setup)
    });
    test.within(way.name())
}

pub(crate) fn tests(way: Way) -> Vec<Test<KrakendSetup>> {
    vec![
        test(way, "a key is namespaced, and the rest of the request arrives as it was", namespaced),
        test(way, "methods and paths that no endpoint has", unknown),
        test(way, "the filter decides about the path that KrakenD matched", one_path),
        test(way, "a body of every byte, and the upstream's answer with its header lines", exact),
    ]
}

fn namespaced(setup: &KrakendSetup) -> Result<()> {
    for (sent, raw) in [("order-7", "order-7"), ("\"order-7\"", "order-7")] {
        let request = keyed(MESSAGES, sent).header("Cookie", "a=b").header("X-Restate-Limit", "1");
        let got = setup.forwarded(&setup.signed(request, &claims("acme", "alice"))?)?;
        ensure!(got.target == b"/restate/call/Conversations/sendMessage", "{got}");
        ensure!(values(&got, "idempotency-key") == [format!("t-acme:health-prod:user:alice:{raw}")], "{got}");
        ensure!(values(&got, "x-tenant-id") == ["acme"] && values(&got, "x-subject") == ["user:alice"], "{got}");
        ensure!(values(&got, "content-type") == ["application/json"] && got.body == b"{}", "{got}");
        for removed in ["authorization", "cookie", "x-restate-limit", "x-claim-tenant", "x-claim-subject"] {
            ensure!(values(&got, removed).is_empty(), "{removed} reached the upstream:\n{got}");
        }
    }
    Ok(())
}

/// A client cannot have the endpoint chosen by one path and the request decided by another.
fn one_path(setup: &KrakendSetup) -> Result<()> {
    let who = claims("acme", "alice");
    for target in [
        "foo:/api/v1/refunds?x=a://b/api/v1/conversations/send-message",
        "foo:/api/v1/refunds?x=a://b/restate/call/Refunds/create",
        "foo://b/api/v1/refunds",
    ] {
        setup.refused(&setup.signed(keyed(target, "k"), &who)?, 400, "path_ambiguous")?;
    }
    for target in ["/api/v1/refunds/by-idempotency-key/%2e%2e/output", "/api/v1/refunds/by-idempotency-key/.."] {
        setup.refused(&setup.signed(Request::new("GET", target), &who)?, 400, "path_ambiguous")?;
    }
    for target in [
        "http://other.example/api/v1/conversations/send-message",
        "/api/v1/conversations/send%2Dmessage?x=a://b/api/v1/refunds",
        "http:/api/v1/conversations/send-message?://b/api/v1/refunds",
    ] {
        let got = setup.forwarded(&setup.signed(keyed(target, "k"), &who)?)?;
        ensure!(got.target == b"/restate/call/Conversations/sendMessage", "{target}: {got}");
    }
    Ok(())
}

/// What KrakenD answers by itself.
fn unknown(setup: &KrakendSetup) -> Result<()> {
    let who = claims("acme", "alice");
    let requests = [
        ("HEAD", PROJECTS, 405),
        ("OPTIONS", MESSAGES, 405),
        ("DELETE", MESSAGES, 405),
        ("POST", "/restate/call/Conversations/sendMessage", 404),
        ("POST", "//api/v1/refunds", 404),
        ("POST", "/api/v1/refunds/", 404),
        ("POST", "/API/v1/refunds", 404),
        ("POST", "/api/v1/x/../refunds", 404),
        ("GET", "/api/v1/refunds/by-idempotency-key/a%2Fb", 404),
        ("GET", "/api/v1/refunds/by-idempotency-key/a%252Fb", 400),
        ("GET", "/api/v1/refunds/by-idempotency-key/a%00b", 400),
        ("GET", "/api/v1/refunds/by-idempotency-key/a%0d%0ab", 400),
    ];
    for (method, path, status) in requests {
        let request = Request::new(method, path).header("Idempotency-Key", "k");
        let reply = setup.gateway.send(&setup.signed(request, &who)?)?;
        ensure!(reply.status == status, "{method} {path}: {}", shown(&reply));
        setup.nothing_forwarded()?;
    }
    let nobody = setup.gateway.send(&keyed(MESSAGES, "k"))?;
    ensure!(nobody.status == 401 && nobody.body.is_empty(), "without a token: {}", shown(&nobody));
    let forged = Signer::generate().mint(&who)?;
    let reply = setup.gateway.send(&keyed(MESSAGES, "k").bearer(&forged))?;
    ensure!(reply.status == 401, "with a forged token: {}", shown(&reply));
    setup.nothing_forwarded()
}

fn exact(setup: &KrakendSetup) -> Result<()> {
    let body: Vec<u8> = (0..300_000_u32).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect();
    let answer = e2e::capture::Answer {
        status: 202,
        headers: vec![("x-twice".to_owned(), b"1".to_vec()), ("x-twice".to_owned(), b"2".to_vec())],
        body: body.iter().rev().copied().collect(),
        trailers: Vec::new(),
    };
    setup.capture.answer(answer.clone());
    let reply = setup.gateway.send(&setup.signed(keyed(MESSAGES, "k").body(body.clone()), &claims("acme", "alice"))?);
    setup.capture.answer(e2e::capture::Answer::default());
    let reply = reply?;
    ensure!(reply.status == 202 && reply.body == answer.body, "status {}, {} bytes", reply.status, reply.body.len());
    let twice: Vec<_> = reply.headers.iter().filter(|(name, _)| name == "x-twice").collect();
    ensure!(twice.len() == 2, "{:?}", reply.headers);
    let got = setup.capture.take();
    ensure!(got.len() == 1 && got.iter().all(|got| got.body == body), "another body reached the upstream");
    Ok(())
}
