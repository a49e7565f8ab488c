//! The record in Envoy's logs; `tests/cases/records.json` has every member for every outcome.

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::deliveries::{now, stripe};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::{Map, Value, json};

use super::{SECRET, SECRET_VARIABLE, access_log, listener, log_lines};

/// The SHA-256 of `t-acme:shop:user:u1:k-1`.
const DIGEST: &str = "sha256:e378f1a947a3de7207338ec2bb066dc60c253fd1bbb22135eb8eddc885ff5706";
/// The digest of the raw key `k-1`.
const RAW_DIGEST: &str = "sha256:7c35c5a1785d20704e44d5de4beb81c1fce91b6fe48ed7c3159af6f7f832078b";
const NAMESPACED: &str = "t-acme:shop:user:u1:k-1";
/// What each client claims to be the request's id. Nobody repeats it.
const CLIENTS_ID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
/// The members of a line of the access log.
const MEMBERS: [&str; 10] = [
    "cluster",
    "details",
    "duration_ms",
    "edge_idempotency",
    "flags",
    "method",
    "request_id",
    "route",
    "status",
    "time",
];

pub(crate) fn group() -> Group {
    sharing(start, vec![Test::new("every member is right for every outcome", every_outcome)])
}

fn start() -> Result<TestGateway> {
    let listeners =
        [("hash", "enforce"), ("full", "enforce"), ("off", "enforce"), ("shadow", "shadow")].map(|(name, mode)| {
            let form = if name == "shadow" { "hash" } else { name };
            (name.to_owned(), listener(form, mode))
        });
    let environment = vec![(SECRET_VARIABLE.to_owned(), SECRET.to_owned())];
    TestGateway::start_within(&TestEnvironment { environment, trace: true, ..TestEnvironment::default() }, &listeners)
}

/// A request, and what the logs have to say about it.
struct Row {
    listener: &'static str,
    request: Request,
    answer: Answer,
    status: u16,
    details: &'static str,
    /// Every member of the record; `null` if the filter does not see the request.
    record: Value,
}

fn row(listener: &'static str, request: Request, answer: Answer, told: (u16, &'static str), record: Value) -> Row {
    let request = request.header("x-request-id", CLIENTS_ID);
    let mut row = Row { listener, request, answer, status: told.0, details: told.1, record };
    let invocation = row.answer.headers.iter().any(|(name, _)| name == INVOKED.0);
    if let Some(record) = row.record.as_object_mut().filter(|_| invocation) {
        record.insert("restate_invocation_id".to_owned(), INVOKED.1.into());
    }
    row
}

fn restate(status: u16, more: &[(&str, &str)]) -> Answer {
    let lines = [("content-type", "application/json")].iter().chain(more);
    let headers = lines.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    Answer { status, headers, ..Answer::default() }
}

const INVOKED: (&str, &str) = ("x-restate-id", "inv_1");
const EXPIRES: (&str, &str) = ("idempotency-expires", "2026-11-23T00:00:00Z");
const INGRESS: (&str, &str) = ("x-restate-error-source", "ingress");

/// The members of a route and of the caller, with those of `more` besides or instead; `null` there takes one away.
fn refunds(more: &Value) -> Value {
    let record = json!({
        "idempotency_case": "A", "idempotency_key_namespaced": DIGEST, "idempotency_source": "header",
        "idempotency_policy": "REQUIRED_A", "tenant": "acme", "project": "shop", "endpoint": "refunds",
        "original_path": "/api/v1/refunds",
    });
    with(record, more)
}

fn with(mut record: Value, more: &Value) -> Value {
    if let (Some(members), Some(more)) = (record.as_object_mut(), more.as_object()) {
        for (name, value) in more {
            members.insert(name.clone(), value.clone());
        }
        members.retain(|_, value| !value.is_null());
    }
    record
}

fn rows(gateway: &TestGateway) -> Result<Vec<Row>> {
    let mut rows = enforced(gateway)?;
    rows.extend(recoveries_and_webhooks(gateway)?);
    rows.push(refused_identity(gateway)?);
    rows.extend(forms_and_shadow(gateway)?);
    Ok(rows)
}

