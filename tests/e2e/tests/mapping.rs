//! What pages show of Envoy's own configuration beside the filter: the codes of another taxonomy as a header (docs/backends.md), and
//! the tenant of callers who are not logged in (docs/identity.md).

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tools::repository;
use serde_json::{Value, json};

const LISTENER: &str = "mapping";
/// A listener for callers who are not logged in.
const ANONYMOUS: &str = "anonymous";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("a header with the codes of another taxonomy", own_codes),
        Test::new("callers who are not logged in", anonymous),
    ];
    Ok(vec![sharing(start, tests)])
}

/// The first block of YAML behind a heading of a page.
fn block(page: &str, heading: &str) -> Result<Value> {
    let text = fs::read_to_string(repository().join("docs").join(page))?;
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).context("the page lacks the heading")?;
    let (_, block) = section.split_once("```yaml\n").context("no YAML")?;
    let (block, _) = block.split_once("```").context("the block does not end")?;
    Ok(serde_saphyr::from_str(block)?)
}

fn start() -> Result<TestGateway> {
    let shown = block("backends.md", "A header with the codes of your own taxonomy")?;
    let replies = shown.get("local_reply_config").context("no local_reply_config")?.clone();
    let policy = json!({
        "version": 1,
        "docs_url": "https://docs.example.com/errors",
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
        }]},
        "backend": {"kind": "generic", "cluster": "backend", "guard": {"service": "OrdersGuard"}},
        "routes": [{
            "endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create", "collision": "enforce",
        }],
    });
    let changes = vec![Change::EveryPath, Change::Manager("local_reply_config", replies)];
    let mapped = (LISTENER.to_owned(), ListenerSpec { policy: policy.to_string(), changes });
    let cases: Value = serde_json::from_str(&fs::read_to_string(repository().join("tests/cases/anonymous.json"))?)?;
    let policy = cases.get("policy").context("no policy")?.to_string();
    let filter = block("identity.md", "Callers who are not logged in")?.get(0).context("no filter")?.clone();
    let changes = vec![Change::EveryPath, Change::Before(filter)];
    TestGateway::start(&[mapped, (ANONYMOUS.to_owned(), ListenerSpec { policy, changes })])
}

fn own_codes(gateway: &TestGateway) -> Result<()> {
    let token = gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"}))?;
    let order = || Request::new("POST", "/orders").bearer(&token).body("{}");
    // The upstream is the guard, too. It answers the claim with the fingerprint of another request.
    let other = e2e::capture::Answer {
        status: 200,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: br#""1r.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA""#.to_vec(),
        trailers: Vec::new(),
    };
    for (key, status, code, own) in [
        (Some("k-1"), 409, "idempotency_key_reused", "CONFLICT.idempotency.payload_mismatch"),
        (Some("a:b"), 400, "idempotency_key_invalid", "INVALID.idempotency.key"),
        (None, 400, "idempotency_key_required", "INVALID.idempotency.key_missing"),
    ] {
        let request = key.map_or_else(order, |key| order().header("idempotency-key", key));
        let reply = gateway.http1_answered(LISTENER, &request, &other)?.reply;
        let header = |name: &str| reply.header(name).map(|value| String::from_utf8_lossy(value).into_owned());
        ensure!(reply.status == status, "{code}: {reply:?}");
        ensure!(header("error_code").as_deref() == Some(own), "{code}: {reply:?}");
        ensure!(header("content-type").as_deref() == Some("application/problem+json"), "{code}: {reply:?}");
        ensure!(reply.json().get("code") == Some(&json!(code)), "{code}: {reply:?}");
    }
    let reply = gateway.http1(LISTENER, &Request::new("GET", "/orders").bearer(&token))?.reply;
    ensure!(reply.status == 405 && reply.header("error_code").is_none(), "{reply:?}");
    Ok(())
}

/// The gateway names the tenant, whatever the client sends.
fn anonymous(gateway: &TestGateway) -> Result<()> {
    let key = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    for sent in [None, Some("acme")] {
        let order = Request::new("POST", "/orders").header("idempotency-key", key);
        let order = sent.into_iter().fold(order, |order, tenant| order.header("x-public-tenant", tenant));
        let seen = gateway.http1(ANONYMOUS, &order)?;
        let keys: Vec<_> =
            seen.received.iter().flat_map(|one| &one.headers).filter(|(name, _)| name == "idempotency-key").collect();
        let expected = format!("t-public:main:client:anonymous:{key}");
        ensure!(keys.len() == 1 && keys.iter().all(|(_, value)| *value == expected.as_bytes()), "{}", seen.upstream());
    }
    Ok(())
}
