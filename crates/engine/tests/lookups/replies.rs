//! What the stores are asked, and what is made of what they answer.

use super::{CacheSetup, HOOK, OWNER, header, path, secret, verified, version};
use edge_idempotency_engine::call::MAX_REPLY_BYTES;
use edge_idempotency_engine::lookup::{Lookups, StoreKind};
use serde_json::{Value, json};

#[test]
fn unkey_is_asked_to_verify_a_key_at_no_cost() {
    let mut setup = CacheSetup::with(
        &json!({"authority": "api.unkey.com", "root_key": "unkey_root", "timeout_ms": 700}),
        &json!({}),
    );
    setup.ask(StoreKind::Bindings, HOOK);
    let call = setup.call();
    assert_eq!((call.1.cluster.as_str(), call.1.timeout_ms), ("unkey", 700));
    assert_eq!(header(&call, ":method"), Some("POST"));
    assert_eq!(path(&call), "/v2/keys.verifyKey");
    assert_eq!(header(&call, ":authority"), Some("api.unkey.com"));
    assert_eq!(header(&call, "authorization"), Some("Bearer unkey_root"));
    assert_eq!(header(&call, "content-type"), Some("application/json"));
    let body: Value = serde_json::from_slice(&call.1.body).unwrap();
    assert_eq!(body, json!({"key": HOOK, "credits": {"cost": 0}}));

    let mut setup = CacheSetup::new();
    setup.ask(StoreKind::Bindings, HOOK);
    let call = setup.call();
    assert_eq!((header(&call, ":authority"), header(&call, "authorization")), (Some("unkey"), None));
}

#[test]
fn openbao_is_asked_for_the_owner_s_secret() {
    let options = json!({"mount": "edge/kv/hooks", "token": "s.token", "authority": "bao:8200"});
    let mut setup = CacheSetup::with(&json!({}), &options);
    setup.ask(StoreKind::Secrets, "a~1.x:p-2_y:twilio_event_streams");
    let call = setup.call();
    assert_eq!(header(&call, ":method"), Some("GET"));
    assert_eq!(path(&call), "/v1/edge/kv/hooks/data/a~1.x:p-2_y:twilio_event_streams");
    assert_eq!(header(&call, ":authority"), Some("bao:8200"));
    assert_eq!(header(&call, "x-vault-token"), Some("s.token"));
    assert_eq!((call.1.cluster.as_str(), call.1.timeout_ms, call.1.body.len()), ("openbao", 1000, 0));

    let mut setup = CacheSetup::with(&json!({}), &json!({"path": "hooks/{tenant}/{project}/{provider}"}));
    setup.ask(StoreKind::Secrets, OWNER);
    let call = setup.call();
    assert_eq!(path(&call), "/v1/secret/data/hooks/acme/shop/stripe");
    assert_eq!(header(&call, "x-vault-token"), None);
}

fn data(valid: bool, code: &str) -> Value {
    json!({"meta": {"requestId": "r"}, "data": {"valid": valid, "code": code}})
}

fn meta(changes: &Value) -> Value {
    let mut reply = verified("acme");
    let meta = reply.pointer_mut("/data/meta").unwrap().as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        meta.insert(name.clone(), value.clone());
    }
    reply
}

