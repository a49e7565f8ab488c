//! `explain --curl` and the gateway say the same about one command: `bash` and `curl` send it through a real Envoy, and
//! `explain` reads its text.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Received, TestGateway, received};
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use harness::tools::built;
use serde_json::{Value, json};

const LISTENER: &str = "hosts";
/// What each command ends with, if nothing else is said: who calls, the key, and a body.
const USUAL: &str = r#"-H "$AUTH" -H 'Idempotency-Key: k-1' -d '{"a": 1}'"#;
const ORDERS: &str = "http://api.example.com/orders";

/// Commands that reach the filter. `ORDERS` is the address of the orders, and `USUAL` what is the same everywhere.
const COMMANDS: [&str; 26] = [
    "curl ORDERS USUAL",
    "curl http://api.example.com:8443/orders USUAL",
    "curl http://api.example.com./orders USUAL",
    "curl http://API.EXAMPLE.com/orders USUAL",
    "curl http://eu.sandbox.example.com:8080/orders USUAL",
    "curl http://other.example.com/orders -H 'Host: api.example.com:8443' USUAL",
    "curl ORDERS -H 'Host: me@api.example.com' USUAL",
    "curl --path-as-is 'http://api.example.com/\\orders' USUAL",
    "curl --path-as-is http://api.example.com/x/../orders USUAL",
    "curl http://api.example.com/%6frders/?a=1#top USUAL",
    "curl 'http://api.example.com/orders;a=1' USUAL",
    "curl -X PUT ORDERS USUAL",
    "curl -I http://api.example.com/status",
    "curl -G http://api.example.com/status --data-urlencode 'a==b' --data-urlencode 'c=d e' -d f",
    "curl http://api.example.com/status?a=1 --url-query 'b=c d' --url-query +e=f",
    "curl ORDERS -u me:pw -H 'Idempotency-Key: k-1' -d x",
    "curl ORDERS -H \"$AUTH\" -H 'Idempotency-Key: \"k-1\"' -d x",
    "curl ORDERS -H \"$AUTH\" -H 'Idempotency-Key: a' -H 'idempotency-key: a' -d x",
    "curl ORDERS -H \"$AUTH\" -H 'Idempotency-Key: \u{e9}' -d x",
    "curl ORDERS USUAL;true",
    "curl 2>&1 ORDERS USUAL >/dev/null | cat",
    "curl \\\n  ORDERS \\\n  USUAL\n# that was it",
    "curl ORDERS -H \"$AUTH\" -H 'Idempotency-Key: k-1' --json '{\"a\":' --json 1}",
    "curl ORDERS -H \"$AUTH\" -H \"Idempotency-Key: k-1\" -d \"a\\\"b\\$c\\`d\\e\" --data-binary $\"f\" --data-urlencode 'g=h&i'",
    "curl -XPOST -sSH\"$AUTH\" -H'Idempotency-Key: k-1' ORDERS --no-compressed --proto '=http'",
    "curl 'http://api.example.com/orders?a=1&b=$c;d|e' USUAL",
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests: Vec<Test<ExplainSetup>> = COMMANDS
        .into_iter()
        .map(|command| {
            Test::new(format!("the same about: {}", command.escape_debug()), |setup: &ExplainSetup| {
                same(setup, command)
            })
        })
        .collect();
    Ok(vec![sharing(ExplainSetup::start, tests)])
}

struct ExplainSetup {
    gateway: TestGateway,
    command: PathBuf,
    /// `Authorization: Bearer …`
    authorization: String,
}

/// What the gateway made of a command.
struct Answered {
    status: u64,
    body: Vec<u8>,
    received: Vec<Received>,
}

