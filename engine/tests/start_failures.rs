//! Every reason why a policy document does not start the filter, with its JSON pointer; all of them at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use edge_idempotency_engine::Policy;
use edge_idempotency_engine::json::Issue;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[path = "start_failures/callers.rs"]
mod callers;

/// A document that starts; each row breaks it.
fn base() -> Value {
    json!({
        "version": 1,
        "identity": {
            "sources": [{
                "name": "jwt",
                "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                "tenant": "tenant_id",
                "project": "project_id",
                "subject": {"field": "sub", "type": "user"}
            }]
        },
        "backend": {"rewrite_path": true, "cluster": "restate", "guard": {}},
        "routes": [
            {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create"},
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
            {"endpoint": "carts.get", "methods": ["GET"], "path": "/carts/{cart_id}", "policy": "PROHIBITED"}
        ],
        "webhooks": {
            "static": {
                "wh_01JABCDEF": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": "WHSEC"}]}
            }
        }
    })
}

/// What is changed, and what is said: pointers and words, in this order.
#[derive(Clone)]
struct Row {
    changes: Vec<(&'static str, Value)>,
    expected: Vec<(&'static str, &'static str)>,
}

fn row<const C: usize, const E: usize>(
    changes: [(&'static str, Value); C],
    expected: [(&'static str, &'static str); E],
) -> Row {
    Row { changes: changes.to_vec(), expected: expected.to_vec() }
}

/// Stands for a member that is left out.
const GONE: &str = "(gone)";

/// Puts a value in its place; `-` is the place behind the last item.
fn put(document: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap_or_else(|| panic!("{parent} is not there")) {
        Value::Array(items) if name == "-" => items.push(value.clone()),
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(members) if value == GONE => drop(members.shift_remove(name).expect(pointer)),
        Value::Object(members) => drop(members.insert(name.replace("~1", "/"), value.clone())),
        other => panic!("{parent} is {other}"),
    }
}

fn errors(document: &[u8]) -> Vec<Issue> {
    Policy::from_json(document).err().map(|errors| errors.0).unwrap_or_default()
}

fn document_errors(document: &Value) -> Vec<Issue> {
    errors(document.to_string().as_bytes())
}

fn changed(row: &Row) -> Value {
    let mut document = base();
    row.changes.iter().for_each(|(pointer, value)| put(&mut document, pointer, value));
    document
}

fn route(endpoint: &str, path: &str, more: Value) -> Value {
    let mut route = json!({"endpoint": endpoint, "path": path, "policy": "PROHIBITED"});
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    route
}

/// What members mean together.
fn relations() -> Vec<Row> {
    let cart =
        |target: &str| route("carts.x", "/carts/{cart_id}/{item}", json!({"policy": "ACCEPTED", "target": target}));
    vec![
        // Endpoints and routes that conflict name the other one.
        row(
            [("/routes/-", route("orders.create", "/x", json!({})))],
            [("/routes/3/endpoint", "the endpoint `orders.create` is declared at /routes/0 already")],
        ),
        row(
            [("/routes/-", route("x", "/orders", json!({"methods": ["PUT", "POST"]})))],
            [("/routes/3/path", "`/orders` takes the same requests (POST) as `/orders`, orders.create of /routes/0")],
        ),
        row(
            [("/routes/-", route("x", "/carts/{id}", json!({"methods": ["HEAD", "GET"]})))],
            [(
                "/routes/3/path",
                "`/carts/{id}` takes the same requests (HEAD, GET) as `/carts/{cart_id}`, carts.get of /routes/2",
            )],
        ),
        row(
            [
                ("/routes/-", route("x", "/x", json!({"hosts": ["a.example.com", "*.example.com"]}))),
                ("/routes/-", route("y", "/x", json!({"hosts": ["*.example.com", "a.example.com"]}))),
            ],
            [("/routes/4/path", "x of /routes/3")],
        ),
        row([("/routes/-", route("x", "/orders", json!({"hosts": ["a.example.com"]})))], []),
        row([("/routes/-", route("x", "/orders", json!({"methods": ["GET"]})))], []),
        row([("/routes/-", route("x", "/carts/mine", json!({"methods": ["GET"]})))], []),
        row([("/routes/0/hosts", json!(["a.example.com", "a.example.com"]))], []),
        // Policies.
        row(
            [("/routes/1/webhook", json!(GONE))],
            [("/routes/1/policy", "`REQUIRED_B` verifies a webhook: the route needs a `webhook` block")],
        ),
        row(
            [("/routes/1/policy", json!("REQUIRED_A"))],
            [("/routes/1/webhook", "`REQUIRED_A` and `webhook` exclude each other")],
        ),
        row(
            [("/routes/1/policy", json!("PROHIBITED"))],
            [("/routes/1/webhook", "`PROHIBITED` and `webhook` exclude each other")],
        ),
        row([("/routes/1/policy", json!("ACCEPTED"))], []),
        row([("/routes/1/policy", json!("HANDLER_INTERNAL_C"))], []),
        row(
            [("/identity", json!(GONE)), ("/routes/2/policy", json!("ACCEPTED"))],
            [
                ("/routes/0/policy", "`REQUIRED_A` namespaces keys with the caller's identity, and no `identity` says"),
                ("/routes/2/policy", "`ACCEPTED` namespaces keys with the caller's identity, and no `identity` says"),
            ],
        ),
        row([("/identity", json!(GONE)), ("/routes/0/identity", base()["identity"].clone())], []),
        row(
            [
                ("/identity", json!(GONE)),
                ("/routes/0/policy", json!("PROHIBITED")),
                ("/routes/0/target", json!("Orders/{tenant}/list")),
            ],
            [("/routes/0/target", "the target names parts of an identity, and no `identity` says")],
        ),
        // What needs a target, or a key.
        row(
            [("/routes/0/target", json!(GONE)), ("/routes/0/recovery", json!(true))],
            [("/routes/0/recovery", "only a REQUIRED_A or ACCEPTED route with a `target` can be recovered from")],
        ),
        row([("/routes/2/recovery", json!(true))], [("/routes/2/recovery", "can be recovered from")]),
        row([("/routes/1/recovery", json!(true))], [("/routes/1/recovery", "can be recovered from")]),
        row([("/routes/2/recovery", json!(false)), ("/routes/0/recovery", json!(true))], []),
        row(
            [("/backend", json!({"kind": "generic"})), ("/routes/0/recovery", json!(true))],
            [("/routes/0/recovery", "only a backend of kind `restate` can be asked for what it has stored")],
        ),
        row(
            [("/routes/2/path", json!("/orders/by-idempotency-key/{key}"))],
            [(
                "/routes/2/path",
                "`/orders/by-idempotency-key/…` recovers results of orders.create, /routes/0; set its `recovery` to false, \
                 or choose another path",
            )],
        ),
        row(
            [
                ("/routes/0/path", json!("/")),
                (
                    "/routes/2",
                    json!({"endpoint": "b", "methods": ["PUT"], "path": "/", "policy": "ACCEPTED", "target": "Orders/put"}),
                ),
            ],
            [(
                "/routes/2/recovery",
                "`/by-idempotency-key/…` recovers results of orders.create, /routes/0; set `recovery` to false on one of \
                 the two",
            )],
        ),
        row(
            [("/routes/0/target", json!(GONE)), ("/routes/0/one_way", json!(true))],
            [("/routes/0/one_way", "a one-way route needs a `target` to send to")],
        ),
        row(
            [("/routes/2/query", json!(["page"]))],
            [("/routes/2/query", "the query is only chosen from where the path is rewritten to a `target`")],
        ),
        row(
            [("/backend/rewrite_path", json!(false)), ("/routes/0/query", json!(["page"]))],
            [("/routes/0/query", "where the path is rewritten")],
        ),
        // Collision detection.
        row(
            [("/routes/2/collision", json!("observe"))],
            [("/routes/2/collision", "only a REQUIRED_A or ACCEPTED route with a `target` has keys that can collide")],
        ),
        row(
            [("/backend/guard", json!(GONE)), ("/routes/0/collision", json!("enforce"))],
            [("/routes/0/collision", "collision detection needs /backend/guard, and /backend/cluster to call it")],
        ),
        row(
            [("/backend/cluster", json!(GONE)), ("/routes/0/collision", json!("observe"))],
            [("/routes/0/collision", "needs /backend/guard")],
        ),
        row(
            [("/routes/0/collision", json!("enforce")), ("/routes/0/guard_failure", json!("refuse"))],
            [("/routes/0/guard_failure", "`refuse` is not supported by this version")],
        ),
        row([("/routes/0/collision", json!("enforce"))], []),
        // What is closed to clients.
        row(
            [("/unmatched", json!("PROHIBITED"))],
            [("/unmatched", "only `REJECT` goes with `rewrite_path`: every path would lead into the backend")],
        ),
        row([("/unmatched", json!("HANDLER_INTERNAL_C"))], [("/unmatched", "only `REJECT` goes with `rewrite_path`")]),
        row([("/unmatched", json!("PROHIBITED")), ("/backend/rewrite_path", json!(false))], []),
        row(
            [("/routes/-", route("x", "/restate/health", json!({})))],
            [("/routes/3/path", "`/restate` is closed to clients (/backend/reserved_paths)")],
        ),
        row([("/routes/-", route("x", "/restated", json!({})))], []),
        row(
            [("/routes/-", route("x", "/Orders/list", json!({})))],
            [("/routes/3/path", "`/Orders` is the path of a target's service and so closed to clients")],
        ),
        row([("/routes/-", route("x", "/IdempotencyGuard", json!({})))], [("/routes/3/path", "closed to clients")]),
        row([("/routes/-", route("x", "/orders/list", json!({})))], []),
        row(
            [("/backend/reserved_paths", json!(["/Orders"]))],
            [("/routes/0/target", "the service's path is one of /backend/reserved_paths")],
        ),
        // Targets.
        row(
            [("/routes/0/target", json!("Orders"))],
            [("/routes/0/target", "a target is `Service/handler` or `Service/{object key}/handler`")],
        ),
        row(
            [("/routes/0/target", json!("Or ders/create"))],
            [("/routes/0/target", "service and handler are [A-Za-z_][A-Za-z0-9._-]*")],
        ),
        row([("/routes/-", cart("Cart/{cart/get"))], [("/routes/3/target", "a `{` is not closed")]),
        row(
            [("/routes/-", cart("Cart/{basket_id}/get"))],
            [(
                "/routes/3/target",
                "`{basket_id}` is neither a parameter of the route's path nor tenant, project or subject",
            )],
        ),
        row([("/routes/-", cart("Cart//get"))], [("/routes/3/target", "the object key is empty")]),
        row([("/routes/-", cart("Cart/é/get"))], [("/routes/3/target", "`é`: literal text in an object key is")]),
        row(
            [("/routes/-", cart("Cart/{tenant}-{cart_id}/get"))],
            [(
                "/routes/3/target",
                "put a `:` between the placeholders of an object key: without it different values give the same key",
            )],
        ),
        row(
            [("/routes/-", cart("Cart/{cart_id}:{tenant}:{item}/get"))],
            [("/routes/3/target", "tenant, project and subject cannot stand between two parameters of an object key")],
        ),
        row(
            [("/routes/0/scope", json!("tenant")), ("/routes/0/target", json!("Orders/{project}/create"))],
            [("/routes/0/target", "the route's scope has no project to put for `{project}`")],
        ),
        row(
            [("/routes/0/path", json!("/{tenant}/orders"))],
            [(
                "/routes/0/path",
                "`{tenant}` stands for the caller's own tenant in a target; call the parameter something else",
            )],
        ),
        // Headers.
        row(
            [("/backend/keep_headers", json!(["cookie", "Idempotency_Key", "x-http-method", "X-Edge-Idempotency"]))],
            [
                ("/backend/keep_headers/1", "`idempotency_key` never reaches the backend as a client sent it"),
                ("/backend/keep_headers/2", "`x-http-method` never reaches"),
                ("/backend/keep_headers/3", "`x-edge-idempotency` never reaches"),
            ],
        ),
        row(
            [
                ("/identity/forward", json!({"tenant": "x-tenant-id"})),
                ("/backend/keep_headers", json!(["x_tenant_id"])),
            ],
            [("/backend/keep_headers/0", "`x_tenant_id` never reaches")],
        ),
        row(
            [("/identity/forward", json!({"tenant": "x-id", "project": "x-project", "subject": "X-ID"}))],
            [("/identity/forward", "tenant, project and subject need headers of their own")],
        ),
        // Webhooks.
        row(
            [("/routes/1/path", json!("/hooks"))],
            [
                ("/routes/1/webhook", "the path has no `{provider}`: add it, or fix it with `\"provider\"`"),
                ("/routes/1/webhook", "the path has no `{webhook_id}`: add it, or fix it with `\"id\"`"),
            ],
        ),
        row(
            [("/routes/1/webhook", json!({"provider": "acme_hooks"}))],
            [(
                "/routes/1/webhook/provider",
                "no provider `acme_hooks` is known; describe it in /webhooks/providers, or name one of adyen,",
            )],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/provider", json!("acme_hooks"))],
            [("/webhooks/static/wh_01JABCDEF/provider", "no provider `acme_hooks` is known")],
        ),
        row(
            [("/routes/1/webhook", json!({"provider": "calendly"}))],
            [(
                "/routes/1/webhook/provider",
                "`calendly` sends no identifier to make a key of: let the handler deduplicate (`HANDLER_INTERNAL_C`)",
            )],
        ),
        row(
            [("/routes/1/webhook", json!({"provider": "calendly"})), ("/routes/1/policy", json!("HANDLER_INTERNAL_C"))],
            [],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets", json!(GONE))],
            [("/webhooks/static/wh_01JABCDEF", "a binding needs `secrets`")],
        ),
        row(
            [
                ("/webhooks/static/wh_01JABCDEF/secrets", json!(GONE)),
                ("/webhooks/openbao", json!({"cluster": "openbao"})),
            ],
            [],
        ),
        row(
            [("/webhooks/unkey", json!({"cluster": "unkey"}))],
            [("/webhooks/unkey", "its bindings hold no secrets: say with `openbao` where those are looked up")],
        ),
        row([("/webhooks/openbao", json!({}))], [("/webhooks/openbao", "the member `cluster` is missing")]),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "cache_ttl_s": 600, "stale_if_error_s": 301}))],
            [("/webhooks/openbao", "`cache_ttl_s` and `stale_if_error_s` make at most 900 seconds together")],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "authority": "a b", "mount": "a//b", "token": "planted"}))],
            [
                ("/webhooks/openbao/mount", "expected segments of A-Z a-z 0-9 . _ ~ : -"),
                ("/webhooks/openbao/authority", "expected a host, with a port if it needs one"),
                ("/webhooks/openbao/token", "a secret in the document shows in the gateway's config dump"),
            ],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "path": "{tenant}{project}:{provider}"}))],
            [("/webhooks/openbao/path", "nothing separates the values: put a `:` or a `/` between them")],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "path": "{tenant}:{project}"}))],
            [("/webhooks/openbao/path", "each of {tenant}, {project} and {provider} has to be there once")],
        ),
        row(
            [
                ("/webhooks/openbao", json!({"cluster": "c"})),
                ("/webhooks/unkey", json!({"cluster": "c", "path": "v2", "root_key": "planted"})),
            ],
            [
                ("/webhooks/unkey/path", "expected a path such as `/v2/keys.verifyKey`"),
                ("/webhooks/unkey/root_key", "a secret in the document shows in the gateway's config dump"),
            ],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets", json!(["whsec_planted"]))],
            [(
                "/webhooks/static/wh_01JABCDEF/secrets/0",
                "a secret in the document shows in the gateway's config dump: write {\"env\": \"NAME\"}",
            )],
        ),
        row(
            [
                ("/webhooks/static/wh_01JABCDEF/secrets", json!(["whsec_planted"])),
                ("/allow_inline_secrets", json!(true)),
            ],
            [],
        ),
        row(
            [("/retention", json!({"classes": {"a": "1h"}, "services": {"Orders": {"class": "b"}}}))],
            [("/retention/services/Orders/class", "no class `b` in /retention/classes")],
        ),
    ]
}

