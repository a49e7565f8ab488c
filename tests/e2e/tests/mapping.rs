//! What pages show of Envoy's own configuration beside the filter: the codes of another taxonomy as a header and the errors of
//! protocols (docs/backends.md), and the tenant of callers who are not logged in (docs/identity.md).

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestGateway;
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use harness::tools::{built, repository};
use serde_json::{Map, Value, json};

const LISTENER: &str = "mapping";
/// Profiles that write errors; each has a listener.
const PROFILES: [&str; 4] = ["acp", "adcp", "stripe", "ucp"];
/// A listener for callers who are not logged in.
const ANONYMOUS: &str = "anonymous";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("a header with the codes of another taxonomy", own_codes),
        Test::new("callers who are not logged in", anonymous),
        Test::new("the errors of each profile, row by row", profiles),
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
        "identity": {"sources": [tokens::source()]},
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
    let mut listeners = vec![mapped, anonymous];
    for name in PROFILES {
        listeners.push((name.to_owned(), profile_listener(name)?));
    }
    TestGateway::start(&listeners)
}

/// Routes with the members that a profile asks for, one for each of their checks, behind what `render profile` writes.
fn profile_listener(name: &str) -> Result<ListenerSpec> {
    let rules = profile(name)?.get("route").cloned().context("no rules")?;
    let route = |path: &str, off: &[&str]| -> Result<Value> {
        let check = if path == "asked" { ("in_flight", "conflict") } else { ("collision", "enforce") };
        let given = [("endpoint", path), ("target", "Sessions/create"), ("policy", "REQUIRED_A"), check];
        let mut route: Map<String, Value> =
            given.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect();
        route.insert("path".to_owned(), json!(format!("/{path}")));
        if path == "compared" {
            // The guard's answer below is a fingerprint of this form.
            route.insert("fingerprint".to_owned(), json!("json"));
        }
        let mut key = Map::new();
        for rule in rules.as_array().into_iter().flatten() {
            let member = rule.get("member").and_then(Value::as_str).context("no member")?;
            let value = rule.pointer("/is/0").or_else(|| rule.get("any")).context("no value")?;
            match member.strip_prefix("/key/") {
                Some(member) => key.insert(member.to_owned(), value.clone()),
                None if off.contains(&member) => None,
                None => route.insert(member.trim_start_matches('/').to_owned(), value.clone()),
            };
        }
        route.insert("key".to_owned(), Value::Object(key));
        Ok(Value::Object(route))
    };
    let policy = json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true, "guard": {"service": "SessionsGuard"}},
        "routes": [route("compared", &["/in_flight", "/fingerprint_without"])?, route("asked", &["/collision", "/fingerprint", "/fingerprint_without"])?],
    });
    let output = Command::new(built("EDGE_CLI", "edge-idempotency")?).args(["render", "profile", name]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rendered: Value = serde_saphyr::from_str(&String::from_utf8(output.stdout)?)?;
    let replies = rendered.get("local_reply_config").cloned().context("no local_reply_config")?;
    let mut changes = vec![Change::EveryPath, Change::Manager("local_reply_config", replies)];
    let filters = rendered.get("http_filters").and_then(Value::as_array).into_iter().flatten();
    changes.extend(filters.map(|filter| Change::Before(filter.clone())));
    Ok(ListenerSpec { policy: policy.to_string(), changes })
}

/// The content of a profile's file.
fn profile(name: &str) -> Result<Value> {
    let file = repository().join("policies/profiles").join(name).with_extension("json");
    Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
}