fn enforced(gateway: &TestGateway) -> Result<Vec<Row>> {
    let token = gateway.user_token()?;
    let post = |path: &str| Request::post(path).bearer(&token);
    let keyed = |path: &str| post(path).header("idempotency-key", "k-1");
    let refund = || keyed("/api/v1/refunds");
    let told = |outcome: &str| json!({"idempotency_outcome": outcome, "restate_cache_hit": outcome == "replayed"});
    let stored = told("stored");
    let refused = |code: &str| {
        json!({"idempotency_outcome": "rejected", "idempotency_code": code, "idempotency_key_namespaced": null,
            "idempotency_source": null})
    };

    Ok(vec![
        row("hash", refund(), restate(200, &[INVOKED]), (200, "via_upstream"), refunds(&stored)),
        row(
            "hash",
            refund().header("x-retry-attempt", "2"),
            restate(200, &[INVOKED, EXPIRES]),
            (200, "via_upstream"),
            refunds(&with(told("replayed"), &json!({"attempt": 2}))),
        ),
        // The filter answers in the place of an error without a body.
        row(
            "hash",
            refund(),
            Answer { body: Vec::new(), ..restate(503, &[INGRESS]) },
            (503, "dependency_unavailable"),
            refunds(&json!({"idempotency_outcome": "forwarded", "idempotency_code": "dependency_unavailable"})),
        ),
        row(
            "hash",
            post("/api/v1/refunds"),
            Answer::default(),
            (400, "idempotency_key_required"),
            refunds(&refused("idempotency_key_required")),
        ),
        row(
            "hash",
            post("/api/v1/refunds").header("idempotency-key", "planted key"),
            Answer::default(),
            (400, "idempotency_key_invalid.charset"),
            refunds(&json!({"idempotency_outcome": "rejected", "idempotency_code": "idempotency_key_invalid",
                "idempotency_reason": "charset", "idempotency_key_namespaced": null, "idempotency_source": null})),
        ),
        // No route: nothing that the client wrote.
        row(
            "hash",
            post("/api/v1/planted-path"),
            Answer::default(),
            (404, "not_found"),
            json!({"idempotency_policy": "REJECT", "idempotency_outcome": "rejected", "idempotency_code": "not_found",
                "tenant": "acme", "project": "shop"}),
        ),
        // Envoy refuses it before the filter.
        row(
            "hash",
            Request::post("/api/v1/refunds").bearer("x.y.z"),
            Answer::default(),
            (401, "jwt_authn_access_denied{Jwt_header_is_an_invalid_Base64url_encoded}"),
            Value::Null,
        ),
    ])
}

