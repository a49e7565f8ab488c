//! The policy documents that the filter is measured with.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use harness::tokens;
use serde_json::{Value, json};

/// Who calls, as every variant's metadata says it.
const TENANT: &str = "acme";
const PROJECT: &str = "health-prod";
const USER: &str = "alice";

/// The id that the upstream gives to an operation.
pub(crate) const OPERATION: &str = "inv_18qDJRLBiJHX4CXTOoBYYYkcbFhzxgdbc9";

/// What comes before the caller's key in the namespaced one.
pub(crate) const NAMESPACE: &str = "t-acme:health-prod:user:alice:";

/// The endpoint that keyed requests go to.
pub(crate) const KEYED_PATH: &str = "/api/v1/conversations/send-message";
/// Where the backend has it.
pub(crate) const KEYED_TARGET: &str = "/restate/call/Conversations/sendMessage";
/// The endpoint at which there is nothing to do.
pub(crate) const IDLE_PATH: &str = "/api/v1/projects";

/// The claims that `jwt_authn` would leave in the metadata, as a provider's tokens have them.
pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://login.example.com/", "aud": "api.example.com", "sub": USER, "tenant_id": TENANT,
        "project_id": PROJECT, "scope": "conversations:write refunds:write", "email": "alice@example.com",
        "email_verified": true, "iat": 1_767_225_600, "exp": 1_767_229_200, "jti": "7d0c4b0e-9d0c-4a55-8c1e-7b9c5a0e1f2d",
    })
}

fn sources() -> Value {
    json!([tokens::source()])
}

/// A policy that rewrites the key and leaves all else as it is.
pub(crate) fn key_only() -> Value {
    json!({
        "version": 1,
        "identity": {"sources": sources()},
        "backend": {"kind": "generic", "keep_headers": ["authorization", "cookie"]},
        "routes": [{"endpoint": "conversations.send-message", "path": KEYED_PATH, "policy": "REQUIRED_A"}],
    })
}

/// A policy as short as can be, with an endpoint whose handler deduplicates by itself.
pub(crate) fn idle() -> Value {
    json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "identity": {"sources": sources()},
        "routes": [
            {"endpoint": "conversations.send-message", "path": KEYED_PATH, "policy": "REQUIRED_A"},
            {"endpoint": "projects.list", "methods": ["GET"], "path": IDLE_PATH, "policy": "HANDLER_INTERNAL_C"},
        ],
    })
}

/// The headers in which `jwt_authn` can write the claims (`claim_to_headers`), with the caller's values.
pub(crate) const CLAIM_HEADERS: [(&str, &str); 3] =
    [("x-tenant-id", TENANT), ("x-project-id", PROJECT), ("x-user-id", USER)];

/// As [`whole`], with the identity out of [`CLAIM_HEADERS`]. The backend gets two of them as they came.
pub(crate) fn whole_from_headers(routes: usize) -> Value {
    let [(tenant, _), (project, _), (user, _)] = CLAIM_HEADERS;
    let mut document = whole(routes);
    if let Some(sources) = document.pointer_mut("/identity/sources") {
        *sources = json!([{
            "name": "jwt", "headers_owned_by": "envoy.filters.http.jwt_authn", "tenant": tenant, "project": project,
            "subject": {"field": user, "type": "user"},
        }]);
    }
    document
}

/// The header in which `jwt_authn` can pass on the payload of a token (`forward_payload_header`).
pub(crate) const PAYLOAD_HEADER: &str = "x-jwt-payload";

/// The claims, as they stand in [`PAYLOAD_HEADER`].
pub(crate) fn encoded_claims() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(claims().to_string())
}

/// A policy with the identity out of [`PAYLOAD_HEADER`].
pub(crate) fn payload(mut document: Value) -> Value {
    if let Some(source) = document.pointer_mut("/identity/sources/0").and_then(Value::as_object_mut) {
        source.remove("metadata");
        source.insert("headers_owned_by".to_owned(), "envoy.filters.http.jwt_authn".into());
        source.insert("payload_header".to_owned(), PAYLOAD_HEADER.into());
    }
    document
}

/// A platform's policy with this many routes: paths become the backend's, identity is forwarded, answers are cleaned.
pub(crate) fn whole(routes: usize) -> Value {
    let forward = json!({"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"});
    let routes: Vec<Value> = (0..routes).map(|number| route(number, routes)).collect();
    json!({
        "version": 1,
        "docs_url": "https://developers.example.com/idempotency",
        "identity": {"sources": sources(), "forward": forward},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": routes,
    })
}

/// A route of a platform with many resources; the one that is called stands in the middle.
fn route(number: usize, routes: usize) -> Value {
    if number == routes / 2 {
        return json!({
            "endpoint": "conversations.send-message", "path": KEYED_PATH, "policy": "REQUIRED_A",
            "target": "Conversations/sendMessage",
        });
    }
    let resource = number / 4;
    let (endpoint, path, target) = match number % 4 {
        0 => ("create", "", "create"),
        1 => ("update", "/{item_id}/update", "{item_id}/update"),
        2 => ("archive", "/{item_id}/archive", "{item_id}/archive"),
        _ => ("search", "/search", "search"),
    };
    let object = if target.contains('/') { "Object" } else { "Service" };
    json!({
        "endpoint": format!("resource{resource}.{endpoint}"),
        "path": format!("/api/v1/resource{resource}{path}"),
        "policy": if number % 4 == 3 { "ACCEPTED" } else { "REQUIRED_A" },
        "target": format!("Resource{resource}{object}/{target}"),
    })
}
