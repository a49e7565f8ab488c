//! Metadata that identity sources read, as each host of Envoy reads it: by segments that Envoy's operator cannot express, and on the
//! dynamic module without what hands the metadata over.

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestGateway, tools};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::{Map, Value, json};

const READ: &str = "read";
const NUMBER: &str = "number";
const WITHOUT: &str = "without";
const AS_TEXT: &str = "as-text";
const NOTHING: &str = "nothing";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let either = vec![
        Test::new("segments with colons, percent signs, brackets and indexes", |gateway| tenant(gateway, READ)),
        Test::new("a number is no identity", |gateway| refused(gateway, NUMBER, 403, "identity_invalid")),
    ];
    let dynamic_module = vec![
        Test::new(
            "dynamic module: without the object each request is refused, and the log has the lines to add",
            missing,
        ),
        Test::new("dynamic module: an object that is no JSON names nobody", |gateway| {
            refused(gateway, AS_TEXT, 403, "identity_invalid")
        }),
        Test::new("dynamic module: a namespace that nobody has written names nobody", |gateway| {
            refused(gateway, NOTHING, 401, "identity_missing")
        }),
    ];
    Ok(vec![sharing(start, either), sharing(start_dynamic_modules, dynamic_module)])
}

fn policy(tenant: &Value) -> Value {
    json!({
        "version": 1,
        "identity": {"sources": [{
            "name": "claims", "metadata": ["e2e.claims"], "tenant": tenant, "project": ["roles (50%)", "0"],
            "subject": {"field": ["a)b", "id"], "type": "user"},
        }]},
        "backend": {"kind": "generic"},
        "routes": [{"endpoint": "pay", "path": "/pay", "policy": "REQUIRED_A"}],
    })
}

fn claims() -> Change {
    let claims = json!({
        "https://example.com/tenant": {"id": "acme"}, "roles (50%)": ["shop", "other"], "a)b": {"id": "alice"}, "number": 4711,
    });
    Change::Metadata(Map::from_iter([("e2e.claims".to_owned(), claims)]))
}

fn start() -> Result<TestGateway> {
    let spec = |tenant: Value| ListenerSpec {
        policy: policy(&tenant).to_string(),
        changes: vec![Change::EveryPath, Change::NoAuthentication, claims()],
    };
    TestGateway::start(&[
        (READ.to_owned(), spec(json!(["https://example.com/tenant", "id"]))),
        (NUMBER.to_owned(), spec(json!("number"))),
    ])
}

/// Filters of a dynamic module as somebody writes them who does not know what belongs to them.
fn start_dynamic_modules() -> Result<TestGateway> {
    let filter = json!({"name": "edge-idempotency", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
        "dynamic_module_config": {"module": {"local": {"filename": tools()?.filter.path()}}, "do_not_close": true},
        "filter_name": "edge-idempotency",
        "filter_config": {
            "@type": "type.googleapis.com/google.protobuf.StringValue", "value": policy(&json!("tenant")).to_string(),
        },
    }});
    let object = |text: &str| {
        Change::Before(json!({"name": "envoy.filters.http.set_filter_state", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config",
            "on_request_headers": [{
                "object_key": "edge_idempotency.metadata.e2e.claims", "factory_key": "envoy.string",
                "format_string": {"text_format_source": {"inline_string": text}},
            }],
        }}))
    };
    let spec = |before: Vec<Change>| ListenerSpec {
        policy: String::new(),
        changes: [vec![Change::EveryPath, Change::NoAuthentication], before, vec![Change::Instead(filter.clone())]]
            .concat(),
    };
    TestGateway::start(&[
        (WITHOUT.to_owned(), spec(vec![claims()])),
        (AS_TEXT.to_owned(), spec(vec![claims(), object("e2e.claims=%DYNAMIC_METADATA(e2e.claims)%")])),
        (NOTHING.to_owned(), spec(vec![object("%DYNAMIC_METADATA(e2e.claims)%")])),
    ])
}

fn request() -> Request {
    Request::post("/pay").header("idempotency-key", "order-1").body("{}")
}

fn tenant(gateway: &TestGateway, listener: &str) -> Result<()> {
    let seen = gateway.http1(listener, &request())?;
    ensure!(seen.reply.status == 200, "{}", seen.reply.json());
    let got = seen.received.first().context("nothing was forwarded")?;
    let key = got.headers.iter().find(|(name, _)| name == "idempotency-key").context("no key")?;
    let key = String::from_utf8_lossy(&key.1).into_owned();
    ensure!(key.contains("acme:shop:user:alice"), "the key is {key}");
    Ok(())
}

fn refused(gateway: &TestGateway, listener: &str, status: u16, code: &str) -> Result<()> {
    let seen = gateway.http1(listener, &request())?;
    ensure!(seen.reply.status == status && seen.received.is_empty(), "{}: {}", seen.reply.status, seen.reply.json());
    ensure!(seen.reply.json().get("code").is_some_and(|found| found == code), "{}", seen.reply.json());
    Ok(())
}

fn missing(gateway: &TestGateway) -> Result<()> {
    refused(gateway, WITHOUT, 503, "policy_invalid")?;
    gateway.until("the log says what to add", |gateway| {
        let log = gateway.log()?;
        Ok(log.contains("[critical]") && log.contains("edge_idempotency.metadata") && log.contains("e2e.claims"))
    })
}
