//! What a start has to say although it succeeds.

use super::callers;
use super::{GONE, Row, base, row};
use serde_json::{Value, json};

/// The base's binding, of another provider, and with more members.
fn binding(provider: &str, more: Value) -> Value {
    let mut binding = base()["webhooks"]["static"]["wh_01JABCDEF"].clone();
    binding["provider"] = provider.into();
    more.as_object().unwrap().iter().for_each(|(name, value)| binding[name] = value.clone());
    binding
}

/// What a start has to say although it succeeds.
pub(super) fn warnings() -> Vec<Row> {
    vec![
        row([], []),
        row(
            [("/routes/0/hosts", json!(["a.example.com"]))],
            [("/routes", "`hosts` is set on `orders.create`: set `strip_any_host_port: true`")],
        ),
        row(
            [("/mode", json!("shadow"))],
            [(
                "/mode",
                "shadow mode: requests that break the rules of Case A are not refused, and keys are not rewritten",
            )],
        ),
        row(
            [
                ("/identity/sources/0/subject", json!({"value": "service:worker"})),
                (
                    "/identity/sources/-",
                    json!({
                        "name": "keys", "metadata": ["keys"], "tenant": "t", "project": "p",
                        "subject": {"value": "service:worker"}
                    }),
                ),
            ],
            [(
                "/identity/sources/1/subject/value",
                "the sources `jwt` and `keys` have the same constant subject, so their callers share keys",
            )],
        ),
        row(
            [("/shadow_key_header", json!("future-key"))],
            [("/shadow_key_header", "this member has no effect without a REQUIRED_A or ACCEPTED route in shadow mode")],
        ),
        row([("/shadow_key_header", json!("future-key")), ("/routes/0/mode", json!("shadow"))], []),
        row(
            [("/webhooks", json!(GONE))],
            [(
                "/webhooks",
                "no webhook is bound, so every delivery gets 404: list bindings in `static`, or look them up with \
                 `unkey`",
            )],
        ),
        row(
            [("/webhooks/openbao", json!({"cluster": "openbao"}))],
            [("/webhooks/openbao", "this store is never asked, because every binding lists its secrets")],
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
            [(
                "/routes/0/recovery",
                "results cannot be recovered in shadow mode, where keys of different callers are not kept apart",
            )],
        ),
        row(
            [
                ("/routes/2/path", json!("/carts/{cart_id}/lines/no:{line}")),
                ("/routes/2/target", json!("Cart/{cart_id}/get")),
            ],
            [(
                "/routes/2/target",
                "the backend does not get `{line}`: the path is rewritten, and the target does not name it. Put it into the \
                 object key, or set /forward/parameters, for example to `x-path-`",
            )],
        ),
        row([("/routes/2/target", json!("Cart/get")), ("/forward", json!({"parameters": "x-path-"}))], []),
        row([("/routes/2/target", json!("Cart/get")), ("/backend/rewrite_path", json!(false))], []),
        row([("/routes/1/target", json!("Hooks/ingest"))], []),
        row(
            [("/routes/1/target", json!("Hooks/ingest")), ("/routes/1/on_unmatched", json!("refuse"))],
            [("/routes/1/on_unmatched", "this member has no effect without `{body:…}` or `{form:…}` in the `target`")],
        ),
        row([("/routes/0/collision", json!("observe"))], []),
        row(
            [("/routes/0/collision", json!("observe")), ("/routes/0/guard_failure", json!("refuse"))],
            [("/routes/0/guard_failure", "this member has no effect without `\"collision\": \"enforce\"`")],
        ),
        row(
            [
                ("/routes/0/collision_scope", json!("caller")),
                ("/routes/0/fingerprint", json!("json")),
                ("/routes/0/fingerprint_headers", json!(["if-match"])),
                ("/routes/0/guard_failure", json!("refuse")),
            ],
            [
                ("/routes/0/guard_failure", "this member has no effect without `\"collision\": \"enforce\"`"),
                ("/routes/0/collision_scope", "this member has no effect without `collision`"),
                ("/routes/0/fingerprint", "this member has no effect without `collision`"),
                ("/routes/0/fingerprint_headers", "this member has no effect without `collision`"),
            ],
        ),
        row(
            [
                ("/routes/0/collision", json!("enforce")),
                ("/routes/0/collision_scope", json!("caller")),
                ("/routes/0/fingerprint", json!("json")),
                ("/routes/0/guard_failure", json!("refuse")),
            ],
            [],
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
                        "project": {"value": "main"},
                        "subject": {"field": "x-subject", "type": "client"}
                    }),
                ),
            ],
            [("/callers/timer/routes/0", "an identity source reads `x-tenant-id` too: the filter that owns it")],
        ),
    ]
}
