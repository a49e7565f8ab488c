//! The playground's engine says what the command prints, for every example policy and every request of its cases, and for the page's
//! own examples. docs/playground/tests/ compares the built page in a browser.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use crate::repository;
use edge_idempotency_playground::{Question, Report, report};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

/// What the page would show.
fn asked(policy: &str, request: &str, token: &str) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    report(&Question {
        policy: policy.to_owned(),
        request: request.to_owned(),
        token: token.to_owned(),
        now_unix_ms: u64::try_from(now).unwrap(),
    })
}

/// Runs the command in a folder with `policy.json` and `request.json`, without an environment, as a page has none. Standard output,
/// standard error, exit status.
fn run(folder: &Path, arguments: &[&str]) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    let output = command.args(arguments).current_dir(folder).env_clear().output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

/// Compares the page with the command.
fn compare(name: &str, policy: &str, request: &str, token: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.json"), policy).unwrap();
    std::fs::write(folder.path().join("request.json"), request).unwrap();
    let shown = asked(policy, request, token);

    let (summary, findings, _) = run(folder.path(), &["check", "policy.json"]);
    assert_eq!(shown.check, format!("{findings}\n{summary}").trim(), "{name}");

    let mut arguments = vec!["explain", "--policy", "policy.json"];
    if request.starts_with('{') {
        arguments.extend(["--request", "request.json"]);
    } else {
        arguments.extend(["--curl", request]);
        arguments.extend(["--jwt", token].into_iter().filter(|_| !token.is_empty()));
    }
    let (text, errors, status) = run(folder.path(), &arguments);
    match (shown.explain, shown.error) {
        (Some(explain), None) => assert_eq!((explain, status == 0), (text, shown.action != Some("reject")), "{name}"),
        (None, Some(error)) => {
            let errors: Vec<&str> = errors.lines().filter(|line| !line.starts_with("warning: ")).collect();
            assert_eq!((format!("edge-idempotency: {error}"), 2), (errors.join("\n"), status), "{name}");
        }
        (None, None) => assert_eq!((shown.policy, status), ("error", 2), "{name}"),
        both => panic!("{name}: {both:?}"),
    }
    if let Some(document) = shown.document {
        arguments.push("--print-request");
        assert_eq!(document, run(folder.path(), &arguments).0, "{name}");
    }
}

#[test]
fn every_example_policy_and_request_as_the_command_prints_it() {
    let mut compared = 0;
    let cases = repository().join("crates/engine/tests/policies");
    for entry in std::fs::read_dir(repository().join("policies/examples")).unwrap() {
        let (file, text) = (entry.as_ref().unwrap().file_name(), read(&entry.as_ref().unwrap().path()));
        let cases = json(&cases.join(&file));
        for case in cases["cases"].as_array().unwrap() {
            let mut request = cases["defaults"].clone();
            for (member, value) in case["request"].as_object().unwrap() {
                request[member] = value.clone();
            }
            compare(&format!("{file:?}, {}", case["name"]), &text, &format!("{request:#}"), "");
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn the_examples_of_the_page_as_the_command_prints_them() {
    let web = repository().join("docs/playground/web");
    for example in json(&web.join("examples.json")).as_array().unwrap() {
        let (name, file) = (example["name"].as_str().unwrap(), example["policy"].as_str().unwrap());
        let own = web.join("policies").join(file);
        let policy = if own.exists() { own } else { repository().join("policies/examples").join(file) };
        let lines: Vec<&str> =
            example["request"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        compare(name, &read(&policy), &lines.join("\n"), example["token"].as_str().unwrap());
    }
}

#[test]
fn broken_texts_as_the_command_prints_them() {
    let policy = read(&repository().join("policies/examples/own-api.json"));
    for request in ["{", "{}", "{\"method\": 7}", "curl", "curl 'https://a", "wget https://a", "curl h/$A", "[]"] {
        compare(request, &policy, request, "");
    }
    for broken in ["{", "[]", "version: 1", "{\"version\": 1, \"version\": 1}", "\u{feff}{}"] {
        compare(broken, broken, "curl https://a", "");
    }
    compare("a token that is none", &policy, "curl https://a -d 1", "planted");
}

#[test]
fn what_the_page_cannot_have_is_told() {
    let policy = read(&repository().join("policies/examples/own-api.json"));
    let error = |request: &str| asked(&policy, request, "").error.unwrap();
    assert_eq!(error(" "), "there is no request: paste a curl command, or write a request document");
    assert!(error("curl https://a -d @body.json").starts_with("body.json: the playground reads no files"));
}