fn recoveries_and_webhooks(gateway: &TestGateway) -> Result<Vec<Row>> {
    let token = gateway.user_token()?;
    let recover = |path: &str| Request::new("GET", path).bearer(&token);
    let path = "/api/v1/refunds/by-idempotency-key/k-1";
    let recovery = |more: &Value| {
        let recovery = json!({"original_path": "/api/v1/refunds/by-idempotency-key/{key}", "idempotency_source": null});
        with(refunds(&recovery), more)
    };
    let hook = |more: &Value| {
        let record = json!({
            "idempotency_case": "B", "idempotency_policy": "REQUIRED_B", "endpoint": "hooks",
            "original_path": "/api/v1/hooks/{provider}/{webhook_id}",
        });
        with(record, more)
    };
    let event = json!({"id": "evt_1"}).to_string();
    let hooks = "/api/v1/hooks/stripe/wh_planted";
    // Of `t-acme:shop:service:webhook-ingest:stripe-evt_1`.
    let digest = "sha256:2ab2a5c07b8febfea38ca427bf29b385c56b1066ed98b39f3d9d0a6e73b23448";
    Ok(vec![
        row(
            "hash",
            recover(path),
            restate(200, &[INVOKED, EXPIRES]),
            (200, "via_upstream"),
            recovery(&json!({"idempotency_outcome": "recovered"})),
        ),
        row(
            "hash",
            recover(&format!("{path}/output")),
            Answer { body: Vec::new(), ..restate(470, &[]) },
            (202, "processing"),
            recovery(&json!({"idempotency_outcome": "processing"})),
        ),
        row(
            "hash",
            recover(path),
            restate(404, &[INGRESS]),
            (404, "via_upstream"),
            recovery(&json!({"idempotency_outcome": "forwarded", "idempotency_code": "idempotency_key_unknown"})),
        ),
        row(
            "hash",
            stripe(hooks, &[SECRET], now(), event.clone()),
            restate(200, &[INVOKED]),
            (200, "via_upstream"),
            hook(&json!({"idempotency_source": "json", "tenant": "acme", "project": "shop",
                "idempotency_key_namespaced": digest, "idempotency_outcome": "stored", "restate_cache_hit": false})),
        ),
        row(
            "hash",
            stripe(hooks, &["whsec_other"], now(), event),
            Answer::default(),
            (401, "webhook_signature_invalid.signature_mismatch"),
            hook(&json!({"idempotency_outcome": "rejected", "idempotency_code": "webhook_signature_invalid",
                "idempotency_reason": "signature_mismatch"})),
        ),
    ])
}

/// A refused identity: which parts, and why.
fn refused_identity(gateway: &TestGateway) -> Result<Row> {
    let claims = json!({"tenant_id": "planted t", "sub": "planted\u{1}"});
    let request = Request::post("/api/v1/refunds").bearer(&gateway.token(&claims)?);
    let code = "identity_invalid";
    let record = refunds(&json!({"idempotency_outcome": "rejected", "idempotency_code": code,
        "idempotency_identity": "jwt.tenant: characters, jwt.project: missing, jwt.subject: characters",
        "idempotency_key_namespaced": null, "tenant": null, "project": null}));
    Ok(row("hash", request.header("idempotency-key", "k-1"), Answer::default(), (403, code), record))
}

fn forms_and_shadow(gateway: &TestGateway) -> Result<Vec<Row>> {
    let token = gateway.user_token()?;
    let refund = || Request::post("/api/v1//refunds?planted=1").bearer(&token).header("idempotency-key", "k-1");
    let invoked = || restate(200, &[INVOKED]);
    let stored =
        |more: &Value| with(refunds(more), &json!({"idempotency_outcome": "stored", "restate_cache_hit": false}));
    let unread = json!({"idempotency_key_namespaced": null, "idempotency_source": null});
    Ok(vec![
        row(
            "full",
            refund(),
            invoked(),
            (200, "via_upstream"),
            // Envoy has merged the slashes.
            stored(&json!({"idempotency_key_namespaced": NAMESPACED})),
        ),
        row("off", refund(), invoked(), (200, "via_upstream"), stored(&json!({"idempotency_key_namespaced": null}))),
        row(
            "shadow",
            refund(),
            invoked(),
            (200, "via_upstream"),
            stored(&json!({"idempotency_shadow": "rewrite", "idempotency_key_raw": RAW_DIGEST})),
        ),
        row(
            "shadow",
            Request::post("/api/v1/refunds").bearer(&token),
            invoked(),
            (200, "via_upstream"),
            with(
                refunds(&unread),
                &json!({"idempotency_outcome": "forwarded", "idempotency_shadow": "refuse",
                    "idempotency_code": "idempotency_key_required"}),
            ),
        ),
    ])
}

