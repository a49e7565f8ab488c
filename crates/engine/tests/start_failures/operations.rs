//! What operations cannot be, and what they need of the rest of a policy.

use super::{GONE, Row, route, row};
use serde_json::{Value, json};

fn operations(path: &str) -> (&'static str, Value) {
    ("/backend/operations", json!({"path": path, "secret": {"env": "OPERATIONS"}}))
}

pub(super) fn rows() -> Vec<Row> {
    let fine = || operations("/operations/{operation_id}");
    let (here, path) = ("/backend/operations", "/backend/operations/path");
    let taken = "choose another path for x, or for /backend/operations";
    vec![
        row([fine()], []),
        row([operations("/v1/caf%C3%A9/{operation_id}")], []),
        row(
            [(here, json!({"path": 1, "secret": 1, "ttl": 1}))],
            [
                ("/backend/operations/ttl", "unknown member `ttl`; the known members are `path`, `secret`"),
                (path, "expected a string"),
                ("/backend/operations/secret", "expected an object"),
            ],
        ),
        row([(here, json!({}))], [(here, "the member `path` is missing"), (here, "the member `secret` is missing")]),
        row(
            [(here, json!({"path": "/o/{operation_id}", "secret": []}))],
            [("/backend/operations/secret", "name at least one secret")],
        ),
        row(
            [(here, json!({"path": "/o/{operation_id}", "secret": [{"env": "A"}, "planted"]}))],
            [("/backend/operations/secret/1", "a secret in the document is visible in the gateway's config dump")],
        ),
        row([operations("/operations")], [(path, "write fixed segments, and `{operation_id}` as the last one")]),
        row([operations("/{operation_id}")], [(path, "write fixed segments")]),
        row([operations("/o/{id}")], [(path, "write fixed segments")]),
        row([operations("/o/{operation_id}/x")], [(path, "write fixed segments")]),
        row([operations("/o/op:{operation_id}")], [(path, "write fixed segments")]),
        row([operations("/{tenant}/{operation_id}")], [(path, "write fixed segments")]),
        row(
            [operations("//o/{operation_id}")],
            [(path, "no request can match this path, because paths are normalised first: write `/o/{operation_id}`")],
        ),
        row(
            [operations("/o/{operation_id}/")],
            [(path, "write fixed segments, and `{operation_id}` as the last one, as in `/operations/{operation_id}`")],
        ),
        // What operations need.
        row(
            [fine(), ("/backend/kind", json!("generic"))],
            [(here, "only a backend of kind `restate` can be asked for operations")],
        ),
        row(
            [fine(), ("/backend/rewrite_path", json!(false))],
            [(here, "operations are calls of targets: add `\"rewrite_path\": true`")],
        ),
        row(
            [fine(), ("/identity", json!(GONE)), ("/routes/0/policy", json!("HANDLER_INTERNAL_C"))],
            [(here, "operations belong to callers: add `identity`, which says who is calling")],
        ),
        row(
            [fine(), ("/backend/operation_id", json!({"from": "x-id", "to": "x-operation-id"}))],
            [(
                here,
                "operations are found by Restate's ids: write `\"from\": \"x-restate-id\"` in /backend/operation_id",
            )],
        ),
        // Paths that mean something else.
        row([operations("/restate/{operation_id}")], [(path, "`/restate` is closed to clients")]),
        row(
            [operations("/Orders/{operation_id}")],
            [(path, "`/Orders` is the path of a service of the backend, and therefore closed to clients")],
        ),
        row(
            [operations("/orders/by-idempotency-key/{operation_id}")],
            [(
                path,
                "`by-idempotency-key` is reserved for paths at which results are recovered: choose another segment",
            )],
        ),
        row(
            [fine(), ("/routes/-", route("x", "/operations/{id}", json!({})))],
            [("/routes/3/path", "requests for operations also match `/operations/{id}`")],
        ),
        row([fine(), ("/routes/-", route("x", "/operations/list", json!({})))], [("/routes/3/path", taken)]),
        row([fine(), ("/routes/-", route("x", "/operations/{id}/output", json!({})))], [("/routes/3/path", taken)]),
        row([fine(), ("/routes/-", route("x", "/operations/{id}/cancel", json!({})))], []),
        row([fine(), ("/routes/-", route("x", "/operations", json!({})))], []),
        row([fine(), ("/routes/-", route("x", "/{a}/{b}", json!({})))], []),
        // A recovery path is no operation's: its mark is no operation id.
        row([fine(), ("/routes/0/path", json!("/operations"))], []),
    ]
}