/// The errors of each protocol, and the key that answers of ACP repeat.
fn profiles(gateway: &TestGateway) -> Result<()> {
    let token = gateway.user_token()?;
    let answer = |status: u16, body: &[u8]| e2e::capture::Answer {
        status,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: body.to_vec(),
        trailers: Vec::new(),
    };
    let under_way = format!("order-0123456789-{}", e2e::capture::UNDER_WAY);
    let (other, down) = (answer(200, br#""1j.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA""#), answer(500, b"{}"));
    let (new, bad) = ("order-0123456789-1", "a,b");
    let [required, invalid, reused, in_flight] = ["required", "invalid", "reused", "in_flight"];
    for (name, own, key, upstream, status, code) in [
        ("acp", required, None, &other, 400, "idempotency_key_required"),
        ("acp", invalid, Some(bad), &other, 400, "idempotency_key_invalid"),
        ("acp", reused, Some(new), &other, 422, "idempotency_conflict"),
        ("acp", in_flight, Some(under_way.as_str()), &other, 409, "idempotency_in_flight"),
        ("adcp", required, None, &other, 400, "INVALID_REQUEST"),
        ("adcp", invalid, Some("short"), &other, 400, "INVALID_REQUEST"),
        ("adcp", reused, Some(new), &other, 409, "IDEMPOTENCY_CONFLICT"),
        ("adcp", in_flight, Some(under_way.as_str()), &other, 409, "IDEMPOTENCY_IN_FLIGHT"),
        ("ucp", required, None, &other, 400, "idempotency_key_required"),
        ("ucp", invalid, Some(bad), &other, 400, "idempotency_key_invalid"),
        ("ucp", reused, Some(new), &other, 409, "idempotency_key_reused"),
        ("ucp", in_flight, Some(under_way.as_str()), &other, 409, "idempotency_key_in_flight"),
        ("ucp", "dependency_unavailable", Some(new), &down, 503, "dependency_unavailable"),
        ("stripe", invalid, Some(bad), &other, 400, "invalid_request_error"),
        ("stripe", reused, Some(new), &other, 400, "idempotency_error"),
        ("stripe", in_flight, Some(under_way.as_str()), &other, 409, "idempotency_key_in_use"),
    ] {
        let case = format!("{name}, {own}");
        let path = if own == in_flight { "/asked" } else { "/compared" };
        let request = Request::new("POST", path).bearer(&token).header("content-type", "application/json");
        let request = match key {
            Some(key) if name == "adcp" => request.body(json!({"idempotency_key": key}).to_string()),
            Some(key) => request.header("idempotency-key", key).body("{}"),
            None => request.body("{}"),
        };
        let reply = gateway.http1_answered(name, &request, upstream)?.reply;
        let header = |name: &str| reply.header(name).map(|value| String::from_utf8_lossy(value).into_owned());
        ensure!(reply.status == status, "{case}: {reply:?}");
        ensure!(header("content-type").as_deref() == Some("application/json"), "{case}: {reply:?}");
        ensure!(header("retry-after").is_some() == (own == in_flight || status == 503), "{case}: {reply:?}");
        ensure!(header("idempotency-key").as_deref() == key.filter(|_| name == "acp"), "{case}: {reply:?}");
        let errors = profile(name)?.get("errors").cloned().context("no errors")?;
        let mut errors = errors.as_array().into_iter().flatten();
        let written =
            errors.find(|error| error.get("code").and_then(Value::as_str).is_some_and(|code| code.ends_with(own)));
        ensure!(written.and_then(|error| error.get("body")) == Some(&reply.json()), "{case}: {reply:?}");
        ensure!(reply.json().to_string().contains(&json!(code).to_string()), "{case}: {reply:?}");
    }
    let done = answer(200, br#"{"id":"session_1"}"#);
    let request = Request::new("POST", "/asked").bearer(&token).header("idempotency-key", "order:2").body("{}");
    let reply = gateway.http1_answered("acp", &request, &done)?.reply;
    ensure!(reply.status == 200 && reply.header("idempotency-key") == Some(b"order:2"), "{reply:?}");
    Ok(())
}

fn own_codes(gateway: &TestGateway) -> Result<()> {
    let token = gateway.user_token()?;
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
