//! Routes of one host, and requests that spell this host in another way, in a real Envoy: its virtual hosts take a host whatever the
//! letter case, and whatever its port where the gateway says so. What no route declares is forwarded here.

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries::{self, now};
use e2e::gateway::{Seen, TestEnvironment, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
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
/// No route has hosts.
const WITHOUT: &str = "without-hosts";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("a declared host works", declared),
        Test::new("another spelling of the webhook's host takes no forged delivery past the signature", forged),
        Test::new("another spelling of a host runs no route without a key", keyless),
        Test::new("a port and a final dot go where the gateway removes them", removed),
        Test::new("names that are no ASCII reach nobody", not_ascii),
        Test::new("other hosts go their own way", other_hosts),
        Test::new("without hosts each spelling leads to the same routes", without_hosts),
    ];
    Ok(vec![sharing(HostsSetup::start, tests)])
}

struct HostsSetup {
    gateway: TestGateway,
}

fn policy(with_hosts: bool) -> Value {
    let pay: Vec<&str> = [PAY].into_iter().chain(OTHERS).collect();
    let mut policy = json!({
        "version": 1,
        "unmatched": "HANDLER_INTERNAL_C",
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
        }]},
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
    });
    for route in policy.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten() {
        route.as_object_mut().filter(|_| !with_hosts).and_then(|route| route.shift_remove("hosts"));
    }
    policy
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
        let listener = |with_hosts: bool, changes: &[Change]| {
            let always = [Change::NoAuthentication, Change::Environment(vec![SECRET.0.to_owned()])];
            ListenerSpec { policy: policy(with_hosts).to_string(), changes: [&always[..], changes].concat() }
        };
        let as_written = [Change::AuthorityAsWritten, Change::Manager("route_config", virtual_hosts(true))];
        let listeners = [
            (SHIPPED, listener(true, &[Change::Manager("route_config", virtual_hosts(false))])),
            (AS_WRITTEN, listener(true, &as_written)),
            (WITHOUT, listener(false, &as_written)),
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

    /// A payment whose authority is none is refused, by whomever. Over HTTP/2 the differ of `hostile` sends such requests: no library
    /// does.
    fn reaches_nobody(&self, listener: &str, authority: &str) -> Result<()> {
        let seen = self.gateway.http1(listener, &Request { authority: authority.to_owned(), ..payment() })?;
        let is_refused = seen.received.is_empty() && (400..500).contains(&seen.reply.status);
        ensure!(is_refused, "{authority} on `{listener}`: {}\n{}", seen.reply.status, seen.upstream());
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

fn forwarded(seen: &Seen) -> Result<()> {
    ensure!(seen.reply.status == 200 && seen.received.len() == 1, "{}: {}", seen.reply.status, seen.upstream());
    Ok(())
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

fn declared(setup: &HostsSetup) -> Result<()> {
    for listener in [SHIPPED, AS_WRITTEN] {
        setup.both(listener, HOOKS, &forgery(), refused(401, "webhook_signature_invalid"))?;
        let genuine = deliveries::stripe(HOOK, &[SECRET.1], now(), r#"{"id":"evt_1","object":"event"}"#);
        setup.both(listener, HOOKS, &genuine, forwarded)?;
        for host in [PAY].into_iter().chain(OTHERS) {
            setup.both(listener, host, &payment(), refused(400, "idempotency_key_required"))?;
        }
    }
    Ok(())
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
    // The gateway removes one of each. With the second it chooses no virtual host of the policy.
    [":80:80", ".."].iter().try_for_each(|rest| setup.reaches_nobody(SHIPPED, &format!("{PAY}{rest}")))
}

/// Envoy has no IDNA: a name outside ASCII, percent-encoded or not, is no domain of a virtual host and no authority to the filter.
fn not_ascii(setup: &HostsSetup) -> Result<()> {
    for listener in [SHIPPED, AS_WRITTEN] {
        for spelling in ["m\u{fc}nchen.example", "m%C3%BCnchen.example", "pay\u{3002}example.com", "p%61y.example.com"]
        {
            setup.reaches_nobody(listener, spelling)?;
        }
    }
    Ok(())
}

/// A virtual host that the policy does not name is what `check --envoy` tells (`envoy-open-host`).
fn other_hosts(setup: &HostsSetup) -> Result<()> {
    for authority in ["other.example.com", "OTHER.example.com"] {
        setup.both(SHIPPED, authority, &payment(), forwarded)?;
    }
    Ok(())
}

fn without_hosts(setup: &HostsSetup) -> Result<()> {
    for spelling in [PAY, "PAY.example.com", "pay.example.com:8443", "Hooks.example.com"] {
        setup.both(WITHOUT, spelling, &payment(), refused(400, "idempotency_key_required"))?;
        setup.both(WITHOUT, spelling, &forgery(), refused(401, "webhook_signature_invalid"))?;
    }
    Ok(())
}
