//! Every lint of a description has a case that triggers it: edits of `good.yaml`, in which nothing is found.

use super::{findings, folder, run, run_with};
use crate::check::{all_lints, lint_of};
use serde_json::Value;
use std::collections::BTreeSet;

/// The policy with another answer to requests that no route declares.
fn open_policy() -> String {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    policy.replacen("\"version\": 1,", "\"version\": 1, \"unmatched\": \"HANDLER_INTERNAL_C\",", 1)
}

/// What triggers a lint: the name of the case, what stands in `good.yaml` and what stands there instead, and each lint that is found with
/// the line that is shown.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const END: &str = "components:\n";
const PAYOUTS: &str = "  /payouts:\n    post: {responses: {'200': {description: Done}}}\ncomponents:\n";
const HOOKS: &str = "  /hooks/{provider}/{id}:\n    servers: [{url: /}]\n    post: {responses: {'200': {description: Done}}}\ncomponents:\n";
const FAR: &str = "  /far: {$ref: 'far.yaml#/far'}\ncomponents:\n";
const KEY: &str = "      parameters:
      - name: Idempotency-Key
        in: header
        required: true
        schema: {type: string, format: uuid}
";
const FINE_ORDERS: &str = "'200': {$ref: '#/components/responses/Fine'}\n        4XX:";
const REFUSED_REFUNDS: &str = "default: {$ref: '#/components/responses/Refused'}\n  /refunds/{id}:";

