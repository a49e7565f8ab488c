//! What members of a policy mean together.

use super::callers::timer;
use super::{GONE, Row, base, route, row};
use serde_json::json;

/// What members mean together.
pub(super) fn relations() -> Vec<Row> {
    vec![
        // Endpoints and routes that conflict name the other one.
        row(
            [("/routes/-", route("orders.create", "/x", json!({})))],
            [(
                "/routes/3/endpoint",
                "the endpoint `orders.create` is already declared at /routes/0: give one of the two another name",
            )],
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
                ("/routes/0/policy", "`REQUIRED_A` puts the caller's identity into keys"),
                ("/routes/2/policy", "`ACCEPTED` puts the caller's identity into keys"),
            ],
        ),
        row([("/identity", json!(GONE)), ("/routes/0/identity", base()["identity"].clone())], []),
        row(
            [
                ("/identity", json!(GONE)),
                ("/routes/0/policy", json!("PROHIBITED")),
                ("/routes/0/target", json!("Orders/{tenant}/list")),
            ],
            [(
                "/routes/0/target",
                "the target names tenant, project or subject: add `identity`, which says where they come from",
            )],
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
        // Results are found by the id of their invocation, which has to be looked up somewhere.
        row(
            [("/backend/cluster", json!(GONE))],
            [(
                "/backend",
                "results can be recovered (orders.create), and the filter first asks Restate for an invocation's id",
            )],
        ),
        row(
            [("/backend/cluster", json!(GONE)), ("/backend/rewrite_path", json!(false))],
            [(
                "/backend",
                "name the gateway's cluster of Restate, e.g. `\"cluster\": \"restate\"`, or write `\"recovery\": false`",
            )],
        ),
        row([("/backend/cluster", json!(GONE)), ("/routes/0/recovery", json!(false))], []),
        row([("/backend/cluster", json!(GONE)), ("/routes/0/policy", json!("HANDLER_INTERNAL_C"))], []),
        // Keys in flight are asked about, at Restate.
        row([("/routes/0/in_flight", json!("conflict"))], []),
        row(
            [("/routes/2/in_flight", json!("conflict"))],
            [(
                "/routes/2/in_flight",
                "`conflict` works only on a REQUIRED_A or ACCEPTED route with a `target` in Restate",
            )],
        ),
        row(
            [("/backend", json!({"kind": "generic", "cluster": "api"})), ("/routes/0/in_flight", json!("conflict"))],
            [("/routes/0/in_flight", "with a `target` in Restate")],
        ),
        row(
            [("/backend/cluster", json!(GONE)), ("/routes/0/in_flight", json!("conflict"))],
            [(
                "/routes/0/in_flight",
                "`conflict` asks Restate before each request: name its cluster in /backend/cluster",
            )],
        ),
        // What needs a target, or a key.
        row(
            [("/routes/0/target", json!(GONE)), ("/routes/0/recovery", json!(true))],
            [("/routes/0/recovery", "results can be recovered only on a REQUIRED_A or ACCEPTED route with a `target`")],
        ),
        row(
            [("/routes/2/recovery", json!(true))],
            [("/routes/2/recovery", "results can be recovered only on a REQUIRED_A or ACCEPTED route with a `target`")],
        ),
        row(
            [("/routes/1/recovery", json!(true))],
            [("/routes/1/recovery", "results can be recovered only on a REQUIRED_A or ACCEPTED route with a `target`")],
        ),
        row([("/routes/2/recovery", json!(false)), ("/routes/0/recovery", json!(true))], []),
        row(
            [("/backend", json!({"kind": "generic"})), ("/routes/0/recovery", json!(true))],
            [("/routes/0/recovery", "results can be recovered only from a backend of kind `restate`")],
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
            [("/routes/2/query", "`query` works only on a route with a `target`, and with `\"rewrite_path\": true`")],
        ),
        row(
            [("/backend/rewrite_path", json!(false)), ("/routes/0/query", json!(["page"]))],
            [("/routes/0/query", "`query` works only on a route with a `target`, and with `\"rewrite_path\": true`")],
        ),
        // The shape of answers.
        row(
            [("/routes/2/answer", json!({"status": 201}))],
            [("/routes/2/answer", "`answer` works only on a route with a `target`, and with `\"rewrite_path\": true`")],
        ),
        row(
            [("/backend/rewrite_path", json!(false)), ("/routes/0/answer", json!({"status": 201}))],
            [("/routes/0/answer", "`answer` works only on a route with a `target`, and with `\"rewrite_path\": true`")],
        ),
        row(
            [("/routes/0/one_way", json!(true)), ("/routes/0/answer", json!({"status": 201}))],
            [("/routes/0/answer", "a one-way target answers before there is a result: remove `answer` or `one_way`")],
        ),
        // What handlers find themselves.
        row(
            [("/routes/0/internal_hit", json!({"body": "/duplicate"}))],
            [(
                "/routes/0/internal_hit",
                "`internal_hit` works only on a HANDLER_INTERNAL_C route, whose handler deduplicates",
            )],
        ),
        row(
            [
                ("/routes/0/policy", json!("HANDLER_INTERNAL_C")),
                ("/routes/0/one_way", json!(true)),
                ("/routes/0/internal_hit", json!({"body": "/duplicate"})),
            ],
            [(
                "/routes/0/internal_hit",
                "a one-way target answers before its handler has run: remove `internal_hit` or `one_way`",
            )],
        ),
        row(
            [
                ("/routes/0/policy", json!("HANDLER_INTERNAL_C")),
                ("/routes/0/internal_hit", json!({"body": "duplicate", "header": "x-hit"})),
            ],
            [
                ("/routes/0/internal_hit/header", "unknown member `header`; the known members are `body`"),
                ("/routes/0/internal_hit/body", "expected a JSON pointer of at most 8 parts, such as `/duplicate`"),
            ],
        ),
        row(
            [
                ("/routes/0/path", json!("/orders/{order_id}")),
                ("/routes/0/answer", json!({"location": "/orders/{oder_id}"})),
            ],
            [(
                "/routes/0/answer/location",
                "`{oder_id}` is neither a parameter of the route's path nor `body:` followed by a JSON",
            )],
        ),
        // The header of future keys.
        row(
            [
                ("/shadow_key_header", json!("future-idempotency-key")),
                ("/mode", json!("shadow")),
                ("/identity/forward", json!({"tenant": "Future-Idempotency-Key"})),
            ],
            [(
                "/shadow_key_header",
                "this policy already uses the header `future-idempotency-key`: choose another one",
            )],
        ),
        row(
            [("/shadow_key_header", json!("x-timer-signature")), ("/callers", json!({"timer": timer(json!({}))}))],
            [("/shadow_key_header", "this policy already uses the header `x-timer-signature`")],
        ),
        row(
            [("/shadow_key_header", json!("x-path-key")), ("/forward", json!({"parameters": "x-path-"}))],
            [("/forward/parameters", "the header `x-path-key`, which this policy uses, has the same beginning")],
        ),
        row(
            [("/shadow_key_header", json!("future-key")), ("/backend/keep_headers", json!(["Future-Key"]))],
            [("/backend/keep_headers/0", "the backend never gets `future-key` as a client sent it")],
        ),
        // The header of keys for handlers.
        row(
            [("/backend/key_header", json!("x-who")), ("/identity/forward", json!({"subject": "X-Who"}))],
            [("/backend/key_header", "this policy already uses the header `x-who`: choose another one")],
        ),
        row(
            [
                ("/backend/key_header", json!("future-key")),
                ("/shadow_key_header", json!("future-key")),
                ("/mode", json!("shadow")),
            ],
            [("/backend/key_header", "this policy already uses the header `future-key`: choose another one")],
        ),
        row(
            [("/backend/key_header", json!("x-timer-signature")), ("/callers", json!({"timer": timer(json!({}))}))],
            [("/backend/key_header", "this policy already uses the header `x-timer-signature`")],
        ),
        row(
            [("/backend/key_header", json!("x-path-key")), ("/forward", json!({"parameters": "x-path-"}))],
            [("/forward/parameters", "the header `x-path-key`, which this policy uses, has the same beginning")],
        ),
        row(
            [("/backend/key_header", json!("x-key")), ("/backend/keep_headers", json!(["X_Key"]))],
            [("/backend/keep_headers/0", "the backend never gets `x_key` as a client sent it")],
        ),
        // Headers.
        row(
            [("/backend/keep_headers", json!(["cookie", "Idempotency_Key", "x-http-method", "X-Edge-Idempotency"]))],
            [
                (
                    "/backend/keep_headers/1",
                    "the backend never gets `idempotency_key` as a client sent it: remove it from this list",
                ),
                (
                    "/backend/keep_headers/2",
                    "the backend never gets `x-http-method` as a client sent it: remove it from this list",
                ),
                (
                    "/backend/keep_headers/3",
                    "the backend never gets `x-edge-idempotency` as a client sent it: remove it from this list",
                ),
            ],
        ),
        row(
            [
                ("/identity/forward", json!({"tenant": "x-tenant-id"})),
                ("/backend/keep_headers", json!(["x_tenant_id"])),
            ],
            [(
                "/backend/keep_headers/0",
                "the backend never gets `x_tenant_id` as a client sent it: remove it from this list",
            )],
        ),
        row(
            [("/identity/forward", json!({"tenant": "x-id", "project": "x-project", "subject": "X-ID"}))],
            [("/identity/forward", "tenant, project and subject need three different headers")],
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
            [("/webhooks/static/wh_01JABCDEF/provider", json!("stripee"))],
            [("/webhooks/static/wh_01JABCDEF/provider", "no provider `stripee` is known; did you mean `stripe`?")],
        ),
        row(
            [("/answers", json!({"retry_headers": ["X-Operation-Id"]}))],
            [(
                "/answers/retry_headers",
                "/backend already uses the header `x-operation-id`: choose another one for the advice",
            )],
        ),
        row(
            [
                ("/answers", json!({"retry_headers": ["x-again"]})),
                ("/backend", json!({"kind": "generic", "replay_headers": ["x-again"]})),
            ],
            [(
                "/answers/retry_headers",
                "/backend already uses the header `x-again`: choose another one for the advice",
            )],
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
            [("/routes/1/webhook/provider", "`calendly` sends no identifier for a key")],
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
            [("/webhooks/unkey", "bindings of `unkey` hold no secrets: add `openbao`, where secrets are looked up")],
        ),
        row([("/webhooks/openbao", json!({}))], [("/webhooks/openbao", "the member `cluster` is missing")]),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "cache_ttl_s": 600, "stale_if_error_s": 301}))],
            [("/webhooks/openbao", "`cache_ttl_s` and `stale_if_error_s` together may be at most 900 seconds")],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "authority": "a b", "mount": "a//b", "token": "planted"}))],
            [
                ("/webhooks/openbao/mount", "expected segments of A-Z a-z 0-9 . _ ~ : -"),
                ("/webhooks/openbao/authority", "expected a host, with a port if it needs one"),
                ("/webhooks/openbao/token", "a secret in the document is visible in the gateway's config dump"),
            ],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "path": "{tenant}{project}:{provider}"}))],
            [("/webhooks/openbao/path", "nothing separates the values: put a `:` or a `/` between them")],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "c", "path": "{tenant}:{project}"}))],
            [(
                "/webhooks/openbao/path",
                "the path has to hold each of {tenant}, {project} and {provider} exactly once",
            )],
        ),
        row(
            [
                ("/webhooks/openbao", json!({"cluster": "c"})),
                ("/webhooks/unkey", json!({"cluster": "c", "path": "v2", "root_key": "planted"})),
            ],
            [
                ("/webhooks/unkey/path", "expected a path such as `/v2/keys.verifyKey`"),
                ("/webhooks/unkey/root_key", "a secret in the document is visible in the gateway's config dump"),
            ],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets", json!(["whsec_planted"]))],
            [(
                "/webhooks/static/wh_01JABCDEF/secrets/0",
                "a secret in the document is visible in the gateway's config dump",
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
