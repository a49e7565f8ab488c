//! What an overlay adds, with and without the description.

use super::apply::{applied, described};
use super::{findings, folder, names, run, run_with};
use serde_json::{Value, json};

/// A description with a key in several forms, and responses that are written inline and shared.
const API: &str = r#"
openapi: 3.1.0
info: {title: An API, version: '1'}
paths:
  /v1/refunds:
    parameters:
    - {name: IDEMPOTENCY-KEY, in: header, schema: {type: string}}
    post:
      parameters:
      - {name: trace, in: header, schema: {type: string}}
      - {$ref: '#/components/parameters/Key'}
      responses:
        '200': {description: Done, headers: {retry-after: {schema: {type: integer}}}}
        '400': {description: Wrong, content: {application/json: {schema: {type: object}}}}
        '403': {$ref: '#/components/responses/Refused'}
        '503': {description: Down, content: {application/problem+json: {schema: {type: string}}}}
  /v1/refunds/{it's}:
    get:
      parameters: [{name: idempotency-key, in: header, schema: {type: string}}]
      responses: {'200': {description: The refund}}
  /v1/none: {post: {responses: {'200': {description: Done}}}}
components:
  parameters: {Key: {name: Idempotency-Key, in: header, schema: {type: string}}}
  responses: {Refused: {description: Refused, content: {application/json: {}}}}
"#;

fn overlay(more: &[&str], description: &str) -> String {
    let told = run_with(&[&["openapi", "overlay", "policy.json"], more].concat(), description);
    assert_eq!(told.status, 0, "{}", told.errors);
    told.output
}

/// Sorted, since a merge appends members.
fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_overlay_of_a_description_changes_what_it_lacks_and_nothing_else() {
    let before = described(API);
    let after = applied(&overlay(&["--openapi", "-"], API), &before);
    let refund = &after["paths"]["/v1/refunds"]["post"];
    assert_eq!(refund["x-idempotency-policy"], "REQUIRED_A");
    let parameters = refund["parameters"].as_array().unwrap();
    let written: Vec<_> = parameters.iter().map(|one| (one["name"].as_str(), one["required"].as_bool())).collect();
    assert_eq!(written, [(Some("trace"), None), (Some("Idempotency-Key"), Some(true))]);
    assert_eq!(after["paths"]["/v1/refunds"]["parameters"], json!([]));
    assert_eq!(members(&refund["responses"]), ["200", "400", "401", "403", "503"]);
    // What was there stays.
    assert_eq!(
        members(&refund["responses"]["200"]["headers"]),
        ["Idempotency-Retry", "Idempotency-Status", "Idempotent-Replayed", "retry-after"]
    );
    assert_eq!(refund["responses"]["400"]["description"], "Wrong");
    assert_eq!(members(&refund["responses"]["400"]["content"]), ["application/json", "application/problem+json"]);
    assert_eq!(refund["responses"]["403"], json!({"$ref": "#/components/responses/Refused"}));
    assert_eq!(
        refund["responses"]["503"]["content"],
        before["paths"]["/v1/refunds"]["post"]["responses"]["503"]["content"]
    );
    let shared = &after["components"]["responses"]["Refused"];
    assert_eq!(members(&shared["content"]), ["application/json", "application/problem+json"]);
    assert_eq!(members(&shared["headers"]).len(), 4);
    // A read takes no key.
    let read = &after["paths"]["/v1/refunds/{it's}"]["get"];
    assert_eq!((&read["parameters"], &read["x-idempotency-policy"]), (&json!([]), &json!("PROHIBITED")));
    assert_eq!(members(&read["responses"]), ["200", "400", "503"]);
    assert_eq!(read["responses"]["200"], json!({"description": "The refund"}));
    // An operation without a route is left alone.
    assert_eq!(after["paths"]["/v1/none"], before["paths"]["/v1/none"]);
}

#[test]
fn what_an_overlay_makes_passes_the_check() {
    let after = applied(&overlay(&["--openapi", "-"], API), &described(API)).to_string();
    assert_eq!(names(&findings("policy.json", "-", &after)), ["openapi-no-operation", "openapi-no-route"]);
}

#[test]
fn applying_it_twice_and_making_it_anew_changes_nothing_more() {
    let all = ["--fern", "--speakeasy"];
    for (more, is_anew) in [(vec!["--openapi", "-"], true), (vec![], false)] {
        let arguments = [more.as_slice(), &all].concat();
        let made = overlay(&arguments, API);
        let once = applied(&made, &described(API));
        assert_ne!(once, described(API));
        assert_eq!(applied(&made, &once), once, "{arguments:?}");
        if is_anew {
            assert_eq!(applied(&overlay(&arguments, &once.to_string()), &once), once);
        }
    }
}

#[test]
fn without_a_description_what_it_has_stays_too() {
    let after = applied(&overlay(&[], ""), &described(API));
    let refund = &after["paths"]["/v1/refunds"]["post"];
    assert_eq!(refund["responses"]["400"]["description"], "Wrong");
    assert_eq!(refund["responses"]["401"]["description"], "The gateway refused the request: see `code` and `retry`.");
    assert_eq!(members(&refund["responses"]["200"]["headers"]).len(), 5);
    // The text of a reference is not followed, so the shared response is as it was.
    assert_eq!(refund["responses"]["403"]["$ref"], "#/components/responses/Refused");
    assert_eq!(after["components"]["responses"], described(API)["components"]["responses"]);
    // The paths of the policy have other names of parameters, so this one is not found.
    assert_eq!(after["paths"]["/v1/refunds/{it's}"], described(API)["paths"]["/v1/refunds/{it's}"]);
}

#[test]
fn both_forms_of_output_are_the_same_overlay() {
    let [yaml, json] = ["yaml", "json"].map(|format| overlay(&["--format", format, "--openapi", "-"], API));
    assert_eq!(described(&yaml), serde_json::from_str::<Value>(&json).unwrap());
    insta::assert_snapshot!(yaml);
}

#[test]
fn a_key_has_the_schema_of_its_route() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    for (key, expected) in [
        (r#"{"format": "uuid"}"#, json!({"format": "uuid", "minLength": 36, "maxLength": 36})),
        (r#"{"format": "uuid7"}"#, json!({"format": "uuid", "minLength": 36, "maxLength": 36})),
        (r#"{"format": "ulid"}"#, json!({"minLength": 26, "maxLength": 26})),
        (r#"{"min_length": 16}"#, json!({"minLength": 16, "maxLength": 255})),
        (r#"{"charset": "visible"}"#, json!({"minLength": 1, "maxLength": 255})),
    ] {
        let policy = policy.replacen("\"version\": 1,", &format!("\"version\": 1, \"key\": {key},"), 1);
        let made = described(&run_with(&["openapi", "overlay", "-"], &policy).output);
        let actions = made["actions"].as_array().unwrap();
        let update = actions.iter().find(|action| action["update"]["x-idempotency-policy"] == "REQUIRED_A").unwrap();
        let mut schema = update["update"]["parameters"][0]["schema"].clone();
        let pattern = schema.as_object_mut().unwrap().remove("pattern").unwrap();
        assert!(pattern.as_str().unwrap().starts_with('^'), "{key}");
        assert_eq!(schema.as_object_mut().unwrap().remove("type"), Some(json!("string")));
        assert_eq!(schema, expected, "{key}");
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    let told = run_with(&["openapi", "overlay", "policy.json", "--openapi", "-"], API);
    assert!(told.errors.contains("note: 1 operation has no route and was left out"), "{}", told.errors);
    let own = API.replace("components:\n", "components:\n  schemas: {IdempotencyProblem: {type: string}}\n");
    for (arguments, input, error) in [
        (
            vec!["policy.json", "--openapi", "-"],
            own.as_str(),
            "`components.schemas.IdempotencyProblem`, where the overlay puts one: rename it",
        ),
        (vec!["policy.json", "--openapi", "-"], "swagger: '2.0'\n", "-:1:1: this is a description in Swagger 2.0"),
        (vec!["policy.json", "--openapi", "none.yaml"], "", "none.yaml: No such file"),
        (vec!["-", "--openapi", "-"], "", "only one of the policy and the description"),
        (vec!["-"], "{}", "the member `version` is missing"),
    ] {
        let told = run_with(&[&["openapi", "overlay"], arguments.as_slice()].concat(), input);
        assert!(
            told.status == 2 && told.errors.contains(error) && told.output.is_empty(),
            "{arguments:?}: {}",
            told.errors
        );
    }
    assert_eq!(run(&["openapi", "overlay", "policy.json", "--stainless", "--fern"]).status, 2);
}
