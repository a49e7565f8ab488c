//! Every lint of a policy document has a document that triggers it, `lints/NAME.json`, and one that does not,
//! `lints/NAME.good.json`. The second differs from the first in what the message asks for.

use super::{all_lints, check, json, lint_of, names, text};
use std::path::Path;

/// Lints that a document cannot trigger: what is about gateways, and files that cannot be read (`formats`).
const WITHOUT: [&str; 2] = ["not-yaml", "unread-file"];

fn documents() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/lints");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .filter(|name| !name.ends_with(".good"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_lint_of_a_document_has_documents() {
    let documents = documents();
    let lints = all_lints();
    let found: Vec<&str> = documents.iter().map(|name| lint_of(&lints, name)).collect();
    for name in &lints {
        let name = name.as_str();
        // `tests/e2e/tests/admin/live.rs` has what `--live` finds, and `tests/openapi` what `check --openapi` finds.
        let is_elsewhere =
            ["envoy-", "live-", "openapi-"].iter().any(|kind| name.starts_with(kind)) || name == "not-openapi";
        let is_of_documents = !is_elsewhere && !WITHOUT.contains(&name);
        assert_eq!(found.contains(&name), is_of_documents, "{name}");
    }
}

#[test]
fn a_document_that_triggers_a_lint_shows_the_place_and_the_cure() {
    let lints = all_lints();
    for document in documents() {
        let lint = lint_of(&lints, &document);
        let file = format!("lints/{document}.json");
        let report = json(&[&file]);
        assert!(names(&report).contains(&lint), "{document}: {report}");
        assert!(!report.to_string().contains("planted"), "{document} shows a secret");
        let output = check(&[&file]);
        insta::assert_snapshot!(document, text(&output));
    }
}

#[test]
fn a_document_that_does_what_the_message_says_is_clean() {
    for document in documents() {
        // What start-warning-idle asks for there is a route in shadow mode.
        let allowed: &[&str] = if document == "start-warning-idle" { &["--allow", "shadow-mode"] } else { &[] };
        let report = json(&[allowed, &[&format!("lints/{document}.good.json")]].concat());
        assert_eq!(names(&report), [""; 0], "{document}: {report}");
    }
}
