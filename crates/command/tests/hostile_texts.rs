//! Texts of others in what the command writes: none becomes a part of a configuration, and none reaches a terminal as more than a text.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use crate::{repository, run_with_input};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

/// What is put behind each text: ends of lines and further values, what YAML, JSON and templates read, and what a terminal acts on.
const EVIL: [&str; 3] = [
    "\n- {evil: 1}\n---\nevil: 1",
    "\" ' evil: {{ 1 }} ]}, evil: 1} # *a &b",
    "\u{85}evil: 1\u{2028}\r\u{1b}[31m\u{9b}2J\u{7f}\u{202e}",
];

const FORMS: [&[&str]; 6] = [
    &["render", "envoy"],
    &["render", "envoy", "--filter-only"],
    &["render", "envoy", "--dynamic-module", "--filter-only"],
    &["render", "kubernetes", "--form", "envoy-filter"],
    &["render", "kubernetes", "--form", "envoy-patch-policy"],
    &["render", "krakend"],
];

fn command(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    let output = run_with_input(command.current_dir(repository()).args(args), input).unwrap();
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(stream.clone()).unwrap();
        let odd = |char: char| !matches!(char, '\n' | '\t' | '"' | '\'' | '\\') && char.escape_debug().len() > 1;
        assert!(!text.contains(odd), "{args:?} prints {:?}", text.chars().find(|char| odd(*char)));
    }
    output
}

/// How many documents a text has. None of them has a member of [`EVIL`].
fn documents(text: &str) -> Result<usize, String> {
    fn is_evil(value: &Value) -> bool {
        match value {
            Value::Object(members) => members.iter().any(|(name, value)| name == "evil" || is_evil(value)),
            Value::Array(items) => items.iter().any(is_evil),
            _ => false,
        }
    }
    let documents = serde_saphyr::from_multiple::<Value>(text).map_err(|error| error.to_string())?;
    if documents.iter().any(is_evil) { Err("a text has become a member".to_owned()) } else { Ok(documents.len()) }
}

/// The pointers of the texts of a document.
fn texts(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| texts(value, &format!("{pointer}/{name}"), found))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| texts(value, &format!("{pointer}/{index}"), found));
        }
        Value::String(_) => found.push(pointer.to_owned()),
        _ => {}
    }
}

/// The options that a policy needs. `upstreams`: the names of its clusters.
fn options(form: &[&str], upstreams: &BTreeSet<String>) -> Vec<String> {
    let mut options: Vec<String> = form.iter().map(|word| (*word).to_owned()).collect();
    options.extend(["--policy", "-"].map(str::to_owned));
    options.extend(upstreams.iter().map(|name| format!("--upstream={name}=http://127.0.0.1:9000")));
    if !options.contains(&"envoy-filter".to_owned()) {
        options
            .extend(["--jwt-issuer=https://i.example.com", "--jwt-keys=https://i.example.com/keys"].map(str::to_owned));
    }
    options
}

