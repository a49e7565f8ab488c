//! Refusals as clients of gRPC, gRPC-Web and Connect read them, and what of such a backend's answers passes: real libraries on both
//! sides of a real Envoy with the filter. `clients/rpc.go` is the backend, too.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::process::Process;
use harness::tokens;
use harness::tools::repository;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// How long the backend may take to listen.
const READY: Duration = Duration::from_secs(30);
const PLAIN: &str = "rpc";
/// A listener whose policy cleans errors.
const CLEANING: &str = "rpc-cleaning";

/// A listener with Envoy's own filter for gRPC-Web before ours.
const BEHIND_WEB: &str = "rpc-web";
/// A listener whose policy waits for the bodies of all requests.
const WAITING: &str = "rpc-waiting";

/// A library, the part of the installed ones that it belongs to, and whether it can have a stream in both directions.
const LIBRARIES: [(&str, &str, bool); 10] = [
    ("grpc-go", "go", true),
    ("connect-go: connect", "go", true),
    ("connect-go: connect, JSON", "go", true),
    ("connect-go: gRPC", "go", true),
    ("connect-go: gRPC-Web", "go", true),
    ("grpc-js", "node", true),
    ("connect-node: connect", "node", true),
    ("connect-node: gRPC", "node", true),
    ("connect-web: connect", "node", false),
    ("connect-web: gRPC-Web", "node", false),
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let (mut tests, mut left_out) = (Vec::new(), Vec::new());
    for (library, part, streams) in LIBRARIES {
        let is_there = installed().join("go").is_dir() && installed().join(part).is_dir();
        if !is_there {
            eprintln!(
                "SKIPPED: {library} is not installed, so nobody looks at refusals with it. `crates/xtask/scripts/tools.sh rpc-clients` installs it."
            );
        }
        let mut add = |what: &str, body: fn(&RpcSetup, Client) -> Result<()>| {
            let name = format!("{library}: {what}");
            if is_there {
                tests.push(Test::new(name, move |setup: &RpcSetup| body(setup, Client { library, part })));
            } else {
                left_out.push(name);
            }
        };
        add("what is refused, and what is replayed", unary);
        if streams {
            add("streams", stream);
        }
        if library.ends_with("gRPC-Web") {
            add("behind Envoy's filter for gRPC-Web", behind_web_filter);
        }
        if library == "grpc-go" {
            add("a stream on a route that waits for the body", waits);
        }
    }
    let group = sharing(RpcSetup::start, tests);
    Ok(vec![left_out.into_iter().fold(group, Group::leaving_out)])
}

/// `EDGE_RPC_CLIENTS`, else `.tools/rpc-clients`: a directory for each language.
fn installed() -> PathBuf {
    env::var_os("EDGE_RPC_CLIENTS").map_or_else(|| repository().join(".tools/rpc-clients"), PathBuf::from)
}

#[derive(Clone, Copy)]
struct Client {
    library: &'static str,
    part: &'static str,
}

struct RpcSetup {
    gateway: TestGateway,
    token: String,
    _backend: Process,
    _directory: TempDir,
}

