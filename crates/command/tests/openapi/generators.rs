//! What generators of SDKs read.

use super::apply::described;
use super::{folder, run, run_with};
use serde_json::{Value, json};

/// The updates of an overlay whose operation has this policy.
fn update(overlay: &str, policy: &str) -> Value {
    let overlay = described(overlay);
    let actions = overlay["actions"].as_array().unwrap();
    actions.iter().find(|action| action["update"]["x-idempotency-policy"] == policy).unwrap()["update"].clone()
}

#[test]
fn extensions_are_there_where_a_key_makes_a_retry_safe() {
    let plain = run(&["overlay", "policy.json"]).output;
    assert!(!plain.contains("x-fern") && !plain.contains("x-speakeasy"));
    let both = run(&["overlay", "policy.json", "--fern", "--speakeasy"]).output;
    let required = update(&both, "REQUIRED_A");
    assert_eq!(required["x-fern-idempotent"], true);
    assert_eq!(required["x-speakeasy-retries"]["statusCodes"], json!(["429", "502", "503", "504", "409", "425"]));
    // A request without a key is not safe to send again.
    let optional = update(&both, "ACCEPTED");
    assert_eq!((&optional["x-fern-idempotent"], &optional["x-speakeasy-retries"]), (&json!(true), &Value::Null));
    let refused = update(&both, "PROHIBITED");
    assert_eq!((&refused["x-fern-idempotent"], &refused["x-speakeasy-retries"]), (&Value::Null, &Value::Null));
    let root = described(&both)["actions"].as_array().unwrap().iter().any(|action| {
        action["update"]["x-fern-idempotency-headers"]
            == json!([{"header": "Idempotency-Key", "name": "idempotency_key"}])
    });
    assert!(root);
}

/// Restate keeps a 409 of a handler, and sends none for a duplicate in flight.
#[test]
fn a_409_is_tried_again_only_where_it_means_that_the_key_is_in_flight() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let restate = policy
        .replace(r#""backend": {"kind": "generic"}"#, r#""backend": {"kind": "restate", "cluster": "r"}"#)
        .replace(
            r#""path": "/v1/refunds", "policy""#,
            r#""path": "/v1/refunds", "target": "Refunds/create", "policy""#,
        );
    let statuses = |policy: &str| {
        let made = run_with(&["overlay", "-", "--speakeasy"], policy).output;
        update(&made, "REQUIRED_A")["x-speakeasy-retries"]["statusCodes"].as_array().unwrap().len()
    };
    assert_eq!(statuses(&restate), 4);
    assert_eq!(statuses(&restate.replace(r#""target""#, r#""in_flight": "conflict", "target""#)), 6);
}

#[test]
fn stainless_gets_its_header_and_the_operations_that_it_would_break() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let policy = policy
        .replace(r#""policy": "ACCEPTED""#, r#""policy": "ACCEPTED", "key": {"format": "uuid"}"#)
        .replace(r#""methods": ["GET"]"#, r#""methods": ["GET", "DELETE"]"#);
    let told = run_with(&["overlay", "-", "--stainless"], &policy);
    assert_eq!(described(&told.output), json!({"client_settings": {"idempotency_header": "Idempotency-Key"}}));
    insta::assert_snapshot!(told.output);
}
