//! Every policy that the project ships is clean, or has an exception with its reason.

use super::{json, names};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// File, lint and reason. What is not needed any more fails the test.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("deploy/demo/policy.json", "short-retention", "the demo runs for minutes"),
    ("krakend/examples/demo/policy.json", "short-retention", "the demo runs for minutes"),
    ("deploy/demo/policy.json", "short-body-limit", "the demo's deliveries are short"),
    ("krakend/examples/demo/policy.json", "short-body-limit", "the demo's deliveries are short"),
    ("policies/examples/own-api.json", "unmatched-write", "it shows the first day of an API that has other paths, too"),
    ("policies/examples/own-api-and-restate.json", "unmatched-write", "the same API, some days later"),
    ("policies/examples/unmatched-strip.json", "unmatched-write", "it shows this member"),
];

fn policies(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            policies(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            if document.get("routes").is_some_and(serde_json::Value::is_array) {
                found.push(path);
            }
        }
    }
}

#[test]
fn every_shipped_policy_is_clean_or_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    ["policies", "deploy/demo", "krakend/examples", "examples"]
        .iter()
        .for_each(|name| policies(&root.join(name), &mut files));
    assert!(files.len() > 20, "{files:?}");
    let mut told = BTreeSet::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let report = json(&[file.to_str().unwrap()]);
        for finding in report["findings"].as_array().unwrap() {
            let (lint, severity) = (finding["lint"].as_str().unwrap(), finding["severity"].as_str().unwrap());
            if severity != "note" {
                told.insert((name.to_owned(), lint.to_owned()));
            }
        }
        assert!(!names(&report).contains(&"start-error"), "{name}");
    }
    let expected: BTreeSet<(String, String)> =
        EXCEPTIONS.iter().map(|(file, lint, _)| ((*file).to_owned(), (*lint).to_owned())).collect();
    assert_eq!(told, expected);
}
