//! Several backends: their names, the default, and what each route needs of its own one.

use super::{GONE, Row, route, row};
use serde_json::{Value, json};

/// Restate as the default, with an API beside it.
fn two(api: Value) -> Vec<(&'static str, Value)> {
    let restate = json!({"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}});
    vec![("/backend", json!("restate")), ("/backends", json!({"restate": restate, "api": api}))]
}

/// An API as the default, with Restate beside it, which has the first route.
fn moved() -> Vec<(&'static str, Value)> {
    let mut changes = two(json!({"kind": "generic"}));
    changes.extend([("/backend", json!("api")), ("/routes/0/backend", json!("restate"))]);
    changes
}

/// The same, and no path looks like the service `Orders`.
fn buys() -> Vec<(&'static str, Value)> {
    let mut changes = moved();
    changes.push(("/routes/0/path", json!("/buy")));
    changes
}

fn of<const C: usize, const E: usize>(
    mut base: Vec<(&'static str, Value)>,
    changes: [(&'static str, Value); C],
    expected: [(&'static str, &'static str); E],
) -> Row {
    base.extend(changes);
    Row { changes: base, expected: expected.to_vec() }
}

/// A change that leaves a member out.
fn gone(pointer: &'static str) -> (&'static str, Value) {
    (pointer, json!(GONE))
}

pub(super) fn rows() -> Vec<Row> {
    [names(), members(), paths(), services()].concat()
}

/// Names that the document and its routes say.
fn names() -> Vec<Row> {
    let api = || ("/routes/2/backend", json!("api"));
    let name_of_default = "with `backends` it is the name of the backend of every route that names none";
    vec![
        of(two(json!({"kind": "generic"})), [api()], []),
        of(moved(), [], []),
        // A document can have `backends` with one backend only.
        of(vec![], [("/backends", json!({"api": {"kind": "generic"}})), ("/backend", json!("api"))], []),
        of(moved(), [gone("/backend")], [("", "the member `backend` is missing: with `backends` it is the name")]),
        of(moved(), [("/backend", json!({"kind": "generic"}))], [("/backend", name_of_default)]),
        of(moved(), [("/backend", json!(7))], [("/backend", "expected the name of a backend: with `backends` it is")]),
        of(moved(), [("/backend", json!("apy"))], [("/backend", "`backends` has no `apy`; did you mean `api`?")]),
        of(moved(), [("/backend", json!("x"))], [("/backend", "`backends` has no `x`")]),
        of(moved(), [("/backends", json!([]))], [("/backends", "expected an object")]),
        of(vec![], [("/backends", json!({}))], [("/backend", name_of_default)]),
        of(vec![], [("/backends", json!({})), ("/backend", json!("api"))], [("/backend", "`backends` has no `api`")]),
        of(
            moved(),
            [("/backends/_x", json!({"kind": "generic"})), ("/routes/2/backend", json!("_x"))],
            [("/backends/_x", "a name has 1 to 128 characters of A-Z a-z 0-9 . _ - and does not begin with _")],
        ),
        of(
            moved(),
            [("/backends/a~1b", json!({"kind": "generic"})), ("/routes/2/backend", json!("a/b"))],
            [("/backends/a~1b", "a name has 1 to 128 characters")],
        ),
        row(
            [("/backend", json!("api"))],
            [("/backend", "the name of a backend needs `backends`, which says what it is")],
        ),
        // The route's name has no issue of its own where the document's says more.
        row(
            [("/backend", json!("api")), ("/routes/0/backend", json!("restate"))],
            [("/backend", "the name of a backend needs `backends`")],
        ),
        row(
            [("/routes/0/backend", json!("restate"))],
            [(
                "/routes/0/backend",
                "the document has one backend, which every route has: remove this member, or name several backends in \
                 `backends`",
            )],
        ),
        of(
            moved(),
            [("/routes/2/backend", json!("restat"))],
            [("/routes/2/backend", "`backends` has no `restat`; did you mean `restate`?")],
        ),
        of(moved(), [("/routes/2/backend", json!("kafka"))], [("/routes/2/backend", "`backends` has no `kafka`")]),
        of(moved(), [("/routes/2/backend", json!(""))], [("/routes/2/backend", "expected a text that is not empty")]),
        of(moved(), [("/routes/2/backend", json!({}))], [("/routes/2/backend", "expected a string")]),
        // What is unknown has one issue, whatever its routes ask for.
        of(
            moved(),
            [
                ("/routes/0/backend", json!("kafka")),
                ("/routes/0/in_flight", json!("conflict")),
                ("/routes/0/collision", json!("enforce")),
                ("/routes/0/query", json!(["page"])),
                ("/routes/0/answer", json!({"status": 201})),
                ("/routes/1/backend", json!("restate")),
            ],
            [("/routes/0/backend", "`backends` has no `kafka`")],
        ),
        of(
            moved(),
            [("/backends/restate", json!(1)), ("/routes/0/in_flight", json!("conflict"))],
            [("/backends/restate", "expected an object")],
        ),
        of(
            moved(),
            [("/backends/restate/kind", json!("restat"))],
            [("/backends/restate/kind", "; did you mean `restate`?")],
        ),
        of(
            moved(),
            [gone("/backends/restate/kind")],
            [("/backends/restate", "the member `kind` is missing: `\"backend\": {\"kind\": \"generic\"}`")],
        ),
    ]
}

/// Members of one backend, and members of routes that follow their own backend.
fn members() -> Vec<Row> {
    let operations = || json!({"path": "/operations/{operation_id}", "secret": {"env": "OPERATIONS"}});
    let one_way = "only a backend of kind `restate` takes one-way requests";
    vec![
        of(moved(), [("/backends/restate/kin", json!(1))], [("/backends/restate/kin", "unknown member `kin`")]),
        of(
            moved(),
            [("/backends/api/reserved_paths", json!(["/a/"]))],
            [("/backends/api/reserved_paths/0", "write the path in its normalised form, `/a`")],
        ),
        of(
            moved(),
            [("/backends/api/keep_headers", json!(["cookie", "x-edge_idempotency"]))],
            [("/backends/api/keep_headers/1", "the backend never gets `x-edge_idempotency` as a client sent it")],
        ),
        of(
            moved(),
            [("/answers", json!({"retry_headers": ["x-operation-id"]}))],
            [("/answers/retry_headers", "/backends/restate already uses the header `x-operation-id`")],
        ),
        of(
            moved(),
            [("/answers", json!({"retry_headers": ["x-again"]})), ("/backends/api/replay_headers", json!(["x-again"]))],
            [("/answers/retry_headers", "/backends/api already uses the header `x-again`")],
        ),
        of(moved(), [("/backends/restate/operations", operations())], []),
        of(
            moved(),
            [("/backends/api/operations", operations())],
            [
                ("/backends/api/operations", "only a backend of kind `restate` can be asked for operations"),
                ("/backends/api/operations", "operations are calls of targets: add `\"rewrite_path\": true`"),
            ],
        ),
        of(
            moved(),
            [
                ("/backends/restate/operations", operations()),
                ("/backends/other", json!({"kind": "restate", "rewrite_path": true, "operations": operations()})),
                ("/routes/2/backend", json!("other")),
            ],
            [(
                "/backends/other/operations",
                "a document has operations of one backend: /backends/restate/operations has them, too",
            )],
        ),
        of(
            moved(),
            [
                ("/backends/restate/operations", operations()),
                ("/backends/restate/operation_id", json!({"from": "x-id", "to": "x-operation-id"})),
            ],
            [(
                "/backends/restate/operations",
                "operations are found by Restate's ids: write `\"from\": \"x-restate-id\"` in /backends/restate/operation_id",
            )],
        ),
        of(
            moved(),
            [("/backends/restate/operations", operations()), ("/routes/2/path", json!("/operations/{id}"))],
            [(
                "/routes/2/path",
                "requests for operations also match `/operations/{id}`: choose another path for carts.get, or for \
                 /backends/restate/operations",
            )],
        ),
        // What a route cannot have depends on its own backend.
        of(moved(), [("/routes/0/one_way", json!(true))], []),
        of(moved(), [gone("/routes/0/backend"), ("/routes/0/one_way", json!(true))], [("/routes/0/one_way", one_way)]),
        of(moved(), [("/routes/0/query", json!(["page"]))], []),
        of(
            moved(),
            [gone("/routes/0/backend"), ("/routes/0/query", json!(["page"]))],
            [("/routes/0/query", "`query` works only on a route with a `target`, and with `\"rewrite_path\": true`")],
        ),
        of(moved(), [("/routes/0/answer", json!({"status": 201}))], []),
        of(
            moved(),
            [gone("/routes/0/backend"), ("/routes/0/answer", json!({"status": 201}))],
            [("/routes/0/answer", "`answer` works only on a route with a `target`, and with `\"rewrite_path\": true`")],
        ),
        of(
            moved(),
            [gone("/routes/0/backend"), ("/routes/0/recovery", json!(true))],
            [("/routes/0/recovery", "results can be recovered only from a backend of kind `restate`")],
        ),
        of(moved(), [("/routes/0/in_flight", json!("conflict")), ("/routes/0/collision", json!("enforce"))], []),
        of(
            moved(),
            [
                ("/routes/0/in_flight", json!("conflict")),
                ("/routes/0/collision", json!("enforce")),
                gone("/routes/0/backend"),
            ],
            [
                (
                    "/routes/0/in_flight",
                    "`conflict` works only on a REQUIRED_A or ACCEPTED route with a `target` in Restate",
                ),
                (
                    "/routes/0/collision",
                    "collision detection needs /backends/api/guard, and /backends/api/cluster to call it",
                ),
            ],
        ),
        of(
            moved(),
            [("/routes/0/collision", json!("observe")), gone("/backends/restate/guard")],
            [(
                "/routes/0/collision",
                "collision detection needs /backends/restate/guard, and /backends/restate/cluster to call it",
            )],
        ),
        of(
            moved(),
            [gone("/backends/restate/cluster")],
            [("/backends/restate", "results can be recovered (orders.create), and the filter first asks Restate")],
        ),
        of(moved(), [gone("/backends/restate/cluster"), ("/routes/0/recovery", json!(false))], []),
        of(
            moved(),
            [gone("/backends/restate/cluster"), ("/routes/0/in_flight", json!("conflict"))],
            [("/routes/0/in_flight", "name its cluster in /backends/restate/cluster")],
        ),
        // Each backend that is asked needs a cluster of its own.
        of(
            moved(),
            [
                ("/backends/other", json!({"kind": "restate"})),
                (
                    "/routes/-",
                    json!({"endpoint": "x", "path": "/x", "policy": "REQUIRED_A", "target": "X/x", "backend": "other"}),
                ),
            ],
            [("/backends/other", "results can be recovered (x), and the filter first asks Restate")],
        ),
        of(
            moved(),
            [
                ("/routes/0/collision", json!("observe")),
                ("/backends/restate/guard", json!({"retention": "1d"})),
                ("/retention", json!({"classes": {"day": "24h"}, "services": {"Orders": {"class": "day"}}})),
            ],
            [("/backends/restate/guard/retention", "the guard would forget a request before the backend forgets")],
        ),
        // Guards of two backends can be one.
        of(
            moved(),
            [
                ("/backends/other", json!({"kind": "restate", "cluster": "other", "guard": {}})),
                ("/routes/0/collision", json!("observe")),
                ("/routes/0/collision_scope", json!("caller")),
                (
                    "/routes/-",
                    json!({
                        "endpoint": "x", "path": "/x", "policy": "REQUIRED_A", "target": "X/x", "backend": "other",
                        "collision": "observe", "collision_scope": "caller", "fingerprint": "json"
                    }),
                ),
            ],
            [(
                "/routes/3/fingerprint",
                "`x` and `orders.create` (/routes/0) have `\"collision_scope\": \"caller\"`, so they share keys at the guard",
            )],
        ),
        of(
            moved(),
            [("/backends/other", json!({"kind": "restate", "cluster": "other", "guard": {"retention": "8d"}}))],
            [(
                "/backends/other/guard",
                "the guards of all backends have one name and one retention: write the same as in /backends/restate/guard",
            )],
        ),
        // Only the default backend gets what no route declares.
        of(moved(), [("/unmatched", json!("HANDLER_INTERNAL_C"))], []),
        of(moved(), [("/unmatched", json!("PROHIBITED"))], []),
        of(
            moved(),
            [("/unmatched", json!("PROHIBITED")), ("/backend", json!("restate")), ("/routes/2/backend", json!("api"))],
            [(
                "/unmatched",
                "`rewrite_path` needs `REJECT`: with another value, undeclared paths would reach the backend",
            )],
        ),
    ]
}

/// Paths that are closed to clients of one backend, or of all.
fn paths() -> Vec<Row> {
    let restates = || ("/routes/-", route("x", "/restate/health", json!({})));
    let closed = "`/restate` is closed to clients (`reserved_paths`, or the backend's own paths)";
    vec![
        of(moved(), [restates()], [("/routes/3/path", closed)]),
        of(
            moved(),
            [("/routes/-", route("x", "/restate/health", json!({"backend": "restate"})))],
            [("/routes/3/path", closed)],
        ),
        // Without Restate and without a guard nothing is closed.
        of(
            two(json!({"kind": "generic"})),
            [
                ("/backends/restate", json!({"kind": "generic"})),
                ("/routes/2/backend", json!("api")),
                ("/routes/-", route("x", "/restate/health", json!({}))),
            ],
            [],
        ),
        of(moved(), [("/backends/restate/reserved_paths", json!(["/carts"]))], []),
        of(
            moved(),
            [("/backends/api/reserved_paths", json!(["/carts"]))],
            [("/routes/2/path", "`/carts` is closed to clients (`reserved_paths`")],
        ),
        of(
            moved(),
            [("/backends/restate/reserved_paths", json!(["/Orders"])), ("/routes/0/path", json!("/buy"))],
            [(
                "/routes/0/target",
                "the path of this service is closed by /backends/restate/reserved_paths: remove it there",
            )],
        ),
        // The API's own path can have the same name.
        of(moved(), [("/backends/api/reserved_paths", json!(["/Orders"])), ("/routes/0/path", json!("/buy"))], []),
        of(
            moved(),
            [
                ("/backends/restate/reserved_paths", json!(["/v1/operations"])),
                (
                    "/backends/restate/operations",
                    json!({"path": "/v1/operations/{operation_id}", "secret": {"env": "OPERATIONS"}}),
                ),
            ],
            [("/backends/restate/operations/path", "`/v1/operations` is closed to clients (`reserved_paths`")],
        ),
        // Values with slashes lead to paths of the same backend only.
        of(
            moved(),
            [
                ("/backends/restate/reserved_paths", json!(["/files/a/b"])),
                ("/routes/-", route("x", "/files/{name}", json!({"encoded_slash": true}))),
            ],
            [],
        ),
        of(
            moved(),
            [
                ("/backends/api/reserved_paths", json!(["/files/a/b"])),
                ("/routes/-", route("x", "/files/{name}", json!({"encoded_slash": true}))),
            ],
            [("/routes/3/encoded_slash", "reads a path below `/files/a/b`, which is closed to clients")],
        ),
    ]
}

/// Services of the targets are closed for requests of their own backend.
fn services() -> Vec<Row> {
    let of_service = "`/Orders` is the path of a service of the backend, and therefore closed to clients";
    vec![
        of(buys(), [("/routes/-", route("x", "/Orders", json!({})))], []),
        of(
            buys(),
            [("/routes/-", route("x", "/Orders", json!({"backend": "restate"})))],
            [("/routes/3/path", of_service)],
        ),
        of(buys(), [("/routes/-", route("x", "/IdempotencyGuard/claim", json!({})))], []),
        of(
            buys(),
            [("/routes/-", route("x", "/IdempotencyGuard/claim", json!({"backend": "restate"})))],
            [("/routes/3/path", "`/IdempotencyGuard` is the path of a service of the backend")],
        ),
        of(
            buys(),
            [(
                "/backends/restate/operations",
                json!({"path": "/Orders/{operation_id}", "secret": {"env": "OPERATIONS"}}),
            )],
            [("/backends/restate/operations/path", of_service)],
        ),
        // A generic backend may ignore letter case: in its own services, and not in those of another.
        of(
            buys(),
            [
                ("/backends/api/rewrite_path", json!(true)),
                (
                    "/routes/-",
                    json!({"endpoint": "l", "path": "/books", "policy": "REQUIRED_A", "target": "Ledger/add"}),
                ),
                ("/routes/-", route("x", "/LEDGER", json!({}))),
                ("/routes/-", route("y", "/ORDERS", json!({}))),
            ],
            [(
                "/routes/4/path",
                "`/LEDGER` is the path of the service `Ledger` for a backend that ignores letter case",
            )],
        ),
        // The same service at two backends: each closes its own.
        of(
            buys(),
            [
                ("/backends/api/rewrite_path", json!(true)),
                (
                    "/routes/-",
                    json!({"endpoint": "o", "path": "/books", "policy": "REQUIRED_A", "target": "Orders/add"}),
                ),
                ("/routes/-", route("x", "/Orders", json!({}))),
            ],
            [("/routes/4/path", of_service)],
        ),
    ]
}

/// Documents that start with a warning, or without one.
pub(super) fn warnings() -> Vec<Row> {
    vec![
        of(moved(), [], []),
        of(
            moved(),
            [("/backends/other", json!({"kind": "generic"}))],
            [("/backends/other", "no route names this backend, so no request reaches it")],
        ),
        // The default also has the requests without a route.
        of(moved(), [("/routes/1/backend", json!("restate")), ("/routes/2/backend", json!("restate"))], []),
        of(moved(), [("/routes/2/path", json!("/carts/{cart_id}/lines")), ("/routes/2/target", json!("Cart/get"))], []),
        of(
            moved(),
            [
                ("/routes/2/path", json!("/carts/{cart_id}/lines")),
                ("/routes/2/target", json!("Cart/get")),
                ("/routes/2/backend", json!("restate")),
            ],
            [("/routes/2/target", "the backend does not get `{cart_id}`: the path is rewritten")],
        ),
    ]
}
