//! Restate's own paths, asked for by a stranger without a token, where the policy neither rewrites paths nor refuses what no route
//! declares: a real Envoy leads every path to a real Restate, and only the filter closes them.

use anyhow::{Context as _, Result, ensure};
use e2e::chain::Chain;
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::TestEnvironment;
use e2e::raw::{self, Reply, Request};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::guard::{Guard, GuardOptions};
use harness::http;
use harness::ports::Ports;
use serde_json::{Value, json};

/// What becomes of requests that no route declares, each a listener.
const LISTENERS: [&str; 2] = ["HANDLER_INTERNAL_C", "PROHIBITED"];
/// A path that a route declares, and that is Restate's own at the same time.
const REFUNDS: &str = "/Refunds/create";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = vec![
        test("a stranger does not get a stored result", results),
        test("a stranger calls no handler and no guard", calls),
        test("what a route declares is open", declared),
    ];
    Ok(vec![sharing(RestatePathsSetup::start, tests)])
}

fn test(name: &str, body: impl FnOnce(&RestatePathsSetup) -> Result<()> + Send + 'static) -> Test<RestatePathsSetup> {
    Test::new(name, move |setup: &RestatePathsSetup| body(setup))
}

struct RestatePathsSetup {
    chain: Chain,
    _guard: Guard,
    token: String,
}

fn policy(unmatched: &str) -> Value {
    json!({
        "version": 1,
        "unmatched": unmatched,
        "identity": {"sources": [{
            "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
            "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
        }]},
        "backend": {
            "kind": "restate", "cluster": "backend", "guard": {}, "reserved_paths": ["/internal"],
        },
        "routes": [{
            "endpoint": "refunds.create", "path": REFUNDS, "policy": "ACCEPTED", "target": "Refunds/create",
            "collision": "enforce", "recovery": false,
        }],
    })
}

impl RestatePathsSetup {
    fn start() -> Result<Self> {
        let listener =
            |unmatched: &str| ListenerSpec { policy: policy(unmatched).to_string(), changes: vec![Change::EveryPath] };
        let listeners = LISTENERS.map(|unmatched| (unmatched.to_owned(), listener(unmatched)));
        let mut chain = Chain::start(TestEnvironment::default(), &listeners)?;
        let options = GuardOptions::new(chain.directory.path(), Ports::free()?.service)?;
        let guard = runtime()?.block_on(async {
            let guard = Guard::start(options).await?;
            chain.restate.register(&guard.url()).await?;
            anyhow::Ok(guard)
        })?;
        let token = chain.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}))?;
        Ok(Self { chain, _guard: guard, token })
    }

    fn send(&self, listener: &str, request: &Request) -> Result<Reply> {
        raw::exchange(self.chain.gateway.address(listener)?, &request.method, &request.http1())
    }

    /// A refund of alice, whom the gateway knows. A claim of a busy machine may come too late; clients repeat it.
    fn refund(&self, listener: &str, key: &str, order: &str) -> Result<Reply> {
        let body = json!({"order_id": order, "amount": 4200}).to_string();
        let request = Request::new("POST", REFUNDS).header("content-type", "application/json").body(body);
        let request = request.bearer(&self.token).header("idempotency-key", key);
        let mut reply = self.send(listener, &request)?;
        for _ in 0..20 {
            if reply.status != 503 {
                break;
            }
            reply = self.send(listener, &request)?;
        }
        ensure!(reply.status == 200, "{} {}", reply.status, text(&reply));
        Ok(reply)
    }

    /// A stranger's request is answered 404 by the filter, and Restate has no invocation more.
    fn closed(&self, listener: &str, request: &Request) -> Result<()> {
        let label = || format!("{} {} on `{listener}`", request.method, request.target.escape_ascii());
        let invocations = || runtime()?.block_on(self.chain.restate.invocations());
        let before = invocations()?.len();
        let reply = self.send(listener, request).with_context(label)?;
        let code = reply.json().get("code").cloned().unwrap_or_default();
        ensure!(reply.status == 404 && code == "not_found", "{}: {} {}", label(), reply.status, text(&reply));
        ensure!(invocations()?.len() == before, "{}: Restate has another invocation", label());
        Ok(())
    }

    /// What Restate's ingress itself answers.
    fn ingress(&self, path: &str, body: &Value) -> Result<http::Reply> {
        runtime()?.block_on(http::Request::post(path).json(body).send(&self.chain.restate.ingress_url()))
    }
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

