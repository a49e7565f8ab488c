//! What a single member of a policy cannot be.

use super::{GONE, Row, base, row};
use serde_json::json;

/// What a single member cannot be.
pub(super) fn values() -> Vec<Row> {
    let source = "/identity/sources/0";
    let header_source = |tenant: &str| json!({"name": "h", "headers_owned_by": "ext_authz", "tenant": tenant, "project": "x-p", "subject": {"field": "x-s"}});
    let payload_source = |header: &str, tenant: serde_json::Value| json!({"name": "p", "headers_owned_by": "jwt_authn", "payload_header": header, "tenant": tenant, "project": "project_id", "subject": {"field": "sub", "type": "user"}});
    let nested = |depth: usize| json!(vec!["a"; depth]);
    vec![
        row([("/verison", json!(1))], [("/verison", "unknown member `verison`; did you mean `version`?")]),
        row(
            [("/plugins", json!({}))],
            [("/plugins", "unknown member `plugins`; the known members are `$schema`, `version`, `mode`")],
        ),
        // The header of future keys.
        row(
            [("/shadow_key_header", json!("Idempotency-Key"))],
            [("/shadow_key_header", "`idempotency-key` already has a meaning: choose another header")],
        ),
        row(
            [("/shadow_key_header", json!("x-envoy-key"))],
            [("/shadow_key_header", "`x-envoy-key` already has a meaning: choose another header")],
        ),
        row([("/shadow_key_header", json!(":path"))], [("/shadow_key_header", "expected a header name")]),
        row(
            [("/shadow_key_header", json!("future_key"))],
            [(
                "/shadow_key_header",
                "write the header with - instead of _: many servers and proxies drop names with _",
            )],
        ),
        row(
            [("/backend/key_header", json!("Authorization"))],
            [("/backend/key_header", "`authorization` already has a meaning: choose another header")],
        ),
        // Rules for keys.
        row(
            [(
                "/key",
                json!({"charset": "ascii", "format": "uuid4", "min_length": 256, "max_age": "1 day", "examples": "a"}),
            )],
            [
                ("/key/charset", "expected one of `unreserved`, `visible`, found `ascii`"),
                ("/key/format", "expected one of `any`, `uuid`, `uuid7`, `ulid`, found `uuid4`"),
                ("/key/min_length", "expected an integer from 1 to 255"),
                ("/key/max_age", "expected a duration, a number and a unit, such as `30s`, `15m`, `24h` or `7d`"),
                ("/key/examples", "expected an array, found a string"),
            ],
        ),
        row(
            [("/key", json!({"pattern": "(a"}))],
            [("/key/pattern", "this regular expression cannot be used: found open group without closing ')'")],
        ),
        row([("/key", json!({"pattern": "(?=a)b"}))], [("/key/pattern", "cannot be used: ")]),
        row([("/key", json!({"pattern": "(a)\\1"}))], [("/key/pattern", "cannot be used: ")]),
        row([("/key", json!({"pattern": "((a{99}){99}){99}"}))], [("/key/pattern", "cannot be used: ")]),
        row(
            [("/key", json!({"pattern": "a".repeat(257)}))],
            [("/key/pattern", "a pattern has at most 256 characters")],
        ),
        row([("/key", json!({"pattern": "a".repeat(256)}))], []),
        row([("/on_prohibited", json!("ignore"))], [("/on_prohibited", "expected one of `refuse`, `strip`")]),
        row(
            [("/forward", json!({"parameters": "X-Path-"}))],
            [("/forward/parameters", "expected the beginning of a header name in lower case, such as `x-path-`")],
        ),
        row([("/forward", json!({"parameters": "x-path"}))], [("/forward/parameters", "expected the beginning")]),
        row(
            [("/forward", json!({"parameters": "x-forwarded-"}))],
            [(
                "/forward/parameters",
                "headers that begin with `x-forwarded-` already have a meaning: choose another beginning",
            )],
        ),
        row(
            [("/identity/sources/0/tenant", json!({"value": "_tenant"}))],
            [("/identity/sources/0/tenant/value", "a tenant or project has 1 to 63 characters of A-Z a-z 0-9 . _ ~ -")],
        ),
        row(
            [("/identity/sources/0/project", json!({"value": "a", "type": "b"}))],
            [("/identity/sources/0/project/type", "unknown member `type`")],
        ),
        row([("/identity/sources/0/project", json!({}))], [("/identity/sources/0/project", "the member `value` is")]),
        row(
            [("/identity/sources/0/subject/field", json!({"value": "u"}))],
            [("/identity/sources/0/subject/field", "expected a string, found an object")],
        ),
        row([("/version", json!(GONE))], [("", "the member `version` is missing")]),
        row([("/routes", json!(GONE))], [("", "the member `routes` is missing")]),
        row([("/version", json!(2))], [("/version", "expected an integer from 1 to 1")]),
        row([("/version", json!("1"))], [("/version", "expected an integer, found a string")]),
        row(
            [("/mode", json!("Shadow"))],
            [("/mode", "expected one of `enforce`, `shadow`, found `Shadow`; did you mean `shadow`?")],
        ),
        row(
            [("/routes/0/policy", json!("REQUIRE_A"))],
            [("/routes/0/policy", "`PROHIBITED`, found `REQUIRE_A`; did you mean `REQUIRED_A`?")],
        ),
        row([("/routes/0/policy", json!("accepted"))], [("/routes/0/policy", "; did you mean `ACCEPTED`?")]),
        row([("/backend/kind", json!("generics"))], [("/backend/kind", "; did you mean `generic`?")]),
        row([("/routes/0/scope", json!("platfrom"))], [("/routes/0/scope", "; did you mean `platform`?")]),
        row(
            [("/answers", json!({"retry_header": [], "error_member": "yes"}))],
            [
                ("/answers/retry_header", "unknown member `retry_header`; did you mean `retry_headers`?"),
                ("/answers/error_member", "expected true or false, found a string"),
            ],
        ),
        row(
            [(
                "/answers",
                json!({"retry_headers": ["x_should_retry", "Retry-After", "Content-Type", "idempotency-retry", "x-*"]}),
            )],
            [
                ("/answers/retry_headers/0", "write the header with - instead of _: `_` counts as `-`"),
                (
                    "/answers/retry_headers/1",
                    "`retry-after` already has a meaning: choose another header, such as `x-should-retry`",
                ),
                (
                    "/answers/retry_headers/2",
                    "`content-type` already has a meaning: choose another header, such as `x-should-retry`",
                ),
                (
                    "/answers/retry_headers/3",
                    "`idempotency-retry` already has a meaning: choose another header, such as `x-should-retry`",
                ),
                ("/answers/retry_headers/4", "expected a header name"),
            ],
        ),
        row(
            [("/answers", json!({"retry_headers": ["x-a", "X-A"]}))],
            [("/answers/retry_headers", "`x-a` is in the list twice")],
        ),
        row(
            [("/answers", json!({"retry_headers": ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]}))],
            [("/answers/retry_headers", "the list may have at most 8 headers")],
        ),
        row([("/routes", json!({}))], [("/routes", "expected an array, found an object")]),
        row([("/routes/0", json!([]))], [("/routes/0", "expected an object, found an array")]),
        row([("/routes/0/one_way", json!("yes"))], [("/routes/0/one_way", "expected true or false, found a string")]),
        row([("/docs_url", json!(1.5))], [("/docs_url", "expected a string, found a number")]),
        row(
            [("/docs_url", json!("https://a/#b"))],
            [("/docs_url", "expected an absolute http or https URL without a fragment")],
        ),
        row(
            [("/recovery", json!({"wait_ms": 600_001, "max_waits_per_caller": 0, "max_waits_per_tenant": 100_001}))],
            [
                ("/recovery/max_waits_per_caller", "expected an integer from 1 to 100000"),
                ("/recovery/max_waits_per_tenant", "expected an integer from 1 to 100000"),
                ("/recovery/wait_ms", "expected an integer from 0 to 600000"),
            ],
        ),
        row(
            [("/telemetry", json!({"max_series": 0}))],
            [("/telemetry/max_series", "expected an integer from 1 to 1000000")],
        ),
        row(
            [("/routes/0/max_body_bytes", json!(1 << 31))],
            [("/routes/0/max_body_bytes", "expected an integer from 1 to 1073741824")],
        ),
        row(
            [("/retention", json!({"classes": {"a/b": "1 day"}}))],
            [(
                "/retention/classes/a~1b",
                "expected a duration, a number and a unit, such as `30s`, `15m`, `24h` or `7d`",
            )],
        ),
        row(
            [("/backend/kind", json!(GONE))],
            [("/backend", "the member `kind` is missing: `\"backend\": {\"kind\": \"generic\"}` is an API that")],
        ),
        row([("/backend", json!(GONE))], [("", "is Restate's ingress; docs/backends.md compares them")]),
        row([("/backend/kind", json!("kafka"))], [("/backend/kind", "expected one of `restate`, `generic`")]),
        row([("/backend/cluster", json!(""))], [("/backend/cluster", "expected a text that is not empty")]),
        row(
            [("/backend/guard", json!({"service": "a/b"}))],
            [("/backend/guard/service", "service and handler have the form [A-Za-z_][A-Za-z0-9._-]*")],
        ),
        row(
            [("/backend/operation_id", json!({"from": "a b"}))],
            [
                ("/backend/operation_id/from", "expected a header name"),
                ("/backend/operation_id", "the member `to` is missing"),
            ],
        ),
        row(
            [("/backend/hide_headers", json!(["x*"]))],
            [("/backend/hide_headers/0", "expected a header name, or the beginning of one followed by *")],
        ),
        row([("/backend/keep_headers", json!(["x-*"]))], [("/backend/keep_headers/0", "expected a header name")]),
        row(
            [("/backend/reserved_paths", json!(["/a/", "/", "a", "/%5c"]))],
            [
                ("/backend/reserved_paths/0", "write the path in its normalised form, `/a`"),
                ("/backend/reserved_paths/1", "the root `/` cannot be closed: write a path below it"),
                ("/backend/reserved_paths/2", "The request target is no absolute path"),
                ("/backend/reserved_paths/3", "The path holds a backslash"),
            ],
        ),
        // Identity.
        row([("/identity/sources", json!([]))], [("/identity/sources", "name at least one identity source")]),
        row([("/identity/sources", json!(GONE))], [("/identity", "the member `sources` is missing")]),
        row(
            [("/identity/sources/-", base()["identity"]["sources"][0].clone())],
            [("/identity/sources/1", "the name `jwt` is used twice: give each source its own name")],
        ),
        row(
            [("/identity/subject_types", json!(["Robot"]))],
            [("/identity/subject_types/0", "a subject type has the form [a-z][a-z0-9_]*")],
        ),
        row([("/identity/sources/0/metadata", json!(GONE))], [(source, "a source has one of `metadata`")]),
        row(
            [("/identity/sources/0/metadata", json!(GONE)), ("/identity/sources/0/payload_header", json!("x-payload"))],
            [(source, "a source has one of `metadata`")],
        ),
        row([("/identity/sources/0/headers_owned_by", json!("x"))], [(source, "a source has one of `metadata`")]),
        row(
            [("/identity/sources/0/metadata", json!([]))],
            [("/identity/sources/0/metadata", "name the filter's metadata namespace")],
        ),
        row(
            [("/identity/sources/0/metadata", json!("envoy.filters.http.jwt_authn"))],
            [("/identity/sources/0/metadata", "one: [\"envoy.filters.http.jwt_authn\", \"jwt\"]")],
        ),
        row(
            [("/identity/sources/0/tenant", json!([]))],
            [("/identity/sources/0/tenant", "the list is empty: name the member to read")],
        ),
        row(
            [("/identity/sources/0/tenant", json!(["a", "b\0"]))],
            [("/identity/sources/0/tenant/1", "expected a text that is not empty")],
        ),
        row(
            [("/identity/sources/-", header_source("x_t"))],
            [("/identity/sources/1/tenant", "write the header with - instead of _")],
        ),
        row(
            [("/identity/sources/-", header_source("Host"))],
            [("/identity/sources/1/tenant", "`host` already has a meaning: choose another header")],
        ),
        row(
            [("/identity/sources/-", header_source("idempotency-key"))],
            [("/identity/sources/1/tenant", "`idempotency-key` already has a meaning: choose another header")],
        ),
        // The payload of a token in a header.
        row([("/identity/sources/-", payload_source("x-payload", nested(8)))], []),
        row(
            [("/identity/sources/-", payload_source("x-payload", nested(9)))],
            [("/identity/sources/1/tenant", "a claim stands at most eight members deep: name one that does")],
        ),
        row(
            [("/identity/sources/-", payload_source("x-payload", json!([])))],
            [("/identity/sources/1/tenant", "the list is empty: name the member to read")],
        ),
        row(
            [("/identity/sources/-", payload_source("x_payload", json!("tenant_id")))],
            [("/identity/sources/1/payload_header", "write the header with - instead of _")],
        ),
        row(
            [("/identity/sources/-", payload_source("Host", json!("tenant_id")))],
            [("/identity/sources/1/payload_header", "`host` already has a meaning: choose another header")],
        ),
        row(
            [("/identity/sources/0/payload_header", json!("x-payload"))],
            [("/identity/sources/0/payload_header", "say in `headers_owned_by` which filter sets this header")],
        ),
        row(
            [("/identity/sources/0/subject", json!({"type": "user"}))],
            [("/identity/sources/0/subject", "name the `field` with the subject, or a constant subject as `value`")],
        ),
        row(
            [("/identity/sources/0/subject", json!({"value": "worker"}))],
            [("/identity/sources/0/subject/value", "expected `{type}:{id}`, such as `service:webhook-ingest`")],
        ),
        row(
            [("/identity/sources/0/subject", json!({"value": "servise:worker"}))],
            [(
                "/identity/sources/0/subject/value",
                "`servise` is no subject type of this policy, and `subject_types` can add it; did you mean `service`?",
            )],
        ),
        row(
            [("/identity/sources/0/subject", json!({"value": "service:worker", "field": "sub", "type": "service"}))],
            [
                ("/identity/sources/0/subject/field", "a constant subject is the whole subject: leave this member out"),
                ("/identity/sources/0/subject/type", "a constant subject is the whole subject: leave this member out"),
            ],
        ),
        row(
            [("/routes/0/subject", json!("nobody"))],
            [("/routes/0/subject", "expected one of `caller`, `none`, found `nobody`")],
        ),
        // Routes.
        row(
            [("/routes/0/endpoint", json!("_x"))],
            [("/routes/0/endpoint", "a name has 1 to 128 characters of A-Z a-z 0-9 . _ - and does not begin with _")],
        ),
        row(
            [("/routes/0/methods", json!([]))],
            [("/routes/0/methods", "list at least one method, or leave the member out (`[\"POST\"]`)")],
        ),
        row(
            [("/routes/0/methods", json!(["post", "CONNECT"]))],
            [
                ("/routes/0/methods/0", "expected a method in upper case, such as `POST`"),
                ("/routes/0/methods/1", "CONNECT is not supported, because its requests have no path"),
            ],
        ),
        row(
            [(
                "/routes/0/hosts",
                json!([
                    "a.example.com:443",
                    "A.example.com",
                    "*.Example.com",
                    "a.example.com.",
                    "[2001:DB8:0::1]",
                    "0x7f.1",
                    "m\u{fc}nchen.example",
                    "a:x"
                ]),
            )],
            [
                ("/routes/0/hosts/0", "canonical form, `a.example.com`"),
                ("/routes/0/hosts/1", "write the host in its canonical form, `a.example.com`"),
                ("/routes/0/hosts/2", "canonical form, `*.example.com`"),
                ("/routes/0/hosts/3", "canonical form, `a.example.com`"),
                ("/routes/0/hosts/4", "canonical form, `[2001:db8::1]`"),
                ("/routes/0/hosts/5", "canonical form, `127.0.0.1`"),
                ("/routes/0/hosts/6", "expected a host without port"),
                ("/routes/0/hosts/7", "such as `xn--mnchen-3ya.example`"),
            ],
        ),
        row(
            [("/routes/0/query", json!(["a b", "Delay"]))],
            [
                ("/routes/0/query/0", "expected a query parameter's name"),
                ("/routes/0/query/1", "`Delay` controls the backend itself, so a client cannot send it: remove it"),
            ],
        ),
        // The shape of answers.
        row(
            [("/routes/0/answer", json!({"status": 300, "location": 1, "headers": {}}))],
            [
                ("/routes/0/answer/headers", "unknown member `headers`; the known members are `status`, `location`"),
                ("/routes/0/answer/status", "expected an integer from 200 to 299"),
                ("/routes/0/answer/location", "expected a string, found a number"),
            ],
        ),
        row([("/routes/0/answer", json!({}))], [("/routes/0/answer", "set `status`, `location` or both")]),
        row(
            [("/routes/0/answer", json!({"status": 204}))],
            [("/routes/0/answer/status", "an answer with this status has no content, or only a part of it")],
        ),
        row([("/routes/0/answer", json!({"status": 205}))], [("/routes/0/answer/status", "has no content")]),
        row([("/routes/0/answer", json!({"status": 206}))], [("/routes/0/answer/status", "has no content")]),
        row([("/routes/0/answer", json!({"status": 207, "location": "/a:b/{body:/id}"}))], []),
        row(
            [("/routes/0/answer", json!({"location": "/orders/%41"}))],
            [(
                "/routes/0/answer/location",
                "`/orders/%41`: fixed text in a location may hold only [A-Za-z0-9/._~:@!$&'()*+=-]",
            )],
        ),
        row(
            [("/routes/0/answer", json!({"location": "/orders/{body:/id"}))],
            [("/routes/0/answer/location", "a `{` is not closed")],
        ),
        row(
            [("/routes/0/answer", json!({"location": "/orders/{body:id}"}))],
            [(
                "/routes/0/answer/location",
                "`{body:id}`: write a JSON pointer of at most 8 parts after `body:`, such as `/id`",
            )],
        ),
        row(
            [("/routes/0/answer", json!({"location": "https://a.example/{body:/id}"}))],
            [(
                "/routes/0/answer/location",
                "a location is a path such as `/refunds/{body:/id}`: it begins with one slash",
            )],
        ),
        row([("/routes/0/answer", json!({"location": "//a/b"}))], [("/routes/0/answer/location", "one slash, and no")]),
        row([("/routes/0/answer", json!({"location": "/a/../b"}))], [("/routes/0/answer/location", "`.` or `..`")]),
        row([("/routes/0/answer", json!({"location": "/"}))], [("/routes/0/answer/location", "a location is a path")]),
        row([("/routes/2/path", json!("carts"))], [("/routes/2/path", "a path begins with a slash")]),
        row(
            [("/routes/2/path", json!("/carts/:Cart_id"))],
            [("/routes/2/path", "`:Cart_id`: a parameter is written `{cart_id}`")],
        ),
        row([("/routes/2/path", json!("/carts/<id>"))], [("/routes/2/path", "`<id>`: a parameter is written `{id}`")]),
        row(
            [("/routes/2/path", json!("/carts/**"))],
            [("/routes/2/path", "`**`: a path has no wildcards: write a parameter such as `{name}` for one segment")],
        ),
        row(
            [("/routes/2/path", json!("/caf\u{e9}/{id}"))],
            [(
                "/routes/2/path",
                "no request can match this path, because paths are normalised first: write `/caf%C3%A9/{id}`",
            )],
        ),
        row(
            [("/routes/2/path", json!("/{Cart}"))],
            [("/routes/2/path", "`{Cart}`: a parameter's name has the form [a-z][a-z0-9_]*")],
        ),
        row(
            [("/routes/2/path", json!("/{a}/{a}"))],
            [("/routes/2/path", "the parameter `{a}` is in the path twice: rename one of them")],
        ),
        row(
            [("/routes/2/path", json!("/cart-{id}x"))],
            [(
                "/routes/2/path",
                "`cart-{id}x`: a parameter is a whole segment, or the rest of a segment after fixed text, as in /{name}/ \
                 or /key:{name}/",
            )],
        ),
        row(
            [("/routes/2/path", json!("/a%2Fb"))],
            [("/routes/2/path", "%2F is allowed only in the value of a parameter: remove it from the path")],
        ),
        row(
            [("/routes/2/path", json!("/a//b/"))],
            [("/routes/2/path", "no request can match this path, because paths are normalised first: write `/a/b/`")],
        ),
        row(
            [("/routes/2/path", json!("/a%zz"))],
            [("/routes/2/path", "The path holds a % that is not followed by two hexadecimal digits")],
        ),
        row([("/routes/2/path", json!("/a%00"))], [("/routes/2/path", "The path holds an escaped control character")]),
        row(
            [("/backend/reserved_paths", json!(["/a%2Fb"]))],
            [("/backend/reserved_paths/0", "write `/` instead of %2F between segments")],
        ),
        row(
            [("/routes/2/path", json!("/a%FF"))],
            [("/routes/2/path", "The path holds escaped bytes that are no UTF-8")],
        ),
        row([("/routes/2/path", json!("/a;b"))], [("/routes/2/path", "The path holds a semicolon")]),
        row(
            [("/routes/2/path", json!("/a b"))],
            [("/routes/2/path", "The path holds a space, a control character or #")],
        ),
        // Webhooks.
        row(
            [("/routes/1/webhook", json!({"provider": "Stripe", "id": "short"}))],
            [
                ("/routes/1/webhook/provider", "a provider's name has the form [a-z0-9_]+; did you mean `stripe`?"),
                ("/routes/1/webhook/id", "a webhook id has the form [A-Za-z0-9_-]{8,64}"),
            ],
        ),
        row(
            [("/webhooks/subject", json!("ingest"))],
            [("/webhooks/subject", "expected `{type}:{id}`, such as `service:webhook-ingest`")],
        ),
        row(
            [("/webhooks/mode", json!("shadow"))],
            [(
                "/webhooks/mode",
                "webhooks have no shadow mode, because it would forward unverified deliveries in the name",
            )],
        ),
        row([("/webhooks/mode", json!("dry-run"))], [("/webhooks/mode", "expected one of `enforce`, found `dry-run`")]),
        row(
            [("/webhooks/public_base_url", json!("https://a/b"))],
            [("/webhooks/public_base_url", "expected scheme and host only, such as")],
        ),
        row(
            [("/webhooks/static/short", base()["webhooks"]["static"]["wh_01JABCDEF"].clone())],
            [("/webhooks/static/short", "a webhook id has the form [A-Za-z0-9_-]{8,64}")],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/tenant", json!("_tenant"))],
            [(
                "/webhooks/static/wh_01JABCDEF/tenant",
                "expected [A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}, neither `.` nor `..`",
            )],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets", json!([]))],
            [("/webhooks/static/wh_01JABCDEF/secrets", "name at least one secret, such as")],
        ),
        row(
            [("/webhooks/static/wh_01JABCDEF/secrets/0/env", json!("1A"))],
            [(
                "/webhooks/static/wh_01JABCDEF/secrets/0/env",
                "expected the name of an environment variable, [A-Za-z_][A-Za-z0-9_]*",
            )],
        ),
    ]
}
