//! What pages show of Envoy's own configuration beside the filter: the codes of another taxonomy as a header and the errors of a
//! protocol (docs/backends.md), and the tenant of callers who are not logged in (docs/identity.md).

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tools::repository;
use serde_json::{Value, json};

const LISTENER: &str = "mapping";
/// A listener for clients of ACP.
const ACP: &str = "acp";
/// A listener for callers who are not logged in.
const ANONYMOUS: &str = "anonymous";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("a header with the codes of another taxonomy", own_codes),
        Test::new("callers who are not logged in", anonymous),
        Test::new("the table of ACP, row by row", acp),
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
    let anonymous = (ANONYMOUS.to_owned(), ListenerSpec { policy, changes });
    TestGateway::start(&[mapped, (ACP.to_owned(), acp_listener()?), anonymous])
}

/// What policies/profiles/acp.json has, with a route for each of its checks.
fn acp_listener() -> Result<ListenerSpec> {
    let profile = fs::read_to_string(repository().join("policies/profiles/acp.json"))?;
    let profile: Value = serde_json::from_str(&profile)?;
    let member = |name: &str| profile.get(name).cloned().with_context(|| format!("the profile lacks {name}"));
    let route = |name: &str, off: &str| -> Result<Value> {
        let mut route = member("route")?;
        let members = route.as_object_mut().context("no object")?;
        members.insert("endpoint".to_owned(), json!(name));
        members.insert("path".to_owned(), json!(format!("/{name}")));
        members.insert("target".to_owned(), json!("Sessions/create"));
        members.remove(off);
        if off == "collision" {
            members.remove("fingerprint");
        }
        Ok(route)
    };
    let policy = json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
        }]},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true, "guard": {"service": "SessionsGuard"}},
        "routes": [route("compared", "in_flight")?, route("asked", "collision")?],
    });
    let replies = member("manager")?.get("local_reply_config").cloned().context("no local_reply_config")?;
    let filters = member("http_filters")?;
    let mut changes = vec![Change::EveryPath, Change::Manager("local_reply_config", replies)];
    changes.extend(filters.as_array().into_iter().flatten().map(|filter| Change::Before(filter.clone())));
    Ok(ListenerSpec { policy: policy.to_string(), changes })
}

/// Section 6.4 of ACP, and the key that answers repeat.
fn acp(gateway: &TestGateway) -> Result<()> {
    let token = gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "u1"}))?;
    let answer = |status: u16, body: &[u8]| e2e::capture::Answer {
        status,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: body.to_vec(),
        trailers: Vec::new(),
    };
    let under_way = format!("order:{}", e2e::capture::UNDER_WAY);
    let other = answer(200, br#""1j.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA""#);
    for (path, key, upstream, status, code) in [
        ("/compared", None, &other, 400, "idempotency_key_required"),
        ("/compared", Some("a,b"), &other, 400, "idempotency_key_invalid"),
        ("/compared", Some("order:1"), &other, 422, "idempotency_conflict"),
        ("/asked", Some(under_way.as_str()), &other, 409, "idempotency_in_flight"),
    ] {
        let request = Request::new("POST", path).bearer(&token).body("{}");
        let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
        let reply = gateway.http1_answered(ACP, &request, upstream)?.reply;
        let header = |name: &str| reply.header(name).map(|value| String::from_utf8_lossy(value).into_owned());
        ensure!(reply.status == status, "{code}: {reply:?}");
        ensure!(header("content-type").as_deref() == Some("application/json"), "{code}: {reply:?}");
        ensure!(header("retry-after").is_some() == (status == 409), "{code}: {reply:?}");
        ensure!(header("idempotency-key").as_deref() == key, "{code}: {reply:?}");
        let body = reply.json();
        ensure!(body.get("code") == Some(&json!(code)), "{code}: {reply:?}");
        ensure!(
            body.get("type") == Some(&json!("invalid_request")) && body.get("message").is_some(),
            "{code}: {reply:?}"
        );
    }
    let done = answer(200, br#"{"id":"session_1"}"#);
    let request = Request::new("POST", "/asked").bearer(&token).header("idempotency-key", "order:2").body("{}");
    let reply = gateway.http1_answered(ACP, &request, &done)?.reply;
    ensure!(reply.status == 200 && reply.header("idempotency-key") == Some(b"order:2"), "{reply:?}");
    Ok(())
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