impl ExplainSetup {
    fn start() -> Result<Self> {
        let policy = json!({
            "version": 1,
            "backend": {"kind": "generic"},
            "identity": {"sources": [tokens::source()]},
            "routes": [
                {"endpoint": "status.any", "methods": ["GET"], "path": "/status", "policy": "HANDLER_INTERNAL_C"},
                {"endpoint": "orders.create", "hosts": ["api.example.com"], "path": "/orders", "policy": "REQUIRED_A"},
                {"endpoint": "orders.try", "hosts": ["*.sandbox.example.com"], "path": "/orders", "policy": "ACCEPTED"},
            ],
        });
        let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
        let gateway = TestGateway::start(&[(LISTENER.to_owned(), listener)])?;
        fs::write(gateway.run_dir().join("explained.json"), policy.to_string())?;
        let authorization = format!("Authorization: Bearer {}", gateway.user_token()?);
        let command = built("EDGE_CLI", "edge-idempotency")?;
        Ok(Self { gateway, command, authorization })
    }

    /// The text of a command: what a person would paste.
    fn text(&self, command: &str) -> String {
        let command = command.replace("USUAL", USUAL).replace("ORDERS", ORDERS);
        command.replace("\"$AUTH\"", &format!("'{}'", self.authorization))
    }

    /// Sends the command.
    fn send(&self, text: &str) -> Result<Answered> {
        let address: SocketAddr = self.gateway.address(LISTENER)?;
        let (head, body) = (self.gateway.run_dir().join("head"), self.gateway.run_dir().join("body"));
        fs::write(&body, "")?;
        let script = format!(
            "curl() {{ command curl --silent --max-time 20 --connect-to ::{address} -D '{}' -o '{}' \"$@\"; }}\n{text}\n",
            head.display(),
            body.display(),
        );
        self.gateway.capture().take();
        let output = Command::new("bash").args(["-c", &script]).output().context("this test needs bash and curl")?;
        let head = fs::read_to_string(&head).with_context(|| format!("curl got no answer: {output:?}"))?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let received = self.gateway.capture().take().into_iter().map(received).collect::<Result<_>>()?;
        Ok(Answered { status: status.with_context(|| format!("no status: {head}"))?, body: fs::read(&body)?, received })
    }

    fn explain(&self, text: &str, more: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.command);
        command.args(["explain", "--policy"]).arg(self.gateway.run_dir().join("explained.json"));
        Ok(command.args(["--curl", text]).args(more).output()?)
    }

    fn explained(&self, text: &str, more: &[&str]) -> Result<Value> {
        let output = self.explain(text, more)?;
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn same(setup: &ExplainSetup, command: &str) -> Result<()> {
    let text = setup.text(command);
    let answered = setup.send(&text)?;
    let verdict = setup.explained(&text, &["--json"])?;
    let told = |name: &str| verdict.get(name).cloned().unwrap_or_default();
    if told("action") == "reject" {
        let problem: Value = serde_json::from_slice(&answered.body).unwrap_or_default();
        let found = json!([answered.status, problem.get("code"), problem.get("reason")]);
        let expected = json!([told("status"), verdict.pointer("/problem/code"), verdict.pointer("/problem/reason")]);
        ensure!(answered.received.is_empty() && found == expected, "the gateway: {found}, explain: {verdict}");
        return Ok(());
    }
    let [received] = answered.received.as_slice() else {
        bail!(
            "the upstream got {} requests, the client {}; explain: {verdict}",
            answered.received.len(),
            answered.status
        )
    };
    let key = received.headers.iter().find(|(name, _)| name == "idempotency-key");
    let key = key.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    let found = json!([key, small_escapes(&String::from_utf8_lossy(&received.target))]);
    let expected = json!([told("idempotency_key"), small_escapes(told("path").as_str().unwrap_or_default())]);
    ensure!(found == expected, "the upstream got {found}, explain: {verdict}");
    let document = setup.explained(&text, &["--print-request"])?;
    let body = document.get("body").and_then(Value::as_str).unwrap_or_default();
    ensure!(received.body == body.as_bytes(), "the body: {}, not {body}", received.body.escape_ascii());
    ensure!(!document.to_string().contains("me:pw") && !document.to_string().contains("/me@"), "{document}");
    Ok(())
}

/// The target with its query in small letters: whether curl writes `%3D` or `%3d` there depends on its release.
fn small_escapes(target: &str) -> String {
    target.split_once('?').map_or_else(|| target.to_owned(), |(path, query)| format!("{path}?{}", query.to_lowercase()))
}
