//! Every lint of a policy document has a row in `lints.json`: edits of a base, by JSON pointer, that trigger it, what is found then and
//! where, and the further edits that the message asks for, after which nothing is found. `options` are those of the command, `says` is in
//! the findings. Other texts stand in docs/lints.md alone.

use super::{all_lints, lint_of, names};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Lints that no row can have: files that cannot be read (`formats`).
const WITHOUT: [&str; 3] = ["not-json", "not-yaml", "unread-file"];

fn table() -> Value {
    serde_json::from_str(include_str!("lints.json")).unwrap()
}

/// Sets the member at each pointer, and takes away those that are `null`.
fn edit(document: &mut Value, edits: &Value) {
    for (pointer, value) in edits.as_object().unwrap() {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
            parent if value.is_null() => drop(parent.as_object_mut().unwrap().remove(name)),
            parent => parent[name] = value.clone(),
        }
    }
}

fn report(document: &Value, more: &[&str]) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    super::json(&[more, &[file.path().to_str().unwrap()]].concat())
}

#[test]
fn every_lint_of_a_document_has_a_row() {
    let (table, lints) = (table(), all_lints());
    let found: Vec<&str> =
        table["lints"].as_array().unwrap().iter().map(|row| lint_of(&lints, row["name"].as_str().unwrap())).collect();
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
fn a_document_that_triggers_a_lint_shows_the_place_and_one_that_does_what_it_asks_for_is_clean() {
    let table = table();
    for row in table["lints"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let mut document = table["bases"][row["base"].as_str().unwrap_or("callers")].clone();
        edit(&mut document, &row["document"]);
        let options: Vec<&str> =
            row["options"].as_array().into_iter().flatten().map(|option| option.as_str().unwrap()).collect();
        let told = report(&document, &options);
        let findings = told["findings"].as_array().unwrap().iter();
        let places: BTreeSet<String> =
            findings.map(|finding| json!([finding["lint"], finding["pointer"]]).to_string()).collect();
        let expected: BTreeSet<String> = row["found"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(places, expected, "{name}: {told}");
        assert!(!told.to_string().contains("planted"), "{name} shows a secret");
        for text in row["says"].as_array().into_iter().flatten() {
            let text = text.as_str().unwrap();
            let says = |finding: &Value| finding["message"].as_str().unwrap().contains(text);
            assert!(told["findings"].as_array().unwrap().iter().any(says), "{name} does not say {text}: {told}");
        }

        edit(&mut document, &row["good"]);
        // What start-warning-idle asks for there is a route in shadow mode.
        let allowed: &[&str] = if name == "start-warning-idle" { &["--allow", "shadow-mode"] } else { &[] };
        let told = report(&document, &[allowed, &options].concat());
        assert_eq!(names(&told), [""; 0], "{name}: {told}");
    }
}
