//! A krakend.json for a policy: an endpoint for each route, method and recovery path, as the bridge asks for it.

use std::path::Path;

use anyhow::{Context as _, Result};
use harness::demo_policy::POLICY;
use harness::tokens::ISSUER;
use serde_json::{Value, json};

use super::standin::Way;

/// The headers that carry verified claims from KrakenD's validator to the bridge.
pub(crate) const CLAIM_HEADERS: [(&str, &str); 3] =
    [("tenant_id", "X-Claim-Tenant"), ("project_id", "X-Claim-Project"), ("sub", "X-Claim-Subject")];

/// Payouts, which run until the test confirms.
pub(crate) const PAYOUTS: &str = "/api/v1/accounts/{account}/payouts";

/// The demo's second route for deliveries of Stripe.
const PURCHASES: &str = "/webhooks/stripe/{webhook_id}/purchases";

/// The demo's policy as it is used behind KrakenD: KrakenD chooses the endpoint, and the bridge tells the module its name. The
/// credentials of both stores are in the environment.
pub(crate) fn policy() -> Result<Value> {
    let mut policy: Value = serde_json::from_str(POLICY)?;
    let set = |policy: &mut Value, at: &str, name: &str, value: Value| {
        let object =
            policy.pointer_mut(at).and_then(Value::as_object_mut).with_context(|| format!("no object {at}"))?;
        object.insert(name.to_owned(), value);
        anyhow::Ok(())
    };
    set(&mut policy, "", "gateway_routes", json!(true))?;
    set(&mut policy, "/webhooks/unkey", "root_key", json!({"env": "UNKEY_ROOT_KEY"}))?;
    set(&mut policy, "/webhooks/openbao", "token", json!({"env": "OPENBAO_TOKEN"}))?;
    let routes = policy.get_mut("routes").and_then(Value::as_array_mut).context("no routes")?;
    // KrakenD's router does not look at text before a parameter.
    let path = |route: &Value| route.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
    routes.retain(|route| !path(route).contains(":{"));
    routes.push(json!({
        "endpoint": "accounts.payout", "path": PAYOUTS, "policy": "REQUIRED_A",
        "target": "Accounts/{tenant}:{project}:{account}/payout",
    }));
    Ok(policy)
}

/// What krakend.json names besides the policy.
pub(crate) struct StandInEnvironment<'a> {
    pub(crate) module: &'a Path,
    /// The file of the key set.
    pub(crate) keys: &'a Path,
    /// The folder of the plugin.
    pub(crate) plugins: &'a Path,
    /// The port of `/metrics`.
    pub(crate) metrics_port: u16,
    /// The bridge's `upstreams`.
    pub(crate) upstreams: Value,
    /// Further members of the bridge's own configuration.
    pub(crate) own: Vec<(&'static str, Value)>,
}

/// The whole krakend.json.
pub(crate) fn krakend(way: Way, policy: &Value, around: &StandInEnvironment<'_>) -> Result<Value> {
    let StandInEnvironment { module, keys, plugins, metrics_port, upstreams, own } = around;
    let mut endpoints = Vec::new();
    let mut sources = policy.pointer("/identity/sources").and_then(Value::as_array).into_iter().flatten();
    let api_keys = sources.find_map(|source| source.pointer("/unkey/header")?.as_str());
    let endpoint = |name: &str, method: &str, path: &str, has_validator: bool| {
        endpoint(name, method, path, has_validator.then_some(*keys), api_keys)
    };
    for route in policy.get("routes").and_then(Value::as_array).context("no routes")? {
        let text = |name: &str| route.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, path) = (text("endpoint"), text("path"));
        // Third parties have no token, and signed callers have none either.
        let has_validator = route.get("webhook").is_none() && name != "reports.run" && api_keys.is_none();
        if path == PURCHASES {
            // KrakenD's router does not go back from there to `/webhooks/{provider}/{webhook_id}`.
            endpoints.push(endpoint("webhooks.ingest", "POST", "/webhooks/stripe/{webhook_id}", false));
        }
        let mut add = |method: &str, path: &str| endpoints.push(endpoint(name, method, path, has_validator));
        let methods = route.get("methods").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![json!("POST")]);
        methods.iter().filter_map(Value::as_str).for_each(|method| add(method, path));
        let has_keys = ["REQUIRED_A", "ACCEPTED"].contains(&text("policy"));
        if has_keys && route.get("target").is_some() && route.get("recovery") != Some(&json!(false)) {
            add("GET", &format!("{path}/by-idempotency-key/{{key}}"));
            add("GET", &format!("{path}/by-idempotency-key/{{key}}/output"));
        }
    }
    if let Some(path) = policy.pointer("/backend/operations/path").and_then(Value::as_str) {
        endpoints.push(endpoint("_operations", "GET", path, true));
        endpoints.push(endpoint("_operations", "GET", &format!("{path}/output"), true));
    }
    let mut krakend = json!({
        "$schema": "https://www.krakend.io/schema/v2.13/krakend.json",
        "version": 3,
        "timeout": "60s",
        "endpoints": endpoints,
        "extra_config": {
            "router": {"disable_redirect_trailing_slash": true, "disable_redirect_fixed_path": true},
            "plugin/http-server": {
                "name": ["edge-idempotency"],
                "edge-idempotency": {
                    "module": module,
                    "policy": policy,
                    "upstreams": upstreams,
                    "metrics_listen": format!("127.0.0.1:{metrics_port}"),
                },
            },
        },
    });
    let members =
        krakend.pointer_mut("/extra_config/plugin~1http-server/edge-idempotency").and_then(Value::as_object_mut);
    members.context("no members")?.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    if way == Way::Plugin
        && let Some(members) = krakend.as_object_mut()
    {
        members.insert("plugin".to_owned(), json!({"pattern": ".so", "folder": format!("{}/", plugins.display())}));
    }
    Ok(krakend)
}

/// An endpoint, with a validator if there is a key set, and with the header of API keys if callers have such keys.
fn endpoint(name: &str, method: &str, path: &str, keys: Option<&Path>, api_keys: Option<&str>) -> Value {
    let bound = json!({"endpoint": name, "upstream": "backend"});
    let backend = json!({"plugin/http-client": {"name": "edge-idempotency", "edge-idempotency": bound}});
    let mut headers = vec!["Content-Type"];
    headers.extend(api_keys);
    let mut extra = json!({});
    if let Some(keys) = keys {
        headers.extend(CLAIM_HEADERS.iter().map(|(_, header)| *header));
        let validator = json!({
            "alg": "ES256", "issuer": ISSUER, "jwk_local_path": keys, "disable_jwk_security": true,
            "propagate_claims": CLAIM_HEADERS.map(|(claim, header)| [claim, header]),
        });
        extra = json!({"auth/validator": validator});
    }
    json!({
        "endpoint": path,
        "method": method,
        "output_encoding": "no-op",
        "input_headers": headers,
        "backend": [{
            "host": ["http://edge-idempotency.invalid"], "url_pattern": path, "method": method, "encoding": "no-op",
            "extra_config": backend,
        }],
        "extra_config": extra,
    })
}