fn post(path: &str, body: &Value) -> Request {
    Request::new("POST", path).header("content-type", "application/json").body(body.to_string())
}

/// The case: the body names another tenant's key.
fn results(setup: &RestatePathsSetup) -> Result<()> {
    for listener in LISTENERS {
        let (key, order) = (format!("pay-{listener}"), format!("order-{listener}"));
        let first = setup.refund(listener, &key, &order)?;
        let namespaced = format!("t-acme:shop:user:alice:{key}");
        let target = json!({
            "target": "idempotentInvocation", "service": "Refunds", "handler": "create", "idempotencyKey": namespaced,
        });
        let stored = setup.ingress("/restate/output", &target)?;
        ensure!(stored.status == 200 && stored.body == first.body, "the result is not there: {}", stored.text());
        let id = first.text_header("x-operation-id").context("no operation id")?.to_owned();
        for path in
            ["/restate/output", "/restate/attach", "/restate/lookup", "//restate/output/", "/x/..//%72estate/output"]
        {
            setup.closed(listener, &post(path, &target))?;
        }
        for path in [
            format!("/restate/output/{id}"),
            format!("/restate/attach/{id}"),
            format!("/restate/invocation/{id}/output"),
            format!("/restate/invocation/Refunds/create/{namespaced}/output"),
            format!("/restate/invocation/Refunds/create/{namespaced}/attach"),
            "/restate/workflow/Signup/k/output".to_owned(),
            "/restate/health".to_owned(),
            "/restate".to_owned(),
            "/openapi/Refunds".to_owned(),
        ] {
            setup.closed(listener, &Request::new("GET", path))?;
        }
    }
    Ok(())
}

fn calls(setup: &RestatePathsSetup) -> Result<()> {
    let (refund, claim) = (json!({"order_id": "stranger", "amount": 1}), json!("v1:stranger"));
    for listener in LISTENERS {
        for path in [
            "/restate/call/Refunds/create",
            "/restate/send/Refunds/create",
            "/restate/scope/s/call/Refunds/create",
            "/Refunds/create/send",
            "/Refunds//create/./send/",
            "/%52efunds/create/send",
            "/Refunds",
        ] {
            setup.closed(listener, &post(path, &refund))?;
        }
        for path in ["/restate/call/IdempotencyGuard/claim", "/IdempotencyGuard/claim", "/IdempotencyGuard/claim/send"]
        {
            setup.closed(listener, &post(path, &claim))?;
        }
        for path in ["/restate/awakeables/sign_1/resolve", "/restate/a/sign_1/reject", "/internal/jobs"] {
            setup.closed(listener, &post(path, &json!({})))?;
        }
    }
    ensure!(setup.chain.effects("stranger")? == 0, "a stranger's refund has run");
    Ok(())
}

fn declared(setup: &RestatePathsSetup) -> Result<()> {
    for listener in LISTENERS {
        let order = format!("declared-{listener}");
        let first = setup.refund(listener, &order, &order)?;
        let again = setup.refund(listener, &order, &order)?;
        ensure!(again.body == first.body && setup.chain.effects(&order)? == 1, "{} {}", text(&first), text(&again));
        let request = Request::new("GET", REFUNDS);
        let reply = setup.send(listener, &request)?;
        ensure!(reply.status == 405, "{} {}", reply.status, text(&reply));
        // A service that the policy does not name: for `check` this is an error (`unmatched-service`).
        // Restate says that it has no such service.
        let reply = setup.send(listener, &Request::new("POST", "/Unknown/handler"))?;
        let code = reply.json().get("code").cloned().unwrap_or_default();
        ensure!(reply.status == 503 && code == "policy_invalid", "{} {}", reply.status, text(&reply));
    }
    Ok(())
}
