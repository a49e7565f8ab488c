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
    run("header", crate::header);
}

#[test]
fn paths() {
    run("path", crate::path);
}

#[test]
fn policies() {
    run("policy", crate::policy);
}

#[test]
fn signatures() {
    run("signature", crate::signature);
}

#[test]
fn json_bodies() {
    run("json", crate::json);
}

#[test]
fn form_bodies() {
    run("form", crate::form);
}

#[test]
fn provider_files() {
    run("provider", crate::provider);
}
