//! A plugin configuration without `allow_on_headers_stop_iteration`: Envoy keeps bodies back that the filter waits for. The
//! filter ends such waits, and the log says what to set.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::deliveries;
use e2e::gateway::TestGateway;
use e2e::raw::{Connection, Request};
use e2e::runner::{Group, Test, sharing};
use serde_json::json;

const SECRET: &str = "github-secret";
const LISTENER: &str = "without";
const ADVICE: &str = "set allow_on_headers_stop_iteration: true";

/// The tests.
pub(crate) fn group() -> Group {
    let tests = vec![
        Test::new("without the flag: a webhook is refused, a slow client is not", webhook),
        Test::new("without the flag: an error of the backend is answered", |gateway: &TestGateway| error(gateway)),
        Test::new("without the flag: a request that is compared is refused", |gateway: &TestGateway| {
            held(gateway, "/guarded")
        }),
    ];
    let policy = json!({
        "version": 1,
        "allow_inline_secrets": true,
        "identity": {"sources": [{
            "name": "header", "headers_owned_by": "the test", "tenant": {"value": "acme"}, "project": {"value": "shop"},
            "subject": {"field": "x-user", "type": "user"},
        }]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "guard": {}},
        "routes": [
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
            {"endpoint": "plain", "path": "/plain", "policy": "HANDLER_INTERNAL_C", "target": "Plain/run"},
            {"endpoint": "guarded", "path": "/guarded", "policy": "REQUIRED_A", "target": "Plain/run", "collision": "enforce"},
        ],
        "webhooks": {"static": {"wh_known1": {
            "tenant": "acme", "project": "shop", "provider": "github", "secrets": [SECRET],
        }}},
    });
    let changes = vec![Change::EveryPath, Change::WithoutStopIteration];
    let spec = ListenerSpec { policy: policy.to_string(), changes };
    sharing(move || TestGateway::start(&[(LISTENER.to_owned(), spec)]), tests)
}

fn webhook(gateway: &TestGateway) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let delivery = deliveries::github("/hooks/github/wh_known1", SECRET, &format!("delivery-{now}"), "{}").http1();
    let (head, body) = delivery.split_at(delivery.len() - 2);

    // This client has sent no body when the other one is answered, so its request still waits.
    let mut slow = Connection::open(gateway.address(LISTENER)?)?;
    slow.send(head)?;
    let seen = gateway.written(LISTENER, &delivery)?;
    ensure!(seen.reply.status == 503, "the delivery is answered {}", seen.reply.status);
    ensure!(seen.reply.json().get("code") == Some(&json!("policy_invalid")), "{}", seen.reply.json());
    ensure!(seen.received.is_empty(), "the upstream got {}", seen.upstream());
    ensure!(!slow.has_answer()?, "the client that has sent no body is answered");

    slow.send(body)?;
    ensure!(slow.answer("POST")?.status == 503, "the slow client is not refused");
    reported(gateway)
}

fn error(gateway: &TestGateway) -> Result<()> {
    let stored = Answer { status: 409, body: br#"{"message": "at /srv/app/main.ts"}"#.to_vec(), ..Answer::default() };
    let request = Request::post("/plain").header("content-type", "application/json").body("{}");
    let seen = gateway.http1_answered(LISTENER, &request, &stored)?;
    let problem = seen.reply.json();
    ensure!(seen.reply.status == 409, "the error is answered {}: {problem}", seen.reply.status);
    ensure!(problem.get("code") == Some(&json!("backend_error")), "the error's body is {problem}");
    reported(gateway)
}

/// A request with a key that waits for its whole body.
fn held(gateway: &TestGateway, path: &str) -> Result<()> {
    let request = Request::post(path).header("x-user", "alice").header("idempotency-key", "k1").body("{}");
    let seen = gateway.written(LISTENER, &request.http1())?;
    ensure!(seen.reply.status == 503, "{path} is answered {}: {}", seen.reply.status, seen.reply.json());
    ensure!(seen.reply.json().get("code") == Some(&json!("policy_invalid")), "{}", seen.reply.json());
    // The question whether the key is in flight may have been asked.
    ensure!(!seen.upstream().contains("/restate/call/"), "the upstream got {}", seen.upstream());
    reported(gateway)
}

/// That the log says once, in capitals of severity, what to set.
fn reported(gateway: &TestGateway) -> Result<()> {
    gateway.until("the log says what to set", |gateway| Ok(gateway.log()?.contains(ADVICE)))?;
    let log = gateway.log()?;
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(ADVICE)).collect();
    let line = lines.first().context("no line")?;
    ensure!(lines.len() == 1 && line.contains("[critical]"), "{lines:?}");
    Ok(())
}