const CASES: &[Case] = &[
    ("not-openapi", &[("openapi: 3.1.0", "swagger: '2.0'")], &[("not-openapi", "swagger: '2.0'")]),
    (
        "not-seen-openapi",
        &[("{description: The refund}", "{$ref: 'refund.yaml'}"), (END, FAR)],
        &[("not-seen", "'200': {$ref: 'refund.yaml'}"), ("not-seen", "/far: {$ref: 'far.yaml#/far'}")],
    ),
    (
        "openapi-incomplete-header",
        &[(FINE_ORDERS, "'200': {description: Done}\n        4XX:")],
        &[("openapi-incomplete", "responses:")],
    ),
    (
        "openapi-incomplete-key",
        &[("{name: idempotency-key,", "{name: request-id,")],
        &[("openapi-incomplete", "post:")],
    ),
    (
        "openapi-incomplete-refusal",
        &[(
            REFUSED_REFUNDS,
            "'400': {$ref: '#/components/responses/Fine'}\n        '503': {$ref: '#/components/responses/Refused'}\n  /refunds/{id}:",
        )],
        &[("openapi-incomplete", "responses:")],
    ),
    ("openapi-key-missing", &[(KEY, "")], &[("openapi-key", "post:")]),
    (
        "openapi-key-not-taken",
        &[(
            "    get:\n",
            "    get:\n      parameters:\n      - {name: Idempotency-Key, in: header, schema: {type: string}}\n",
        )],
        &[("openapi-key", "- {name: Idempotency-Key, in: header, schema: {type: string}}")],
    ),
    (
        "openapi-key-required",
        &[
            ("required: true", "required: false"),
            ("{name: idempotency-key,", "{name: idempotency-key, required: true,"),
        ],
        &[
            ("openapi-key", "- name: Idempotency-Key"),
            (
                "openapi-key",
                "- {name: idempotency-key, required: true, in: header, schema: {type: string, pattern: '^[A-Za-su-z0-9]{1,255}$'}}",
            ),
        ],
    ),
    (
        "openapi-key-schema",
        &[("format: uuid}", "maxLength: 64}\n        example: refund 1001"), ("[A-Za-su-z0-9]{1,255}", "[0-9]{20}")],
        &[
            ("openapi-key-schema", "schema: {type: string, maxLength: 64}"),
            (
                "openapi-key-schema",
                "- {name: idempotency-key, in: header, schema: {type: string, pattern: '^[0-9]{20}$'}}",
            ),
        ],
    ),
    (
        "openapi-no-operation",
        &[("  /orders:", "  x-orders:")],
        &[("openapi-no-operation", r#"{"endpoint": "orders.create", "path": "/v1/orders", "policy": "ACCEPTED"},"#)],
    ),
    ("openapi-no-route", &[(END, PAYOUTS)], &[("openapi-no-route", "post: {responses: {'200': {description: Done}}}")]),
    (
        "openapi-open-write",
        &[(END, PAYOUTS), ("  /payouts:\n", "  /payouts:\n    get: {responses: {'200': {description: Done}}}\n")],
        &[
            ("unmatched-write", r#""version": 1, "unmatched": "HANDLER_INTERNAL_C","#),
            ("openapi-open-write", "post: {responses: {'200': {description: Done}}}"),
        ],
    ),
    (
        "openapi-policy-differs",
        &[("x-idempotency-policy: REQUIRED_A", "x-idempotency-policy: ACCEPTED")],
        &[("openapi-policy-differs", "x-idempotency-policy: ACCEPTED")],
    ),
    ("openapi-webhook", &[(END, HOOKS)], &[("openapi-webhook", "post: {responses: {'200': {description: Done}}}")]),
];

/// The description of a case, in a file.
fn described(name: &str) -> tempfile::NamedTempFile {
    let (_, edits, _) = CASES.iter().find(|(case, ..)| *case == name).unwrap();
    let mut description = std::fs::read_to_string(folder().join("good.yaml")).unwrap();
    for (right, wrong) in *edits {
        assert!(description.contains(right), "{name}: {right}");
        description = description.replacen(right, wrong, 1);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), description).unwrap();
    file
}

#[test]
fn every_lint_of_a_description_has_a_case() {
    let lints = all_lints();
    let described: BTreeSet<&str> = CASES.iter().map(|(name, ..)| lint_of(&lints, name)).collect();
    let own = lints.iter().map(String::as_str).filter(|name| name.contains("openapi") || *name == "not-seen");
    assert_eq!(own.collect::<BTreeSet<_>>(), described);
}

#[test]
fn a_description_that_triggers_a_lint_shows_the_place() {
    for (name, _, expected) in CASES {
        let file = described(name);
        // The line of a finding is the same in all formats, and one lint needs an open policy.
        let is_open = *name == "openapi-open-write";
        let (policy, input) = if is_open { ("-", open_policy()) } else { ("policy.json", String::new()) };
        let policy_text =
            if is_open { input.clone() } else { std::fs::read_to_string(folder().join("policy.json")).unwrap() };
        let description = std::fs::read_to_string(file.path()).unwrap();
        let told = findings(policy, file.path().to_str().unwrap(), &input);
        let places: Vec<(&str, &str)> = told
            .iter()
            .map(|finding| {
                let in_policy = !finding["file"].as_str().unwrap().starts_with('/');
                let text = if in_policy { &policy_text } else { &description };
                let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
                (finding["lint"].as_str().unwrap(), text.lines().nth(line - 1).unwrap().trim())
            })
            .collect();
        assert_eq!(places, *expected, "{name}: {told:?}");
    }
}

#[test]
fn a_description_without_a_difference_is_clean() {
    let told = run(&["check", "policy.json", "--openapi", "good.yaml"]);
    assert_eq!((told.status, told.errors.as_str()), (0, ""));
    let expected =
        "policy.json: policy with 4 routes, 0 in shadow mode\ngood.yaml: description with 3 operations, for 3 routes\n";
    assert_eq!(told.output, expected);
}

#[test]
fn exit_statuses_are_those_of_check() {
    let run = |more: &[&str], file: &str| {
        let file = described(file);
        run(&[&["check", "policy.json", "--openapi", file.path().to_str().unwrap()], more].concat()).status
    };
    assert_eq!(run(&[], "openapi-no-operation"), 0);
    assert_eq!(run(&["--deny", "all"], "openapi-no-operation"), 1);
    assert_eq!(run(&["--deny", "openapi-incomplete"], "openapi-incomplete-header"), 1);
    assert_eq!(run(&[], "openapi-no-route"), 2);
    assert_eq!(run(&["--allow", "openapi-no-route"], "openapi-no-route"), 0);
    assert_eq!(run(&["--allow", "not-openapi"], "not-openapi"), 2);
    assert_eq!(super::run(&["check", "policy.json", "--openapi", "none.yaml"]).status, 2);
}

/// A key may be in the body instead, so the header is neither missing nor required.
#[test]
fn a_header_is_not_asked_for_where_keys_have_other_places() {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let policy = policy.replacen("\"version\": 1,", "\"version\": 1, \"key\": {\"from\": [\"/request_id\"]},", 1);
    for case in ["openapi-key-missing", "openapi-key-required", "openapi-incomplete-key"] {
        let file = described(case);
        let description = file.path().to_str().unwrap();
        assert_eq!(findings("-", description, &policy), Vec::<Value>::new(), "{case}");
    }
    let file = described("openapi-key-missing");
    let overlay = run_with(&["overlay", "-", "--openapi", file.path().to_str().unwrap()], &policy);
    assert!(!overlay.output.contains("name: Idempotency-Key"), "{}{}", overlay.output, overlay.errors);
}

#[test]
fn a_policy_that_does_not_start_is_told_with_its_errors_alone() {
    let broken = open_policy().replace("REQUIRED_A", "REQUIRED");
    let file = described("openapi-no-route");
    let told = run_with(&["check", "-", "--openapi", file.path().to_str().unwrap()], &broken);
    assert_eq!(told.status, 2);
    assert!(told.errors.contains("error[start-error]") && !told.errors.contains("openapi-no-route"), "{}", told.errors);
    let twice = run(&["check", "-", "--openapi", "-"]);
    assert!(twice.status == 2 && twice.errors.contains("only one of"), "{}", twice.errors);
}

#[test]
fn no_secret_of_the_policy_is_shown() {
    let secret = "whsec_planted0123456789";
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    let one_line: String =
        policy.replace("{\"env\": \"EDGE_TEST_SECRET\"}", &format!("\"{secret}\"")).replace('\n', " ");
    let policy = one_line.replacen('{', "{\"allow_inline_secrets\": true, ", 1);
    let file = described("openapi-no-operation");
    for format in ["text", "json", "sarif", "github"] {
        let told = run_with(&["check", "--format", format, "-", "--openapi", file.path().to_str().unwrap()], &policy);
        let all = told.output + &told.errors;
        assert!(all.contains("openapi-no-operation") && !all.contains("planted"), "{format}: {all}");
    }
}

/// A parameter has its schema in `schema` or in `content`.
#[test]
fn a_schema_in_content_is_read() {
    let good = std::fs::read_to_string(folder().join("good.yaml")).unwrap();
    let schema = "schema: {type: string, format: uuid}";
    assert!(good.contains(schema));
    let found = findings("policy.json", "-", &good.replace(schema, &format!("content: {{text/plain: {{{schema}}}}}")));
    assert!(found.is_empty(), "{found:?}");
}