/// What a single member cannot be.
fn values() -> Vec<Row> {
    let source = "/identity/sources/0";
    let header_source = |tenant: &str| json!({"name": "h", "headers_owned_by": "ext_authz", "tenant": tenant, "project": "x-p", "subject": {"field": "x-s"}});
    vec![
        row([("/verison", json!(1))], [("/verison", "unknown member `verison`; did you mean `version`?")]),
        row(
            [("/plugins", json!({}))],
            [("/plugins", "unknown member `plugins`; known here: `$schema`, `version`, `mode`")],
        ),
        row([("/version", json!(GONE))], [("", "the member `version` is missing")]),
        row([("/routes", json!(GONE))], [("", "the member `routes` is missing")]),
        row([("/version", json!(2))], [("/version", "expected an integer from 1 to 1")]),
        row([("/version", json!("1"))], [("/version", "expected an integer, found a string")]),
        row([("/mode", json!("Shadow"))], [("/mode", "expected one of `enforce`, `shadow`, found `Shadow`")]),
        row([("/routes", json!({}))], [("/routes", "expected an array, found an object")]),
        row([("/routes/0", json!([]))], [("/routes/0", "expected an object, found an array")]),
        row([("/routes/0/one_way", json!("yes"))], [("/routes/0/one_way", "expected true or false, found a string")]),
        row([("/docs_url", json!(1.5))], [("/docs_url", "expected a string, found a number")]),
        row(
            [("/docs_url", json!("https://a/#b"))],
            [("/docs_url", "expected an absolute http or https URL without a fragment")],
        ),
        row(
            [("/recovery", json!({"wait_ms": 600_001}))],
            [("/recovery/wait_ms", "expected an integer from 0 to 600000")],
        ),
        row(
            [("/telemetry", json!({"max_series": 0}))],
            [("/telemetry/max_series", "expected an integer from 1 to 1000000")],
        ),
        row(
            [("/routes/0/max_body_bytes", json!(1 << 31))],
            [("/routes/0/max_body_bytes", "expected an integer from 1 to 1073741824")],
        ),
        row(
            [("/retention", json!({"classes": {"a/b": "1 day"}}))],
            [("/retention/classes/a~1b", "a duration is a count and a unit: `30s`")],
        ),
        row([("/backend/cluster", json!(""))], [("/backend/cluster", "expected some text")]),
        row([("/backend/guard", json!({"service": "a/b"}))], [("/backend/guard/service", "service and handler are")]),
        row(
            [("/backend/operation_id", json!({"from": "a b"}))],
            [
                ("/backend/operation_id/from", "expected a header name"),
                ("/backend/operation_id", "the member `to` is missing"),
            ],
        ),
        row(
            [("/backend/hide_headers", json!(["x*"]))],
            [("/backend/hide_headers/0", "expected a header name, or the beginning of one followed by *")],
        ),
        row([("/backend/keep_headers", json!(["x-*"]))], [("/backend/keep_headers/0", "expected a header name")]),
        row(
            [("/backend/reserved_paths", json!(["/a/", "/", "a", "/%5c"]))],
            [
                ("/backend/reserved_paths/0", "write it in its normalised spelling, `/a`, and not the root"),
                ("/backend/reserved_paths/1", "and not the root"),
                ("/backend/reserved_paths/2", "The request target is no absolute path"),
                ("/backend/reserved_paths/3", "The path holds a backslash"),
            ],
        ),
        // Identity.
        row([("/identity/sources", json!([]))], [("/identity/sources", "name at least one identity source")]),
        row([("/identity/sources", json!(GONE))], [("/identity", "the member `sources` is missing")]),
        row(
            [("/identity/sources/-", base()["identity"]["sources"][0].clone())],
            [("/identity/sources/1", "a source named `jwt` stands before")],
        ),
        row(
            [("/identity/subject_types", json!(["Robot"]))],
            [("/identity/subject_types/0", "a subject type is [a-z][a-z0-9_]*")],
        ),
        row([("/identity/sources/0/metadata", json!(GONE))], [(source, "a source has either `metadata`")]),
        row([("/identity/sources/0/headers_owned_by", json!("x"))], [(source, "a source has either `metadata`")]),
        row(
            [("/identity/sources/0/metadata", json!([]))],
            [("/identity/sources/0/metadata", "name the filter's metadata namespace")],
        ),
        row([("/identity/sources/0/tenant", json!([]))], [("/identity/sources/0/tenant", "name the member")]),
        row(
            [("/identity/sources/0/tenant", json!(["a", "b\0"]))],
            [("/identity/sources/0/tenant/1", "expected some text")],
        ),
        row(
            [("/identity/sources/-", header_source("x_t"))],
            [("/identity/sources/1/tenant", "write the header with - instead of _")],
        ),
        row(
            [("/identity/sources/-", header_source("Host"))],
            [("/identity/sources/1/tenant", "`host` has a meaning of its own")],
        ),
        row(
            [("/identity/sources/-", header_source("idempotency-key"))],
            [("/identity/sources/1/tenant", "`idempotency-key` has a meaning of its own")],
        ),
        // Routes.
        row(
            [("/routes/0/endpoint", json!("_x"))],
            [("/routes/0/endpoint", "a name is 1 to 128 of A-Z a-z 0-9 . _ - and does not begin with _")],
        ),
        row(
            [("/routes/0/methods", json!([]))],
            [("/routes/0/methods", "list at least one method, or leave the member out (`[\"POST\"]`)")],
        ),
        row(
            [("/routes/0/methods", json!(["post", "CONNECT"]))],
            [
                ("/routes/0/methods/0", "expected a method in upper case, such as `POST`"),
                ("/routes/0/methods/1", "CONNECT has no path to route by"),
            ],
        ),
        row(
            [("/routes/0/hosts", json!(["a.example.com:443", "A.example.com"]))],
            [
                ("/routes/0/hosts/0", "expected a host without port"),
                (
                    "/routes/0/hosts/1",
                    "hosts are compared byte for byte, and clients send them in lower case: write `a.example.com`",
                ),
            ],
        ),
        row(
            [("/routes/0/query", json!(["a b", "Delay"]))],
            [
                ("/routes/0/query/0", "expected a query parameter's name"),
                ("/routes/0/query/1", "`Delay` steers the backend itself and never comes from a client"),
            ],
        ),
        row([("/routes/2/path", json!("carts"))], [("/routes/2/path", "a path begins with a slash")]),
        row(
            [("/routes/2/path", json!("/{Cart}"))],
            [("/routes/2/path", "`{Cart}`: a parameter's name is [a-z][a-z0-9_]*")],
        ),
        row(
            [("/routes/2/path", json!("/{a}/{a}"))],
            [("/routes/2/path", "the parameter `{a}` stands in the path twice")],
        ),
        row(
            [("/routes/2/path", json!("/cart-{id}"))],
            [("/routes/2/path", "`cart-{id}`: a parameter takes a whole segment, as in /{name}/")],
        ),
        row([("/routes/2/path", json!("/a%2Fb"))], [("/routes/2/path", "%2F can only stand in a parameter's value")]),
        row(
            [("/routes/2/path", json!("/a//b/"))],
            [("/routes/2/path", "no request can match it, since paths are normalised first: write it as `/a/b`")],
        ),
        row(
            [("/routes/2/path", json!("/a%zz"))],
            [("/routes/2/path", "The path holds a % that is not followed by two hexadecimal digits")],
        ),
        row([("/routes/2/path", json!("/a%00"))], [("/routes/2/path", "The path holds an escaped zero byte")]),
        row([("/routes/2/path", json!("/a;b"))], [("/routes/2/path", "The path holds a semicolon")]),
        row(
            [("/routes/2/path", json!("/a b"))],
            [("/routes/2/path", "The path holds a space, a control character or #")],
        ),
        // Webhooks.
        row(
            [("/routes/1/webhook", json!({"provider": "Stripe", "id": "short"}))],
            [
                ("/routes/1/webhook/provider", "a provider's name is [a-z0-9_]+"),
                ("/routes/1/webhook/id", "a webhook id is [A-Za-z0-9_-]{8,64}"),
            ],
        ),
        row(
            [("/webhooks/subject", json!("ingest"))],
            [("/webhooks/subject", "expected `{type}:{id}`, such as `service:webhook-ingest`")],
        ),
        row(
            [("/webhooks/mode", json!("shadow"))],
            [(
                "/webhooks/mode",
                "`shadow` would forward what nobody has verified, in a tenant's name, so it is not offered; ",
            )],
        ),
        row([("/webhooks/mode", json!("dry-run"))], [("/webhooks/mode", "expected one of `enforce`, found `dry-run`")]),
        row(
            [("/webhooks/public_base_url", json!("https://a/b"))],
            [("/webhooks/public_base_url", "expected scheme and host only, such as")],
        ),
        row(
            [("/webhooks/static/short", base()["webhooks"]["static"]["wh_01JABCDEF"].clone())],
            [("/webhooks/static/short", "a webhook id is")],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/tenant", json!("_tenant"))],
            [(
                "/webhooks/static/wh_01JABCDEF/tenant",
                "expected [A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}, neither `.` nor `..`",
            )],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets", json!([]))],
            [("/webhooks/static/wh_01JABCDEF/secrets", "name at least one secret, such as")],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets/0/env", json!("1A"))],
            [(
                "/webhooks/static/wh_01JABCDEF/secrets/0/env",
                "expected the name of an environment variable, [A-Za-z_][A-Za-z0-9_]*",
            )],
        ),
    ]
}

