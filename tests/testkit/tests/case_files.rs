//! The case files' format, and the comparison: that a slip in a file is an error, and that a difference is seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Map, Value, json};
use testkit::cases::{self, Case, CaseOutcome, compare, compare_outcomes, parse};
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
fn every_member_means_something() {
    let file = read(&file()).unwrap();
    assert_eq!((file.name.as_str(), file.about.as_str()), ("name", "everything at once"));
    let case = &file.cases[0];
    assert_eq!(case.policy, br#"{"version":1,"routes":[],"unmatched":"PROHIBITED"}"#);
    assert_eq!(case.environment["SECRET"], "s");
    let request = &case.request.headers;
    assert_eq!(request.get(":authority"), Some(&b"a.example"[..]));
    assert_eq!(request.get("x-a"), Some(&b"\xff"[..]));
    assert_eq!(request.get("x-b"), Some(&b"\"ababab\""[..]));
    assert_eq!(case.metadata["envoy.filters.http.jwt_authn"], json!({"jwt": {"sub": "u", "n": 1}}));
    assert_eq!(case.metadata["other"]["k"], "v");
    assert_eq!(case.route_metadata["edge.idempotency"]["endpoint"], "e");
    let upstream = case.upstream.as_ref().unwrap();
    assert_eq!(upstream.headers.get(":method"), Some(&b"PUT"[..]));
    assert_eq!(upstream.body, b"out");
    assert_eq!(case.response.headers.status(), Some(201));
    let pointers: Vec<_> = file.start_errors.iter().map(|case| case.pointers[0].as_str()).collect();
    assert_eq!(pointers, ["/version", "", ""]);
    assert_eq!(file.start_errors[0].policy, br#"{"version":2,"mode":"enforce","routes":[]}"#);
    assert_eq!(file.start_errors[2].policy, b"{");
}

#[test]
fn what_is_left_out_has_its_default() {
    let mut file = file();
    let upstream = json!({"path": "/b", "headers": []});
    let request = json!({"method": "DELETE", "path": "/a", "body": "in", "trailers": [["x-t", "1"]]});
    file["cases"][0] = json!({"name": "n", "request": request, "upstream": upstream, "client": {"status": 200}});
    let case = read(&file).unwrap().cases.remove(0);
    let upstream = case.upstream.unwrap();
    assert_eq!(upstream.headers.get(":method"), Some(&b"DELETE"[..]));
    assert_eq!(upstream.headers.get(":authority"), Some(&b"api.example.com"[..]));
    assert_eq!((upstream.body.as_slice(), upstream.trailers), (&b"in"[..], Some(Headers::new())));
    assert_eq!(case.response, Message::new([(":status", "200")], ""));
}

#[test]
fn slips_are_errors() {
    let slip = |change: &dyn Fn(&mut Value)| {
        let mut file = file();
        change(&mut file);
        read(&file).expect_err("it was read")
    };
    let add = |pointer: &'static str| {
        move |file: &mut Value| {
            file.pointer_mut(pointer).unwrap()["hedaers"] = json!([]);
        }
    };
    let places = ["", "/cases/0", "/cases/0/request", "/cases/0/upstream", "/cases/0/response", "/cases/0/client"];
    for pointer in places.into_iter().chain(["/start_errors/0"]) {
        let error = slip(&add(pointer));
        assert!(error.contains("unknown field `hedaers`"), "{pointer}: {error}");
    }
    for (member, of) in [
        ("upstream", "/cases/0"),
        ("client", "/cases/0"),
        ("name", "/cases/0"),
        ("path", "/cases/0/request"),
        ("headers", "/cases/0/upstream"),
        ("status", "/cases/0/client"),
        ("errors", "/start_errors/0"),
    ] {
        let error = slip(&|file| drop(file.pointer_mut(of).unwrap().as_object_mut().unwrap().remove(member)));
        assert!(error.contains(&format!("missing field `{member}`")), "{error}");
    }
    for (value, why) in [
        (json!(1), "is no value"),
        (json!({"base64": "?"}), "Invalid"),
        (json!({"repeat": ["a"]}), "is no value"),
        (json!({"repeat": ["a", -1]}), "is no value"),
        (json!({"hex": "ff"}), "is no value"),
        (json!({"base64": "", "repeat": ["a", 1]}), "is no value"),
    ] {
        let error = slip(&|file| file["cases"][0]["request"]["headers"][0][1] = value.clone());
        assert!(error.contains(why), "{error}");
    }
    let set = |pointer: &'static str, value: Value| {
        move |file: &mut Value| *file.pointer_mut(pointer).unwrap() = value.clone()
    };
    let error = slip(&set("/start_errors/0/name", json!("one")));
    assert!(error.contains(r#"two cases are named "one""#), "{error}");
    let error = slip(&set("/cases/0/request/headers/0/0", json!(":path")));
    assert!(error.contains("is no name for a header line"), "{error}");
    let error = slip(&set("/start_errors/0/errors", json!([])));
    assert!(error.contains("it has no errors"), "{error}");
    let error = slip(&|file| file["cases"][0]["client"]["problem"] = json!({}));
    assert!(error.contains("a problem and a body"), "{error}");
    let error = slip(&|file| file["policy_file"] = json!("policies/reference.json"));
    assert!(error.contains("`policy` and `policy_file`"), "{error}");
    let error = slip(&|file| drop(file.as_object_mut().unwrap().remove("policy")));
    assert!(error.contains("its file has no policy"), "{error}");
    let error = slip(&|file| *file = json!({"about": "", "policy": {}}));
    assert!(error.contains("it has no cases"), "{error}");
}

#[test]
fn what_is_expected_is_no_difference() {
    assert_eq!(compare(&case(), &expected()), []);
    let mut outcome = expected();
    let upstream = outcome.upstream.as_mut().unwrap();
    let lines: Vec<_> = upstream.headers.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    upstream.headers = lines.into_iter().rev().collect();
    assert_eq!(compare(&case(), &outcome), [], "lines of different names come in any order");
    upstream_of(&mut outcome).headers.set(":scheme", "http");
    assert_eq!(compare(&case(), &outcome), [], "the scheme is the gateway's business");
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

#[test]
fn two_runs_are_compared_whole() {
    assert_eq!(compare_outcomes(&expected(), &expected()), []);
    let mut other = expected();
    client_of(&mut other).headers.add("x-unnamed", "1");
    upstream_of(&mut other).headers.set(":scheme", "http");
    other.metrics.push("requests".to_owned());
    other.record = Some(Map::new());
    let seen: Vec<String> = compare_outcomes(&expected(), &other).into_iter().map(|it| it.what).collect();
    assert_eq!(seen, ["upstream :scheme", "client x-unnamed", "the series that counted", "the record"]);
    let seen = compare_outcomes(&expected(), &CaseOutcome::default());
    assert_eq!(seen.len(), 2);
}

#[test]
fn long_values_are_shown_short_and_told_apart() {
    let mut outcome = expected();
    let mut long = vec![b'a'; 60_000];
    upstream_of(&mut outcome).headers.set("x-a", long.clone());
    long[59_999] = b'b';
    let mut case = case();
    case.upstream.as_mut().unwrap().headers.set("x-a", long);
    let seen = compare(&case, &outcome);
    assert_eq!(seen.len(), 1);
    assert!(seen[0].seen.len() < 700 && seen[0].seen.contains("60000 bytes"), "{}", seen[0].seen);
}

#[test]
fn start_errors_are_compared_by_pointer_and_count() {
    let mut start = read(&file()).unwrap().start_errors.remove(0);
    start.pointers = vec!["/b".into(), "".into(), "/a".into(), "/b".into()];
    let errors = |errors: &[&str]| -> Vec<String> { errors.iter().map(|error| (*error).to_owned()).collect() };
    assert_eq!(start.compare(&errors(&["(document): x", "/a: y: z", "/b: 1", "/b: 2"])), []);
    for wrong in [&["(document): x", "/a: y", "/b: 1"][..], &[], &["(document): x", "/a: y", "/b: 1", "/b: 2", "/c: 3"]]
    {
        assert_eq!(start.compare(&errors(wrong)).len(), 1, "{wrong:?}");
    }
}

#[test]
fn the_files_of_this_repository_load() {
    assert!(!cases::load_dir(&cases::directory()).unwrap().is_empty());
    let empty = std::env::temp_dir().join(format!("no-cases-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    assert!(cases::load_dir(&empty).unwrap_err().contains("no case files"));
    std::fs::remove_dir(&empty).unwrap();
}