fn rendered(form: &[&str], document: &Value, more: &[String]) -> Option<String> {
    let upstreams = crate::check::rendered::upstream_names(document).into_iter().collect();
    let args = [options(form, &upstreams), more.to_vec()].concat();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = command(&args, &document.to_string());
    assert!(matches!(output.status.code(), Some(0 | 2)), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn policies() -> Vec<Value> {
    ["payments", "own-api-and-restate", "api-keys", "webhooks", "promises"]
        .iter()
        .map(|name| fs::read(repository().join(format!("policies/examples/{name}.json"))).unwrap())
        .map(|text| serde_json::from_slice(&text).unwrap())
        .collect()
}

#[test]
fn no_text_of_a_policy_becomes_a_part_of_a_configuration() {
    let mut seen = BTreeSet::new();
    let mut written = 0;
    for policy in policies() {
        let right: Vec<_> =
            FORMS.iter().map(|form| rendered(form, &policy, &[]).map(|text| documents(&text).unwrap())).collect();
        let mut pointers = Vec::new();
        texts(&policy, "", &mut pointers);
        for pointer in pointers {
            let kind: String =
                pointer.split('/').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).collect();
            if !seen.insert(kind) {
                continue;
            }
            for evil in EVIL {
                let mut document = policy.clone();
                let place = document.pointer_mut(&pointer).unwrap();
                *place = json!(format!("{}{evil}", place.as_str().unwrap()));
                for (form, right) in FORMS.iter().zip(&right) {
                    let Some(right) = right else { continue };
                    // A policy that does not start is refused for every gateway.
                    let Some(text) = rendered(form, &document, &[]) else { break };
                    written += 1;
                    assert_eq!(documents(&text).as_ref(), Ok(right), "{form:?} {pointer} {evil:?}\n{text}");
                }
            }
        }
    }
    assert!(written > 20, "{written}");
}

#[test]
fn no_text_of_an_option_becomes_a_part_of_a_configuration() {
    let policy: Value =
        serde_json::from_str(&fs::read_to_string(repository().join("policies/examples/payments.json")).unwrap())
            .unwrap();
    let given = [
        "--jwt-issuer=https://j.example.com",
        "--jwt-audience=a",
        "--access-log=/tmp/log",
        "--credentials=/tmp/c",
        "--ca-file=/tmp/ca",
        "--ecds=/tmp/ecds",
        "--module-dir=/tmp/modules",
        "--cors-origin=https://a.example.com",
        "--public-path=/public",
        "--health-path=/health",
        "--listen=127.0.0.1:1",
        "--upstream=other=http://a",
    ];
    let mut written = 0;
    for option in given {
        let plain = rendered(FORMS[0], &policy, &[option.to_owned()]).map(|text| documents(&text).unwrap());
        for evil in EVIL {
            if let Some(text) = rendered(FORMS[0], &policy, &[format!("{option}{evil}")]) {
                written += 1;
                assert_eq!(documents(&text).ok(), plain, "{option}{evil:?}\n{text}");
            }
        }
    }
    assert!(written > 6, "{written}");
}

/// Documents, logs and descriptions with such texts in every place: [`command`] looks at what is printed.
#[test]
fn no_command_prints_what_a_terminal_acts_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let evil = EVIL[2];
    let quoted = json!(evil).to_string();
    let quoted = quoted.trim_matches('"');
    let description = format!(
        "openapi: 3.1.0\ninfo: {{title: x, version: \"1\"}}\npaths:\n  \"/a{quoted}\": {{post: {{operationId: \"b{quoted}\", summary: \
         \"{quoted}\", responses: {{\"200\": {{description: ok}}}}}}}}\n  \"/b\": {{post: {{operationId: \"b{quoted}\", \
         x-idempotency-policy: \"{quoted}\", responses: {{\"200\": {{description: ok}}}}}}}}\n"
    );
    let description = file("openapi.yaml", &description);
    command(&["init", "--yes", "--openapi", &description, "-"], "");
    command(
        &["init", "--yes", "--openapi", &description, &format!("{}/policy{evil}.json", directory.path().display())],
        "",
    );
    for policy in policies() {
        let mut pointers = Vec::new();
        texts(&policy, "", &mut pointers);
        let mut whole = policy.clone();
        for pointer in &pointers {
            let place = whole.pointer_mut(pointer).unwrap();
            *place = json!(format!("{}{evil}", place.as_str().unwrap()));
        }
        whole[format!("member{evil}")] = json!(evil);
        // Raw in the file, as a text of JSON may have all but control characters of ASCII.
        let raw = whole.to_string().replace(quoted, "\u{85}\u{2028}\u{9b}2J\u{7f}\u{202e}");
        for text in [whole.to_string(), raw] {
            let path = file(&format!("policy{evil}.json"), &text);
            for args in [
                &["check"][..],
                &["check", "--format", "json"],
                &["check", "--format", "github"],
                &["check", "--envoy"],
            ] {
                command(&[args, &[path.as_str()]].concat(), "");
            }
            command(&["explain", "--policy", &path, "--method", "POST", "--url", &format!("https://a/b{evil}")], "");
            command(&["check", &path, "--openapi", &description], "");
        }
        let path = file("policy.json", &policy.to_string());
        command(&["check", &path, "--openapi", &description], "");
        command(&["overlay", &path, "--openapi", &description], "");
    }
    let record = json!({"time": evil, "method": evil, "path": evil, "edge_idempotency": {
        "endpoint": evil, "tenant": evil, "project": evil, "idempotency_shadow": "refuse", "idempotency_code": evil,
        "idempotency_reason": evil, "original_path": evil, "idempotency_policy": evil,
    }});
    let raw = record.to_string().replace(quoted, "\u{85}\u{2028}\u{9b}2J\u{7f}\u{202e}");
    for line in [record.to_string(), raw] {
        for format in ["table", "json"] {
            command(&["shadow-report", "--format", format, "-"], &line);
        }
        command(&["explain", "--log-line", &line], "");
    }
}
