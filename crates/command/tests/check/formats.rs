//! Formats, exit codes, `--deny` and `--allow`, standard input.

use super::{check, json, text};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const BAD: &str = "lints/object-without-tenant.json";

#[test]
fn warnings_are_errors_if_denied_and_nothing_if_allowed() {
    let status = |arguments: &[&str]| check(&[arguments, &[BAD]].concat()).status.code();
    assert_eq!(status(&[]), Some(0));
    assert_eq!(status(&["--deny", "object-without-tenant"]), Some(1));
    assert_eq!(status(&["--deny", "all"]), Some(1));
    assert_eq!(status(&["--deny", "lost-parameter,inline-secret"]), Some(0));
    assert_eq!(status(&["--deny", "all", "--allow", "object-without-tenant"]), Some(0));
    assert_eq!(status(&["--deny", "no-such-lint"]), Some(2));
    assert_eq!(status(&["--allow", "start-error"]), Some(2));
    assert!(text(&check(&["--deny", "object-without-tenants", BAD])).contains("object-without-tenant'"));
    // `all` is about warnings; a note has to be named.
    assert_eq!(check(&["--deny", "all", "lints/shadow-mode.json"]).status.code(), Some(0));
    assert_eq!(check(&["--deny", "shadow-mode", "lints/shadow-mode.json"]).status.code(), Some(1));
}

#[test]
fn errors_of_the_filter_exit_2_whatever_is_denied() {
    assert_eq!(check(&["lints/start-error.json"]).status.code(), Some(2));
    assert_eq!(check(&["--deny", "all", "lints/start-error.json", BAD]).status.code(), Some(2));
    let output = check(&["no-such-file.json", BAD]);
    assert_eq!(output.status.code(), Some(2));
    // The other file is checked all the same.
    assert!(text(&output).contains("no-such-file.json: ") && text(&output).contains("object-without-tenant"));
    assert_eq!(check(&[]).status.code(), Some(2));
}

#[test]
fn text_has_the_line_and_the_cure() {
    insta::assert_snapshot!("text", text(&check(&[BAD, "lints/start-error.json"])));
}

#[test]
fn json_has_every_place() {
    let report = json(&[BAD, "lints/start-error.json"]);
    insta::assert_snapshot!("json", format!("{report:#}"));
}

#[test]
fn sarif_has_the_members_that_the_standard_requires() {
    let output = check(&["--format", "sarif", BAD, "lints/start-error.json"]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let region = &result["locations"][0]["physicalLocation"]["region"];
        assert!(region["startLine"].as_u64().unwrap() >= 1 && region["startColumn"].as_u64().unwrap() >= 1);
    }
    let output = check(&["--format", "sarif", BAD]);
    let mut log: Value = serde_json::from_slice(&output.stdout).unwrap();
    log["runs"][0]["tool"]["driver"]["version"] = "VERSION".into();
    insta::assert_snapshot!("sarif", format!("{log:#}"));
}

#[test]
fn github_has_one_command_for_each_finding() {
    let output = check(&["--format", "github", BAD, "lints/shadow-mode.json", "lints/start-error.json"]);
    insta::assert_snapshot!("github", String::from_utf8(output.stdout).unwrap());
}

#[test]
fn standard_input_is_a_file() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"version\": 1,}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!("stdin", text(&output));
}

