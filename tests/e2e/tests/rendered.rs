//! A gateway from `edge-idempotency render envoy` with what an API needs around the filter: a path for load balancers, scripts in
//! browsers, paths without credentials, and a service that says who is calling.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::capture::{Answer, Capture};
use e2e::gateway::options;
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::envoy::Envoy;
use harness::ports::loopback;
use harness::tokens;
use harness::tokens::{ISSUER, Signer};
use harness::tools::{Filter, built};
use serde_json::{Value, json};
use tempfile::TempDir;

const ORIGIN: &str = "https://app.example.com";
const PAYLOAD: &str = "x-jwt-payload";

type GatewayTest = fn(&RenderedGateway) -> Result<()>;

/// What holds whoever says who is calling.
const COMMON: [(&str, GatewayTest); 3] = [
    ("a load balancer is answered, and the backend is not asked", health),
    ("a script of an allowed origin may send and read", browser),
    ("a public path needs no credential, and others do", public_path),
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let of = |by: &str, tests: &[(&str, GatewayTest)]| {
        let all = COMMON.iter().chain(tests);
        let test = |(name, body): &(&str, GatewayTest)| {
            let body = *body;
            Test::new(format!("{by}: {name}"), move |setup: &RenderedGateway| body(setup))
        };
        all.map(test).collect()
    };
    let by_token = of("tokens", &[("a caller's key is in its namespace", by_token_keyed)]);
    let by_payload = of(
        "payloads",
        &[
            ("a caller's key is in its namespace, and the backend gets no payload", by_payload_keyed),
            ("a client's own payload counts for nothing", forged),
        ],
    );
    let by_service = of("ext_authz", &[("a caller's key is in the namespace that the service says", by_service_keyed)]);
    Ok(vec![
        sharing(|| RenderedGateway::start(By::Token), by_token),
        sharing(|| RenderedGateway::start(By::Payload), by_payload),
        sharing(|| RenderedGateway::start(By::Service), by_service),
    ])
}

/// Who says who is calling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The claims of a token, in metadata
    Token,
    /// The payload of a token, in a header
    Payload,
    /// A service
    Service,
}

/// A gateway between a client and a backend that keeps what it gets.
struct RenderedGateway {
    address: SocketAddr,
    backend: Capture,
    service: Option<Capture>,
    signer: Signer,
    _directory: TempDir,
    _envoy: Envoy,
}

