//! What paths, their parameters and targets mean together.

use super::callers::timer;
use super::{Row, route, row};
use serde_json::{Value, json};

/// Paths, what is closed to clients, and targets.
pub(super) fn relations() -> Vec<Row> {
    let cart =
        |target: &str| route("carts.x", "/carts/{cart_id}/{item}", json!({"policy": "ACCEPTED", "target": target}));
    let hook = |target: &str| ("/routes/1/target", json!(target));
    vec![
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
    ]
}

/// A route whose target is the service `Ledger`.
fn ledger() -> Value {
    route("y", "/post", json!({"target": "Ledger/post"}))
}