#[test]
fn the_base_starts() {
    assert_eq!(document_errors(&base()), []);
}

fn compare(row: &Row, found: &[Issue]) {
    let told = format!("{:?}\n  expected {:?}\n  found {found:?}", row.changes, row.expected);
    assert_eq!(found.len(), row.expected.len(), "{told}");
    for ((pointer, words), issue) in row.expected.iter().zip(found) {
        assert!(issue.pointer == *pointer && issue.message.contains(words), "{told}");
    }
}

#[test]
fn every_start_failure_has_its_pointer_and_stands_alone() {
    [values(), relations(), callers::rows()]
        .concat()
        .iter()
        .for_each(|row| compare(row, &document_errors(&changed(row))));
}

#[test]
fn what_is_no_json_is_one_error_of_the_whole_document() {
    let deep = "[".repeat(100_000);
    let texts: [&[u8]; 7] =
        [b"", b"{", b"{} {}", b"[1,]", b"\xff", deep.as_bytes(), br#"{"version": 1, "version": 1, "routes": []}"#];
    for text in texts {
        let found = errors(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].pointer, "");
        assert!(found[0].message.starts_with("not a JSON document: "), "{found:?}");
    }
    assert_eq!(errors(b"null")[0].message, "expected an object, found null");
}

/// Many faults: each is told as if it were the only one, and nothing else is.
#[test]
fn all_errors_come_at_once() {
    let independent = [
        row([("/verison", json!(1))], [("/verison", "")]),
        row([("/mode", json!("Shadow"))], [("/mode", "")]),
        row([("/docs_url", json!("x"))], [("/docs_url", "")]),
        row([("/unmatched", json!("PROHIBITED"))], [("/unmatched", "")]),
        row([("/identity/forward", json!({"tenant": "x-a", "subject": "x-a"}))], [("/identity/forward", "")]),
        row([("/backend/keep_headers", json!(["idempotency-key"]))], [("/backend/keep_headers/0", "")]),
        row([("/routes/0/target", json!("Orders/{nope}/create"))], [("/routes/0/target", "")]),
        row([("/routes/0/recovery", json!("x"))], [("/routes/0/recovery", "")]),
        row([("/routes/1/path", json!("/hooks/{provider}"))], [("/routes/1/webhook", "")]),
        row([("/routes/2/collision", json!("enforce"))], [("/routes/2/collision", "")]),
        row(
            [("/routes/-", route("orders.create", "/restate", json!({})))],
            [("/routes/3/endpoint", ""), ("/routes/3/path", "")],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets/0", json!("whsec_planted"))],
            [("/webhooks/static/wh_01JABCDEF/secrets/0", "")],
        ),
        row(
            [("/callers", json!({"x": {"signature": {}}}))],
            [
                ("/callers/x/signature", ""),
                ("/callers/x/signature", ""),
                ("/callers/x/signature", ""),
                ("/callers/x", ""),
                ("/callers/x", ""),
                ("/callers/x", ""),
            ],
        ),
        row(
            [("/telemetry", json!({"max_series": "x", "key_in_logs": "plain"}))],
            [("/telemetry/max_series", ""), ("/telemetry/key_in_logs", "")],
        ),
    ];
    let mut document = base();
    let mut expected: Vec<&str> = Vec::new();
    for row in &independent {
        row.changes.iter().for_each(|(pointer, value)| put(&mut document, pointer, value));
        expected.extend(row.expected.iter().map(|(pointer, _)| *pointer));
    }
    let found = document_errors(&document);
    let mut pointers: Vec<&str> = found.iter().map(|issue| issue.pointer.as_str()).collect();
    pointers.sort_unstable();
    expected.sort_unstable();
    assert_eq!(pointers, expected, "{found:#?}");
    let text = Policy::from_json(document.to_string().as_bytes()).unwrap_err().to_string();
    assert!(text.starts_with(&format!("the policy document has {} errors:\n  /", expected.len())), "{text}");
    assert_eq!(text.lines().count(), expected.len() + 1, "{text}");
}

