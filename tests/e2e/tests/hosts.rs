//! Routes of one host, and requests that spell this host in another way, in a real Envoy: its virtual hosts take a host whatever the
//! letter case, and whatever its port where the gateway says so. What no route declares is forwarded here.

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Seen, TestEnvironment, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::{Value, json};

const HOOKS: &str = "hooks.example.com";
const PAY: &str = "pay.example.com";
/// Further hosts of the route `pay`.
const OTHERS: [&str; 3] = ["xn--mnchen-3ya.example", "[2001:db8::1]", "192.0.2.1"];
const HOOK: &str = "/hooks/stripe/wh_stripe01";
const SECRET: (&str, &str) = ("E2E_HOSTS_STRIPE", "whsec_hosts");

/// The gateway removes ports and final dots.
const SHIPPED: &str = "shipped";
/// The gateway leaves the authority as it is, and ignores a port when it chooses the virtual host.
const AS_WRITTEN: &str = "as-written";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("another spelling of the webhook's host takes no forged delivery past the signature", forged),
        Test::new("another spelling of a host runs no route without a key", keyless),
        Test::new("a port and a final dot go where the gateway removes them", removed),
    ];
    Ok(vec![sharing(HostsSetup::start, tests)])
}

struct HostsSetup {
    gateway: TestGateway,
}

fn policy() -> Value {
    let pay: Vec<&str> = [PAY].into_iter().chain(OTHERS).collect();
    json!({
        "version": 1,
        "unmatched": "HANDLER_INTERNAL_C",
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "generic"},
        "routes": [
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "hosts": [HOOKS], "policy": "REQUIRED_B", "webhook": {}},
            {"endpoint": "pay", "path": "/pay", "hosts": pay, "policy": "REQUIRED_A"},
        ],
        "webhooks": {
            "static": {"wh_stripe01": {
                "tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": SECRET.0}],
            }},
        },
    })
}

/// One virtual host for the policy's hosts, which leads to the upstream.
fn virtual_hosts(ignores_port: bool) -> Value {
    let domains: Vec<&str> = [HOOKS, PAY, "other.example.com"].into_iter().chain(OTHERS).collect();
    json!({
        "name": "gateway",
        "ignore_port_in_host_matching": ignores_port,
        "virtual_hosts": [{
            "name": "api", "domains": domains, "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "backend"}}],
        }],
    })
}

impl HostsSetup {
    fn start() -> Result<Self> {
        let listener = |changes: &[Change]| {
            let always = [Change::NoAuthentication, Change::Environment(vec![SECRET.0.to_owned()])];
            ListenerSpec { policy: policy().to_string(), changes: [&always[..], changes].concat() }
        };
        let as_written = [Change::AuthorityAsWritten, Change::Manager("route_config", virtual_hosts(true))];
        let listeners = [
            (SHIPPED, listener(&[Change::Manager("route_config", virtual_hosts(false))])),
            (AS_WRITTEN, listener(&as_written)),
        ];
        let environment = vec![(SECRET.0.to_owned(), SECRET.1.to_owned())];
        let around = TestEnvironment { environment, ..TestEnvironment::default() };
        Ok(Self {
            gateway: TestGateway::start_within(&around, &listeners.map(|(name, spec)| (name.to_owned(), spec)))?,
        })
    }

    /// The request over both protocols, and what has to come of it.
    fn both(&self, listener: &str, authority: &str, request: &Request, so: impl Fn(&Seen) -> Result<()>) -> Result<()> {
        let request = Request { authority: authority.to_owned(), ..request.clone() };
        for (protocol, seen) in
            [("HTTP/1.1", self.gateway.http1(listener, &request)), ("HTTP/2", self.gateway.http2(listener, &request))]
        {
            let label = || format!("{authority} over {protocol} on `{listener}`");
            so(&seen.with_context(label)?).with_context(label)?;
        }
        Ok(())
    }
}

/// The filter refuses it with this code, and the upstream gets nothing.
fn refused(status: u16, code: &'static str) -> impl Fn(&Seen) -> Result<()> {
    move |seen| {
        ensure!(seen.received.is_empty(), "the upstream got\n{}", seen.upstream());
        let body = String::from_utf8_lossy(&seen.reply.body).into_owned();
        let is_so = seen.reply.status == status && seen.reply.json().get("code").and_then(Value::as_str) == Some(code);
        ensure!(is_so, "{} {body}", seen.reply.status);
        Ok(())
    }
}

/// An event that nobody has signed.
fn forgery() -> Request {
    Request::post(HOOK).header("stripe-signature", "t=1,v1=00").body(r#"{"id":"evt_forged"}"#)
}

/// A request without a key.
fn payment() -> Request {
    Request::post("/pay")
}

/// Every other spelling that Envoy's virtual hosts take for the host.
fn spellings(host: &str) -> Vec<String> {
    let name = host.replacen('e', "E", 1);
    vec![name, host.to_ascii_uppercase(), host.replacen(".com", ".COM", 1)]
}

fn forged(setup: &HostsSetup) -> Result<()> {
    for listener in [SHIPPED, AS_WRITTEN] {
        for spelling in spellings(HOOKS) {
            setup.both(listener, &spelling, &forgery(), refused(400, "path_ambiguous"))?;
        }
    }
    for spelling in [":80", ":443", ":8443", ":0", ":65535"].map(|port| format!("{HOOKS}{port}")) {
        setup.both(AS_WRITTEN, &spelling, &forgery(), refused(400, "path_ambiguous"))?;
    }
    Ok(())
}

fn keyless(setup: &HostsSetup) -> Result<()> {
    for listener in [SHIPPED, AS_WRITTEN] {
        let others = ["XN--MNCHEN-3YA.example", "xn--MNCHEN-3ya.EXAMPLE", "[2001:DB8::1]"].map(str::to_owned);
        for spelling in spellings(PAY).into_iter().chain(others) {
            setup.both(listener, &spelling, &payment(), refused(400, "path_ambiguous"))?;
        }
    }
    for spelling in ["PAY.example.com:8443", "xn--mnchen-3ya.example:80", "[2001:DB8::1]:80", "192.0.2.1:8080"] {
        setup.both(AS_WRITTEN, spelling, &payment(), refused(400, "path_ambiguous"))?;
    }
    Ok(())
}

fn removed(setup: &HostsSetup) -> Result<()> {
    for spelling in [":8443", ".", ".:443"].map(|rest| format!("{PAY}{rest}")) {
        setup.both(SHIPPED, &spelling, &payment(), refused(400, "idempotency_key_required"))?;
    }
    Ok(())
}