#[test]
fn every_answer_of_unkey_means_something() {
    let error = json!({"meta": {"requestId": "r"}, "error": {"title": "t", "detail": "d", "status": 500, "type": "u"}});
    let malformed = "unavailable:registry_reply_malformed";
    for (status, body, expected) in [
        (200, verified("acme"), "acme:shop:stripe"),
        (200, meta(&json!({"key_scope": "webhook", "bind_body": true})), "acme:shop:stripe Webhook body"),
        (200, meta(&json!({"key_scope": "project", "bind_body": false})), "acme:shop:stripe Project no body"),
        (200, meta(&json!({"kind": "api"})), "unknown:binding_of_another_kind"),
        (200, meta(&json!({"kind": null})), "unknown:binding_of_another_kind"),
        (200, meta(&json!({"key_scope": "all"})), "unavailable:binding_malformed"),
        (200, meta(&json!({"bind_body": "yes"})), "unavailable:binding_malformed"),
        (200, meta(&json!({"project_id": 7})), "unavailable:binding_malformed"),
        (200, meta(&json!({"project_id": "_tenant"})), "unavailable:binding_malformed"),
        (200, meta(&json!({"provider": null})), "unavailable:binding_malformed"),
        (200, verified("a:b"), "unavailable:binding_malformed"),
        (200, verified(""), "unavailable:binding_malformed"),
        (200, data(true, "VALID"), "unknown:binding_of_another_kind"),
        (200, data(false, "NOT_FOUND"), "unknown:binding_not_found"),
        (200, data(false, "DISABLED"), "unknown:binding_not_valid"),
        (200, data(false, "EXPIRED"), "unknown:binding_not_valid"),
        (200, data(false, "FORBIDDEN"), "unknown:binding_not_valid"),
        (200, data(false, "INSUFFICIENT_PERMISSIONS"), "unknown:binding_not_valid"),
        (200, data(false, "INSUFFICIENT_CREDITS"), "unknown:binding_not_valid"),
        (200, data(false, "USAGE_EXCEEDED"), "unknown:binding_not_valid"),
        (200, data(false, "SOMETHING_NEW"), "unknown:binding_not_valid"),
        (200, data(true, "SOMETHING_NEW"), "unknown:binding_not_valid"),
        (200, data(false, "VALID"), "unknown:binding_not_valid"),
        (200, data(false, "RATE_LIMITED"), "unavailable:registry_throttled"),
        (200, json!({"meta": {}}), malformed),
        (200, json!({"data": {"valid": "true", "code": "VALID"}}), malformed),
        (200, json!({"data": {"valid": true}}), malformed),
        (200, json!([]), malformed),
        (400, error.clone(), "unavailable:registry_refused"),
        (401, error.clone(), "unavailable:registry_forbidden"),
        (403, error.clone(), "unavailable:registry_forbidden"),
        (404, error.clone(), "unavailable:registry_refused"),
        (429, error.clone(), "unavailable:registry_throttled"),
        (302, json!({}), "unavailable:registry_refused"),
        (500, error.clone(), "unavailable:registry_error"),
        (503, error, "unavailable:registry_error"),
        (504, json!({}), "unavailable:registry_timeout"),
    ] {
        assert_eq!(CacheSetup::new().fetch(StoreKind::Bindings, HOOK, status, &body), expected, "{status} {body}");
    }
    // A member that stands twice is nothing to rely on.
    let twice =
        verified("acme").to_string().replace(r#""externalId":"acme""#, r#""externalId":"acme","externalId":"evil""#);
    assert_eq!(one(StoreKind::Bindings, Some(200), Some(twice.as_bytes())), "unavailable:binding_malformed");
    let elsewhere = verified("acme").to_string().replace(r#""valid":true"#, r#""valid":true,"x":1,"x":1"#);
    assert_eq!(one(StoreKind::Bindings, Some(200), Some(elsewhere.as_bytes())), "unavailable:binding_malformed");
    assert_eq!(one(StoreKind::Bindings, Some(500), Some(br#"{"x":1,"x":1}"#)), "unavailable:registry_error");
    assert_eq!(
        one(StoreKind::Bindings, Some(503), Some(b"upstream connect error")),
        "unavailable:registry_unreachable"
    );
    assert_eq!(one(StoreKind::Bindings, None, None), "unavailable:registry_unreachable");
}

#[test]
fn every_answer_of_openbao_means_something() {
    let of = |data: Value| json!({"request_id": "r", "data": {"data": data, "metadata": {"version": 1, "created_time": "x"}}});
    let errors = |list: &[&str]| json!({"errors": list});
    let eight: Vec<String> = (0..8).map(|index| format!("s{index}")).collect();
    let nine: Vec<String> = (0..9).map(|index| format!("s{index}")).collect();
    let deleted = json!({"data": {"data": null, "metadata": {"deletion_time": "2026-01-01T00:00:00Z", "version": 3}}});
    let (malformed, missing) = ("unavailable:secret_store_reply_malformed", "unavailable:secret_missing");
    for (status, body, expected) in [
        (200, secret("whsec_1"), "whsec_1"),
        (200, of(json!({"secret": "a\"\\\n\u{1f980}", "note": 7})), "a\"\\\n\u{1f980}"),
        (200, of(json!({"secrets": ["new", "old"]})), "new+old"),
        (200, of(json!({"secrets": eight.clone()})), &eight.join("+")),
        (200, of(json!({"secrets": nine})), "unavailable:secret_malformed"),
        (200, of(json!({"secrets": []})), "unavailable:secret_malformed"),
        (200, of(json!({"secrets": ["a", 7]})), "unavailable:secret_malformed"),
        (200, of(json!({"secrets": "a"})), "unavailable:secret_malformed"),
        (200, of(json!({"secret": "a", "secrets": ["b"]})), "unavailable:secret_malformed"),
        (200, of(json!({"secret": null})), "unavailable:secret_malformed"),
        (200, of(json!({})), "unavailable:secret_malformed"),
        (200, json!({"data": {"data": null, "metadata": {}}}), malformed),
        (200, json!({"data": {"secret": "of version 1 of the engine"}}), malformed),
        (404, errors(&[]), missing),
        (404, deleted, missing),
        (
            404,
            errors(&["no handler for route \"kv/data/x\". route entry not found."]),
            "unavailable:secret_store_refused",
        ),
        (404, json!({"data": {}}), "unavailable:secret_store_refused"),
        (400, errors(&["x"]), "unavailable:secret_store_refused"),
        (403, errors(&["1 error occurred: * permission denied"]), "unavailable:secret_store_forbidden"),
        (429, errors(&["quota"]), "unavailable:secret_store_throttled"),
        (307, json!({}), "unavailable:secret_store_moved"),
        (503, errors(&["Vault is sealed"]), "unavailable:secret_store_sealed"),
        (503, errors(&["OpenBao is Sealed"]), "unavailable:secret_store_sealed"),
        (503, errors(&[]), "unavailable:secret_store_error"),
        (500, errors(&["internal error"]), "unavailable:secret_store_error"),
        (504, json!({}), "unavailable:secret_store_timeout"),
        (204, json!({}), "unavailable:secret_store_refused"),
    ] {
        assert_eq!(CacheSetup::new().fetch(StoreKind::Secrets, OWNER, status, &body), expected, "{status} {body}");
    }
    assert_eq!(
        one(StoreKind::Secrets, Some(503), Some(b"upstream connect error or disconnect")),
        "unavailable:secret_store_unreachable"
    );
    assert_eq!(one(StoreKind::Secrets, Some(404), Some(b"<html>not found</html>")), "unavailable:secret_store_refused");
    assert_eq!(one(StoreKind::Secrets, Some(200), Some(b"")), malformed);
    let twice = secret("whsec_1").to_string().replace(r#""secret":"whsec_1""#, r#""secret":"whsec_1","secret":"evil""#);
    assert!(twice.contains("evil"));
    assert_eq!(one(StoreKind::Secrets, Some(200), Some(twice.as_bytes())), "unavailable:secret_malformed");
    assert_eq!(one(StoreKind::Secrets, Some(503), Some(br#"{"x":1,"x":1}"#)), "unavailable:secret_store_error");
    assert_eq!(one(StoreKind::Secrets, Some(200), Some(br#"{"data":{"data":{"secret":"\ud800"}}}"#)), malformed);
    assert_eq!(one(StoreKind::Secrets, Some(200), None), malformed);
    assert_eq!(one(StoreKind::Secrets, None, None), "unavailable:secret_store_unreachable");
    let whole = secret("whsec_1").to_string();
    for end in 0..whole.len() {
        assert_eq!(one(StoreKind::Secrets, Some(200), Some(&whole.as_bytes()[..end])), malformed, "{end}");
    }
}

/// The answer after one reply of these bytes.
fn one(kind: StoreKind, status: Option<u16>, body: Option<&[u8]>) -> String {
    let mut setup = CacheSetup::new();
    let key = if kind == StoreKind::Bindings { HOOK } else { OWNER };
    assert_eq!(setup.ask(kind, key).1, None);
    let call = setup.call();
    setup.reply_bytes(&call, status, body);
    setup.answers().remove(0).1
}

#[test]
fn what_is_longer_than_any_reply_is_not_read() {
    let long = json!({"data": {"data": {"secret": "x".repeat(MAX_REPLY_BYTES)}}}).to_string();
    assert!(long.len() > MAX_REPLY_BYTES);
    // The host is asked for no more, and the rest is missing.
    assert_eq!(one(StoreKind::Secrets, Some(200), None), "unavailable:secret_store_reply_malformed");
}

#[test]
fn a_new_version_brings_the_one_before_it_along() {
    let created = "2025-12-31T23:30:00.123456789Z";
    let mut setup = CacheSetup::new();
    let (first, _) = setup.ask(StoreKind::Secrets, OWNER);
    let call = setup.call();
    setup.reply(&call, 200, &version("new", 4, created));
    assert_eq!(setup.answers(), [], "not yet");
    let (second, _) = setup.ask(StoreKind::Secrets, OWNER);
    let call = setup.call();
    assert_eq!(path(&call), "/v1/secret/data/acme:shop:stripe?version=3");
    setup.reply(&call, 200, &version("old", 3, "2025-06-01T00:00:00Z"));
    assert_eq!(setup.answers(), [(first, "new+old".to_owned()), (second, "new+old".to_owned())]);
    setup.pass(50.0);
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("new+old"));

    // The grace is an hour, or what the policy says; a first version has none before it.
    for (number, created, grace) in [
        (4, "2025-12-31T23:00:00Z", json!({})),
        (4, "2025-12-31T23:59:00Z", json!({"rotation_grace_s": 60})),
        (4, "2025-12-31T23:59:59Z", json!({"rotation_grace_s": 0})),
        (1, created, json!({})),
        (4, "yesterday", json!({})),
    ] {
        let mut setup = CacheSetup::with(&json!({}), &grace);
        assert_eq!(
            setup.fetch(StoreKind::Secrets, OWNER, 200, &version("new", number, created)),
            "new",
            "{number} {created}"
        );
    }
}

#[test]
fn a_version_that_is_deleted_counts_no_more() {
    let destroyed = json!({"data": {"data": null, "metadata": {"version": 1, "destroyed": true}}});
    // Not to be had is another thing than gone: soon it is asked for again.
    for (status, body, held) in [
        (404, json!({"errors": []}), 60.0),
        (404, destroyed, 60.0),
        (503, json!({"errors": ["Vault is sealed"]}), 5.0),
        (403, json!({"errors": []}), 5.0),
    ] {
        let mut setup = CacheSetup::new();
        let (stream, _) = setup.ask(StoreKind::Secrets, OWNER);
        let call = setup.call();
        setup.reply(&call, 200, &version("new", 2, "2025-12-31T23:30:00Z"));
        let call = setup.call();
        setup.reply(&call, status, &body);
        assert_eq!(setup.answers(), [(stream, "new".to_owned())]);
        setup.pass(held / 2.0 - 0.1);
        assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("new"), "{status}");
        assert_eq!(setup.calls().len(), 0, "{status}");
        setup.pass(held / 2.0 + 0.1);
        assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1, None, "{status}");
    }
}

#[test]
fn without_stores_there_is_nothing_to_look_up() {
    let document = br#"{"version": 1, "backend": {"kind": "generic"},
        "routes": [{"endpoint": "a", "path": "/a", "policy": "HANDLER_INTERNAL_C"}]}"#;
    assert!(Lookups::of(&edge_idempotency_engine::Policy::from_json(document).unwrap()).is_none());
}