/// What a document holds does not end a line of the log.
#[test]
fn an_error_is_one_line() {
    let broken =
        row([("/version\nfake: all is well", json!(1)), ("/routes/0/policy", json!("A\u{85}B\r\u{1b}[2J"))], []);
    let said = Policy::from_json(changed(&broken).to_string().as_bytes()).unwrap_err();
    let lines: Vec<String> = said.0.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with(r"/version\nfake: all is well: unknown member")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(r"found `A\u{85}B\r\u{1b}[2J`")), "{lines:?}");
}

/// The texts in `src/policy` that are sentences: what the code can say about a document. Their variable parts are cut
/// out, and the longest fixed part is kept.
fn messages() -> Vec<(PathBuf, String)> {
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { files(&entry, found) } else { found.push(entry) }
        }
    }
    let mut sources = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy"), &mut sources);
    let regex = |pattern: &str| regex::Regex::new(pattern).unwrap();
    let text = regex(r#""((?:[^"\\]|\\.|\\\n)*)""#);
    let (continued, variable) = (regex(r"\\\n\s*"), regex(r"\{\{|\}\}|\{[a-z_]*\}"));
    let mut messages = Vec::new();
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code = code.lines().filter(is_code).collect::<Vec<_>>().join("\n");
        for found in text.captures_iter(&code) {
            let line = continued.replace_all(&found[1], "").replace("\\\"", "\"");
            let longest = variable.split(&line).max_by_key(|part| part.len()).unwrap().trim();
            if longest.matches(' ').count() >= 2 {
                messages.push((path.clone(), longest.to_owned()));
            }
        }
    }
    messages
}

