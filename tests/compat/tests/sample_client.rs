//! The sample client of docs/callers.md, as it stands on the page, against answers that go wrong: through a real Envoy, and
//! straight from an upstream that says what only some backends say.

use std::fs;
use std::process::Command;

use crate::scripted::ScriptedAnswer::{self, Closes, Cut, Hangs, Says};
use crate::scripted::{Script, ScriptedUpstream};
use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use harness::tools::repository;
use serde_json::{Value, json};

/// The head of an answer that Restate has stored.
const STORED: &[&str] = &["x-restate-id: inv_1", "content-type: application/json"];
const FAILED: &[&str] =
    &["x-restate-id: inv_1", "x-restate-error-source: invocation", "content-type: application/json"];
const JSON: &[&str] = &["content-type: application/json"];
const DONE: ScriptedAnswer = Says(200, STORED, r#"{"id":"re_1"}"#);

/// The time of the client's clock: 2026-10-21T07:28:00Z.
const NOW: u64 = 1_792_567_680;
const IN_FORTY_SECONDS: &[&str] = &["content-type: application/json", "retry-after: Wed, 21 Oct 2026 07:28:40 GMT"];

/// A test: what the upstream says, through the gateway or not, and what the client does.
struct Row {
    name: &'static str,
    gateway: bool,
    script: Script,
    options: &'static str,
    /// The status that the caller gets; none if the client gives up.
    status: Option<u16>,
    waits: &'static [f64],
}

const fn row(name: &'static str, script: Script, status: Option<u16>, waits: &'static [f64]) -> Row {
    Row { name, gateway: true, script, options: "{}", status, waits }
}

const ROWS: [Row; 12] = [
    row("a success is an answer", &[DONE], Some(200), &[]),
    row("a 500 that says same_key is tried again", &[Says(500, JSON, "{}"), DONE], Some(200), &[0.5]),
    row("an answer that is cut half way is none", &[Cut(200, STORED, r#"{"id":"re_1"}"#), DONE], Some(200), &[0.5]),
    Row {
        gateway: false,
        ..row(
            "an error that is cut half way is none",
            &[Cut(409, FAILED, r#"{"message":"no"}"#), Says(422, &[], "")],
            Some(422),
            &[0.5],
        )
    },
    Row {
        options: r#"{"timeout": 1}"#,
        ..row("an upstream that hangs is tried again", &[Hangs, DONE], Some(200), &[0.5])
    },
    row("a connection that breaks is tried again", &[Closes, DONE], Some(200), &[5.5]),
    row(
        "a wait in seconds",
        &[Says(429, &["retry-after: 7", "content-type: application/json"], "{}"), DONE],
        Some(200),
        &[7.5],
    ),
    row("a wait until a date", &[Says(429, IN_FORTY_SECONDS, "{}"), DONE], Some(200), &[40.5]),
    row("a stored 409 is the answer", &[Says(409, FAILED, r#"{"message":"no"}"#), DONE], Some(409), &[]),
    Row {
        gateway: false,
        ..row(
            "without advice by the status, and wait is waited for",
            &[Says(503, &[], ""), Says(409, &["idempotency-retry: wait"], ""), Closes, Says(422, &[], "")],
            Some(422),
            &[0.5, 1.0, 2.0],
        )
    },
    Row {
        gateway: false,
        ..row(
            "another backend's 409 in flight is waited for, and one without a time to wait is not",
            &[Says(409, &["retry-after: 3"], ""), Says(425, &["retry-after: 2"], ""), Says(409, &[], "")],
            Some(409),
            &[3.5, 3.0],
        )
    },
    Row {
        options: r#"{"attempts": 4, "cap": 1.5}"#,
        ..row("it gives up in the end", &[Says(500, JSON, "{}")], None, &[0.5, 1.0, 1.5])
    },
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let rows = ROWS.iter().map(|row| Test::new(row.name, move |setup: &ClientsSetup| plays(setup, row)));
    let closes = Test::new("a refusal of a request with a body closes its connection", closes_connection);
    Ok(vec![sharing(ClientsSetup::start, rows.chain([closes]).collect())])
}

/// The page's client, the gateway, and the upstream behind it.
struct ClientsSetup {
    client: String,
    gateway: TestGateway,
    upstream: ScriptedUpstream,
}

impl ClientsSetup {
    fn start() -> Result<Self> {
        let page = fs::read_to_string(repository().join("docs/callers.md"))?;
        let client = page.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
        let client = client.context("docs/callers.md has no block of Python")?.0.to_owned();
        let upstream = ScriptedUpstream::start()?;
        let policy = json!({
            "version": 1,
            "identity": {"sources": [tokens::source()]},
            "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
            "routes": [{"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"}]
        });
        let spec = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
        let around = TestEnvironment { backend: Some(upstream.address()), ..TestEnvironment::default() };
        let gateway = TestGateway::start_within(&around, &[("api".to_owned(), spec)])?;
        Ok(Self { client, gateway, upstream })
    }
}

/// As the page says of HTTP/1.1.
fn closes_connection(setup: &ClientsSetup) -> Result<()> {
    let token = setup.gateway.user_token()?;
    for (request, status) in [
        (Request::post("/refunds").bearer(&token), 400),
        (Request::post("/refunds").header("idempotency-key", "k"), 401),
    ] {
        let reply = setup.gateway.http1("api", &request)?.reply;
        ensure!(reply.status == status, "{} {}: {}", request.method, reply.status, reply.json());
        ensure!(reply.text_header("connection") == Some("close"), "{} {status}: {:?}", request.method, reply.headers);
    }
    Ok(())
}

/// Runs the client with a clock and dice of the test's, so that nobody waits and every wait is known.
fn plays(setup: &ClientsSetup, row: &Row) -> Result<()> {
    const AROUND: &str = r#"
import json, sys
told = json.loads(sys.argv[1])
waits = []
time.sleep = waits.append
time.time = lambda: told["now"]
random.uniform = lambda low, high: high
try:
    status, headers, content = call(told["url"], told["token"], b'{"amount":4200}', told["key"], **told["options"])
    seen = {"status": status, "length": len(content)}
except TimeoutError as error:
    seen = {"status": None, "error": str(error)}
print(json.dumps({**seen, "waits": waits}))
"#;
    // The upstream knows by the key which test asks.
    let key = row.name.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
    setup.upstream.plays(&key, row.script);
    let (address, path) = if row.gateway {
        (setup.gateway.address("api")?, "/refunds")
    } else {
        (setup.upstream.address(), "/Refunds/create")
    };
    let told = json!({
        "url": format!("http://{address}{path}"),
        "token": setup.gateway.user_token()?,
        "key": key,
        "now": NOW,
        "options": serde_json::from_str::<Value>(row.options)?,
    });
    let mut command = Command::new("python3");
    command.arg("-c").arg(format!("{}{AROUND}", setup.client)).arg(told.to_string()).env("no_proxy", "*");
    let output = command.output().context("cannot run python3")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the client ended with {}: {printed}{said}", output.status);
    let seen: Value = serde_json::from_str(&printed).with_context(|| format!("the client printed {printed}{said}"))?;

    ensure!(seen.get("status") == Some(&json!(row.status)), "the caller gets {seen}");
    let waits: Vec<f64> =
        seen.get("waits").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64).collect();
    ensure!(waits == row.waits, "the client waits {waits:?} and not {:?}", row.waits);
    let requests = setup.upstream.requests(&key).len();
    ensure!(requests == row.waits.len() + 1, "the upstream got {requests} requests");
    Ok(())
}
