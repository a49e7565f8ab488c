//! Signed callers.

use super::{GONE, Row, put, route, row};
use serde_json::{Value, json};

/// A signed caller that starts.
fn timer(more: Value) -> Value {
    let mut timer = json!({
        "subject": "service:timer",
        "key_prefix": "timer:",
        "routes": ["orders.create"],
        "signature": {
            "algorithm": "hmac-sha256",
            "signature": {"header": "x-timer-signature", "encoding": "hex"},
            "timestamp": {"header": "x-timer-time", "unit": "s", "max_age_s": 300},
            "template": "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}"
        },
        "secrets": [{"env": "A"}]
    });
    timer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    timer
}

/// [`timer`] with another member of its signature.
fn signing(member: &str, value: Value) -> Value {
    let mut timer = timer(json!({}));
    put(&mut timer, &format!("/signature/{member}"), &value);
    json!({"timer": timer})
}

const SIGNED_URL: &str = "{method}\n{url}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}";
const TWO_HOSTS: [(&str, &str); 1] = [(
    "/callers/timer/routes",
    "`orders.create` and `orders.other-host` differ only in their hosts, so one signed request could be sent to both: \
     the signed text does not contain the host: sign `{url}` instead of `{path}`",
)];
const FIXED_URL: [(&str, &str); 1] = [(
    "/callers/timer/routes",
    "the signed URL begins with `public_base_url`, so it does not contain the host of the request",
)];

fn base_url(url: &str) -> (&'static str, Value) {
    ("/webhooks/public_base_url", json!(url))
}

