//! `overlay`, `check --openapi`, and `init --openapi`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on fails"
)]

mod apply;
mod generators;
mod init;
mod large;
mod lints;
mod overlay;
mod public;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the command did.
struct Told {
    status: i32,
    output: String,
    errors: String,
}

/// The folder of these tests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi")
}

/// Runs the command in the folder of these tests, with a text on its standard input.
fn run_with(arguments: &[&str], input: &str) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(arguments).current_dir(folder()).env("EDGE_TEST_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==");
    let output = crate::run_with_input(&mut command, input).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { status: output.status.code().unwrap(), output: text(output.stdout), errors: text(output.stderr) }
}

fn run(arguments: &[&str]) -> Told {
    run_with(arguments, "")
}

/// The findings of `check --openapi` for a policy and a description, of which one may be `-`.
fn findings(policy: &str, description: &str, input: &str) -> Vec<Value> {
    let told = run_with(&["check", "--format", "json", policy, "--openapi", description], input);
    let report: Value = serde_json::from_str(&told.output).unwrap_or_else(|error| panic!("{error}: {}", told.errors));
    report["findings"].as_array().unwrap().clone()
}

/// The names of lints, each once, in the order of the alphabet.
fn names(findings: &[Value]) -> Vec<&str> {
    let names: std::collections::BTreeSet<&str> =
        findings.iter().map(|finding| finding["lint"].as_str().unwrap()).collect();
    names.into_iter().collect()
}