/// Without a terminal there are no colours; `CLICOLOR_FORCE` asks for them, and `NO_COLOR` takes precedence.
#[test]
fn colours_are_for_terminals() {
    let colours = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
        command.args(["check", "lints/object-without-tenant.json"]);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check"));
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        command.output().unwrap().stderr.contains(&0x1b)
    };
    assert!(!colours(&[]));
    assert!(colours(&[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

/// Neither a document that is read, nor one that is not, nor a gateway's file shows a secret.
#[test]
fn no_line_with_a_secret_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let arguments = |envoy: bool| if envoy { vec!["--envoy"] } else { vec![] };
    for (document, envoy, shown) in [
        (
            r#"{"version": 1, "webhooks": {"static": {"wh_01ABCDE": {"secrets": ["planted"], "x": 1}}}}"#,
            false,
            "wh_01ABCDE",
        ),
        (r#"{"version": 1, "webhooks": {"unkey": {"root_key": "planted", "x": 1}}}"#, false, "unkey"),
        (r#"{"version": 1, "secrets": ["planted"],}"#, false, "**"),
        ("{\"version\": 1, \"secrets\": [\n\"planted\",\n]}", false, "**"),
        ("a: b\nkey_values: {A: planted\nc: d", true, "not-yaml"),
    ] {
        std::fs::write(&file, document).unwrap();
        let output = check(&[arguments(envoy), vec![file.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output).contains(shown) && !text(&output).contains("planted"), "{document}: {}", text(&output));
    }
}

/// A document of one line, and one with text that would act on a terminal.
#[test]
fn no_text_of_a_document_acts_on_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check/lints/object-without-tenant.json"));
    let document = document.unwrap();
    std::fs::write(&file, document.replace("carts.checkout", "carts\u{1b}[2J\u{202e}")).unwrap();
    let output = check(&[file.to_str().unwrap()]);
    assert!(!text(&output).contains(['\u{1b}', '\u{202e}']), "{}", text(&output));
    let long: serde_json::Value = serde_json::from_str(&document).unwrap();
    std::fs::write(&file, long.to_string() + &" ".repeat(2_000)).unwrap();
    let output = check(&[file.to_str().unwrap()]);
    assert!(text(&output).contains("policy.json:1:"), "{}", text(&output));
    assert!(text(&output).lines().all(|line| line.len() < 500), "{}", text(&output));
}

/// A file that cannot be read is a finding in every format, so that nothing looks clean.
#[test]
fn a_file_that_cannot_be_read_is_a_finding() {
    let report = json(&["no-such-file.json", BAD]);
    assert_eq!(report["errors"], 1);
    assert_eq!(
        (&report["findings"][0]["lint"], &report["findings"][0]["file"]),
        (&"unread-file".into(), &"no-such-file.json".into())
    );
    let output = check(&["--format", "github", "no-such-file.json"]);
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("::error file=no-such-file.json"));
    let sarif = |file: &str| -> Value { serde_json::from_slice(&check(&["--format", "sarif", file]).stdout).unwrap() };
    let invocation = &sarif("no-such-file.json")["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert!(
        invocation["toolExecutionNotifications"][0]["message"]["text"].as_str().unwrap().contains("no-such-file.json")
    );
    assert_eq!(sarif(BAD)["runs"][0]["invocations"][0]["executionSuccessful"], true);
}

/// GitHub shows results whose place is a path of the repository, or a whole URI.
#[test]
fn places_in_sarif_are_uris() {
    let place = |file: &str| -> Value {
        let log: Value = serde_json::from_slice(&check(&["--format", "sarif", file]).stdout).unwrap();
        log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].clone()
    };
    let whole = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check").join(BAD);
    assert_eq!(place(whole.to_str().unwrap()), BAD);
    assert_eq!(place(BAD), BAD);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a b.json");
    std::fs::copy(&whole, &file).unwrap();
    let uri = place(file.to_str().unwrap());
    assert!(uri.as_str().unwrap().starts_with("file:///") && uri.as_str().unwrap().ends_with("/a%20b.json"), "{uri}");
}

/// A secret in the wrong place, or under a name with a slip, is not shown.
#[test]
fn no_slip_shows_a_secret() {
    let policy = |webhooks: &str| {
        format!(
            "{{\n\"version\": 1, \"backend\": {{\"kind\": \"generic\"}},\n\"routes\": [],\n\"webhooks\": {webhooks}}}\n"
        )
    };
    let binding = |text: &str| {
        policy(&format!("{{\"static\": {{\"wh_12345678\": {{\"tenant\": \"a\", \"project\": \"b\",\n{text}}}}}}}"))
    };
    let directory = tempfile::tempdir().unwrap();
    for (name, document) in [
        ("object", binding("\"provider\": \"stripe\",\n\"secrets\": [{\n\"value\":\n\"planted\"}]")),
        ("typo", policy("{\"unkey\": {\"cluster\": \"u\",\n\"root_kye\": \"planted\"}}")),
        ("swapped", binding("\"provider\": \"whsec_planted\",\n\"secrets\": [\"stripe\"]")),
        ("not JSON", binding("\"provider\": \"stripe\",\n\"secrets\":\n[\n\"a\", {\"env\": \"b\"},\n\"planted\",]")),
    ] {
        let file = directory.path().join("policy.json");
        std::fs::write(&file, &document).unwrap();
        let gateway = directory.path().join("envoy.yaml");
        let block: String = document.lines().map(|line| format!("        {line}\n")).collect();
        let quoted = serde_json::to_string(&document).unwrap();
        for value in [format!("|\n{block}"), quoted] {
            let filter = "name: edge-idempotency\ntyped_config:\n  \"@type\": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm\n  config:\n    configuration:\n      \"@type\": type.googleapis.com/google.protobuf.StringValue\n      value: ";
            std::fs::write(&gateway, format!("{filter}{value}")).unwrap();
            for format in ["text", "json", "sarif", "github"] {
                for arguments in [
                    &["--format", format, file.to_str().unwrap()][..],
                    &["--format", format, "--envoy", gateway.to_str().unwrap()],
                ] {
                    let output = check(arguments);
                    let told = text(&output) + &String::from_utf8(output.stdout.clone()).unwrap();
                    assert!(told.contains("error") && !told.contains("planted"), "{name}: {told}");
                }
            }
        }
    }
}

/// Each member that stands twice is told at its second place.
#[test]
fn a_member_that_stands_twice_is_told_at_its_second_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let document = "{\n\"version\": 1,\n\"routes\": [{\"path\": \"/a\", \"path\": \"/b\"}],\n\"version\": 2\n}";
    std::fs::write(&file, document).unwrap();
    let report = json(&[file.to_str().unwrap()]);
    let places: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["line"].as_u64().unwrap(), finding["column"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(3, 27), (4, 1)], "{report}");
}

/// In a document without line breaks the text shows the part with the place, and columns count characters everywhere.
#[test]
fn places_in_long_lines_are_shown_and_counted_in_characters() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let told = |document: &str| {
        std::fs::write(&file, document).unwrap();
        text(&check(&[file.to_str().unwrap()]))
    };
    let routes: Vec<String> = (0..30)
        .map(|index| format!("{{\"endpoint\":\"a.b{index}\",\"path\":\"/a{index}\",\"policy\":\"REQUIRED_B\"}}"))
        .collect();
    let long = format!(
        "{{\"version\":1,\"backend\":{{\"kind\":\"generic\"}},\"routes\":[{}],\"callerz\":1}}",
        routes.join(",")
    );
    assert!(told(&long).contains("it is in `") && told(&long).contains("\"callerz\":*}`"), "{}", told(&long));
    let wide = told("{\"é€😀\": 1, \"version\":1,}");
    assert!(wide.contains("line 1 column 23") && wide.contains("json:1:23") && !wide.contains("column 29"), "{wide}");
}
