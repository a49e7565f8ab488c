//! The inputs in `seeds/`, and those that once failed, do not fail.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        target(&std::fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 5, "{name} has {inputs} seeds");
}

#[test]
fn headers() {
    run("header", edge_idempotency_fuzz::header);
}

#[test]
fn paths() {
    run("path", edge_idempotency_fuzz::path);
}

#[test]
fn policies() {
    run("policy", edge_idempotency_fuzz::policy);
}

#[test]
fn signatures() {
    run("signature", edge_idempotency_fuzz::signature);
}

#[test]
fn json_bodies() {
    run("json", edge_idempotency_fuzz::json);
}

#[test]
fn claims() {
    run("claim", edge_idempotency_fuzz::claim);
}

#[test]
fn errors() {
    run("error", edge_idempotency_fuzz::error);
}

#[test]
fn form_bodies() {
    run("form", edge_idempotency_fuzz::form);
}

#[test]
fn provider_files() {
    run("provider", edge_idempotency_fuzz::provider);
}
