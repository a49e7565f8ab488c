//! A panic in each hook of the dynamic module that requests reach, in a real Envoy: the request is answered 503 where it still can be,
//! Envoy lives, the next request is right, and the panic is logged and counted. tests/dynamic-module/tests/panics.rs has the other hooks.

use std::env;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::{Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::tools::Filter;
use harness::unkey::Unkey;
use serde_json::{Value, json};

use crate::api_keys::setup::{ROOT_KEY, accepted, holder, order, policy, send, stores};

const LISTENER: &str = "planted";

/// The hooks, and what the client gets: status and code.
const ROWS: [(&str, u16, &str); 7] = [
    ("request_headers", 503, "internal_error"),
    ("request_body", 503, "internal_error"),
    ("request_trailers", 503, "internal_error"),
    ("response_headers", 503, "internal_error"),
    ("scheduled", 503, "internal_error"),
    ("config_http_stream_complete", 503, "dependency_unavailable"),
    // The call is made at the next tick.
    ("config_scheduled", 200, ""),
];

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests: Vec<Test<PanicsSetup>> = ROWS
        .iter()
        .map(|(hook, status, code)| {
            Test::new(*hook, move |setup: &PanicsSetup| {
                let reply = setup.planted(hook)?;
                ensure!((reply.status, code_of(&reply).as_str()) == (*status, *code), "{reply:?}");
                setup.goes_on(hook)
            })
        })
        .collect();
    tests.push(Test::new("new", |setup: &PanicsSetup| {
        ensure!(setup.planted("new")?.status == 200);
        let reply = send(&setup.gateway, LISTENER, &order(&setup.key("of-nobody")))?;
        ensure!((reply.status, reply.body.len()) == (503, 0), "{reply:?}");
        setup.goes_on("new")
    }));
    tests.push(Test::new("destroy", |setup: &PanicsSetup| {
        ensure!(setup.planted("destroy")?.status == 200);
        setup.goes_on("destroy")
    }));
    Ok(vec![sharing(PanicsSetup::start, tests)])
}

fn code_of(reply: &Reply) -> String {
    reply.json().get("code").and_then(Value::as_str).unwrap_or_default().to_owned()
}

struct PanicsSetup {
    gateway: TestGateway,
    unkey: Unkey,
}

impl PanicsSetup {
    fn start() -> Result<Self> {
        // dynamic-module-tests has the module with planted panics built, and Cargo puts it beside this program.
        let module = env::current_exe()?.with_file_name("libedge_idempotency.so");
        ensure!(module.is_file(), "{} is missing: run `make build`", module.display());
        let unkey = runtime()?.block_on(Unkey::start(SocketAddr::from(([127, 0, 0, 1], 0)), ROOT_KEY))?;
        let mut policy = policy(&json!({}));
        let webhook = json!({"tenant": "acme", "project": "shop", "provider": "github", "secrets": ["gh_secret"]});
        if let Some(members) = policy.as_object_mut() {
            members.insert("allow_inline_secrets".to_owned(), true.into());
            members.insert("webhooks".to_owned(), json!({"static": {"wh_static01": webhook}}));
        }
        if let Some(routes) = policy.pointer_mut("/routes").and_then(Value::as_array_mut) {
            let path = "/api/v1/h/{provider}/{webhook_id}";
            routes.push(json!({"endpoint": "hooks", "path": path, "policy": "REQUIRED_B", "webhook": {}}));
        }
        let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::Trailers] };
        let around = TestEnvironment {
            stores: Some(stores(&unkey)),
            filter: Some(Filter::DynamicModule(module)),
            ..TestEnvironment::default()
        };
        Ok(Self { gateway: TestGateway::start_within(&around, &[(LISTENER.to_owned(), listener)])?, unkey })
    }

    /// An API key that nobody has asked for.
    fn key(&self, name: &str) -> String {
        let key = format!("sk_{name}");
        self.unkey.says(&key, holder(name));
        key
    }

    /// Sends the request that makes the next call of a hook panic.
    fn planted(&self, hook: &str) -> Result<Reply> {
        let request = match hook {
            // A delivery goes on with its whole body only.
            "request_body" => Request::post("/api/v1/h/github/wh_static01")
                .header("x-hub-signature-256", format!("sha256={}", "0".repeat(64))),
            "request_trailers" => order(&self.key(hook)).trailer("x-end", "1"),
            _ => order(&self.key(hook)),
        };
        let reply = send(&self.gateway, LISTENER, &request.header("x-test-panic", hook).body("{}"));
        self.gateway.capture().take();
        reply
    }

    /// The panic is told, and the next request is right.
    fn goes_on(&self, hook: &str) -> Result<()> {
        self.gateway
            .until("the panic is logged", |gateway| Ok(gateway.log()?.contains(&format!("planted in {hook}"))))?;
        // The next test begins its count here.
        let counted = |gateway: &TestGateway| gateway.stat("idempotency_problem_total.*internal_error");
        let expected = self.gateway.log()?.matches("planted in ").count() as u64;
        self.gateway.until("the panic is counted", |gateway| Ok(counted(gateway)? == expected))?;
        let tenant = format!("after-{}", hook.replace('_', "-"));
        accepted(&self.gateway, LISTENER, &order(&self.key(&tenant)), &tenant)
    }
}
