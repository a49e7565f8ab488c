//! `examples/own-api` as it ships: an ordinary API (Node.js) with a store, CORS and a check of tokens of its own, behind
//! Envoy with the example's configuration. What the API says reaches the client, and tenants never meet under one key.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::gateway::options;
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::envoy::Envoy;
use harness::process::Process;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the API may take to listen.
const READY: Duration = Duration::from_secs(30);
const MISSING_NODE: &str =
    "the API of examples/own-api needs Node.js 18 or newer on PATH (Debian: apt-get install nodejs)";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        Test::new("the configuration holds the example policy", |setup: &OwnApiSetup| holds_policy(&setup.config)),
        Test::new("one order, however often it is sent", one_order),
        Test::new("CORS is the API's", cors),
        Test::new("the gateway takes no more than 16 KiB of headers", long_headers),
    ];
    Ok(vec![sharing(OwnApiSetup::start, tests)])
}

/// The API and the gateway.
struct OwnApiSetup {
    address: SocketAddr,
    config: String,
    directory: TempDir,
    _api: Process,
    _envoy: Envoy,
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-api")
}

impl OwnApiSetup {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let run_dir = directory.path();
        fs::copy(example().join("token.mjs"), run_dir.join("token.mjs"))?;
        // The first token makes the key set that Envoy reads at its start.
        token(run_dir, "acme", "alice")?;

        let (api, backend) = api(run_dir, &[])?;
        let options = options(run_dir, backend, "")?;
        let shipped = fs::read_to_string(example().join("envoy.yaml"))?;
        let mut config = shipped.clone();
        for (there, here) in [
            ("port_value: 10000", format!("port_value: {}", options.gateway_port)),
            ("port_value: 9901", format!("port_value: {}", options.admin_port)),
            ("port_value: 9000", format!("port_value: {}", backend.port())),
            ("filename: jwks.json", format!("filename: \"{}\"", run_dir.join("jwks.json").display())),
            ("../../dist/edge_idempotency.wasm", options.filter.path().display().to_string()),
        ] {
            ensure!(config.matches(there).count() == 1, "envoy.yaml has `{there}` not once");
            config = config.replace(there, &here);
        }
        let path = run_dir.join("envoy.yaml");
        fs::write(&path, config)?;
        let address = SocketAddr::from(([127, 0, 0, 1], options.gateway_port));
        let envoy = runtime()?.block_on(Envoy::start_with(options, &path))?;
        Ok(Self { address, config: shipped, directory, _api: api, _envoy: envoy })
    }

    fn send(&self, request: &Request) -> Result<Reply> {
        raw::exchange(self.address, &request.method, &request.http1())
    }

    fn order(&self, tenant: &str, key: &str, body: &Value) -> Result<Request> {
        let token = token(self.directory.path(), tenant, "alice")?;
        let order = Request::new("POST", "/orders").header("content-type", "application/json");
        Ok(order.bearer(&token).header("idempotency-key", key).body(body.to_string()))
    }

    /// How many orders of an item the API has.
    fn orders(&self, item: &str) -> Result<usize> {
        let token = token(self.directory.path(), "acme", "alice")?;
        count(&self.send(&Request::new("GET", "/orders").bearer(&token))?.json(), item)
    }
}

/// How many orders of an item are in the API's list.
pub(crate) fn count(list: &Value, item: &str) -> Result<usize> {
    let orders = list.get("orders").and_then(Value::as_array).with_context(|| format!("no orders: {list}"))?;
    Ok(orders.iter().filter(|order| order.get("item").is_some_and(|name| name == item)).count())
}

/// The API with these variables, and where it listens.
pub(crate) fn api(directory: &Path, environment: &[(&str, &str)]) -> Result<(Process, SocketAddr)> {
    let mut command = Command::new("node");
    command.arg(example().join("server.mjs")).arg("0").envs(environment.iter().copied());
    let mut api = Process::spawn("the API", &mut command, &directory.join("api.log")).context(MISSING_NODE)?;
    let log = api.log().to_owned();
    runtime()?.block_on(api.ready(READY, async || api_port(&log).map(drop)))?;
    Ok((api, SocketAddr::from(([127, 0, 0, 1], api_port(&log)?))))
}

/// The port that the API says it listens on.
fn api_port(log: &Path) -> Result<u16> {
    let text = fs::read_to_string(log)?;
    let port =
        text.lines().find_map(|line| line.strip_prefix("listening on ")).context("the API does not listen yet")?;
    Ok(port.parse()?)
}

fn token(directory: &Path, tenant: &str, user: &str) -> Result<String> {
    let command = Command::new("node").current_dir(directory).args(["token.mjs", tenant, "shop", user]).output();
    let output = command.context(MISSING_NODE)?;
    ensure!(output.status.success(), "token.mjs: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn holds_policy(config: &str) -> Result<()> {
    let config: Value = serde_saphyr::from_str(config)?;
    let filters = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
    let filter = config.pointer(filters).and_then(Value::as_array).into_iter().flatten();
    let ours = filter.rev().nth(1).context("the last filter but the router")?;
    let inline =
        ours.pointer("/typed_config/config/configuration/value").and_then(Value::as_str).context("a policy")?;
    let file = fs::read_to_string(example().join("../../policies/examples/own-api.json"))?;
    let mut expected: Value = serde_json::from_str(&file)?;
    expected.as_object_mut().context("an object")?.remove("$schema");
    ensure!(serde_json::from_str::<Value>(inline)? == expected, "envoy.yaml and own-api.json differ");
    Ok(())
}

fn one_order(setup: &OwnApiSetup) -> Result<()> {
    let order = setup.order("acme", "one-1", &json!({"item": "one"}))?;
    let first = setup.send(&order)?;
    ensure!(first.status == 201, "{}: {}", first.status, first.json());
    for _ in 0..2 {
        let again = setup.send(&order)?;
        ensure!((again.status, &again.body) == (201, &first.body), "{}: {}", again.status, again.json());
        ensure!(again.text_header("idempotent-replayed") == Some("true"), "{:?}", again.headers);
    }
    ensure!(setup.orders("one")? == 1, "the API took the order more than once");
    Ok(())
}

fn cors(setup: &OwnApiSetup) -> Result<()> {
    let preflight = Request::new("OPTIONS", "/orders")
        .header("origin", "https://app.example.com")
        .header("access-control-request-method", "POST");
    let token = token(setup.directory.path(), "acme", "alice")?;
    for (request, status) in [(preflight, 204), (Request::new("GET", "/orders").bearer(&token), 200)] {
        let answer = setup.send(&request)?;
        ensure!(answer.status == status, "{} {}", request.method, answer.status);
        for (name, value) in [
            ("access-control-allow-origin", "https://app.example.com"),
            ("access-control-allow-credentials", "true"),
            ("vary", "origin"),
        ] {
            ensure!(answer.text_header(name) == Some(value), "{} {name}: {:?}", request.method, answer.headers);
        }
    }
    Ok(())
}

/// As docs/security.md says of the shipped configurations.
fn long_headers(setup: &OwnApiSetup) -> Result<()> {
    for (bytes, status) in [(15 * 1024, 201), (17 * 1024, 431)] {
        let order = setup.order("acme", &format!("long-{bytes}"), &json!({"item": "paper"}))?;
        let answer = setup.send(&order.header("x-filler", "f".repeat(bytes)))?;
        ensure!(answer.status == status, "{bytes} bytes: {}", answer.status);
    }
    Ok(())
}
