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
    let told = run_with(&[&["overlay", "policy.json"], more].concat(), description);
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
    assert!(yaml.starts_with("overlay: ") && json.starts_with('{'), "{yaml}");
}

#[test]
fn a_key_has_the_schema_of_its_route() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    for (key, expected) in [
        (r#"{"format": "uuid"}"#, json!({"format": "uuid", "minLength": 36, "maxLength": 36})),
        (r#"{"format": "uuid7"}"#, json!({"format": "uuid", "minLength": 36, "maxLength": 36})),
        (r#"{"format": "ulid"}"#, json!({"minLength": 26, "maxLength": 26})),
        (r#"{"charset": "visible"}"#, json!({"minLength": 1, "maxLength": 255})),
    ] {
        let policy = policy.replacen("\"version\": 1,", &format!("\"version\": 1, \"key\": {key},"), 1);
        let made = described(&run_with(&["overlay", "-"], &policy).output);
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
    let told = run_with(&["overlay", "policy.json", "--openapi", "-"], API);
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
        let told = run_with(&[&["overlay"], arguments.as_slice()].concat(), input);
        assert!(
            told.status == 2 && told.errors.contains(error) && told.output.is_empty(),
            "{arguments:?}: {}",
            told.errors
        );
    }
    assert_eq!(run(&["overlay", "policy.json", "--stainless", "--fern"]).status, 2);
}

/// A description with one operation, a POST of the route `refunds.create`.
fn refunds(operation: &str, more: &str) -> String {
    format!(
        "openapi: 3.1.0\ninfo: {{title: An API, version: '1'}}\npaths:\n  /v1/refunds:\n    post: {operation}\n{more}"
    )
}

/// A description after its overlay, which changes nothing when it is applied again or made anew.
fn overlaid(description: &str) -> Value {
    let arguments = ["--openapi", "-", "--speakeasy"];
    let made = overlay(&arguments, description);
    let once = applied(&made, &described(description));
    assert_eq!(applied(&made, &once), once);
    assert_eq!(applied(&overlay(&arguments, &once.to_string()), &once), once);
    once
}

/// A new response for a status takes the place of `4XX` and `default`, so it has what they say.
#[test]
fn new_responses_keep_what_the_api_answers_with_their_status() {
    let text = refunds(
        "{responses: {'4XX': {description: Wrong, headers: {x-a: {schema: {type: string}}}, content: {application/json: {schema: {type: \
         object, required: [a]}}}}, default: {$ref: '#/components/responses/Any'}}}",
        "components:\n  schemas: {Own: {type: object}}\n  responses: {Any: {description: Any, content: {application/json: {schema: {$ref: \
         '#/components/schemas/Own'}}}}}\n",
    );
    let after = overlaid(&text);
    let responses = &after["paths"]["/v1/refunds"]["post"]["responses"];
    let kinds = ["application/json", "application/problem+json"];
    let pointer = "#/paths/~1v1~1refunds/post/responses/4XX";
    for status in ["400", "401", "403"] {
        assert_eq!(members(&responses[status]["content"]), kinds, "{status}");
        let schema = &responses[status]["content"]["application/json"]["schema"];
        assert_eq!(*schema, json!({"$ref": format!("{pointer}/content/application~1json/schema")}));
        assert_eq!(responses[status]["headers"]["x-a"], json!({"$ref": format!("{pointer}/headers/x-a")}));
        assert!(responses[status]["description"].as_str().unwrap().ends_with("Or from the API: Wrong"), "{responses}");
    }
    let schema = &responses["503"]["content"]["application/json"]["schema"];
    assert_eq!(*schema, json!({"$ref": "#/components/schemas/Own"}));
}

#[test]
fn what_the_description_says_of_the_key_stays() {
    let own = "name: idempotency-key, in: header, description: Ours, example: k-1, x-a: true, schema: {type: string}";
    let inline = overlaid(&refunds(&format!("{{parameters: [{{{own}}}], responses: {{}}}}"), ""));
    let key = &inline["paths"]["/v1/refunds"]["post"]["parameters"];
    assert_eq!(key.as_array().unwrap().len(), 1);
    let said = |key: &Value| [&key["name"], &key["required"], &key["description"], &key["example"]].map(Value::clone);
    let expected = [json!("Idempotency-Key"), json!(true), json!("Ours"), json!("k-1")];
    assert_eq!(said(&key[0]), expected);
    assert!(key[0]["x-a"] == true && key[0]["schema"]["maxLength"] == 255, "{key}");
    let shared = overlaid(&refunds(
        "{parameters: [{$ref: '#/components/parameters/K'}], responses: {}}",
        &format!("components: {{parameters: {{K: {{{own}}}}}}}\n"),
    ));
    assert_eq!(said(&shared["paths"]["/v1/refunds"]["post"]["parameters"][0]), expected);
}

#[test]
fn retries_of_the_description_stay() {
    let own = overlaid(&refunds("{x-speakeasy-retries: {strategy: none}, responses: {}}", ""));
    assert_eq!(own["paths"]["/v1/refunds"]["post"]["x-speakeasy-retries"], json!({"strategy": "none"}));
}

#[test]
fn without_a_description_no_reference_and_no_extension_changes() {
    let text = refunds(
        "{responses: {x-foo: {a: b}, '400': {$ref: '#/components/responses/R'}}}\n    parameters: [{name: Idempotency-Key, in: header}]",
        "components: {responses: {R: {description: Wrong}}}\n",
    );
    let made = overlay(&[], "");
    let after = applied(&made, &described(&text));
    assert_eq!(applied(&made, &after), after);
    let item = &after["paths"]["/v1/refunds"];
    assert_eq!(item["parameters"], json!([]));
    assert_eq!(item["post"]["responses"]["x-foo"], json!({"a": "b"}));
    assert_eq!(item["post"]["responses"]["400"], json!({"$ref": "#/components/responses/R"}));
    assert_eq!(members(&item["post"]["responses"]["401"]), ["content", "description", "headers"]);
}

#[test]
fn an_operation_for_two_routes_that_differ_is_told() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "openapi: 3.1.0\npaths:\n  /v1/refunds: {$ref: '#/components/pathItems/x'}\n  /v1/orders: {$ref: '#/components/pathItems/x'}\n\
                components: {pathItems: {x: {post: {responses: {}}}}}\n";
    std::fs::write(file.path(), text).unwrap();
    let told = run_with(&["overlay", "-", "--openapi", file.path().to_str().unwrap()], &policy);
    assert!(told.errors.contains("note: POST /v1/orders: "), "{}", told.errors);
    assert_eq!(told.output.matches("x-idempotency-policy: ").count(), 1, "{}", told.output);
    let same = policy.replace("ACCEPTED", "REQUIRED_A");
    let told = run_with(&["overlay", "-", "--openapi", file.path().to_str().unwrap()], &same);
    assert_eq!(told.errors, "");
}

#[test]
fn a_path_item_in_a_list_is_found() {
    let text = "openapi: 3.1.0\npaths: {/v1/refunds: {$ref: '#/x-l/0'}}\nx-l: [{post: {responses: {}}}]\n";
    assert_eq!(overlaid(text)["x-l"][0]["post"]["x-idempotency-policy"], "REQUIRED_A");
}

#[test]
fn components_fit_all_routes_and_have_names_that_descriptions_may_have() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let policy = policy
        .replace(r#""backend": {"kind": "generic"}"#, r#""backend": "g", "backends": {"g": {"kind": "generic"}, "r": {"kind": "restate", "cluster": "r"}}, "retry_headers": ["x-should!retry"]"#)
        .replace(r#""policy": "ACCEPTED""#, r#""policy": "ACCEPTED", "backend": "r", "target": "O/create""#);
    let told = run_with(&["overlay", "-"], &policy);
    assert_eq!(told.status, 0, "{}", told.errors);
    let made = described(&told.output);
    let headers = &made["actions"][1]["update"]["components"]["headers"];
    assert!(
        headers["IdempotencyStatus"]["description"].as_str().unwrap().contains("`stored`"),
        "{headers} {}",
        told.errors
    );
    let is_allowed = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    assert!(members(headers).into_iter().all(is_allowed), "{headers}");
}

/// JSON Schema has no such pattern, so the schema goes without it, which is told once and is no difference.
#[test]
fn a_pattern_that_a_schema_cannot_have_is_told() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let policy = policy.replacen("\"version\": 1,", "\"version\": 1, \"key\": {\"pattern\": \"(?i)^refund-\"},", 1);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), API).unwrap();
    let told = run_with(&["overlay", "-", "--openapi", file.path().to_str().unwrap()], &policy);
    assert!(told.errors.contains("note: `refunds.create`: the pattern `(?i)^refund-` of its keys"), "{}", told.errors);
    std::fs::write(file.path(), applied(&told.output, &described(API)).to_string()).unwrap();
    let found = findings("-", file.path().to_str().unwrap(), &policy);
    assert!(!names(&found).contains(&"openapi-key-schema"), "{found:?}");
}
