//! An API whose paths end with a slash: a real Django, with `APPEND_SLASH` as it comes, behind the filter in a real Envoy. What Django
//! says to a request directly, it says through the filter, in shadow mode and enforced, also where no route declares the path. Only the
//! key is another where the filter enforces.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::ports::{free, loopback};
use harness::process::Process;
use harness::tokens;
use harness::tools::repository;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A busy machine may need long to start Django.
const READY: Duration = Duration::from_secs(60);
const MODES: [&str; 2] = ["enforce", "shadow"];

/// Method, path, and Django's status.
const ROWS: [(&str, &str, u16); 11] = [
    ("POST", "/orders/", 201),
    ("POST", "/orders", 301),
    ("GET", "/orders/?page=2", 200),
    ("GET", "/orders", 301),
    ("PUT", "/orders/7/", 200),
    ("GET", "/orders/7", 301),
    ("GET", "/orders/7/notes", 200),
    ("GET", "/orders/7/notes/", 404),
    ("GET", "/orders/7//notes", 404),
    ("GET", "/files/a//b/", 200),
    ("GET", "/nothing/", 404),
];

/// Enforcing would refuse these, and shadow mode does not.
const SHADOW_ROWS: [(&str, &str, u16); 5] = [
    ("PATCH", "/orders/", 200),
    ("DELETE", "/files/a/b", 200),
    ("GET", "/files/a%2Fb;v=1", 200),
    ("GET", "/FILES/a", 404),
    ("POST", "/orders//", 404),
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = MODES.iter().flat_map(|mode| {
        let shadow: &[_] = if *mode == "shadow" { &SHADOW_ROWS } else { &[] };
        ROWS.iter().chain(shadow).map(move |row| {
            let name = format!("{mode}: {} {}", row.0, row.1);
            Test::new(name, move |setup: &DjangoSetup| setup.says_the_same(mode, row))
        })
    });
    let is_installed = packages().join("django").is_dir();
    if !is_installed {
        eprintln!("SKIPPED: Django is not installed. `crates/xtask/scripts/tools.sh path-readers` installs it.");
    }
    let group = sharing(DjangoSetup::start, tests.collect());
    Ok(vec![if is_installed { group } else { group.left_out() }])
}

/// Django is installed beside FastAPI.
fn packages() -> PathBuf {
    let installed =
        std::env::var_os("EDGE_PATH_READERS").map_or_else(|| repository().join(".tools/path-readers"), PathBuf::from);
    installed.join("fastapi/packages")
}

struct DjangoSetup {
    gateway: TestGateway,
    port: u16,
    token: String,
    _django: Process,
    _directory: TempDir,
}

impl DjangoSetup {
    fn start() -> Result<Self> {
        let (directory, port) = (tempfile::tempdir()?, free()?);
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", packages()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(repository().join("tests/compat/tests/slashes/django_app.py")).arg(port.to_string());
        let mut django = Process::spawn("Django", &mut command, &directory.path().join("log"))?;
        let address = loopback(port);
        runtime()?.block_on(django.ready(READY, async || {
            TcpStream::connect(address).map(drop).with_context(|| format!("{address} does not listen"))
        }))?;
        let listeners = MODES.map(|mode| {
            let policy = json!({
                "version": 1,
                "mode": mode,
                // In shadow mode it refuses nothing.
                "unmatched": if mode == "shadow" { "REJECT" } else { "HANDLER_INTERNAL_C" },
                "identity": {"sources": [tokens::source()]},
                "backend": {"kind": "generic"},
                "routes": [
                    {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A"},
                    {"endpoint": "orders.list", "methods": ["GET"], "path": "/orders/", "policy": "PROHIBITED"},
                    {"endpoint": "orders.update", "methods": ["PUT"], "path": "/orders/{id}/", "policy": "REQUIRED_A"},
                    {"endpoint": "orders.get", "methods": ["GET"], "path": "/orders/{id}/", "policy": "PROHIBITED"},
                ],
            });
            let changes = vec![Change::EveryPath, Change::PathsAsWritten];
            (mode.to_owned(), ListenerSpec { policy: policy.to_string(), changes })
        });
        let around = TestEnvironment { backend: Some(address), ..TestEnvironment::default() };
        let gateway = TestGateway::start_within(&around, &listeners)?;
        let token = gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
        Ok(Self { gateway, port, token, _django: django, _directory: directory })
    }

    fn says_the_same(&self, mode: &str, &(method, path, status): &(&str, &str, u16)) -> Result<()> {
        let mut request = Request::new(method, path).bearer(&self.token);
        if method != "GET" {
            request = request.header("idempotency-key", "k-1").header("content-type", "application/json").body("{}");
        }
        let directly = raw::exchange(loopback(self.port), method, &request.clone().http1())?;
        let through = raw::exchange(self.gateway.address(mode)?, method, &request.http1())?;
        ensure!(directly.status == status, "Django itself says {}", directly.status);
        let (mut expected, found) = (facts(&directly), facts(&through));
        if mode == "enforce"
            && let Some(key) = expected.pointer_mut("/body/key").filter(|key| key.is_string())
        {
            *key = json!("t-acme:shop:user:alice:k-1");
        }
        ensure!(found == expected, "through the filter {found}, and directly {expected}");
        Ok(())
    }
}

fn facts(reply: &Reply) -> Value {
    json!({"status": reply.status, "location": reply.text_header("location"), "body": reply.json()})
}
