//! The registry of API keys, and what routes ask of API keys.

use super::{Row, row};
use serde_json::{Value, json};

/// A source of API keys, with these members of `unkey` besides its cluster and its header.
fn source(unkey: Value) -> Value {
    let mut registry = json!({"cluster": "unkey", "header": "x-api-key"});
    registry.as_object_mut().unwrap().extend(unkey.as_object().unwrap().clone());
    json!({
        "name": "keys", "unkey": registry, "tenant": "/identity/externalId", "project": "/meta/project_id",
        "subject": {"field": "/keyId", "type": "service"},
    })
}

const NEW: &str = "/identity/sources/-";

pub(super) fn rows() -> Vec<Row> {
    let other = json!({"sources": [source(json!({}))]});
    let own = json!({"sources": [{
        "name": "own", "metadata": ["own"], "tenant": "t", "project": "p", "subject": {"field": "s", "type": "user"},
    }]});
    vec![
        row(
            [(NEW, source(json!({"prefix": "sk_", "path": "/verify", "cache_ttl_s": 60, "stale_if_error_s": 840})))],
            [],
        ),
        row(
            [("/routes/0/api_key", json!({}))],
            [("/routes/0/api_key", "no source of the document's `identity` has `unkey`")],
        ),
        row(
            [
                (NEW, source(json!({}))),
                ("/routes/0/api_key", json!({"required": false, "permissions": "a.b AND (c OR d)"})),
            ],
            [],
        ),
        row(
            [(NEW, source(json!({}))), ("/routes/1/api_key", json!({}))],
            [("/routes/1/api_key", "deliveries of webhooks bring no API key: remove this member")],
        ),
        row(
            [(NEW, source(json!({}))), ("/routes/0/identity", own), ("/routes/0/api_key", json!({}))],
            [("/routes/0/api_key", "the route has an `identity` of its own, without a source of API keys")],
        ),
        row(
            [("/routes/0/identity", other)],
            [("/routes/0/identity/sources/0/unkey", "a source with `unkey` stands in the document's `identity`")],
        ),
        row(
            [
                (NEW, source(json!({}))),
                (
                    NEW,
                    json!({"name": "more", "unkey": {"cluster": "unkey", "header": "x-more"}, "tenant": "/t", "project": "/p", "subject": {"field": "/s"}}),
                ),
            ],
            [("/identity/sources/2/unkey", "a document has one source with `unkey`: remove one of them")],
        ),
        row(
            [(NEW, source(json!({"header": "Cookie"})))],
            [(
                "/identity/sources/1/unkey/header",
                "`cookie` already has a meaning: choose another header, such as `x-api-key`",
            )],
        ),
        row(
            [(NEW, source(json!({}))), ("/identity/forward", json!({"tenant": "X-Api-Key"}))],
            [(
                "/identity/sources/1/unkey/header",
                "this header carries a part of the identity, too: take another header",
            )],
        ),
        row(
            [(NEW, source(json!({"prefix": "sk live"})))],
            [(
                "/identity/sources/1/unkey/prefix",
                "expected the beginning of the keys, 1 to 64 characters of A-Z a-z 0-9 . _ ~ -, such as",
            )],
        ),
        row(
            [(NEW, source(json!({"cache_ttl_s": 60, "stale_if_error_s": 841})))],
            [("/identity/sources/1/unkey", "`cache_ttl_s` and `stale_if_error_s` together may be at most 900 seconds")],
        ),
        row(
            [(
                NEW,
                json!({"name": "keys", "unkey": {"cluster": "unkey", "header": "x-api-key"}, "tenant": "externalId", "project": "/p", "subject": {"field": "/s"}}),
            )],
            [(
                "/identity/sources/1/tenant",
                "expected a JSON pointer into `data` of the registry's reply, such as `/identity/externalId`",
            )],
        ),
        row(
            [(NEW, source(json!({}))), ("/routes/0/api_key", json!({"permissions": " "}))],
            [(
                "/routes/0/api_key/permissions",
                "expected permissions of 1 to 1000 characters, such as `refunds.create`",
            )],
        ),
    ]
}

pub(super) fn warnings() -> Vec<Row> {
    vec![
        row([(NEW, source(json!({"header": "authorization", "prefix": "sk_"})))], []),
        row(
            [(NEW, source(json!({"header": "Authorization"})))],
            [("/identity/sources/1/unkey", "tokens of other sources come in `authorization`, too")],
        ),
        row([("/identity/sources", json!([source(json!({"header": "authorization"}))]))], []),
    ]
}