fn every_outcome(gateway: &TestGateway) -> Result<()> {
    let rows = rows(gateway)?;
    let (mut differences, mut instances) = (Vec::new(), Vec::new());
    for (number, row) in rows.iter().enumerate() {
        let seen = gateway.http1_answered(row.listener, &row.request, &row.answer)?;
        if seen.reply.status != row.status {
            differences.push(format!("row {number}: the client got {}", seen.reply.status));
        }
        instances.push(seen.reply.json().get("instance").cloned());
    }
    let lines = access_log(gateway, rows.len())?;
    ensure!(lines.len() == rows.len(), "{} lines for {} requests", lines.len(), rows.len());
    let told = log_lines(gateway)?;
    for (number, ((row, line), instance)) in rows.iter().zip(&lines).zip(instances).enumerate() {
        let text = Value::Object(line.clone()).to_string();
        if let Err(error) = check_line(row, line, instance.as_ref()).and_then(|()| check_log(row, line, &told)) {
            differences.push(format!("row {number}: {error:#}\n  {text}"));
        }
        if row.listener != "full" && text.contains("planted") {
            differences.push(format!("row {number} holds what the client wrote: {text}"));
        }
    }
    for (word, record) in &told {
        let text = Value::Object(record.clone()).to_string();
        if text.contains("planted") {
            differences.push(format!("the log line about `{word}` holds what the client wrote: {text}"));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// `instance` is that of the problem document, if the client got one.
fn check_line(row: &Row, line: &Map<String, Value>, instance: Option<&Value>) -> Result<()> {
    let mut names: Vec<&str> = line.keys().map(String::as_str).collect();
    names.sort_unstable();
    ensure!(names == MEMBERS, "its members are {names:?}");
    let member = |name: &str| line.get(name).cloned().unwrap_or_default();
    ensure!(member("method") == row.request.method, "the method");
    ensure!(
        member("status") == row.status && member("details") == row.details,
        "instead of {} {}",
        row.status,
        row.details
    );
    // The router has asked twice for a result that nobody has.
    ensure!(member("flags") == "-" || row.status == 404 && member("flags") == "URX", "the flags");
    ensure!(member("duration_ms").is_u64() && member("time").is_string(), "the times");
    let id = member("request_id");
    let id = id.as_str().filter(|id| id.len() == 36 && *id != CLIENTS_ID).context("no request id of the gateway")?;
    let is_rejected = row.record.get("idempotency_outcome").is_some_and(|outcome| outcome == "rejected");
    let has_id = instance.is_some_and(|instance| *instance == format!("urn:uuid:{id}"));
    ensure!(has_id || !is_rejected, "the refusal's instance is {instance:?}");
    let forwarded = row.record.is_object() && !is_rejected;
    // A request that waits for a result has a route and a cluster of its own.
    let is_recovery =
        row.record.get("original_path").and_then(Value::as_str).is_some_and(|path| path.ends_with("/{key}"));
    let waits = forwarded && is_recovery && !row.request.target.ends_with(b"/output");
    let (cluster, route) = if waits { ("backend-waits", "waits") } else { ("backend-requests", "backend") };
    ensure!(member("cluster") == cluster, "the cluster");
    ensure!((member("route") == route) == forwarded, "the route");
    ensure!(member("edge_idempotency") == row.record, "instead of\n  {}", row.record);
    Ok(())
}

/// A problem document and a verdict of shadow mode have a line of their own; at the level debug every other request, too.
fn check_log(row: &Row, line: &Map<String, Value>, told: &[(String, Map<String, Value>)]) -> Result<()> {
    let id = line.get("request_id").context("no request id")?;
    let of_request: Vec<_> = told.iter().filter(|(_, record)| record.get("request_id") == Some(id)).collect();
    let words: Vec<&str> = of_request.iter().map(|(word, _)| word.as_str()).collect();
    let has = |name: &str| row.record.get(name).is_some();
    let expected: &[&str] = match row.record.as_object() {
        None => &[],
        Some(_) if has("idempotency_shadow") => &["shadow", "request"],
        Some(_) if has("idempotency_code") => &["refused"],
        Some(_) => &["request"],
    };
    ensure!(words == expected, "its lines in the gateway's log are about {words:?}");
    if let Some((_, record)) = of_request.last() {
        let mut record = record.clone();
        record.remove("request_id");
        ensure!(Value::Object(record.clone()) == row.record, "in the gateway's log: {}", Value::Object(record));
    }
    Ok(())
}
