//! API keys behind KrakenD, which has no filter that could look them up: the bridge's module asks the stand-in for Unkey.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Capture;
use e2e::raw::{Reply, Request};
use e2e::runner::{Test, runtime};
use harness::faults::Fault;
use harness::tokens::Signer;
use harness::unkey::Unkey;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::captured::{as_received, shown, values};
use super::standin::{Options, StandIn, Way};

const ROOT_KEY: &str = "unkey_root_behind_krakend";
const KEY: &str = "sk_planted_behind_krakend";

fn policy() -> Value {
    json!({
        "version": 1,
        "gateway_routes": true,
        "backend": {"kind": "generic"},
        "identity": {"sources": [{
            "name": "partner",
            "unkey": {"header": "x-partner-key", "prefix": "sk_", "cluster": "unkey", "root_key": {"env": "PARTNER_ROOT_KEY"},
                      "cache_ttl_s": 1},
            "tenant": "/identity/externalId", "project": "/meta/project_id", "subject": {"field": "/keyId", "type": "client"},
        }]},
        "routes": [
            {"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A"},
            {"endpoint": "uploads", "path": "/uploads", "policy": "ACCEPTED", "max_body_bytes": 1024},
        ],
    })
}

pub(crate) fn tests(way: Way) -> Vec<Test<()>> {
    let name = "a known key, an unknown one, none, a long body, and a registry that is slow and down";
    vec![Test::new(name, move |()| callers(way)).within(way.name()).within("api_keys")]
}

struct Callers {
    gateway: StandIn,
    capture: Capture,
    unkey: Unkey,
    _directory: TempDir,
}

impl Callers {
    fn start(way: Way) -> Result<Self> {
        let (capture, directory) = (Capture::start()?, tempfile::tempdir()?);
        let unkey = runtime()?.block_on(Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), ROOT_KEY))?;
        unkey.says(
            KEY,
            json!({
                "valid": true, "code": "VALID", "keyId": "key_1", "identity": {"externalId": "acme"},
                "meta": {"project_id": "shop"},
            }),
        );
        let url = |address: SocketAddr| json!({"url": format!("http://{address}")});
        let gateway = StandIn::start(Options {
            way,
            race: false,
            module: None,
            plugins: None,
            policy: &policy(),
            upstreams: json!({"backend": url(capture.address()), "unkey": url(unkey.server().address())}),
            others: Vec::new(),
            own: Vec::new(),
            environment: vec![("PARTNER_ROOT_KEY".to_owned(), ROOT_KEY.to_owned())],
            signer: &Signer::generate(),
            directory: directory.path(),
        })?;
        Ok(Self { gateway, capture, unkey, _directory: directory })
    }

    fn refused(&self, request: &Request, status: u16, code: &str) -> Result<Reply> {
        let reply = self.gateway.send(request)?;
        let told = reply.json();
        ensure!((reply.status, told.get("code")) == (status, Some(&json!(code))), "{}", shown(&reply));
        ensure!(self.capture.take().is_empty(), "it went on");
        Ok(reply)
    }

    fn accepted(&self, request: &Request) -> Result<()> {
        let reply = self.gateway.send(request)?;
        ensure!(reply.status == 200, "{}\n{}", shown(&reply), self.gateway.log()?);
        let got = as_received(self.capture.take().pop().context("the backend got nothing")?)?;
        ensure!(values(&got, "idempotency-key") == ["t-acme:shop:client:key_1:k-1"], "{got}");
        ensure!(values(&got, "x-partner-key").is_empty(), "{got}");
        ensure!(got.body == request.body, "{} of {} bytes", got.body.len(), request.body.len());
        Ok(())
    }
}

fn callers(way: Way) -> Result<()> {
    let callers = Callers::start(way)?;
    let request = |path: &str, key: &str| {
        Request::post(path).header("X-Partner-Key", key).header("Idempotency-Key", "k-1").body("{}")
    };
    callers.accepted(&request("/orders", KEY))?;
    callers.refused(&request("/orders", "sk_unknown"), 401, "api_key_invalid")?;
    callers.refused(&Request::post("/orders").header("Idempotency-Key", "k-1"), 401, "identity_missing")?;
    callers.accepted(&request("/uploads", KEY).body(vec![b'u'; 3 << 20]))?;
    callers.unkey.server().fail(Fault::Closed);
    callers.refused(&request("/orders", "sk_not_asked_yet"), 503, "dependency_unavailable")?;
    callers.unkey.server().recover();
    callers.unkey.unbind(KEY);
    callers
        .gateway
        .until("the revoked key is refused", |gateway| Ok(gateway.send(&request("/orders", KEY))?.status == 401))?;
    let log = callers.gateway.log()?;
    ensure!(!log.contains(KEY) && !log.contains(ROOT_KEY), "the log has a secret: {log}");
    Ok(())
}
