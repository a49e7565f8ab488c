//! Collision detection.

use super::{GONE, Row, put, route, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            [("/routes/2/collision", json!("observe"))],
            [(
                "/routes/2/collision",
                "collision detection works only on a REQUIRED_A or ACCEPTED route with a `target`",
            )],
        ),
        row(
            [("/backend/guard", json!(GONE)), ("/routes/0/collision", json!("enforce"))],
            [("/routes/0/collision", "collision detection needs /backend/guard, and /backend/cluster to call it")],
        ),
        row(
            [
                ("/backend/cluster", json!(GONE)),
                ("/routes/0/recovery", json!(false)),
                ("/routes/0/collision", json!("observe")),
            ],
            [("/routes/0/collision", "needs /backend/guard")],
        ),
        row(
            [
                ("/routes/0/collision", json!("enforce")),
                ("/backend/guard", json!({"retention": "25h"})),
                ("/retention", json!({"classes": {"short": "24h"}, "services": {"Orders": {"class": "short"}}})),
            ],
            [("/backend/guard/retention", "the guard would forget a request before the backend forgets its result")],
        ),
        row(
            [
                ("/routes/0/collision", json!("observe")),
                ("/backend/guard", json!({"retention": "26h"})),
                ("/retention", json!({"classes": {"short": "24h"}, "services": {"Orders": {"class": "short"}}})),
            ],
            [],
        ),
        row(
            [
                ("/backend/guard", json!({"retention": "1h"})),
                ("/retention", json!({"classes": {"short": "24h"}, "services": {"Orders": {"class": "short"}}})),
            ],
            [],
        ),
        row([("/routes/0/collision", json!("enforce")), ("/backend/guard", json!({"retention": "1h"}))], []),
        row([("/routes/0/collision", json!("enforce")), ("/routes/0/guard_failure", json!("refuse"))], []),
        row(
            [
                ("/routes/0/collision", json!("observe")),
                ("/routes/0/fingerprint", json!("json")),
                ("/routes/0/max_body_bytes", json!(16_777_217)),
            ],
            [(
                "/routes/0/max_body_bytes",
                "at most 16777216 with `\"fingerprint\": \"json\"`, which needs several copies",
            )],
        ),
        row(
            [
                ("/routes/0/collision", json!("enforce")),
                ("/routes/0/fingerprint", json!("json")),
                ("/routes/0/max_body_bytes", json!(16_777_216)),
            ],
            [],
        ),
        row([("/routes/0/collision", json!("enforce")), ("/routes/0/max_body_bytes", json!(1_073_741_824))], []),
        row([("/routes/0/fingerprint", json!("json")), ("/routes/0/max_body_bytes", json!(1_073_741_824))], []),
        row(
            shared_keys(
                json!({"fingerprint_headers": ["if-match"]}),
                json!({"fingerprint_headers": ["if-match", "prefer"]}),
            ),
            [(
                "/routes/3/fingerprint_headers",
                "`x` and `orders.create` (/routes/0) have `\"collision_scope\": \"caller\"`, so they share keys at the guard \
                 and need the same `fingerprint_headers`",
            )],
        ),
        row(
            shared_keys(
                json!({"fingerprint_headers": ["if-match", "prefer"]}),
                json!({"fingerprint_headers": ["Prefer", "If-Match"]}),
            ),
            [],
        ),
        row(
            [
                ("/routes/0/collision", json!("enforce")),
                (
                    "/routes/0/fingerprint_headers",
                    json!(["if_match", "Content-Type", "X-Forwarded-For", "cookie", "if-match", "If-Match", "a b"]),
                ),
            ],
            [
                ("/routes/0/fingerprint_headers/0", "write the header with - instead of _"),
                ("/routes/0/fingerprint_headers/1", "every fingerprint has `content-type`"),
                ("/routes/0/fingerprint_headers/2", "`x-forwarded-for` says nothing of what the client wants"),
                ("/routes/0/fingerprint_headers/3", "`cookie` says nothing of what the client wants"),
                ("/routes/0/fingerprint_headers/6", "expected a header name"),
                ("/routes/0/fingerprint_headers", "`if-match` is in the list twice"),
            ],
        ),
        row(
            [
                ("/routes/0/collision", json!("enforce")),
                ("/routes/0/fingerprint_headers", json!(["a", "b", "c", "d", "e", "f", "g", "h", "i"])),
            ],
            [("/routes/0/fingerprint_headers", "the list may have at most 8 headers")],
        ),
        // What the policy itself uses, which it removes before the backend.
        row(
            [
                ("/routes/0/collision", json!("enforce")),
                ("/identity/forward", json!({"tenant": "x-tenant"})),
                ("/forward", json!({"parameters": "x-path-"})),
                ("/shadow_key_header", json!("future-key")),
                (
                    "/routes/0/fingerprint_headers",
                    json!(["x-tenant", "x-path-a", "future-key", "origin", "stripe-signature", "if-match"]),
                ),
            ],
            [
                ("/routes/0/fingerprint_headers/0", "the backend never gets `x-tenant` as a client sent it"),
                ("/routes/0/fingerprint_headers/1", "the backend never gets `x-path-a` as a client sent it"),
                ("/routes/0/fingerprint_headers/2", "the backend never gets `future-key` as a client sent it"),
                ("/routes/0/fingerprint_headers/3", "the backend never gets `origin` as a client sent it"),
                ("/routes/0/fingerprint_headers/4", "the backend never gets `stripe-signature` as a client sent it"),
            ],
        ),
        row(
            shared_keys(json!({}), json!({"fingerprint": "json"})),
            [(
                "/routes/3/fingerprint",
                "`x` and `orders.create` (/routes/0) have `\"collision_scope\": \"caller\"`, so they share keys at the guard \
                 and need the same `fingerprint`",
            )],
        ),
        row(shared_keys(json!({"fingerprint": "json"}), json!({})), [("/routes/3/fingerprint", "share keys")]),
        row(shared_keys(json!({"fingerprint": "json"}), json!({"fingerprint": "json"})), []),
        row(shared_keys(json!({"fingerprint": "json"}), json!({"collision": "off"})), []),
        row(shared_keys(json!({"fingerprint": "json"}), json!({"collision_scope": "operation"})), []),
    ]
}

/// Two routes with the scope `caller`, and with these members.
fn shared_keys(first: Value, second: Value) -> [(&'static str, Value); 2] {
    let with = |mut route: Value, more: &Value| {
        let members = json!({"policy": "REQUIRED_A", "collision": "enforce", "collision_scope": "caller"});
        for more in [&members, more] {
            more.as_object().unwrap().iter().for_each(|(name, value)| put(&mut route, &format!("/{name}"), value));
        }
        route
    };
    let orders = route("orders.create", "/orders", json!({"target": "Orders/create"}));
    [("/routes/0", with(orders, &first)), ("/routes/-", with(route("x", "/x", json!({"target": "X/run"})), &second))]
}
