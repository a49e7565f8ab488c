//! What members of a policy mean together.

use super::{GONE, Row, base, route, row};
use serde_json::json;

/// What members mean together.
pub(super) fn relations() -> Vec<Row> {
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
        // The method is no part of what a backend stores results under.
        row(
            [("/routes/0/methods", json!(["POST", "GET", "PUT", "HEAD", "DELETE"]))],
            [(
                "/routes/0/methods",
                "POST and PUT and DELETE share one `target`, and the backend stores a result under",
            )],
        ),
        row([("/routes/0/methods", json!(["PUT", "GET", "HEAD"]))], []),
        row([("/routes/0/methods", json!(["POST", "PUT"])), ("/routes/0/target", json!(GONE))], []),
        // What only Restate has.
        row(
            [("/backend/kind", json!("generic")), ("/routes/0/one_way", json!(true))],
            [("/routes/0/one_way", "only a backend of kind `restate` takes one-way requests")],
        ),
        row(
            [("/backend/kind", json!("generic")), ("/backend/paths", json!("v1"))],
            [("/backend/paths", "only a backend of kind `restate` has these paths")],
        ),
        // Results are found by the id of their invocation, which has to be looked up somewhere.
        row(
            [("/backend/cluster", json!(GONE))],
            [(
                "/backend",
                "results can be recovered (orders.create), and under Restate's paths `v2` the filter first asks",
            )],
        ),
        row(
            [
                ("/backend/cluster", json!(GONE)),
                ("/backend/rewrite_path", json!(false)),
                ("/backend/paths", json!("v2")),
            ],
            [(
                "/backend",
                "name the gateway's cluster of Restate, e.g. `\"cluster\": \"restate\"`; or write `\"paths\": \"v1\"`",
            )],
        ),
        row([("/backend/cluster", json!(GONE)), ("/backend/paths", json!("v1"))], []),
        row([("/backend/cluster", json!(GONE)), ("/routes/0/recovery", json!(false))], []),
        row([("/backend/cluster", json!(GONE)), ("/routes/0/policy", json!("HANDLER_INTERNAL_C"))], []),
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
            [
                ("/backend/cluster", json!(GONE)),
                ("/backend/paths", json!("v1")),
                ("/routes/0/collision", json!("observe")),
            ],
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
            [("/routes/3/path", "`/restate` is closed to clients (/backend/reserved_paths, or")],
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
                "no provider `acme_hooks` is known; describe it in /webhooks/providers, or name one of ",
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
