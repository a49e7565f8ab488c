//! What members of a policy mean together.

use super::callers::timer;
use super::{GONE, Row, base, route, row};
use serde_json::{Value, json};

/// What members mean together.
pub(super) fn relations() -> Vec<Row> {
    let cart =
        |target: &str| route("carts.x", "/carts/{cart_id}/{item}", json!({"policy": "ACCEPTED", "target": target}));
    let hook = |target: &str| ("/routes/1/target", json!(target));
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
        // Keys that callers share.
        row(
            [("/routes/1/subject", json!("none")), ("/routes/2/subject", json!("none"))],
            [
                ("/routes/1/subject", "only a REQUIRED_A or ACCEPTED route without `webhook` takes keys of clients"),
                ("/routes/2/subject", "only a REQUIRED_A or ACCEPTED route without `webhook` takes keys of clients"),
            ],
        ),
        row([("/routes/0/subject", json!("none"))], []),
        row(
            [("/routes/0/subject", json!("none")), ("/routes/0/target", json!("Orders/{tenant}:{subject}/create"))],
            [(
                "/routes/0/subject",
                "callers share no results here, because `{subject}` in the target keeps them apart",
            )],
        ),
        row(
            [("/routes/0/subject", json!("none")), ("/callers", json!({"timer": timer(json!({}))}))],
            [(
                "/callers/timer/routes/0",
                "keys of a signed caller are its own, and all callers share those of `orders.create`",
            )],
        ),
        // Constant subjects.
        row([("/identity/sources/0/subject", json!({"value": "service:worker"}))], []),
        row(
            [
                ("/identity/sources/0/subject", json!({"value": "service:timer"})),
                ("/callers", json!({"timer": timer(json!({}))})),
            ],
            [("/identity/sources/0/subject/value", "webhooks or a signed caller have the subject `service:timer`")],
        ),
        row(
            [("/identity/sources/0/subject", json!({"value": "service:webhook-ingest"}))],
            [(
                "/identity/sources/0/subject/value",
                "webhooks or a signed caller have the subject `service:webhook-ingest`",
            )],
        ),
        row(
            [
                ("/identity/sources/0/subject", json!({"value": "service:worker"})),
                ("/identity/sources/0/tenant", json!({"value": "shop"})),
                ("/identity/sources/0/project", json!({"value": "main"})),
            ],
            [("/identity/sources/0", "every part of this source is a constant, so nothing of a request says")],
        ),
        // Rules for keys.
        row(
            [("/key", json!({"format": "uuid", "max_age": "24h"}))],
            [("/key/max_age", "`max_age` needs keys that hold their time: set `format` to `uuid7` or `ulid`")],
        ),
        row(
            [("/key", json!({"format": "uuid", "charset": "visible"}))],
            [(
                "/key/charset",
                "keys of this format have letters, digits and `-` only: leave `charset` or `format` out",
            )],
        ),
        row(
            [(
                "/key",
                json!({"charset": "visible", "pattern": "^order:", "examples": ["order:1", "order:1,2", "order 1"]}),
            )],
            [
                ("/key/examples/1", "this example is refused: The idempotency key holds a space, a comma"),
                ("/key/examples/2", "this example is refused: The idempotency key holds a space, a comma"),
            ],
        ),
        row(
            [("/key", json!({"format": "ulid", "min_length": 27}))],
            [("/key/min_length", "no key can fit: every key of this format has 26 characters")],
        ),
        row(
            [("/key", json!({"pattern": "^r", "min_length": 3, "examples": ["r12", "x12", "r1", "t-r", "r 12"]}))],
            [
                ("/key/examples/1", "this example is refused: it does not match `pattern`"),
                ("/key/examples/2", "this example is refused: The idempotency key is shorter than 3 characters."),
                ("/key/examples/3", "this example is refused: Idempotency keys that begin with t- are reserved."),
                ("/key/examples/4", "this example is refused: The idempotency key holds a character outside"),
            ],
        ),
        row(
            [(
                "/routes/0/key",
                json!({"format": "uuid7", "max_age": "1s", "examples": ["8e03978e-40d5-43e8-bc93-6894a57f9324"]}),
            )],
            [("/routes/0/key/examples/0", "this example is refused: The idempotency key is not a UUID version 7")],
        ),
        // An example is older every day, and stays one.
        row(
            [(
                "/key",
                json!({"format": "uuid7", "max_age": "1s", "examples": ["017f22e2-79b0-7cc3-98c4-dc0c0c07398f"]}),
            )],
            [],
        ),
        row(
            [("/routes/1/key", json!({"min_length": 16})), ("/routes/2/key", json!({}))],
            [
                ("/routes/1/key", "only a REQUIRED_A or ACCEPTED route without `webhook` takes keys of clients"),
                ("/routes/2/key", "only a REQUIRED_A or ACCEPTED route without `webhook`"),
            ],
        ),
        row(
            [
                ("/key", json!({"format": "ulid", "max_age": "25h"})),
                ("/retention", json!({"classes": {"day": "24h"}, "services": {"Orders": {"class": "day"}}})),
            ],
            [(
                "/key/max_age",
                "`25h` is longer than the backend keeps results of Orders (/retention/classes/day), so a late retry of \
                 orders.create would run again",
            )],
        ),
        row(
            [
                ("/key", json!({"format": "ulid", "max_age": "1h"})),
                ("/routes/0/key", json!({"format": "uuid7", "max_age": "2d"})),
                ("/retention", json!({"classes": {"day": "24h"}, "services": {"Orders": {"class": "day"}}})),
            ],
            [("/routes/0/key/max_age", "`2d` is longer than the backend keeps")],
        ),
        row(
            [
                ("/key", json!({"format": "ulid", "max_age": "24h"})),
                ("/retention", json!({"classes": {"day": "1d"}, "services": {"Orders": {"class": "day"}}})),
            ],
            [],
        ),
        row(
            [("/routes/0/on_prohibited", json!("strip")), ("/routes/2/on_prohibited", json!("strip"))],
            [("/routes/0/on_prohibited", "this member works only on a PROHIBITED route, where keys are not allowed")],
        ),
        // Scopes and sources.
        row(
            [("/identity/sources/0/project", json!(GONE))],
            [(
                "/routes/0/scope",
                "orders.create needs a project (scope `project`), and no identity source names one: `jwt`. Give a source a `project`, which may be a constant, or give the route the scope `tenant`",
            )],
        ),
        row([("/identity/sources/0/project", json!(GONE)), ("/routes/0/scope", json!("tenant"))], []),
        row([("/identity/sources/0/project", json!(GONE)), ("/routes/0/policy", json!("PROHIBITED"))], []),
        row(
            [
                ("/identity/sources/0/project", json!(GONE)),
                ("/routes/0/policy", json!("PROHIBITED")),
                ("/routes/0/target", json!("Orders/{tenant}/create")),
            ],
            [("/routes/0/scope", "orders.create needs a project (scope `project`)")],
        ),
        row(
            [(
                "/identity/sources/-",
                json!({"name": "admin", "metadata": ["a"], "tenant": "t", "subject": {"field": "s"}}),
            )],
            [(
                "/identity/sources/1",
                "the source `admin` has no `project`, and every route that uses it needs one (scope `project`), such as \
                 orders.create: give it a `project`, which may be a constant, or remove it",
            )],
        ),
        row(
            [
                (
                    "/identity/sources/-",
                    json!({"name": "admin", "metadata": ["a"], "tenant": "t", "subject": {"field": "s"}}),
                ),
                ("/routes/2/scope", json!("tenant")),
            ],
            [],
        ),
        row(
            [(
                "/routes/0/identity",
                json!({"sources": [{"name": "admin", "metadata": ["a"], "tenant": "t", "subject": {"field": "s"}}]}),
            )],
            [("/routes/0/scope", "no identity source names one: `admin`")],
        ),
        // Path parameters.
        row(
            [
                ("/forward", json!({"parameters": "x-auth-"})),
                ("/identity/forward", json!({"tenant": "x-auth-tenant"})),
                ("/backend/keep_headers", json!(["X-Auth_Extra"])),
            ],
            [
                (
                    "/forward/parameters",
                    "the header `x-auth-tenant`, which this policy uses, has the same beginning: choose another one",
                ),
                (
                    "/backend/keep_headers/0",
                    "the backend never gets `x-auth_extra` as a client sent it: remove it from this list",
                ),
            ],
        ),
        row(
            [
                ("/forward", json!({"parameters": "x-hub-"})),
                ("/webhooks/static/wh_01JABCDEF/provider", json!("github")),
            ],
            [("/forward/parameters", "`x-hub-signature`, which this policy uses")],
        ),
        row([("/routes/-", route("x", "/carts/key:{a}", json!({"methods": ["GET"]})))], []),
        row(
            [
                ("/routes/-", route("x", "/flags/key:{a}", json!({}))),
                ("/routes/-", route("y", "/flags/key:{b}", json!({}))),
                ("/routes/-", route("z", "/flags/key:x{b}", json!({}))),
            ],
            [("/routes/4/path", "`/flags/key:{b}` takes the same requests (POST) as `/flags/key:{a}`, x of /routes/3")],
        ),
        row(
            [("/routes/-", route("x", "/flags/{a}b", json!({})))],
            [("/routes/3/path", "`{a}b`: a parameter is a whole segment, or the rest of a segment after fixed text")],
        ),
        // What a backend's router could take for something else.
        row(
            [("/routes/-", route("x", "/Hooks", json!({})))],
            [(
                "/routes/3/path",
                "`Hooks` differs from `hooks` in `/hooks/{provider}/{webhook_id}`, hooks of /routes/1, only in letter \
                 case or in escapes, and many routers do not tell the two apart: write both in the same way",
            )],
        ),
        row(
            [
                ("/routes/-", route("x", "/flags/key:{a}", json!({}))),
                ("/routes/-", route("y", "/flags/key%3A{a}/on", json!({}))),
            ],
            [("/routes/4/path", "`key%3A` differs from `key:` in `/flags/key:{a}`, x of /routes/3,")],
        ),
        row([("/routes/-", route("x", "/Hooks", json!({"hosts": ["a.example.com"]})))], []),
        row(
            [("/routes/-", route("x", "/Restate2/x", json!({}))), ("/routes/-", route("y", "/RESTATE/x", json!({})))],
            [("/routes/4/path", "`/restate` is closed to clients")],
        ),
        row(
            [("/routes/-", route("x", "/files/x", json!({"encoded_slash": true})))],
            [(
                "/routes/3/encoded_slash",
                "the path has no parameter whose value could contain a slash: remove `encoded_slash`",
            )],
        ),
        row(
            [
                ("/routes/-", route("x", "/files/{name}", json!({"encoded_slash": true}))),
                ("/routes/-", route("y", "/files/{name}/share", json!({"hosts": ["a.example.com"]}))),
            ],
            [(
                "/routes/3/encoded_slash",
                "with %2F in `{name}` a backend that decodes paths before it routes reads `/files/{name}/share`, y of /routes/4, whose \
                 rules the filter would not apply: choose another path for one of the two, or remove `encoded_slash`",
            )],
        ),
        row(
            [
                ("/routes/-", route("x", "/files/{name}", json!({"encoded_slash": true, "methods": ["GET"]}))),
                ("/routes/-", route("y", "/files/{name}/share", json!({}))),
            ],
            [],
        ),
        row(
            [
                ("/routes/-", route("x", "/files/{name}", json!({"encoded_slash": true, "hosts": ["b.example.com"]}))),
                ("/routes/-", route("y", "/files/{name}/share", json!({"hosts": ["a.example.com"]}))),
            ],
            [],
        ),
        row(
            [("/routes/-", route("x", "/{name}", json!({"encoded_slash": true, "methods": ["PUT"]})))],
            [(
                "/routes/3/encoded_slash",
                "with %2F in `{name}` a backend that decodes paths before it routes reads a path below `/restate`, which is closed to \
                 clients",
            )],
        ),
        row(
            [
                ("/backend/reserved_paths", json!([])),
                ("/routes/0/recovery", json!(false)),
                ("/routes/-", route("x", "/{name}", json!({"encoded_slash": true, "methods": ["PUT"]}))),
            ],
            [("/routes/3/encoded_slash", "reads a path below `/restate`, which is closed to clients")],
        ),
        // A path below a service that no route declares is closed, and a value with a slash makes such a path.
        row(
            [
                ("/backend/rewrite_path", json!(false)),
                ("/retention", json!({"classes": {"c": "1d"}, "services": {"Ledger": {"class": "c"}}})),
                ("/routes/-", route("x", "/Ledger/{name}", json!({"encoded_slash": true}))),
            ],
            [("/routes/3/encoded_slash", "reads a path below `/Ledger`, which is closed to clients")],
        ),
        row([("/routes/-", route("x", "/v1{name}", json!({"encoded_slash": true})))], []),
        row(
            [("/routes/-", route("x", "/Ord{name}", json!({"encoded_slash": true})))],
            [("/routes/3/encoded_slash", "reads a path below `/Orders`, which is closed to clients")],
        ),
        // Restate tells letter cases apart, and another backend may not.
        row([("/routes/-", route("x", "/ord{name}", json!({"encoded_slash": true})))], []),
        row(
            [
                ("/backend/kind", json!("generic")),
                ("/routes/-", route("x", "/ord{name}", json!({"encoded_slash": true}))),
            ],
            [("/routes/3/encoded_slash", "reads a path below `/Orders`, which is closed to clients")],
        ),
        row([("/routes/-", ledger()), ("/routes/-", route("x", "/LEDGER/x", json!({})))], []),
        row(
            [
                ("/backend/kind", json!("generic")),
                ("/routes/-", ledger()),
                ("/routes/-", route("x", "/LEDGER/x", json!({}))),
            ],
            [(
                "/routes/4/path",
                "`/LEDGER` is the path of the service `Ledger` for a backend that ignores letter case, and therefore \
                 closed to clients",
            )],
        ),
        row(
            [
                ("/backend/kind", json!("generic")),
                ("/routes/-", ledger()),
                ("/routes/-", route("x", "/LEDGER/x", json!({"target": "Ledger/x"}))),
            ],
            [],
        ),
        // What is closed to clients.
        row(
            [("/unmatched", json!("PROHIBITED"))],
            [(
                "/unmatched",
                "`rewrite_path` needs `REJECT`: with another value, undeclared paths would reach the backend",
            )],
        ),
        row(
            [("/unmatched", json!("HANDLER_INTERNAL_C"))],
            [(
                "/unmatched",
                "`rewrite_path` needs `REJECT`: with another value, undeclared paths would reach the backend",
            )],
        ),
        row([("/unmatched", json!("PROHIBITED")), ("/backend/rewrite_path", json!(false))], []),
        row(
            [("/routes/-", route("x", "/restate/health", json!({})))],
            [("/routes/3/path", "`/restate` is closed to clients (`reserved_paths`, or")],
        ),
        row([("/routes/-", route("x", "/restated", json!({})))], []),
        row(
            [("/routes/-", route("x", "/Orders/list", json!({})))],
            [
                ("/routes/3/path", "`Orders` differs from `orders` in `/orders`, orders.create of /routes/0,"),
                (
                    "/routes/3/path",
                    "`/Orders` is the path of a service of the backend, and therefore closed to clients",
                ),
            ],
        ),
        row([("/routes/-", route("x", "/IdempotencyGuard", json!({})))], [("/routes/3/path", "closed to clients")]),
        row(
            [
                ("/backend/rewrite_path", json!(false)),
                ("/routes/0/collision", json!("observe")),
                ("/routes/-", route("x", "/IdempotencyGuard", json!({}))),
                ("/routes/-", route("y", "/Orders", json!({"hosts": ["a.example.com"]}))),
            ],
            [("/routes/3/path", "`/IdempotencyGuard` is the path of a service of the backend")],
        ),
        row(
            [("/backend/rewrite_path", json!(false)), ("/routes/-", route("x", "/IdempotencyGuard", json!({})))],
            [("/routes/3/path", "`/IdempotencyGuard` is the path of a service of the backend")],
        ),
        row(
            [("/backend/rewrite_path", json!(false)), ("/routes/-", route("x", "/restate/health", json!({})))],
            [("/routes/3/path", "`/restate` is closed to clients")],
        ),
        row([("/backend/rewrite_path", json!(false)), ("/routes/-", route("x", "/openapi/{service}", json!({})))], []),
        row([("/routes/-", route("x", "/orders/list", json!({})))], []),
        row(
            [("/backend/reserved_paths", json!(["/Orders"]))],
            [
                ("/routes/0/path", "`/Orders` is closed to clients"),
                (
                    "/routes/0/target",
                    "the path of this service is closed by /backend/reserved_paths: remove it there, or choose \
                     another target",
                ),
            ],
        ),
        row(
            [("/routes/0/target", json!("restate/create"))],
            [(
                "/routes/0/target",
                "the path of this service is closed by /backend/reserved_paths: remove it there, or choose another \
                 target",
            )],
        ),
        // Targets.
        row(
            [("/routes/0/target", json!("Orders"))],
            [("/routes/0/target", "a target is `Service/handler` or `Service/{object key}/handler`")],
        ),
        row(
            [("/routes/0/target", json!("Or ders/create"))],
            [("/routes/0/target", "service and handler have the form [A-Za-z_][A-Za-z0-9._-]*")],
        ),
        row([("/routes/-", cart("Cart/{cart/get"))], [("/routes/3/target", "a `{` is not closed")]),
        row(
            [("/routes/-", cart("Cart/{basket_id}/get"))],
            [(
                "/routes/3/target",
                "`{basket_id}` is neither a parameter of the route's path nor tenant, project or subject",
            )],
        ),
        row(
            [("/routes/-", cart("Cart/{cartid}/get"))],
            [("/routes/3/target", "tenant, project or subject; did you mean `cart_id`?")],
        ),
        // Members of a verified body.
        row([hook("Promises/{tenant}:{project}:stripe:{body:/data/object/id}/resolve")], []),
        row([hook("Promises/{tenant}:{body:/a~1b/0}:{form:MessageSid}/resolve")], []),
        row(
            [("/routes/0/target", json!("Orders/{tenant}:{body:/id}/create"))],
            [("/routes/0/target", "name members of a verified delivery: the route needs a `webhook` block")],
        ),
        row(
            [
                ("/routes/0/target", json!("Orders/{tenant}:{form:id}/create")),
                ("/callers", json!({"timer": timer(json!({"routes": ["orders.create"]}))})),
            ],
            [("/routes/0/target", "What clients and signed callers choose comes in the path: write a parameter")],
        ),
        row(
            [hook("Promises/{tenant}:{header:x-id}/resolve")],
            [(
                "/routes/1/target",
                "`{header:x-id}`: write `body:` and a JSON pointer, or `form:` and the name of a field",
            )],
        ),
        row(
            [hook("Promises/{tenant}:{body:id}/resolve")],
            [("/routes/1/target", "`{body:id}`: expected a JSON pointer (RFC 6901) of at most 8 segments")],
        ),
        row(
            [hook("Promises/{tenant}:{body:/1/2/3/4/5/6/7/8/9}/resolve")],
            [("/routes/1/target", "expected a JSON pointer (RFC 6901) of at most 8 segments")],
        ),
        row(
            [hook("Promises/{tenant}:{form:}/resolve")],
            [("/routes/1/target", "`{form:}`: expected a text that is not empty")],
        ),
        row(
            [hook("Promises/{tenant}:{body:/a}-{body:/b}/resolve")],
            [("/routes/1/target", "put a `:` between the placeholders of an object key")],
        ),
        row(
            [hook("Promises/{body:/a}:{tenant}:{body:/b}/resolve")],
            [("/routes/1/target", "tenant, project and subject cannot stand between two parameters of an object key")],
        ),
        row([hook("Promises/{tenant}:{body:/a}/b/resolve")], [("/routes/1/target", "a target is `Service/handler`")]),
        row(
            [hook("Promises/{tenant}:{body:/a}/resolve"), ("/backend/rewrite_path", json!(false))],
            [("/routes/1/target", "work only where `rewrite_path` leads to a backend of kind `restate`")],
        ),
        row(
            [
                hook("Promises/{tenant}:{body:/event-data/id}/resolve"),
                ("/routes/1/path", json!("/hooks/{webhook_id}")),
                ("/routes/1/webhook", json!({"provider": "mailgun"})),
            ],
            [(
                "/routes/1/target",
                "`mailgun` does not sign the body, so anyone who has seen a delivery could choose the object",
            )],
        ),
        row(
            [
                hook("Promises/{tenant}:{body:/id}/resolve"),
                ("/routes/1/path", json!("/hooks/{webhook_id}")),
                // One of its two schemes signs the body.
                ("/routes/1/webhook", json!({"provider": "gitlab"})),
            ],
            [],
        ),
        row([("/routes/-", cart("Cart//get"))], [("/routes/3/target", "the object key is empty")]),
        row(
            [("/routes/-", cart("Cart/é/get"))],
            [("/routes/3/target", "`é`: fixed text in an object key may hold only [A-Za-z0-9._~:@!$&'()*+=-]")],
        ),
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
            [(
                "/routes/0/target",
                "the target names `{project}`, but with the route's `scope` a caller needs no project: change the \
                 scope to `project`, or the target",
            )],
        ),
        row(
            [("/routes/0/path", json!("/{tenant}/orders"))],
            [("/routes/0/path", "in a target, `{tenant}` means the caller's tenant: give the parameter another name")],
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

/// A route whose target is the service `Ledger`.
fn ledger() -> Value {
    route("y", "/post", json!({"target": "Ledger/post"}))
}
