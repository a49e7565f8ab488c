//! The command as its users call it: arguments and standard input in, exit status and output out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::{Value, json};
use std::process::{Command, Output};

const POLICY: &str = r#"{
  "version": 1,
  "docs_url": "https://developers.example.com/idempotency",
  "identity": {
    "sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                 "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}],
    "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-subject"}
  },
  "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
  "routes": [
    {"endpoint": "refunds.create", "path": "/api/v1/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"},
    {"endpoint": "quiet.create", "path": "/api/v1/quiet", "policy": "REQUIRED_A", "target": "Quiet/create", "mode": "shadow"}
  ]
}"#;

fn run(arguments: &[&str], policy: &str, input: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(&file, policy).unwrap();
    let option = (arguments.first() != Some(&"check")).then_some("--policy");
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(arguments).args(option).arg(&file);
    crate::run_with_input(&mut command, input).unwrap()
}

fn explain(request: &Value) -> (i32, Value) {
    let output = run(&["explain", "--json", "--request", "-"], POLICY, &request.to_string());
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn request(path: &str, headers: Value) -> Value {
    json!({
        "method": "POST",
        "url": format!("https://api.example.com{path}"),
        "headers": headers,
        "metadata": {"envoy.filters.http.jwt_authn":
            {"jwt": {"tenant_id": "acme", "project_id": "health-prod", "sub": "u 1"}}},
    })
}

#[test]
fn a_forwarded_request_is_shown_as_the_backend_gets_it() {
    let headers = json!([
        ["Idempotency-Key", "\"8e03978e\""],
        ["Authorization", "Bearer x"],
        ["X_Tenant_ID", "evil"],
        ["x-tenant-id", "evil"]
    ]);
    let (status, verdict) = explain(&request("/api//v1/refunds/?a=1", headers));
    assert_eq!(status, 0);
    assert_eq!(
        verdict,
        json!({
            "action": "forward",
            "endpoint": "refunds.create",
            "policy": "REQUIRED_A",
            "case": "A",
            "idempotency_key": "t-acme:health-prod:user:u%201:8e03978e",
            "path": "/restate/call/Refunds/create",
            "set_headers": {
                "x-tenant-id": "acme",
                "x-project-id": "health-prod",
                "x-subject": "user:u%201",
                "x-edge-idempotency": "1",
                "idempotency-key": "t-acme:health-prod:user:u%201:8e03978e"
            },
            "remove_headers": ["authorization", "x_tenant_id"],
            "identity": [{
                "source": "jwt",
                "counts": true,
                "tenant": {"metadata": ["envoy.filters.http.jwt_authn", "jwt", "tenant_id"], "value": "acme"},
                "project": {"metadata": ["envoy.filters.http.jwt_authn", "jwt", "project_id"], "value": "health-prod"},
                "subject": {"metadata": ["envoy.filters.http.jwt_authn", "jwt", "sub"], "value": "u 1"}
            }],
            "log": {
                "idempotency_case": "A",
                "idempotency_key_namespaced": verdict["log"]["idempotency_key_namespaced"],
                "idempotency_source": "header",
                "idempotency_policy": "REQUIRED_A",
                "idempotency_outcome": "forwarded",
                "tenant": "acme",
                "project": "health-prod",
                "endpoint": "refunds.create",
                "original_path": "/api/v1/refunds"
            },
            "steps": verdict["steps"]
        })
    );
    assert!(verdict["log"]["idempotency_key_namespaced"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn a_refused_request_is_shown_with_its_problem_document() {
    let (status, verdict) = explain(&request("/api/v1/refunds", json!([["idempotency-key", {"base64": "/w=="}]])));
    assert_eq!(status, 1);
    assert_eq!(verdict["action"], "reject");
    assert_eq!(verdict["status"], 400);
    assert_eq!(verdict["problem"]["code"], "idempotency_key_invalid");
    assert_eq!(verdict["problem"]["reason"], "charset");
    assert_eq!(verdict["problem"]["type"], "https://developers.example.com/idempotency#idempotency_key_invalid");
    assert_eq!(verdict.get("path"), None);
    assert_eq!(verdict.get("idempotency_key"), None);
}

/// The id of an invocation stands in for Restate's: a request says what Restate answers, or gets an id made up.
#[test]
fn a_recovery_is_shown_with_the_path_of_its_result() {
    let verdict = |lookups: Option<Value>| {
        let mut request = request("/api/v1/refunds/by-idempotency-key/8e03978e/output", json!([]));
        request["method"] = json!("GET");
        lookups.inspect(|lookups| request["lookups"] = lookups.clone());
        explain(&request)
    };
    let (status, made_up) = verdict(None);
    assert_eq!(status, 0, "{made_up}");
    assert!(made_up["path"].as_str().unwrap().starts_with("/restate/output/inv_"), "{made_up}");
    assert_eq!(made_up["idempotency_key"], "t-acme:health-prod:user:u%201:8e03978e");
    let reply = json!({"invocations": {"status": 200, "body": {"invocationId": "inv_1abc"}}});
    assert_eq!(verdict(Some(reply)).1["path"], "/restate/output/inv_1abc");
    let (status, unreachable) = verdict(Some(json!({"invocations": "unreachable"})));
    assert_eq!((status, &unreachable["problem"]["code"]), (1, &json!("dependency_unavailable")));
    assert_eq!(unreachable["log"]["idempotency_reason"], "invocation_lookup_failed");
}

/// `lookups` names secrets by their owners, wherever the policy has them.
#[test]
fn a_delivery_is_verified_with_what_the_stores_of_the_document_hold() {
    let policy = json!({
        "version": 1,
        "allow_inline_secrets": true,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
        "webhooks": {
            "unkey": {"cluster": "unkey", "root_key": "a-root-key-of-unkey"},
            "openbao": {"cluster": "openbao", "token": "a-token-of-openbao", "path": "hooks/{provider}/{tenant}/{project}"},
        },
        "routes": [{"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B",
            "target": "Hooks/take", "webhook": {}}],
    });
    let request = json!({
        "method": "POST",
        "url": "https://api.example.com/hooks/gitlab/wh_01JABCDEF",
        "headers": [["x-gitlab-token", "token-of-acme"], ["idempotency-key", "d-1"]],
        "body": "{}",
        "lookups": {
            "bindings": {"wh_01JABCDEF": {"tenant": "acme", "project": "shop", "provider": "gitlab"}},
            "secrets": {"shop:acme:gitlab": "another-token", "acme:shop:gitlab": "token-of-acme"},
        },
    });
    let output = run(&["explain", "--json", "--request", "-"], &policy.to_string(), &request.to_string());
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["action"], "forward", "{verdict}");
    assert_eq!(verdict["idempotency_key"], "t-acme:shop:service:webhook-ingest:gitlab-d-1", "{verdict}");
}

#[test]
fn shadow_shows_what_would_have_been() {
    let (status, verdict) = explain(&request("/api/v1/quiet", json!([])));
    assert_eq!((status, &verdict["action"]), (0, &json!("forward")));
    assert_eq!(verdict["shadow"]["action"], "reject");
    assert_eq!(verdict["shadow"]["status"], 400);
    assert_eq!(verdict["shadow"]["problem"]["code"], "idempotency_key_required");
    let (_, verdict) = explain(&request("/api/v1/quiet", json!([["idempotency-key", "k"]])));
    assert_eq!(verdict["shadow"]["idempotency_key"], "t-acme:health-prod:user:u%201:k");
    assert_eq!(verdict["set_headers"].get("idempotency-key"), None);
}

#[test]
fn text_is_for_people() {
    let output = run(&["explain", "--request", "-"], POLICY, &request("/nowhere", json!([])).to_string());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("REFUSED: 404 not_found\n"), "{text}");
    assert!(text.contains("status: 404") && text.contains("  code: not_found"), "{text}");
}

/// Somebody who has written a document in another form learns what it is and where.
#[test]
fn what_is_no_json_is_named_with_line_and_column() {
    for (policy, told) in [
        (
            "version: 1\nroutes: []\n",
            "this is YAML, from line 1 column 1 on: the document is JSON; convert it, for example with `yq -o=json",
        ),
        ("{\n  \"version\": 1,\n}", "a comma with nothing behind it at line 2 column 15: remove it"),
        ("{\n  // one\n  \"version\": 1\n}", "a comment at line 2 column 3: JSON has no comments; remove it"),
        ("{\n  # one\n  \"version\": 1\n}", "a comment at line 2 column 3: JSON has no comments; remove it"),
        ("\u{feff}{}", "a byte order mark at line 1 column 1: save the document as UTF-8 without one"),
        ("", "the document is empty"),
    ] {
        let output = run(&["check"], policy, "");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("error[not-json]: not a JSON document: {told}")), "{policy:?}: {text}");
    }
}