impl RpcSetup {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(installed().join("go/rpc"));
        let mut backend = Process::spawn("rpc", command.arg("backend"), &directory.path().join("rpc.log"))?;
        let log = backend.log().to_owned();
        let port = || Ok::<u16, anyhow::Error>(fs::read_to_string(&log)?.trim().parse()?);
        runtime()?.block_on(backend.ready(READY, async || port().map(drop)))?;
        let policy = |clean: bool, backend: Value, routes: Value| {
            json!({
                "version": 1,
                "docs_url": "https://docs.example.com/errors",
                "identity": {"sources": [tokens::source()]},
                "backend": backend,
                "clean_errors": clean, "retry_headers": ["x-should-retry"],
                "routes": routes,
            })
            .to_string()
        };
        let routes = json!([
                    {"endpoint": "orders.create", "path": "/shop.v1.Orders/Create", "policy": "REQUIRED_A"},
                    {"endpoint": "orders.get", "methods": ["GET", "POST"], "path": "/shop.v1.Orders/Get", "policy": "PROHIBITED"},
                    {"endpoint": "orders.watch", "path": "/shop.v1.Orders/Watch", "policy": "PROHIBITED"},
        ]);
        let plain = |clean: bool| policy(clean, json!({"kind": "generic"}), routes.clone());
        let listener = |name: &str, policy: String| {
            let changes = vec![Change::EveryPath, Change::Http2Backend];
            (name.to_owned(), ListenerSpec { policy, changes })
        };
        let web = json!({"name": "envoy.filters.http.grpc_web", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.grpc_web.v3.GrpcWeb",
        }});
        let mut behind_web = listener(BEHIND_WEB, plain(false));
        behind_web.1.changes.push(Change::Before(web));
        let waits = json!([{
            "endpoint": "orders.watch", "path": "/shop.v1.Orders/{method}", "policy": "REQUIRED_A", "target": "Orders/watch",
            "collision": "enforce",
        }]);
        let guarded = json!({"kind": "generic", "cluster": "backend", "guard": {}});
        let mut waiting = listener(WAITING, policy(false, guarded, waits));
        waiting.1.changes.push(Change::Manager("request_timeout", json!("1s")));
        let listeners = [listener(PLAIN, plain(false)), listener(CLEANING, plain(true)), behind_web, waiting];
        let around =
            TestEnvironment { backend: Some(SocketAddr::from(([127, 0, 0, 1], port()?))), ..Default::default() };
        let gateway = TestGateway::start_within(&around, &listeners)?;
        let token = gateway.user_token()?;
        Ok(Self { gateway, token, _backend: backend, _directory: directory })
    }

    /// The outcomes of these calls, without members that are empty.
    fn call(&self, client: Client, listener: &str, calls: &[Value]) -> Result<Vec<Map<String, Value>>> {
        let address = self.gateway.address(listener)?;
        let wanted = json!({"address": address.to_string(), "library": client.library, "calls": calls}).to_string();
        let part = installed().join(client.part);
        let mut command = match client.part {
            "go" => {
                let mut go = Command::new(part.join("rpc"));
                go.args(["client", &wanted]);
                go
            }
            _ => {
                let mut node = Command::new("node");
                node.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rpc/clients/rpc.mjs")).arg(&wanted);
                node.env("PACKAGES", part);
                node
            }
        };
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "grpc_proxy"]
        {
            command.env_remove(proxy);
        }
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "the client ended with {}: {}", output.status, told());
        let outcomes: Vec<Map<String, Value>> = serde_json::from_str(&text).with_context(told)?;
        let is_said = |value: &Value| *value != json!("") && *value != json!(false) && *value != json!(null);
        Ok(outcomes.into_iter().map(|one| one.into_iter().filter(|(_, value)| is_said(value)).collect()).collect())
    }

    fn expect(&self, client: Client, listener: &str, rows: &[(Value, Value)]) -> Result<()> {
        let calls: Vec<Value> = rows.iter().map(|(call, _)| call.clone()).collect();
        let seen = self.call(client, listener, &calls)?;
        ensure!(seen.len() == rows.len(), "{} outcomes of {} calls", seen.len(), rows.len());
        for ((call, expected), seen) in rows.iter().zip(seen) {
            let seen = Value::from(seen);
            ensure!(seen == *expected, "{call}\nexpected {expected}\nseen     {seen}");
        }
        Ok(())
    }
}

/// What a refusal is to a client.
fn refused(code: &str, name: &str, detail: &str, retry: &str) -> Value {
    let reason = name.split(' ').next().unwrap_or(name).to_uppercase();
    json!({"code": code, "message": format!("{name}: {detail}"), "reason": reason, "retry": retry, "advice": retry})
}