fn policy(by: By) -> Value {
    let source = match by {
        By::Token => tokens::source(),
        By::Payload => {
            json!({"name": "jwt", "headers_owned_by": "envoy.filters.http.jwt_authn", "payload_header": PAYLOAD, "tenant": "tenant_id",
                "project": "project_id", "subject": {"field": "sub", "type": "user"}})
        }
        By::Service => {
            json!({"name": "api-key", "headers_owned_by": "envoy.filters.http.ext_authz", "tenant": "x-auth-tenant",
                "project": "x-auth-project", "subject": {"field": "x-auth-subject"}})
        }
    };
    json!({
        "version": 1,
        "allow_inline_secrets": true,
        "identity": {"sources": [source]},
        "backend": {"kind": "generic"},
        "retry_headers": ["x-should-retry"],
        "routes": [
            {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A"},
            {"endpoint": "status", "path": "/status", "methods": ["GET"], "policy": "PROHIBITED"},
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
        ],
        "webhooks": {"static": {"wh_01JABCDEF": {"tenant": "acme", "project": "shop", "provider": "stripe",
            "secrets": ["whsec_0123456789abcdef0123456789abcdef"]}}},
    })
}

impl RenderedGateway {
    fn start(by: By) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let folder = directory.path();
        let (backend, signer) = (Capture::start()?, Signer::generate());
        let service = (by == By::Service).then(Capture::start).transpose()?;
        let options = options(folder, backend.address(), &signer.jwks())?;
        fs::write(folder.join("policy.json"), policy(by).to_string())?;
        fs::write(folder.join("jwks.json"), signer.jwks())?;
        let mut command = Command::new(built("EDGE_CLI", "edge-idempotency")?);
        command
            .args(["render", "envoy", "--policy"])
            .arg(folder.join("policy.json"))
            .arg("--module")
            .arg(options.filter.path());
        if let Filter::DynamicModule(_) = options.filter {
            command.arg("--dynamic-module");
        }
        command.arg(format!("--upstream=api=http://{}", backend.address()));
        command.arg(format!("--listen=127.0.0.1:{}", options.gateway_port));
        command.arg(format!("--admin=127.0.0.1:{}", options.admin_port));
        command.arg("--access-log").arg(folder.join("access.log"));
        command.args(["--public-path", "GET /status", "--cors-origin", ORIGIN]);
        match &service {
            Some(service) => command.arg(format!("--ext-authz=http://{}/check", service.address())),
            None => command.args(["--jwt-issuer", ISSUER, "--jwt-keys"]).arg(folder.join("jwks.json")),
        };
        let output = command.output().context("cannot run the command")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(folder.join("envoy.yaml"), output.stdout)?;
        let address = loopback(options.gateway_port);
        let envoy = runtime()?.block_on(Envoy::start_with(options, &folder.join("envoy.yaml")))?;
        Ok(Self { address, backend, service, signer, _directory: directory, _envoy: envoy })
    }

    fn send(&self, request: &Request) -> Result<Reply> {
        raw::exchange(self.address, &request.method, &request.http1())
    }

    /// Whom the service names from now on: a tenant; nobody (401); or it fails.
    fn service_says(&self, tenant: Option<&str>, status: u16) -> Result<&Capture> {
        let service = self.service.as_ref().context("there is no service")?;
        let headers =
            [("x-auth-tenant", tenant), ("x-auth-project", tenant), ("x-auth-subject", tenant.map(|_| "user:u1"))];
        let headers =
            headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.as_bytes().to_vec())));
        service.answer(Answer { status, headers: headers.collect(), ..Answer::default() });
        service.take();
        Ok(service)
    }
}

fn order(key: Option<&str>) -> Request {
    let order = Request::post("/orders").header("origin", ORIGIN);
    key.map_or(order.clone(), |key| order.header("idempotency-key", key))
}

fn health(setup: &RenderedGateway) -> Result<()> {
    for method in ["GET", "HEAD"] {
        let answer = setup.send(&Request::new(method, "/healthz"))?;
        ensure!(answer.status == 200, "{method}: {}", answer.status);
    }
    ensure!(setup.send(&Request::post("/healthz"))?.status != 200, "a POST is no probe");
    ensure!(setup.backend.take().is_empty(), "the backend was asked");
    Ok(())
}

fn browser(setup: &RenderedGateway) -> Result<()> {
    if setup.service.is_some() {
        setup.service_says(None, 401)?;
    }
    let preflight = Request::new("OPTIONS", "/orders")
        .header("origin", ORIGIN)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,idempotency-key");
    let answer = setup.send(&preflight)?;
    ensure!(answer.status == 200, "{}", answer.status);
    let lists = |name: &str, values: &[&str]| {
        let text = answer.text_header(name).unwrap_or_default();
        let listed: Vec<&str> = text.split(',').map(str::trim).collect();
        values.iter().all(|value| listed.contains(value))
    };
    ensure!(answer.text_header("access-control-allow-origin") == Some(ORIGIN), "{:?}", answer.headers);
    ensure!(lists("access-control-allow-methods", &["GET", "POST"]), "{:?}", answer.headers);
    let sent = ["authorization", "content-type", "idempotency-key"];
    ensure!(lists("access-control-allow-headers", &sent), "{:?}", answer.headers);
    // A refusal of the authentication, which the script has to be able to read.
    let refused = setup.send(&order(Some("k")))?;
    ensure!(refused.status == 401, "{}", refused.status);
    ensure!(refused.text_header("access-control-allow-origin") == Some(ORIGIN), "{:?}", refused.headers);
    let exposed = refused.text_header("access-control-expose-headers").unwrap_or_default();
    for name in ["idempotency-status", "idempotency-retry", "retry-after", "x-should-retry"] {
        ensure!(exposed.contains(name), "{name}: {exposed}");
    }
    ensure!(setup.backend.take().is_empty(), "the backend was asked");
    Ok(())
}

