//! `check`: lints, formats, and gateways.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on fails"
)]

mod dynamic_module;
mod formats;
mod gateways;
mod lints;
mod planted;
pub(crate) mod rendered;
mod shipped;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in `tests/check`, where the environment has secrets of several kinds.
fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edge-idempotency"))
        .arg("check")
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check"))
        .env("EDGE_TEST_SECRET", "whsec_0123456789abcdef")
        .env("EDGE_TEST_SHORT", "whsec_01")
        .env("EDGE_TEST_SPACE", "planted-0123456789abcdef\n")
        .env("EDGE_TEST_QUOTES", "\"whsec_0123456789abcdef\"")
        .env("EDGE_TEST_V1", "v1,whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
        .env("EDGE_TEST_API_KEY", "sk_live_planted0123456789")
        .env_remove("EDGE_TEST_NOT_SET")
        .output()
        .unwrap()
}

/// What the command writes for people.
fn text(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What the command writes with `--format json`.
fn json(arguments: &[&str]) -> Value {
    let output = check(&[&["--format", "json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

/// The names of the lints in a report.
fn names(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["lint"].as_str().unwrap()).collect()
}

/// The lint of a case: its name is how the case's name begins.
pub(crate) fn lint_of<'l>(lints: &'l [String], case: &str) -> &'l str {
    let own = lints.iter().filter(|lint| case.starts_with(lint.as_str()));
    own.max_by_key(|lint| lint.len()).unwrap_or_else(|| panic!("{case} is the case of no lint"))
}

/// The names that `--list-lints` prints.
pub(crate) fn all_lints() -> Vec<String> {
    let output = check(&["--list-lints"]);
    assert_eq!(output.status.code(), Some(0));
    let list = String::from_utf8(output.stdout).unwrap();
    list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}