fn unary(setup: &RpcSetup, client: Client) -> Result<()> {
    for (listener, item) in [(PLAIN, "tea"), (CLEANING, "cocoa")] {
        let token = &setup.token;
        let key = |name: &str| format!("{item}-{name}-{}", client.library.replace([' ', ':', ','], "-"));
        let (good, bad) = (key("good"), key("bad"));
        let create = |key: &str, item: &str, token: &str| json!({"method": "Create", "key": key, "values": [item], "token": token});
        let first = setup.call(client, listener, &[create(&good, item, token)])?;
        let first = first.first().context("no outcome")?.clone();
        let value = first.get("values").and_then(|values| values.get(0)).and_then(Value::as_str).context("no value")?;
        ensure!(value.ends_with(&format!("{item} for t-acme:shop:user:u1:{good}")), "{value}");
        ensure!(!first.contains_key("replayed"), "{first:?}");
        let message = "out of stock: /srv/shop/stock.db";
        // An error of Connect has an HTTP status, so the advice about a replayed one can stand beside it.
        let failed = |replayed: bool| {
            let marks = match (replayed, client.library.contains(": connect")) {
                (false, _) => json!({}),
                (true, false) => json!({"replayed": true}),
                (true, true) => json!({"replayed": true, "advice": "new_key"}),
            };
            let mut failed = Map::from_iter([
                ("code".to_owned(), json!("failed_precondition")),
                ("message".to_owned(), json!(message)),
            ]);
            failed.extend(marks.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
            Value::from(failed)
        };
        let required = "This operation must be called with an Idempotency-Key header. Send a new key (a UUID, version 4) for each intended \
                        effect, and the same key for each retry of it.";
        let prohibited =
            "This operation takes no idempotency key. Send the request without the Idempotency-Key header.";
        setup.expect(
            client,
            listener,
            &[
                (create(&good, item, token), json!({"values": [value], "replayed": true})),
                (create(&bad, "nothing", token), failed(false)),
                (create(&bad, "nothing", token), failed(true)),
                (
                    create("", item, token),
                    refused("invalid_argument", "idempotency_key_required", required, "new_request"),
                ),
                (
                    create("t-1", item, token),
                    refused(
                        "invalid_argument",
                        "idempotency_key_invalid (reserved_prefix)",
                        "Idempotency keys that begin with t- are reserved. Choose another key.",
                        "new_key",
                    ),
                ),
                (
                    json!({"method": "Get", "values": ["x"], "token": token, "key": "k"}),
                    refused("invalid_argument", "idempotency_key_prohibited", prohibited, "new_request"),
                ),
                (json!({"method": "Get", "values": ["x"], "token": token}), json!({"values": ["got x"]})),
                (
                    json!({"method": "Gone", "values": ["x"], "token": token}),
                    refused("unimplemented", "not_found", "There is nothing at this path.", "never"),
                ),
            ],
        )?;
        let anonymous = setup.call(client, listener, &[create(&good, item, "")])?;
        let seen = anonymous.first().context("no outcome")?;
        ensure!(seen.get("code") == Some(&json!("unauthenticated")), "{seen:?}");
        ensure!(seen.get("reason") == Some(&json!("IDENTITY_MISSING")), "{seen:?}");
    }
    Ok(())
}

/// Messages pass one by one: the client sends the next when it has the answer to the one before.
fn stream(setup: &RpcSetup, client: Client) -> Result<()> {
    let prohibited = "This operation takes no idempotency key. Send the request without the Idempotency-Key header.";
    let watch = |key: &str| json!({"method": "Watch", "key": key, "values": ["a", "b", "c"], "token": setup.token});
    let mut refusal = refused("invalid_argument", "idempotency_key_prohibited", prohibited, "new_request");
    for listener in [PLAIN, CLEANING] {
        let seen = setup.call(client, listener, &[watch("k")])?;
        let mut seen = Value::from(seen.into_iter().next().context("no outcome")?);
        // Libraries of Connect do not hand on the headers of a stream that failed.
        for outcome in [&mut seen, &mut refusal] {
            outcome.as_object_mut().context("an object")?.remove("advice");
        }
        ensure!(seen == refusal, "expected {refusal}\nseen     {seen}");
        setup.expect(client, listener, &[(watch(""), json!({"values": ["saw a", "saw b", "saw c"]}))])?;
    }
    Ok(())
}

/// The filter sees gRPC, and its refusal becomes gRPC-Web on its way back.
fn behind_web_filter(setup: &RpcSetup, client: Client) -> Result<()> {
    let create = |key: &str| json!({"method": "Create", "key": key, "values": ["milk"], "token": setup.token});
    let detail = "Idempotency keys that begin with t- are reserved. Choose another key.";
    let seen = setup.call(client, BEHIND_WEB, &[create(&format!("web-{}", client.part))])?;
    ensure!(seen.iter().all(|one| one.contains_key("values")), "{seen:?}");
    let name = "idempotency_key_invalid (reserved_prefix)";
    setup.expect(client, BEHIND_WEB, &[(create("t-1"), refused("invalid_argument", name, detail, "new_key"))])
}

/// The client waits for the first answer, and the filter for the last message, until the gateway ends the request.
fn waits(setup: &RpcSetup, client: Client) -> Result<()> {
    let call = json!({"method": "Watch", "key": "stuck", "values": ["a", "b"], "token": setup.token});
    let seen = setup.call(client, WAITING, &[call])?;
    let seen = seen.first().context("no outcome")?;
    ensure!(seen.contains_key("code") && !seen.contains_key("values"), "{seen:?}");
    let told = seen.get("message").and_then(Value::as_str).unwrap_or_default();
    ensure!(told.contains("request timeout"), "{seen:?}");
    Ok(())
}