fn public_path(setup: &RenderedGateway) -> Result<()> {
    let service = setup.service.as_ref().map(|_| setup.service_says(None, 401)).transpose()?;
    let answer = setup.send(&Request::new("GET", "/status"))?;
    ensure!((answer.status, setup.backend.take().len()) == (200, 1), "{}", answer.status);
    ensure!(service.is_none_or(|service| service.take().is_empty()), "the service was asked");
    for request in [Request::post("/status"), Request::new("GET", "/status/x"), Request::new("GET", "/orders")] {
        let answer = setup.send(&request)?;
        ensure!((answer.status, setup.backend.take().len()) == (401, 0), "{}", answer.status);
    }
    Ok(())
}

/// The key of the one request that reached the backend.
fn key(setup: &RenderedGateway) -> Result<String> {
    let taken = setup.backend.take();
    let [request] = taken.as_slice() else { anyhow::bail!("{} requests reached the backend", taken.len()) };
    let line = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
    Ok(String::from_utf8(line.context("no key")?.1.clone())?)
}

fn by_token_keyed(setup: &RenderedGateway) -> Result<()> {
    let token = setup.signer.mint(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
    let answer = setup.send(&order(Some("k-1")).bearer(&token))?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.json());
    ensure!(key(setup)? == "t-acme:shop:user:alice:k-1");
    let refused = setup.send(&order(None).bearer(&token))?;
    ensure!(refused.status == 400, "{}", refused.status);
    ensure!(refused.text_header("access-control-allow-origin") == Some(ORIGIN), "{:?}", refused.headers);
    Ok(())
}

fn by_payload_keyed(setup: &RenderedGateway) -> Result<()> {
    let token = setup.signer.mint(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
    let answer = setup.send(&order(Some("k-1")).bearer(&token))?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.json());
    let taken = setup.backend.take();
    let [request] = taken.as_slice() else { anyhow::bail!("{} requests reached the backend", taken.len()) };
    let has = |name: &str, value: &[u8]| request.headers.iter().any(|(other, found)| other == name && found == value);
    ensure!(has("idempotency-key", b"t-acme:shop:user:alice:k-1"), "{:?}", request.headers);
    ensure!(!request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(PAYLOAD)), "{:?}", request.headers);
    Ok(())
}

fn forged(setup: &RenderedGateway) -> Result<()> {
    let token = setup.signer.mint(&json!({"tenant_id": "globex", "project_id": "shop", "sub": "eve"}))?;
    let payload = token.split('.').nth(1).context("no payload")?;
    let request = order(Some("k-1")).header(PAYLOAD, payload);
    let answer = setup.send(&request)?;
    ensure!((answer.status, setup.backend.take().len()) == (401, 0), "{}", answer.status);
    let token = setup.signer.mint(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
    let answer = setup.send(&request.bearer(&token))?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.json());
    ensure!(key(setup)? == "t-acme:shop:user:alice:k-1");
    // Here jwt_authn verifies nothing, so it would leave the header.
    let answer = setup.send(&Request::new("GET", "/status").header(PAYLOAD, payload))?;
    let taken = setup.backend.take();
    let [request] = taken.as_slice() else { anyhow::bail!("{}: {} requests", answer.status, taken.len()) };
    ensure!(!request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(PAYLOAD)), "{:?}", request.headers);
    Ok(())
}

fn by_service_keyed(setup: &RenderedGateway) -> Result<()> {
    let service = setup.service_says(Some("acme"), 200)?;
    // Names that a client chooses count for nothing.
    let request = order(Some("k-1")).header("x-auth-tenant", "globex").header("x-api-key", "secret");
    let answer = setup.send(&request)?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.json());
    ensure!(key(setup)? == "t-acme:acme:user:u1:k-1");
    let asked = service.take();
    let [asked] = asked.as_slice() else { anyhow::bail!("the service was asked {} times", asked.len()) };
    ensure!(asked.start.starts_with(b"POST /check/orders "), "{}", asked.start.escape_ascii());
    let sent = |name: &str| asked.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    ensure!(sent("x-api-key") && !sent("x-auth-tenant"), "{:?}", asked.headers);
    Ok(())
}
