//! What members that decide whose a key is, and what keys are, mean together.

use super::callers::timer;
use super::{GONE, Row, row};
use serde_json::json;

/// Keys, identity and scopes.
pub(super) fn relations() -> Vec<Row> {
    vec![
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
    ]
}
