//! A policy document that is none: Envoy refuses to start, and its log shows what the command shows, error by error.

mod stall;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use e2e::config::{self, Change, ListenerSpec};
use e2e::gateway::{TestGateway, options};
use e2e::runner::{Group, Test, runtime, sharing};
use harness::envoy::Envoy;
use harness::senders::Senders;
use harness::tokens::Signer;
use harness::tools::built;
use serde_json::{Value, json};

/// What the module's log lines begin with, behind Envoy's own beginning.
const LOGGED: &str = "edge-idempotency: policy ";
/// Stands where a secret would; it is never shown.
const SECRET: &str = "whsec_planted";

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests = vec![Test::new("refused: errors of every kind", |command: &PathBuf| {
        refuses(command, include_str!("bad-policy.json"), &BAD_POLICY)
    })];
    let protobuf = |name: &str, value: Value| json!({"@type": format!("type.googleapis.com/google.protobuf.{name}"), "value": value});
    let document = json!({"version": 1, "backend": {"kind": "restate"}, "routes": []});
    for (name, message, told) in [
        (
            "a Struct instead of a string",
            Some(protobuf("Struct", document.clone())),
            "this is a protobuf message such as a Struct",
        ),
        ("no configuration", None, "the document is empty"),
    ] {
        tests.push(Test::new(format!("refused: {name}"), move |_: &PathBuf| {
            let spec = ListenerSpec { policy: String::new(), changes: vec![Change::Configuration(message)] };
            let log = refusal(spec)?;
            let message = format!("(document): not a JSON document: {told}");
            ensure!(logged(&log).iter().any(|line| line.starts_with(&message)), "no `{message}…` in {log}");
            Ok(())
        }));
    }
    let bytes = "eyJ2ZXJzaW9uIjogMSwgImJhY2tlbmQiOiB7ImtpbmQiOiAicmVzdGF0ZSJ9LCAicm91dGVzIjogW119";
    let bytes = protobuf("BytesValue", json!(bytes));
    tests.push(Test::new("accepted: the document as bytes", move |_: &PathBuf| {
        let spec = ListenerSpec { policy: String::new(), changes: vec![Change::Configuration(Some(bytes))] };
        let gateway = TestGateway::start(&[("good".to_owned(), spec)])?;
        ensure!(gateway.log()?.contains("policy with 0 routes"), "Envoy's log: {}", gateway.log()?);
        Ok(())
    }));
    let command = || built("EDGE_CLI", "edge-idempotency");
    Ok(vec![sharing(command, tests), stall::group()])
}

/// The errors of `bad-policy.json`, sorted.
const BAD_POLICY: [&str; 16] = [
    "/backend/keep_headers/0",
    "/backend/reserved_paths/0",
    "/key_in_logs",
    "/routes/0/recovry",
    "/routes/1/endpoint",
    "/routes/2/recovery",
    "/routes/3/path",
    "/routes/4/policy",
    "/routes/5/collision",
    "/routes/6/path",
    "/routes/6/policy",
    "/routes/7/path",
    "/routes/7/target",
    "/unmatched",
    "/webhooks/static/wh_01JABC/provider",
    "/webhooks/static/wh_01JABC/secrets/0",
];

/// Envoy does not start with this listener; its log.
fn refusal(spec: ListenerSpec) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let options = options(directory.path(), "127.0.0.1:1".parse()?, &Signer::generate().jwks())?;
    let config = directory.path().join("envoy.json");
    config::write(&config, &options, &[("bad".to_owned(), spec)])?;
    let Err(error) = runtime()?.block_on(Envoy::start_with(options, &config)) else {
        anyhow::bail!("Envoy starts");
    };
    let error = format!("{error:#}");
    ensure!(error.contains("ended with exit status: 1 before it was ready"), "Envoy did not refuse: {error}");
    let log = fs::read_to_string(directory.path().join("envoy.log"))?;
    ensure!(!log.contains("panicked") && !log.contains(SECRET), "Envoy's log: {log}");
    Ok(log)
}

/// Envoy does not start, and everybody gives the same reasons: these.
fn refuses(command: &PathBuf, policy: &str, pointers: &[&str]) -> Result<()> {
    let log = refusal(ListenerSpec { policy: policy.to_owned(), changes: Vec::new() })?;

    let explained = ["explain", "--json", "--request", "/dev/null"];
    let told = issues(command, &explained, policy, "errors", 2)?;
    let mut seen: Vec<&str> = told.iter().map(|(pointer, _)| pointer.as_str()).collect();
    seen.sort_unstable();
    ensure!(seen == pointers, "errors at {seen:#?}\ninstead of {pointers:#?}");
    same(&lines(&told), &logged(&log))?;
    let headline = format!("the policy document has {} error", pointers.len());
    ensure!(log.contains(&headline), "no line `{headline}…` in {log}");

    Ok(())
}

/// What the command lists, each with its pointer and its message.
fn issues(
    command: &PathBuf,
    arguments: &[&str],
    policy: &str,
    member: &str,
    code: i32,
) -> Result<Vec<(String, String)>> {
    let output = output(command, arguments, policy)?;
    ensure!(output.status.code() == Some(code), "{arguments:?} ends with {}", output.status);
    let report: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("the report of {arguments:?}"))?;
    let list = report.get(member).and_then(Value::as_array).with_context(|| format!("no {member} in {report}"))?;
    let text = |issue: &Value, name: &str| issue.get(name).and_then(Value::as_str).map(str::to_owned);
    let issue = |issue: &Value| Some((text(issue, "pointer")?, text(issue, "message")?));
    list.iter().map(|one| issue(one).with_context(|| format!("no issue: {one}"))).collect()
}

fn output(command: &PathBuf, arguments: &[&str], policy: &str) -> Result<Output> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("policy.json");
    fs::write(&path, policy)?;
    let option = (arguments.first() != Some(&"check")).then_some("--policy");
    // `check` warns of variables that are not set where it runs.
    let variables = Senders::generate().environment();
    let output = Command::new(command).args(arguments).args(option).arg(&path).envs(variables).output()?;
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    ensure!(!String::from_utf8_lossy(&all).contains(SECRET), "{arguments:?} shows the secret");
    Ok(output)
}

fn lines(issues: &[(String, String)]) -> Vec<String> {
    let place = |pointer: &str| if pointer.is_empty() { "(document)".to_owned() } else { pointer.to_owned() };
    issues.iter().map(|(pointer, message)| format!("{}: {message}", place(pointer))).collect()
}

/// What the module said about the policy. Several VMs say the same: each its whole list, one after the other.
fn logged(log: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (_, line) in
        log.lines().filter_map(|line| line.split_once(LOGGED)).filter(|(_, line)| !line.starts_with("with "))
    {
        if !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn same(expected: &[String], seen: &[String]) -> Result<()> {
    ensure!(expected == seen, "the lists differ:\n{}", json!({"expected": expected, "seen": seen}));
    Ok(())
}
