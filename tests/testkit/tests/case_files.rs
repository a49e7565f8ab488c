//! The case files' format, and the comparison: that a slip in a file is an error, and that a difference is seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use testkit::cases::{self, Case, CaseOutcome, compare, parse};
use testkit::http::{Headers, Message};

/// A file with one case that uses every member.
fn file() -> Value {
    json!({
        "about": "everything at once",
        "policy": {"version": 1, "mode": "enforce", "routes": []},
        "environment": {"SECRET": "s"},
        "cases": [{
            "name": "one",
            "policy_patch": {"mode": null, "unmatched": "PROHIBITED"},
            "request": {
                "method": "POST", "path": "/a?b", "authority": "a.example", "body": "in",
                "headers": [["X-A", {"base64": "/w=="}], ["x-b", ["\"", {"repeat": ["ab", 3]}, "\""]]],
                "trailers": [["x-t", "1"]],
            },
            "claims": {"sub": "u", "n": 1},
            "metadata": {"other": {"k": "v"}},
            "route_metadata": {"edge.idempotency": {"endpoint": "e"}},
            "upstream": {
                "method": "PUT", "path": "/b", "authority": "b.example", "headers": [["x-a", "1"], ["x-b", "2"]],
                "body": "out", "trailers": [["x-u", "2"]],
            },
            "response": {"status": 201, "headers": [["x-r", "1"]], "body": "answer"},
            "client": {"status": 201, "headers": {"x-r": "1", "x-gone": null}, "body": "answer"},
        }],
        "start_errors": [
            {"name": "patched", "policy_patch": {"version": 2}, "errors": ["/version"]},
            {"name": "own", "policy": {}, "errors": [""]},
            {"name": "text", "policy_text": "{", "errors": [""]},
        ],
    })
}

fn read(file: &Value) -> Result<cases::CaseFile, String> {
    parse("name", &file.to_string())
}

fn case() -> Case {
    read(&file()).unwrap().cases.remove(0)
}

/// The outcome that the case expects.
fn expected() -> CaseOutcome {
    let case = case();
    let headers = Headers::from([(":status", "201"), ("x-r", "1")]);
    CaseOutcome { upstream: case.upstream, client: Some(Message::new(headers, "answer")), ..CaseOutcome::default() }
}

#[test]
fn slips_are_errors() {
    for pointer in ["", "/cases/0", "/cases/0/request", "/cases/0/upstream", "/cases/0/response", "/cases/0/client"] {
        let mut file = file();
        file.pointer_mut(pointer).unwrap()["hedaers"] = json!([]);
        let error = read(&file).expect_err("it was read");
        assert!(error.contains("unknown field `hedaers`"), "{pointer}: {error}");
    }
}

fn upstream_of(outcome: &mut CaseOutcome) -> &mut Message {
    outcome.upstream.as_mut().unwrap()
}

fn client_of(outcome: &mut CaseOutcome) -> &mut Message {
    outcome.client.as_mut().unwrap()
}

#[test]
fn every_difference_is_seen() {
    type Change = fn(&mut CaseOutcome);
    let changes: [(&str, Change); 20] = [
        ("upstream", |outcome| outcome.upstream = None),
        ("upstream :method", |outcome| upstream_of(outcome).headers.set(":method", "POST")),
        ("upstream :path", |outcome| upstream_of(outcome).headers.set(":path", "/B")),
        ("upstream :authority", |outcome| upstream_of(outcome).headers.set(":authority", "x")),
        ("upstream x-a", |outcome| upstream_of(outcome).headers.set("x-a", "1 ")),
        ("upstream x-a", |outcome| upstream_of(outcome).headers.add("x-a", "1")),
        ("upstream x-a", |outcome| upstream_of(outcome).headers.remove("x-a")),
        ("upstream x-new", |outcome| upstream_of(outcome).headers.add("x-new", "")),
        ("upstream body", |outcome| upstream_of(outcome).body.push(0)),
        ("upstream trailer x-u", |outcome| upstream_of(outcome).trailers = None),
        ("upstream trailer x-v", |outcome| upstream_of(outcome).trailers.as_mut().unwrap().add("x-v", "")),
        ("upstream", |outcome| upstream_of(outcome).complete = false),
        ("the client", |outcome| outcome.client = None),
        ("the client's status", |outcome| client_of(outcome).headers.set(":status", "200")),
        ("the client's x-r", |outcome| client_of(outcome).headers.remove("x-r")),
        ("the client's x-r", |outcome| client_of(outcome).headers.add("x-r", "1")),
        ("the client's x-gone", |outcome| client_of(outcome).headers.add("x-gone", "")),
        ("the client's body", |outcome| client_of(outcome).body.clear()),
        ("the client's answer", |outcome| client_of(outcome).complete = false),
        ("a failure", |outcome| outcome.failures.push("trap".to_owned())),
    ];
    assert_eq!(compare(&case(), &expected()), []);
    for (what, change) in changes {
        let mut outcome = expected();
        change(&mut outcome);
        let seen = compare(&case(), &outcome);
        assert_eq!(seen.iter().map(|difference| difference.what.as_str()).collect::<Vec<_>>(), [what]);
    }
}

#[test]
fn problems_are_compared_by_member_and_as_problems() {
    let mut file = file();
    file["cases"][0]["upstream"] = Value::Null;
    file["cases"][0]["client"] =
        json!({"status": 400, "problem": {"code": "c", "reason": null}, "headers": {"allow": null}});
    let case = read(&file).unwrap().cases.remove(0);
    let answer = |body: Value| {
        let headers = [
            (":status", "400"),
            ("content-type", "application/problem+json"),
            ("cache-control", "no-store"),
            ("content-language", "en"),
        ];
        CaseOutcome { client: Some(Message::new(headers, body.to_string())), ..CaseOutcome::default() }
    };
    let what = |outcome: &CaseOutcome| -> Vec<String> {
        compare(&case, outcome).into_iter().map(|difference| difference.what).collect()
    };
    let right = json!({"code": "c", "status": 400, "title": "t"});
    assert!(what(&answer(right.clone())).is_empty());
    assert_eq!(what(&answer(json!({"code": "d", "status": 400}))), ["the problem's code"]);
    assert_eq!(what(&answer(json!({"code": "c", "reason": "r", "status": 400}))), ["the problem's reason"]);
    assert_eq!(what(&answer(json!({"code": "c", "status": 401}))), ["the problem's status"]);
    assert_eq!(what(&answer(json!("text"))), ["the client's body"]);
    for name in ["content-type", "cache-control", "content-language"] {
        let mut outcome = answer(right.clone());
        client_of(&mut outcome).headers.remove(name);
        assert_eq!(what(&outcome), [format!("the problem's {name}")]);
    }
    let mut outcome = answer(right);
    outcome.upstream = Some(Message::default());
    assert_eq!(what(&outcome), ["upstream"], "a refused request reaches nobody");
}
