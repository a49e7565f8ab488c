//! What an upstream and the environment say about connections, in the whole process: several hosts, a proxy, and a guard before the
//! router.

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Capture;
use e2e::raw::Request;
use e2e::runner::Test;
use harness::ports::{Ports, loopback};
use harness::senders::Senders;
use harness::tokens::Signer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::captured::{MESSAGES, as_received, claims, environment, keyed, shown, values};
use super::config::policy;
use super::standin::{Options, StandIn, Way};

/// A stand-in whose upstreams are not simply a capture.
struct Settings {
    capture: Capture,
    signer: Signer,
    directory: TempDir,
    environment: Vec<(String, String)>,
}

impl Settings {
    fn new() -> Result<Self> {
        let (capture, directory) = (Capture::start()?, tempfile::tempdir()?);
        Ok(Self { capture, signer: Signer::generate(), directory, environment: environment(&Senders::generate()) })
    }

    fn start(&self, way: Way, upstream: &Value, others: Vec<Value>) -> Result<StandIn> {
        StandIn::start(Options {
            way,
            race: false,
            module: None,
            plugins: None,
            policy: &policy()?,
            upstreams: json!({"backend": upstream, "unkey": upstream, "openbao": upstream}),
            others,
            own: Vec::new(),
            environment: self.environment.clone(),
            signer: &self.signer,
            directory: self.directory.path(),
        })
    }

    /// Sends a request with a key, and returns the target and the key that the upstream got.
    fn forwarded(&self, gateway: &StandIn, key: &str) -> Result<(String, String)> {
        let token = self.signer.mint(&claims("acme", "alice"))?;
        let reply = gateway.send(&keyed(MESSAGES, key).bearer(&token))?;
        ensure!(reply.status == 200, "{}\n{}", shown(&reply), gateway.log()?);
        let got = as_received(self.capture.take().pop().context("the upstream got nothing")?)?;
        ensure!(got.body == b"{}", "{got}");
        Ok((String::from_utf8_lossy(&got.target).into_owned(), values(&got, "idempotency-key").join(",")))
    }
}

pub(crate) fn tests(way: Way) -> Vec<Test<()>> {
    let test = |name: &str, body: fn(Way) -> Result<()>| {
        Test::new(name, move |()| body(way)).within(way.name()).within("settings")
    };
    vec![
        test("a host that takes no connection is passed over", hosts),
        test("requests go through the proxy of the environment", proxy),
        test("an endpoint that is not bound gets no key", guard),
    ]
}

fn hosts(way: Way) -> Result<()> {
    let settings = Settings::new()?;
    let closed = loopback(Ports::free()?.admin);
    let urls = json!({"urls": [format!("http://{closed}"), format!("http://{}", settings.capture.address())]});
    let gateway = settings.start(way, &urls, Vec::new())?;
    for key in ["a", "b", "c"] {
        let (target, namespaced) = settings.forwarded(&gateway, key)?;
        ensure!(target == "/restate/call/Conversations/sendMessage", "{target}");
        ensure!(namespaced == format!("t-acme:health-prod:user:alice:{key}"), "{namespaced}");
    }
    Ok(())
}

fn proxy(way: Way) -> Result<()> {
    let mut settings = Settings::new()?;
    let capture = format!("http://{}", settings.capture.address());
    let variables = [("HTTP_PROXY", capture.as_str()), ("http_proxy", ""), ("NO_PROXY", ""), ("no_proxy", "")];
    settings.environment.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let gateway = settings.start(way, &json!({"url": "http://upstream.test:8080"}), Vec::new())?;
    let (target, _) = settings.forwarded(&gateway, "a")?;
    ensure!(target == "http://upstream.test:8080/restate/call/Conversations/sendMessage", "{target}");
    Ok(())
}

/// The endpoint lists no key: the start refuses it if it does (`broken`). The plugin takes keys away before KrakenD's router as well.
fn guard(way: Way) -> Result<()> {
    let settings = Settings::new()?;
    let capture = format!("http://{}", settings.capture.address());
    let open = json!({
        "endpoint": "/open", "method": "POST", "output_encoding": "no-op", "input_headers": ["X-Other"],
        "backend": [{"host": [capture], "url_pattern": "/open"}],
    });
    let gateway = settings.start(way, &json!({"url": capture}), vec![open])?;
    let reply = gateway.send(&Request::post("/open").header("Idempotency-Key", "raw").header("X-Other", "kept"))?;
    ensure!(reply.status == 200, "{}\n{}", shown(&reply), gateway.log()?);
    let got = as_received(settings.capture.take().pop().context("the backend got nothing")?)?;
    ensure!(values(&got, "idempotency-key").is_empty() && values(&got, "x-other") == ["kept"], "{got}");
    let (_, namespaced) = settings.forwarded(&gateway, "a")?;
    ensure!(namespaced == "t-acme:health-prod:user:alice:a", "{namespaced}");
    Ok(())
}
