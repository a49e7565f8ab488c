//! Envoy's configuration: one listener for each variant, which differ in one filter and nothing else.

use std::path::Path;

use serde_json::{Value, json};

use crate::claims;
use crate::delivery;
use crate::policy::{self, IDLE_PATH, OPERATION};
use crate::variant::{Filter, Kind, Variant};

/// Our filter's name, and the type of its configuration.
const FILTER: &str = "edge-idempotency";
const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";

/// What the upstream saw of the request, in a header of its answer.
pub(crate) const SEEN: &str = "x-seen";
const SEEN_FORMAT: &str = "%REQ(:path)%|%REQ(idempotency-key)%|%REQ(x-tenant-id)%|%REQ(x-project-id)%|%REQ(x-subject)%|\
                           %REQ(authorization):3%";

/// The whole configuration; Envoy reads JSON as well as YAML. `socket` is the path at which it is its own store of
/// webhooks and secrets, `guard` the one at which claims are answered.
pub(crate) fn envoy(listeners: &[(&Variant, u16)], socket: &str, guard: &str) -> Value {
    let variants = listeners.iter().enumerate();
    let mut listeners: Vec<Value> =
        variants.map(|(number, (variant, port))| listener(&format!("listener-{number}"), variant, *port)).collect();
    listeners.push(stores(socket));
    let clusters = [cluster(delivery::STORES, socket), cluster(claims::GUARD, guard)];
    json!({"static_resources": {"listeners": listeners, "clusters": clusters}})
}

/// A cluster with one endpoint, a socket.
fn cluster(name: &str, socket: &str) -> Value {
    let endpoint = json!({"endpoint": {"address": {"pipe": {"path": socket}}}});
    json!({
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    })
}

/// Answers what is looked up.
fn stores(socket: &str) -> Value {
    let routes: Vec<Value> = delivery::answers()
        .into_iter()
        .map(|(prefix, answer)| {
            let body = json!({"inline_string": answer.to_string()});
            json!({"match": {"prefix": prefix}, "direct_response": {"status": 200, "body": body}})
        })
        .collect();
    let manager = typed(
        "envoy.filters.network.http_connection_manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": delivery::STORES,
            "route_config": {"virtual_hosts": [{"name": delivery::STORES, "domains": ["*"], "routes": routes}]},
            "http_filters": [router()],
        }),
    );
    json!({
        "name": delivery::STORES,
        "address": {"pipe": {"path": socket}},
        "filter_chains": [{"filters": [manager]}],
    })
}

fn listener(name: &str, variant: &Variant, port: u16) -> Value {
    let filters: Vec<Value> =
        [Some(metadata()), http_filter(name, &variant.filter), Some(router())].into_iter().flatten().collect();
    let manager = typed(
        "envoy.filters.network.http_connection_manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        json!({
            "stat_prefix": name,
            "use_remote_address": true,
            "normalize_path": true,
            "merge_slashes": true,
            "route_config": routes(variant.kind),
            "http_filters": filters,
        }),
    );
    let mut listener = json!({
        "name": name,
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [manager]}],
    });
    if let (Kind::Delivery(_), Some(members)) = (variant.kind, listener.as_object_mut()) {
        members.insert("per_connection_buffer_limit_bytes".to_owned(), delivery::BUFFER.into());
    }
    listener
}

/// An extension: its name, its type, its members.
fn typed(name: &str, type_name: &str, members: Value) -> Value {
    let mut config = json!({"@type": format!("type.googleapis.com/{type_name}")});
    if let (Some(config), Value::Object(members)) = (config.as_object_mut(), members) {
        config.extend(members);
    }
    json!({"name": name, "typed_config": config})
}

/// Leaves the claims where `jwt_authn` does, without the cost of verifying a signature each time.
fn metadata() -> Value {
    typed(
        "envoy.filters.http.set_metadata",
        "envoy.extensions.filters.http.set_metadata.v3.Config",
        json!({"metadata": [{"metadata_namespace": "envoy.filters.http.jwt_authn", "value": {"jwt": policy::claims()}}]}),
    )
}

fn http_filter(name: &str, filter: &Filter) -> Option<Value> {
    match filter {
        Filter::None => None,
        Filter::Buffer => Some(typed(
            "envoy.filters.http.buffer",
            "envoy.extensions.filters.http.buffer.v3.Buffer",
            json!({"max_request_bytes": delivery::BUFFER}),
        )),
        Filter::Lua(script) => Some(typed(
            "envoy.filters.http.lua",
            "envoy.extensions.filters.http.lua.v3.Lua",
            json!({"default_source_code": {"inline_string": script}}),
        )),
        Filter::Discovered(file) => Some(json!({
            "name": FILTER,
            "config_discovery": {
                "config_source": {"resource_api_version": "V3", "path_config_source": {"path": file}},
                "type_urls": [format!("type.googleapis.com/{WASM}")],
            },
        })),
        Filter::Wasm(file, policy) => Some(typed(FILTER, WASM, json!({"config": wasm(name, file, policy.as_ref())}))),
    }
}

/// What a file of [`Filter::Discovered`] holds: our filter with this policy.
pub(crate) fn discovered(module: &Path, policy: &Value) -> Value {
    let mut filter = typed(FILTER, WASM, json!({"config": wasm(FILTER, module, Some(policy))}));
    if let Some(members) = filter.as_object_mut() {
        members.insert("@type".to_owned(), "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig".into());
    }
    json!({"resources": [filter]})
}

/// The configuration of a wasm filter in a VM of its own.
fn wasm(name: &str, file: &Path, policy: Option<&Value>) -> Value {
    let configuration = policy
        .map(|policy| json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": policy.to_string()}));
    json!({
        "name": name,
        "root_id": "edge-idempotency",
        "failure_policy": "FAIL_RELOAD",
        "reload_config": {"backoff": {"base_interval": "1s"}},
        "allow_on_headers_stop_iteration": true,
        "vm_config": {
            "vm_id": name,
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"local": {"filename": file}},
        },
        "configuration": configuration,
    })
}

fn router() -> Value {
    typed("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", json!({}))
}

/// The routes of the demo's gateway, answered by Envoy itself: an upstream's cost would drown what differs. Requests with a
/// body go to an upstream.
fn routes(kind: Kind) -> Value {
    let header = |name: &str, value: &str| json!({"header": {"key": name, "value": value}});
    let answer = |matched: Value, headers: &[Value]| {
        let mut route = json!({"match": matched, "response_headers_to_add": headers});
        let (name, action) = match kind {
            Kind::Order => ("route", json!({"cluster": claims::GUARD})),
            _ => ("direct_response", json!({"status": 200, "body": {"inline_string": "{\"ok\":true}\n"}})),
        };
        if let Some(members) = route.as_object_mut() {
            members.insert(name.to_owned(), action);
        }
        route
    };
    let seen = header(SEEN, SEEN_FORMAT);
    let stored = [seen.clone(), header("x-restate-id", OPERATION)];
    let rewritten = json!({"prefix": "/", "headers": [{"name": "x-edge-idempotency", "present_match": true}]});
    json!({
        "name": "routes",
        "virtual_hosts": [{
            "name": "api",
            "domains": ["*"],
            "routes": [
                answer(rewritten, &stored),
                answer(json!({"path": IDLE_PATH}), std::slice::from_ref(&seen)),
                answer(json!({"path": delivery::PATH}), &[seen]),
                answer(json!({"prefix": "/api/"}), &stored),
            ],
        }],
    })
}