/// A message that no row shows is a start failure, or a warning, without a test.
#[test]
fn nothing_is_said_that_no_test_shows() {
    let mut said = String::new();
    let mut hear = |text: &[u8]| match Policy::from_json(text) {
        Ok(mut policy) => {
            policy.warnings().iter().for_each(|warning| said += &warning.message);
            said += &policy.summary();
            said += &policy.take_secrets(|_| None).err().map(|errors| errors.to_string()).unwrap_or_default();
            policy.take_secrets(|_| Some(Vec::new())).unwrap();
            policy.weak_secrets().iter().for_each(|issue| said += &issue.message);
        }
        Err(errors) => said += &errors.to_string(),
    };
    let rows = [values(), relations(), callers::rows(), warnings()].concat();
    rows.iter().for_each(|row| hear(changed(row).to_string().as_bytes()));
    hear(b"{} {}");
    hear(br#"{"version": 1, "version": 1}"#);
    let all = messages();
    assert!(all.len() > 60, "only {} messages found in the source", all.len());
    let elsewhere = [
        "a JSON value",                                // never said: any JSON value is one
        "The path holds an escaped slash (%2F) where", // of requests only
        "The path holds a value that is empty, or has . or ..",
        "The Host header is not a host name or address",
        "expected visible ASCII characters", // of variables only
    ];
    let is_shown = |message: &str| said.contains(message) || elsewhere.iter().any(|known| message.starts_with(known));
    let unshown: Vec<_> = all.iter().filter(|(_, message)| !is_shown(message)).collect();
    assert!(unshown.is_empty(), "no row of this test shows {unshown:#?}");
}

/// The base's binding, of another provider, and with more members.
fn binding(provider: &str, more: Value) -> Value {
    let mut binding = base()["webhooks"]["static"]["wh_01JABCDEF"].clone();
    binding["provider"] = provider.into();
    more.as_object().unwrap().iter().for_each(|(name, value)| binding[name] = value.clone());
    binding
}

/// What a start has to say although it succeeds.
fn warnings() -> Vec<Row> {
    vec![
        row([], []),
        row(
            [("/routes/0/hosts", json!(["a.example.com"]))],
            [("/routes", "`hosts` is set on `orders.create`: set `strip_any_host_port: true`")],
        ),
        row([("/mode", json!("shadow"))], [("/mode", "shadow: Case A refusals and key rewrites are not acted on")]),
        row(
            [("/webhooks", json!(GONE))],
            [("/webhooks", "no webhook is bound (`static`, `unkey`): every delivery is answered 404")],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "openbao"}))],
            [("/webhooks/openbao", "never asked: every binding lists its secrets")],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "openbao"})), ("/webhooks/unkey", json!({"cluster": "unkey"}))],
            [(
                "/webhooks/unkey",
                "by default others than before: standard_webhooks, github, shopify; write `key_scope` or `bind_body` into",
            )],
        ),
        row(
            [("/webhooks/static/wh_01GITHUB", binding("github", json!({"key_scope": "webhook"})))],
            [(
                "/webhooks/static/wh_01GITHUB",
                "keys of `github` are by default bound to the body, so they are others than before; write \
                 `\"bind_body\": false` to keep the earlier ones",
            )],
        ),
        row(
            [("/webhooks/static/wh_01STANDARD", binding("standard_webhooks", json!({"bind_body": true})))],
            [(
                "/webhooks/static/wh_01STANDARD",
                "keys of `standard_webhooks` are by default scoped to the webhook, so they are others than before; write \
                 `\"key_scope\": \"project\"` to keep the earlier ones",
            )],
        ),
        row(
            [
                ("/webhooks/static/wh_01GITHUB", binding("github", json!({"bind_body": false}))),
                ("/webhooks/static/wh_02GITHUB", binding("github", json!({"bind_body": true}))),
                ("/webhooks/static/wh_01STANDARD", binding("standard_webhooks", json!({"key_scope": "project"}))),
                ("/webhooks/static/wh_01WOO__", binding("woocommerce", json!({}))),
                ("/webhooks/static/wh_01LINEAR", binding("linear", json!({}))),
            ],
            [],
        ),
        // A provider of the document's own is what the document says.
        row(
            [
                ("/webhooks/static/wh_01GITHUB", binding("github", json!({}))),
                (
                    "/webhooks/providers",
                    json!({"github": {
                        "schemes": [{"algorithm": "hmac-sha256", "signature": {"header": "x-s", "encoding": "hex"}, "template": "{body}"}],
                        "identifiers": [{"header": "x-id", "signed": false}],
                        "retry": {"same_body_on_resend": true}
                    }}),
                ),
            ],
            [],
        ),
        row(
            [("/routes/0/mode", json!("shadow")), ("/routes/0/recovery", json!(true))],
            [("/routes/0/recovery", "not given in shadow mode, where keys are not kept apart")],
        ),
        row([("/routes/0/collision", json!("observe"))], [("/routes/0/collision", "not acted on by this version")]),
        row(
            [("/routes/0/in_flight", json!("conflict"))],
            [("/routes/0/in_flight", "`conflict` is not acted on by this version")],
        ),
        row(
            [
                ("/callers", json!({"timer": callers::timer(json!({}))})),
                (
                    "/identity/sources/-",
                    json!({
                        "name": "headers",
                        "headers_owned_by": "ext_authz",
                        "tenant": "x-tenant-id",
                        "subject": {"field": "x-subject", "type": "client"}
                    }),
                ),
            ],
            [("/callers/timer/routes/0", "an identity source reads `x-tenant-id` too: the filter that owns it")],
        ),
    ]
}

#[test]
fn warnings_have_pointers_too() {
    for row in warnings() {
        let policy = Policy::from_json(changed(&row).to_string().as_bytes()).unwrap();
        compare(&row, policy.warnings());
    }
}
