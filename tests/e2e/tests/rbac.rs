//! What Envoy's RBAC filter denies by path, before ours, stays denied: other spellings of the path do not get round it, and no other
//! route's rewrite leads there. `hostile::differ` has rules by host and by method.

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{Seen, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::{Value, json};

const DENIED: &str = "/api/v1/denied";
const ALLOWED: &str = "/api/v1/allowed";

/// A rule for every path, with the last slash that the filter drops.
const RULE: &str = "rule";
/// A rule that one of the gateway's routes brings.
const ROUTE: &str = "route";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests = Vec::new();
    for listener in [RULE, ROUTE] {
        let test = |name: &str, body: fn(&RbacSetup, &str) -> Result<()>| {
            Test::new(format!("{listener}: {name}"), move |setup: &RbacSetup| body(setup, listener))
        };
        tests.push(test("a deny is a deny, and what is beside it is not", plainly));
        tests.push(test("no spelling of the path gets round it", spellings));
        tests.push(test("no other route leads there", other_routes));
    }
    Ok(vec![sharing(RbacSetup::start, tests)])
}

struct RbacSetup {
    gateway: TestGateway,
    token: String,
}

impl RbacSetup {
    fn start() -> Result<Self> {
        let kind = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
        let rules = |path: Value| {
            json!({"action": "DENY", "policies": {"closed": {
                "permissions": [{"url_path": {"path": path}}], "principals": [{"any": true}],
            }}})
        };
        let filter = |config: Value| json!({"name": "envoy.filters.http.rbac", "typed_config": config});
        let rule = rules(json!({"safe_regex": {"regex": format!("{DENIED}/?")}}));
        let everything = rules(json!({"prefix": "/"}));
        let route = json!({
            "name": "denied", "match": {"safe_regex": {"regex": format!("{DENIED}/?")}}, "route": {"cluster": "backend-requests"},
            "typed_per_filter_config": {"envoy.filters.http.rbac": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
                "rbac": {"rules": everything},
            }},
        });
        let listener = |changes: Vec<Change>| ListenerSpec { policy: policy(), changes };
        let listeners = [
            (RULE.to_owned(), listener(vec![Change::Before(filter(json!({"@type": kind, "rules": rule})))])),
            (ROUTE.to_owned(), listener(vec![Change::Before(filter(json!({"@type": kind}))), Change::Route(route)])),
        ];
        let gateway = TestGateway::start(&listeners)?;
        let token = gateway.user_token()?;
        Ok(Self { gateway, token })
    }

    fn send(&self, listener: &str, target: &str) -> Result<[Seen; 2]> {
        let request = Request::post(target).bearer(&self.token).header("idempotency-key", "k-1");
        // What the filter marks its own rewrites with is worth nothing from a client.
        let marked = request.clone().header("x-edge-idempotency", "1").header("x-envoy-original-path", ALLOWED);
        Ok([self.gateway.http1(listener, &request)?, self.gateway.http1(listener, &marked)?])
    }
}

fn policy() -> String {
    json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": [
            {"endpoint": "denied", "path": DENIED, "policy": "REQUIRED_A", "target": "Service/denied"},
            {"endpoint": "allowed", "path": ALLOWED, "policy": "REQUIRED_A", "target": "Service/allowed"},
            {"endpoint": "item", "path": "/api/v1/{item}/run", "policy": "REQUIRED_A", "target": "Item/{item}/run"},
            {"endpoint": "any", "path": "/api/v1/items/{item}", "policy": "REQUIRED_A", "target": "Item/{item}/get"},
        ],
    })
    .to_string()
}

fn plainly(setup: &RbacSetup, listener: &str) -> Result<()> {
    for seen in setup.send(listener, DENIED)? {
        denied_by_rbac(&seen)?;
    }
    for seen in setup.send(listener, ALLOWED)? {
        let target = seen.received.first().map(|received| received.target.clone());
        ensure!(
            target.as_deref() == Some(b"/restate/call/Service/allowed"),
            "{} {}",
            seen.reply.status,
            seen.upstream()
        );
    }
    Ok(())
}

fn denied_by_rbac(seen: &Seen) -> Result<()> {
    let body = String::from_utf8_lossy(&seen.reply.body).into_owned();
    ensure!(seen.received.is_empty(), "the upstream got\n{}", seen.upstream());
    ensure!(seen.reply.status == 403 && body.starts_with("RBAC"), "{} {body}", seen.reply.status);
    Ok(())
}

fn spellings(setup: &RbacSetup, listener: &str) -> Result<()> {
    let spellings = [
        "/api/v1/denied?",
        "/api/v1/denied/",
        "/api/v1/denied//",
        "//api/v1/denied",
        "/api/v1/./denied",
        "/api/v1/denied/.",
        "/api/v1/x/../denied",
        "/api/v1/denied/x/..",
        "/api/v1/%64enied",
        "/api/v1/%64%65%6E%69%65%64/",
        "/api/v1/%2e/denied",
        "/api/v1/x/%2e%2E/denied",
        "/api/v1/%2564enied",
        "/api/v1%2Fdenied",
        "/api/v1/denied%2F",
        "/api\\v1\\denied",
        "/api/v1/denied\\",
        "/api/v1%5Cdenied",
        "/api/v1/denied;x=1",
        "/api/v1;x/denied",
        "/api/v1/denied%3Bx",
        "/api/v1/denied%00",
        "/api/v1/denied%20",
        "/api/v1/denied%23x",
        "/api/v1/DENIED",
        "/Service/denied",
        "/Service/%64enied",
        "/restate/call/Service/denied",
        "http://api.example.com/api/v1/denied",
        "http://api.example.com//api/v1/%64enied/",
        "/api/v1/allowed/../../../Service/denied",
    ];
    for target in spellings {
        for seen in setup.send(listener, target).with_context(|| target.to_owned())? {
            ensure!(seen.received.is_empty(), "{target}: the upstream got\n{}", seen.upstream());
            let status = seen.reply.status;
            ensure!(matches!(status, 400 | 403 | 404 | 307 | 301), "{target}: status {status}");
        }
    }
    Ok(())
}

/// What a client writes into a template's place stays in its segment.
fn other_routes(setup: &RbacSetup, listener: &str) -> Result<()> {
    for value in
        ["..%2F..%2FService%2Fdenied", "%2e%2e", "..", "denied", "Service", "%2FService%2Fdenied", "x%3F", "x%23"]
    {
        for target in [format!("/api/v1/{value}/run"), format!("/api/v1/items/{value}")] {
            for seen in setup.send(listener, &target).with_context(|| target.clone())? {
                for received in &seen.received {
                    let path = String::from_utf8_lossy(&received.target).into_owned();
                    let segments: Vec<&str> = path.split('/').collect();
                    let own =
                        path.starts_with("/restate/call/Item/") && segments.len() == 6 && !segments.contains(&"..");
                    ensure!(own, "{target}: the upstream got\n{}", seen.upstream());
                }
            }
        }
    }
    Ok(())
}