/// A caller of two routes with one path, each of a host of its own.
fn two_hosts<const C: usize, const E: usize>(
    changes: [(&'static str, Value); C],
    expected: [(&'static str, &'static str); E],
) -> Row {
    let mut changed = vec![
        ("/routes/0/hosts", json!(["a.example.com"])),
        (
            "/routes/-",
            json!({
                "endpoint": "orders.other-host", "hosts": ["b.example.com"], "path": "/orders", "policy": "REQUIRED_A",
                "target": "Orders/other"
            }),
        ),
        ("/callers", json!({"timer": timer(json!({"routes": ["orders.create", "orders.other-host"]}))})),
    ];
    changed.extend(changes);
    Row { changes: changed, expected: expected.to_vec() }
}

/// What cannot be said of signed callers.
pub(super) fn rows() -> Vec<Row> {
    let only = |more: Value| json!({"timer": timer(more)});
    let template = |template: &str| row([("/callers", signing("template", json!(template)))], []);
    let says =
        |row: Row, words: &'static str| Row { expected: vec![("/callers/timer/signature/template", words)], ..row };
    vec![
        // A route for signed callers needs none of the document's sources.
        row([("/callers", json!({"timer": timer(json!({}))})), ("/identity/sources/0/project", json!(GONE))], []),
        row(
            [
                ("/callers", json!({"timer": timer(json!({}))})),
                (
                    "/routes/0/identity",
                    json!({"sources": [{"name": "admin", "metadata": ["a"], "tenant": "t", "subject": {"field": "s"}}]}),
                ),
            ],
            [("/routes/0/scope", "no identity source names one: `admin`")],
        ),
        row([("/callers", only(json!({})))], []),
        // A signed caller is an identity: its route needs no other.
        row(
            [
                ("/identity", json!(GONE)),
                ("/routes/2/policy", json!("HANDLER_INTERNAL_C")),
                ("/callers", only(json!({}))),
            ],
            [],
        ),
        // Routes.
        row([("/callers", only(json!({"routes": []})))], [("/callers/timer/routes", "name at least one endpoint")]),
        row(
            [("/callers", only(json!({"routes": ["orders.create", "nope", "hooks", "carts.get", "orders.create"]})))],
            [
                ("/callers/timer/routes/1", "no route has the endpoint `nope`"),
                ("/callers/timer/routes/2", "`hooks` has to be a REQUIRED_A or ACCEPTED route without `webhook`"),
                ("/callers/timer/routes/3", "`carts.get` has to be a REQUIRED_A or ACCEPTED route without `webhook`"),
                ("/callers/timer/routes/4", "`orders.create` is listed twice"),
            ],
        ),
        row(
            [("/routes/1/policy", json!("ACCEPTED")), ("/callers", only(json!({"routes": ["hooks"]})))],
            [("/callers/timer/routes/0", "without `webhook`")],
        ),
        // The same signed bytes with another `Host` would run both routes.
        two_hosts([], TWO_HOSTS),
        two_hosts([("/routes/3/hosts", json!(GONE))], TWO_HOSTS),
        two_hosts([("/routes/3/path", json!("/{any}"))], TWO_HOSTS),
        two_hosts(
            [("/callers/timer/signature/template", json!(SIGNED_URL)), base_url("https://api.example.com")],
            FIXED_URL,
        ),
        two_hosts([("/callers/timer/signature/template", json!(SIGNED_URL))], []),
        two_hosts([("/routes/3/hosts", json!(["a.example.com"])), ("/routes/3/path", json!("/others"))], []),
        two_hosts([("/routes/3/methods", json!(["PUT"]))], []),
        two_hosts([("/callers/timer/routes", json!(["orders.create"]))], []),
        // Namespaces and headers are one caller's.
        row(
            [("/callers", json!({"timer": timer(json!({})), "clock": timer(json!({}))}))],
            [
                (
                    "/callers/clock/subject",
                    "/callers/timer already has this subject, so keys of the two could be the same",
                ),
                ("/callers/clock/routes/0", "on this route /callers/timer also signs in `x-timer-signature`"),
            ],
        ),
        row(
            [("/callers", only(json!({"subject": "service:webhook-ingest"})))],
            [("/callers/timer/subject", "/webhooks already has this subject, so keys of the two could be the same")],
        ),
        row(
            [
                ("/routes/-", route("x", "/x", json!({"policy": "ACCEPTED"}))),
                (
                    "/callers",
                    json!({"timer": timer(json!({})), "clock": timer(json!({"subject": "service:clock", "routes": ["x"]}))}),
                ),
            ],
            [],
        ),
        row(
            [("/callers", only(json!({}))), ("/backend/keep_headers", json!(["X-Project-Id"]))],
            [(
                "/backend/keep_headers/0",
                "the backend never gets `x-project-id` as a client sent it: remove it from this list",
            )],
        ),
        // Keys.
        row(
            [("/callers", only(json!({"key_prefix": "timer,"})))],
            [(
                "/callers/timer/key_prefix",
                "a prefix may hold only characters of keys: A-Z a-z 0-9 . _ ~ - ! $ & ' ( ) * + : = @",
            )],
        ),
        row([("/callers", only(json!({"key_prefix": "!$&'()*+:=@"})))], []),
        row(
            [("/callers", only(json!({"key_prefix": "t-timer:"})))],
            [(
                "/callers/timer/key_prefix",
                "no key of a client may begin with `t-`, as namespaced keys do: choose another prefix",
            )],
        ),
        row(
            [("/callers", only(json!({"key_prefix": "a".repeat(255)})))],
            [("/callers/timer/key_prefix", "the prefix is too long: a key has at most 255 characters with its prefix")],
        ),
        row([("/callers", only(json!({"key_prefix": "a".repeat(254)})))], []),
        row(
            [("/callers", only(json!({"secrets": ["planted"]})))],
            [("/callers/timer/secrets/0", "a secret in the document is visible in the gateway's config dump")],
        ),
        // What a signature has to cover.
        says(
            template("{body}"),
            "add `{method}`, `{path}`, `{timestamp}`, `{id}`, `{header:x-tenant-id}`, `{header:x-project-id}` to the template",
        ),
        says(
            template("{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}"),
            "add `{body}` to the template",
        ),
        row(
            [("/identity/forward", json!({"tenant": "x-org"})), ("/callers", only(json!({})))],
            [("/callers/timer/signature/template", "add `{header:x-org}` to the template")],
        ),
        template(
            "{url}\n{header:x-timer-time}.{method} {header:Idempotency-Key}\n{header:x-project-id}/{header:x-tenant-id},{body}",
        ),
        template("{body}.{timestamp}/{method}\n{path}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}"),
        // What it means has to be clear.
        says(
            template("{method}{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}"),
            "`{method}` can hold the text next to it, so two requests could have the same signature",
        ),
        says(
            template("{method}\n{path}.{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}"),
            "`{path}` can hold the text next to it, so two requests could have the same signature",
        ),
        says(
            template("{method}\n{path}\n{timestamp}\n{id}:{header:x-tenant-id}\n{header:x-project-id}\n{body}"),
            "`{id}` can hold the text next to it, so two requests could have the same signature",
        ),
        says(
            template("{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}.{header:x-project-id}\n{body}"),
            "`{header:x-tenant-id}` can hold the text next to it, so two requests could have the same signature",
        ),
        says(
            template("{method}\n{path}\n{timestamp}0{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}"),
            "`{timestamp}` can hold the text next to it, so two requests could have the same signature",
        ),
        says(
            template("{method}\n{body}\n{path}.{timestamp}\n{id}\n{header:x-tenant-id}.{header:x-project-id}"),
            "`{header:x-project-id}` can hold the text next to it, so two requests could have the same signature",
        ),
        says(
            template(
                "{method}\n{body}\n{body}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}",
            ),
            "`{body}` can hold the text next to it, so two requests could have the same signature",
        ),
        // What a provider may say and a caller may not.
        row(
            [("/callers", signing("algorithm", json!("sha256-secret-first")))],
            [(
                "/callers/timer/signature/algorithm",
                "whoever has seen a signature of this kind can sign a longer body",
            )],
        ),
        row(
            [("/callers", {
                let mut token = only(json!({}));
                for (place, value) in [
                    ("algorithm", json!("token")),
                    ("template", json!(GONE)),
                    ("signature", json!({"header": "x-timer-signature"})),
                ] {
                    put(&mut token, &format!("/timer/signature/{place}"), &value);
                }
                token
            })],
            [
                ("/callers/timer/signature/algorithm", "a token does not sign the request"),
                ("/callers/timer/signature/template", "to the template"),
            ],
        ),
        row(
            [("/callers", signing("signature", json!({"numbered_headers": "x-s-", "encoding": "hex"})))],
            [("/callers/timer/signature/signature", "a caller's signature is in a `header`")],
        ),
        row(
            [("/callers", signing("timestamp", json!({"json": "/t", "unit": "s", "max_age_s": 1})))],
            [("/callers/timer/signature/timestamp", "a caller's timestamp is in a `header`, or in a `pair`")],
        ),
        row(
            [("/callers", {
                let mut timeless = signing("timestamp", json!(GONE));
                put(
                    &mut timeless,
                    "/timer/signature/template",
                    &json!("{method}\n{path}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}"),
                );
                timeless
            })],
            [
                ("/callers/timer/signature", "the member `timestamp` is missing"),
                ("/callers/timer/signature/template", "add `{timestamp}` to the template"),
            ],
        ),
        row(
            [("/callers", signing("identifier", json!({"header": "x-id", "signed": false})))],
            [(
                "/callers/timer/signature/identifier",
                "`identifier` is not supported for signed callers, which sign their key and their body",
            )],
        ),
        row(
            [(
                "/callers",
                signing(
                    "template",
                    json!(
                        "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{json:/a}\n{body}"
                    ),
                ),
            )],
            [("/callers/timer/signature/template", "but no value that is read out of these")],
        ),
    ]
}