#[test]
fn a_word_that_is_nearly_right_gets_a_suggestion() {
    let misspelt = POLICY.replace("REQUIRED_A\", \"target\": \"Refunds", "REQUIRE_A\", \"target\": \"Refunds");
    let output = run(&["check", "--format", "json"], &misspelt, "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(report["findings"][0]["pointer"], "/routes/0/policy");
    let message = report["findings"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("found `REQUIRE_A`; did you mean `REQUIRED_A`?"), "{message}");
}

#[test]
fn bad_input_is_told_with_every_place_and_exits_2() {
    let broken = POLICY.replace("REQUIRED_A", "REQUIRED").replace("\"version\": 1", "\"version\": 2");
    let output = run(&["explain", "--request", "-"], &broken, "{}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    for place in ["3 errors", "/version:", "/routes/0/policy:", "/routes/1/policy:"] {
        assert!(text.contains(place), "{place} is not in {text}");
    }

    let output = run(&["check", "--format", "json"], &broken, "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(report["findings"][0]["pointer"], "/version");

    for (request, place) in [
        ("{", "line 1"),
        (r#"{"method": "POST", "url": "/relative"}"#, "/url:"),
        (r#"{"method": "POST", "url": "https://h/", "headers": [["a b", "c"]]}"#, "/headers/0/0:"),
        (r#"{"method": "POST", "url": "https://h/", "headers": [["a", {"base64": "%"}]]}"#, "/headers/0/1/base64:"),
        (r#"{"method": "POST", "url": "https://h/", "header": []}"#, "did you mean `headers`?"),
    ] {
        let output = run(&["explain", "--request", "-"], POLICY, request);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{request}");
        assert!(text.contains(place), "{place} is not in {text}");
    }
}

/// Every place where the policy looked, and what was there.
#[test]
fn explain_shows_what_the_identity_sources_held() {
    let policy = POLICY.replace(
        r#""sources": ["#,
        r#""sources": [{"name": "key", "headers_owned_by": "ext_authz", "tenant": {"value": "solo"}, "project": "x-p", "subject": {"field": "x-s"}},"#,
    );
    let mut sent = request("/api/v1/refunds", json!([["idempotency-key", "k"]]));
    sent["metadata"]["envoy.filters.http.jwt_authn"]["jwt"] = json!({"tenant_id": "a b", "sub": 7});
    let shown = |sent: &Value| {
        let output = run(&["explain", "--json", "--request", "-"], &policy, &sent.to_string());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["identity"].clone()
    };
    let jwt = |name: &str| json!(["envoy.filters.http.jwt_authn", "jwt", name]);
    assert_eq!(
        shown(&sent),
        json!([
            {
                "source": "key",
                "counts": false,
                "tenant": {"constant": true, "value": "solo"},
                "project": {"header": "x-p", "problem": "missing"},
                "subject": {"header": "x-s", "problem": "missing"}
            },
            {
                "source": "jwt",
                "counts": true,
                "tenant": {"metadata": jwt("tenant_id"), "value": "a b"},
                "project": {"metadata": jwt("project_id"), "problem": "missing"},
                "subject": {"metadata": jwt("sub"), "problem": "invalid"}
            }
        ])
    );
    let text = String::from_utf8(run(&["explain", "--request", "-"], &policy, &sent.to_string()).stdout).unwrap();
    let expected = "
            key
              tenant: solo (the policy document)
              project: missing (header x-p)
              subject: missing (header x-s)
            jwt (this source counts)
              tenant: a b (metadata envoy.filters.http.jwt_authn / jwt / tenant_id)
              project: missing (metadata envoy.filters.http.jwt_authn / jwt / project_id)
              subject: invalid (metadata envoy.filters.http.jwt_authn / jwt / sub)
";
    assert!(text.contains(expected), "{text}");

    sent["headers"] = json!([["idempotency-key", "k"], ["x-s", "user:u1"], ["x-p", "p"]]);
    let counts: Vec<Value> = shown(&sent).as_array().unwrap().iter().map(|source| source["counts"].clone()).collect();
    assert_eq!(counts, [true, false]);
    sent["url"] = json!("https://api.example.com/nothing");
    assert_eq!(shown(&sent), json!([]));
}

#[test]
fn check_warns_about_parameters_that_are_lost() {
    let policy = POLICY.replace("/api/v1/quiet", "/api/v1/quiet/{id}");
    let text = String::from_utf8(run(&["check"], &policy, "").stderr).unwrap();
    assert!(text.contains("warning[lost-parameter]: the backend does not get `{id}`"), "{text}");
    assert!(text.contains("^ /routes/1/target"), "{text}");
}

#[test]
fn check_lists_warnings_and_succeeds() {
    let output = run(&["check"], POLICY, "");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("2 routes, 1 in shadow mode"));
}

#[test]
fn check_looks_at_the_secrets_that_it_can_see() {
    let policy = r#"{
      "version": 1,
      "backend": {"kind": "generic"},
      "allow_inline_secrets": true,
      "routes": [{"endpoint": "hook", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
      "webhooks": {"static": {
        "wh_01SHORT": {"tenant": "a", "project": "p", "provider": "github", "secrets": ["planted-secret"], "bind_body": true},
        "wh_01UNSET": {"tenant": "a", "project": "p", "provider": "linear", "secrets": [{"env": "EDGE_TEST_NOT_SET"}]},
        "wh_01GOOD_": {"tenant": "a", "project": "p", "provider": "stripe", "secrets": ["whsec_0123456789abcdef"]}
      }}
    }"#;
    let output = run(&["check"], policy, "");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for (title, place) in [
        ("note[missing-variable]: not set here: ", "/webhooks/static/wh_01UNSET/secrets/0"),
        ("warning[weak-secret]: the secret makes a key of 14 bytes", "/webhooks/static/wh_01SHORT/secrets/0"),
    ] {
        let told = text.split("\n\n").find(|told| told.starts_with(title)).unwrap_or_else(|| panic!("{title}: {text}"));
        assert!(told.contains(&format!("^ {place}")), "{told}");
    }
    assert!(!text.contains("planted"), "{text}");

    let output = run(&["check", "--format", "json"], policy, "");
    assert!(!String::from_utf8(output.stdout).unwrap().contains("planted"));
}
