//! `init --openapi`.

use super::{run, run_with};
use serde_json::Value;

const API: &str = r#"
openapi: 3.2.0
servers: [{url: https://api.example.com/v1}]
paths:
  /orders:
    get: {operationId: listOrders}
    post: {operationId: createOrder, parameters: [{name: Idempotency-Key, in: header, required: true}]}
  /webhooks/stripe: {post: {}}
"#;

#[test]
fn each_route_is_told_with_its_reason() {
    let told = run_with(&["init", "--yes", "--openapi", "-", "-"], API);
    assert_eq!(told.status, 0, "{}", told.errors);
    let expected = "\
GET   /v1/orders           PROHIBITED          -:6: GET changes nothing, so it takes no key
POST  /v1/orders           REQUIRED_A          -:7: the parameter Idempotency-Key is required
POST  /v1/webhooks/stripe  HANDLER_INTERNAL_C  -:8: the path names the provider `stripe`, so it looks like a webhook: deliveries go to \
your handler as before, which verifies them; docs/webhooks.md says how the filter does it
";
    assert_eq!(told.errors, expected);
    let policy: Value = serde_json::from_str(&told.output).unwrap();
    assert_eq!(policy["routes"][1]["endpoint"], "createOrder");
}

/// What `init` writes is the same for the other options.
#[test]
fn other_options_hold_and_routes_of_both_kinds_are_refused() {
    let restate = run_with(&["init", "--yes", "--backend", "restate", "--openapi", "-", "-"], API);
    let policy: Value = serde_json::from_str(&restate.output).unwrap();
    assert_eq!(policy["backend"]["kind"], "restate");
    assert!(policy["routes"].as_array().unwrap().iter().all(|route| route["target"].is_string()), "{policy}");
    let both = run(&["init", "--yes", "--openapi", "x.yaml", "--route", "POST /a ACCEPTED", "-"]);
    assert!(both.status == 2 && both.errors.contains("cannot be used with"), "{}", both.errors);
}

#[test]
fn a_description_without_operations_or_that_is_none_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    for (text, error) in [
        ("openapi: 3.1.0\npaths: {}\n", "no operation that a route can take"),
        ("openapi: 3.1.0\npaths: {'/a;b': {get: {}}}\n", "left out: GET /a;b"),
        ("paths: {}\n", "it has no member `openapi`; write its version"),
        ("openapi: [\n", "not YAML"),
    ] {
        let told = run_with(&["init", "--yes", "--openapi", "-", file.to_str().unwrap()], text);
        assert!(told.status == 2 && told.errors.contains(error), "{text}: {}", told.errors);
        assert!(!file.exists());
    }
}

/// An operation that the policy cannot have, or whose results another one has, does not stop the draft.
#[test]
fn what_no_policy_can_have_is_left_out_alone() {
    let draft = |backend: &str, paths: &str| {
        let text = format!("openapi: 3.2.0\npaths:\n  /good: {{post: {{}}}}\n{paths}\n");
        let told = run_with(&["init", "--yes", "--backend", backend, "--openapi", "-", "-"], &text);
        assert_eq!(told.status, 0, "{}", told.errors);
        let policy: Value = serde_json::from_str(&told.output).unwrap();
        let routes = policy["routes"].as_array().unwrap().clone();
        assert_eq!(routes[0]["path"], "/good");
        (routes, told.errors)
    };
    for (backend, paths, left_out) in [
        ("generic", "  /users: {get: {}}\n  /Users: {get: {}}", "left out: GET /Users: "),
        ("generic", "  /a: {additionalOperations: {copy: {}}}\n  /b: {get: {}}", "left out: copy /a: "),
        ("generic", "  /a: {additionalOperations: {'a b': {}}}\n  /b: {get: {}}", "left out: a b /a: "),
        ("generic", "  /a: {additionalOperations: {CONNECT: {}}}\n  /b: {get: {}}", "left out: CONNECT /a: "),
        ("restate", "  /restate/x: {post: {}}\n  /b: {get: {}}", "left out: POST /restate/x: "),
    ] {
        let (routes, errors) = draft(backend, paths);
        assert_eq!(routes.len(), 2, "{errors}");
        assert!(errors.contains(left_out), "{left_out}: {errors}");
    }
    let (routes, _) = draft("generic", "  /a/: {get: {}}\n  /a: {head: {}}");
    assert_eq!(routes.len(), 2);
    let (routes, _) = draft("restate", "  '/items/{id}': {get: {}, put: {}, delete: {}, patch: {}}");
    let recovery: Vec<Option<bool>> = routes.iter().map(|route| route["recovery"].as_bool()).collect();
    assert_eq!(recovery, [None, None, None, Some(false), Some(false)]);
}
