//! Every lint of a description has a description that triggers it, `lints/NAME.yaml`. They differ from `lints/good.yaml`, in which
//! nothing is found, in what the message is about.

use super::{findings, folder, names, run, run_with};
use crate::check::{all_lints, lint_of};
use std::collections::BTreeSet;

/// The policy with another answer to requests that no route declares.
fn open_policy() -> String {
    let policy = std::fs::read_to_string(folder().join("policy.json")).unwrap();
    policy.replacen("\"version\": 1,", "\"version\": 1, \"unmatched\": \"HANDLER_INTERNAL_C\",", 1)
}

fn descriptions() -> BTreeSet<String> {
    let names = std::fs::read_dir(folder().join("lints")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.strip_suffix(".yaml")?.to_owned())).filter(|name| name != "good").collect()
}

#[test]
fn every_lint_of_a_description_has_one() {
    let (lints, described) = (all_lints(), descriptions());
    let described: BTreeSet<&str> = described.iter().map(|case| lint_of(&lints, case)).collect();
    let own = lints.iter().map(String::as_str).filter(|name| name.contains("openapi") || *name == "not-seen");
    assert_eq!(own.collect::<BTreeSet<_>>(), described);
}

#[test]
fn a_description_shows_the_place_and_the_cure() {
    let lints = all_lints();
    for name in descriptions() {
        let file = format!("lints/{name}.yaml");
        // The line of a finding is the same in all formats, and one lint needs an open policy.
        let is_open = name == "openapi-open-write";
        let (policy, input) = if is_open { ("-", open_policy()) } else { ("policy.json", String::new()) };
        let of_policy = is_open.then_some("unmatched-write");
        let expected: Vec<&str> = std::iter::once(lint_of(&lints, &name)).chain(of_policy).collect();
        assert_eq!(names(&findings(policy, &file, &input)), expected);
        let told = run_with(&["check", policy, "--openapi", &file], &input);
        let shown = format!("{}{}exit status {}\n", told.errors, told.output, told.status);
        insta::assert_snapshot!(name, shown);
    }
}

#[test]
fn a_description_without_a_difference_is_clean() {
    let told = run(&["check", "policy.json", "--openapi", "lints/good.yaml"]);
    assert_eq!((told.status, told.errors.as_str()), (0, ""));
    let expected = "policy.json: policy with 4 routes, 0 in shadow mode\nlints/good.yaml: description with 3 operations, for 3 routes\n";
    assert_eq!(told.output, expected);
}

#[test]
fn exit_statuses_are_those_of_check() {
    let run = |more: &[&str], file: &str| {
        let file = format!("lints/{file}.yaml");
        run(&[&["check", "policy.json", "--openapi", &file], more].concat()).status
    };
    assert_eq!(run(&[], "openapi-no-operation"), 0);
    assert_eq!(run(&["--deny", "all"], "openapi-no-operation"), 1);
    assert_eq!(run(&["--deny", "openapi-incomplete"], "openapi-incomplete-header"), 1);
    assert_eq!(run(&[], "openapi-no-route"), 2);
    assert_eq!(run(&["--allow", "openapi-no-route"], "openapi-no-route"), 0);
    assert_eq!(run(&["--allow", "not-openapi"], "not-openapi"), 2);
    assert_eq!(run(&[], "none"), 2);
}

#[test]
fn a_policy_that_does_not_start_is_told_with_its_errors_alone() {
    let broken = open_policy().replace("REQUIRED_A", "REQUIRED");
    let told = run_with(&["check", "-", "--openapi", "lints/openapi-no-route.yaml"], &broken);
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
    for format in ["text", "json", "sarif", "github"] {
        let told =
            run_with(&["check", "--format", format, "-", "--openapi", "lints/openapi-no-operation.yaml"], &policy);
        let all = told.output + &told.errors;
        assert!(all.contains("openapi-no-operation") && !all.contains("planted"), "{format}: {all}");
    }
}

/// A parameter has its schema in `schema` or in `content`.
#[test]
fn a_schema_in_content_is_read() {
    let good = std::fs::read_to_string(folder().join("lints/good.yaml")).unwrap();
    let schema = "schema: {type: string, format: uuid}";
    assert!(good.contains(schema));
    let found = findings("policy.json", "-", &good.replace(schema, &format!("content: {{text/plain: {{{schema}}}}}")));
    assert!(found.is_empty(), "{found:?}");
}
