//! What `render` does with backends: which upstream gets which requests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Command, Output};

fn document(backends: Value) -> Value {
    let mut document = json!({
        "version": 1, "unmatched": "PROHIBITED",
        "identity": {"sources": [{"name": "a", "headers_owned_by": "envoy.filters.http.ext_authz", "tenant": "x-t", "project": "x-p",
            "subject": {"field": "x-s", "type": "user"}}]},
        "routes": [{"endpoint": "o", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create", "collision": "enforce"}],
    });
    document.as_object_mut().unwrap().extend(backends.as_object().unwrap().clone());
    document
}

fn render(document: &Value, upstreams: &[&str]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(["render", "envoy", "--policy"]).arg(file.path());
    command.args(upstreams.iter().map(|name| format!("--upstream={name}=http://127.0.0.1:9000")));
    command.output().unwrap()
}

/// The clusters that routes lead to, each with the name of the route.
fn routes(output: &Output) -> BTreeSet<[String; 2]> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config: Value = serde_saphyr::from_slice(&output.stdout).unwrap();
    let hosts =
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes";
    let routes = config.pointer(hosts).unwrap().as_array().unwrap().iter();
    let text = |route: &Value, at: &str| route.pointer(at).and_then(Value::as_str).map(str::to_owned);
    routes.filter_map(|route| Some([text(route, "/name")?, text(route, "/route/cluster")?])).collect()
}

fn expected(pairs: &[[&str; 2]]) -> BTreeSet<[String; 2]> {
    pairs.iter().map(|pair| pair.map(str::to_owned)).collect()
}

/// The `cluster` of a generic backend leads to the Restate of its guard: no client's request may go there.
#[test]
fn requests_of_an_api_never_go_to_the_cluster_of_its_guard() {
    let guarded = json!({"kind": "generic", "cluster": "restate", "guard": {}});
    let one = document(json!({"backend": guarded}));
    let told = render(&one, &["restate"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&told.stderr).contains("say where requests go"), "{told:?}");
    assert_eq!(routes(&render(&one, &["restate", "api"])), expected(&[["backend", "api"], ["public", "api"]]));

    let restate = json!({"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}});
    let mut two = document(json!({"backend": "api", "backends": {"api": guarded, "restate": restate}}));
    let moved = json!({"endpoint": "r", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create", "backend": "restate"});
    two["routes"].as_array_mut().unwrap().push(moved);
    let own = [
        ["backend-api", "api"],
        ["backend-restate", "restate-requests"],
        ["public", "api"],
        ["waits-restate", "restate-waits"],
    ];
    assert_eq!(routes(&render(&two, &["restate", "api"])), expected(&own));
}

/// A request for an operation is marked, although no route names its backend.
#[test]
fn a_backend_that_has_operations_only_has_a_route() {
    let operations = json!({"path": "/operations/{operation_id}", "secret": {"env": "S"}});
    let restate = json!({"kind": "restate", "rewrite_path": true, "cluster": "restate", "operations": operations});
    let mut document =
        document(json!({"backend": "api", "backends": {"api": {"kind": "generic"}, "restate": restate}}));
    document["routes"] = json!([{"endpoint": "o", "path": "/orders", "policy": "REQUIRED_A"}]);
    let own = [["backend-restate", "restate-requests"], ["public", "api"], ["waits-restate", "restate-waits"]];
    let output = render(&document, &["restate", "api"]);
    assert_eq!(routes(&output), expected(&own));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("no request reaches it"), "{output:?}");
}

/// Whoever takes the filter out must not send unverified deliveries to an API that never got them.
#[test]
fn a_webhook_of_another_backend_has_no_way_without_the_mark() {
    let restate = json!({"kind": "restate", "rewrite_path": true, "cluster": "restate"});
    let mut document =
        document(json!({"backend": "api", "backends": {"api": {"kind": "generic"}, "restate": restate}}));
    document["routes"] = json!([
        {"endpoint": "hook", "path": "/hooks/{webhook_id}", "policy": "REQUIRED_B", "target": "Hooks/take", "backend": "restate",
         "webhook": {"provider": "stripe"}},
        {"endpoint": "own", "path": "/own/{webhook_id}", "policy": "REQUIRED_B", "webhook": {"provider": "stripe"}},
    ]);
    let own = [["backend-restate", "restate-requests"], ["own", "api"], ["public", "api"]];
    assert_eq!(routes(&render(&document, &["restate", "api"])), expected(&own));
}
