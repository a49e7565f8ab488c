//! `explain --log-line` as its users call it. The records are those that the engine makes of real requests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

const POLICY: &str = r#"{
  "version": 1,
  "docs_url": "https://developers.example.com/idempotency",
  "identity": {
    "sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
                 "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}]
  },
  "backend": {"kind": "generic"},
  "routes": [
    {"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A"},
    {"endpoint": "orders.cancel", "path": "/orders/{order_id}/cancel", "policy": "ACCEPTED"},
    {"endpoint": "dated.create", "path": "/dated", "policy": "REQUIRED_A", "key": {"format": "uuid7", "max_age": "24h"}},
    {"endpoint": "wide.create", "path": "/wide", "policy": "REQUIRED_A", "scope": "tenant"},
    {"endpoint": "quiet.create", "path": "/quiet", "policy": "REQUIRED_A", "mode": "shadow"},
    {"endpoint": "orders.list", "methods": ["GET"], "path": "/orders", "policy": "PROHIBITED"},
    {"endpoint": "hook", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}
  ]
}"#;

fn run(arguments: &[&str], policy: Option<&str>, input: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.arg("explain").args(arguments);
    if let Some(policy) = policy {
        std::fs::write(&file, policy).unwrap();
        command.arg("--policy").arg(&file);
    }
    crate::run_with_input(&mut command, input).unwrap()
}

/// What `explain --json` says about a line.
fn explain_line(line: &str, policy: Option<&str>) -> (i32, Value) {
    let output = run(&["--json", "--log-line", "-"], policy, line);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {line}: {errors}"));
    (output.status.code().unwrap(), value)
}

fn request(method: &str, path: &str, keys: &[&str], claims: Value) -> Value {
    let headers: Vec<Value> = keys.iter().map(|key| json!(["idempotency-key", key])).collect();
    json!({"method": method, "url": format!("https://api.example.com{path}"), "headers": headers,
           "metadata": {"envoy.filters.http.jwt_authn": {"jwt": claims}}})
}

/// The log fields of a request.
fn record(request: &Value, policy: &str) -> Value {
    let output = run(&["--json", "--request", "-"], Some(policy), &request.to_string());
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    verdict.get("log").unwrap().clone()
}

fn access_line(method: &str, record: &Value) -> String {
    json!({"time": "2026-11-22T04:05:06.789Z", "method": method, "status": 400, "details": "-", "flags": "-",
           "request_id": "3f9fbb3c-6dbb-9a9c-8d5c-1f6f0d1c9d52", "edge_idempotency": record})
    .to_string()
}

/// A request is made again from its line alone, and it is answered in the same way.
#[test]
fn a_request_can_be_rebuilt_from_its_line() {
    let alice = json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"});
    let long = "k".repeat(300);
    for (method, path, keys, claims, expected) in [
        ("POST", "/refunds", vec![], alice.clone(), "idempotency_key_required"),
        ("POST", "/refunds", vec!["a", "b"], alice.clone(), "idempotency_key_invalid multiple"),
        ("POST", "/refunds", vec![""], alice.clone(), "idempotency_key_invalid empty"),
        ("POST", "/refunds", vec!["\"a"], alice.clone(), "idempotency_key_invalid syntax"),
        ("POST", "/orders/17/cancel", vec![long.as_str()], alice.clone(), "idempotency_key_invalid length"),
        ("POST", "/refunds", vec!["ü"], alice.clone(), "idempotency_key_invalid charset"),
        ("POST", "/refunds", vec!["t-a"], alice.clone(), "idempotency_key_invalid reserved_prefix"),
        ("POST", "/dated", vec!["abc"], alice.clone(), "idempotency_key_invalid format"),
        (
            "POST",
            "/dated",
            vec!["018f0000-0000-7000-8000-000000000001"],
            alice.clone(),
            "idempotency_key_invalid expired",
        ),
        ("GET", "/orders", vec!["k"], alice.clone(), "idempotency_key_prohibited"),
        ("POST", "/refunds", vec!["k"], json!({}), "identity_missing"),
        ("POST", "/refunds", vec!["k"], json!({"tenant_id": "a b", "project_id": "p", "sub": "s"}), "identity_invalid"),
        ("DELETE", "/refunds", vec![], alice.clone(), "method_not_allowed"),
        ("POST", "/nothing", vec![], alice.clone(), "not_found"),
        ("POST", "/a%2Fb", vec![], alice.clone(), "path_ambiguous"),
        ("POST", "/hooks/stripe/wh_01JNONE", vec![], json!({}), "webhook_unknown"),
        ("POST", "/quiet", vec!["a b"], alice.clone(), "idempotency_key_invalid charset"),
        ("POST", "/refunds", vec!["k"], alice.clone(), ""),
        ("POST", "/wide", vec!["k"], alice.clone(), ""),
        ("POST", "/orders/17/cancel", vec![], alice.clone(), ""),
    ] {
        let record = record(&request(method, path, &keys, claims), POLICY);
        let (status, told) = explain_line(&access_line(method, &record), Some(POLICY));
        let shadow = path == "/quiet";
        let verdict = match expected {
            "" => "forwarded",
            _ if shadow => "would_be_refused",
            _ => "refused",
        };
        assert_eq!((status, told["verdict"].as_str().unwrap()), (i32::from(verdict == "refused"), verdict), "{told:#}");
        let code = [&told["code"], &told["reason"]].into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!(code, expected, "{told:#}");
        // The line of a request that no route declares has no path.
        let is_declared = !["not_found", "path_ambiguous", "method_not_allowed"].contains(&expected);
        let same = if is_declared { json!(true) } else { Value::Null };
        assert_eq!(told["reproduction"]["same"], same, "{told:#}");
        assert_eq!(told["disagreements"], json!([]), "{told:#}");
        if !expected.is_empty() {
            assert!(told["cause"].is_string() && told["cure"].is_string() && told["retry"].is_string(), "{told:#}");
            assert_eq!(told["reason_meaning"].is_string(), told["reason"].is_string(), "{told:#}");
        }
    }
}

/// The record of `explain` and the line of a gateway have the same members, and the attempt is sent again.
#[test]
fn the_attempt_and_the_payload_are_told() {
    let mut sent = request("POST", "/refunds", &[], json!({"tenant_id": "acme", "project_id": "shop", "sub": "alice"}));
    sent["headers"] = json!([["x-retry-attempt", "3"]]);
    let mut record = record(&sent, POLICY);
    assert_eq!(record["attempt"], json!(3), "{record:#}");
    record["payload_hash"] = json!("sha256:2a81");
    let (_, told) = explain_line(&access_line("POST", &record), Some(POLICY));
    assert_eq!(
        (&told["line"]["attempt"], &told["line"]["payload_hash"]),
        (&json!("3"), &json!("sha256:2a81")),
        "{told:#}"
    );
    assert_eq!(told["reproduction"]["request"]["headers"], json!([["x-retry-attempt", "3"]]), "{told:#}");
    assert_eq!(told["reproduction"]["same"], json!(true), "{told:#}");
    assert!(told["not_in_log"].as_array().unwrap().contains(&json!("the body (only a digest)")), "{told:#}");
    let output = run(&["--log-line", &access_line("POST", &record)], Some(POLICY), "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n  payload: sha256:2a81\n  attempt: 3\n"), "{text}");
}

const LINE: &str = r#"{"time":"2026-11-22T04:05:06.789Z","method":"POST","status":400,"details":"idempotency_key_invalid.length","flags":"-","route":"public","cluster":null,"request_id":"3f9fbb3c-6dbb-9a9c-8d5c-1f6f0d1c9d52","duration_ms":1,"edge_idempotency":{"idempotency_outcome":"rejected","idempotency_policy":"ACCEPTED","idempotency_case":"A","idempotency_source":"header","idempotency_code":"idempotency_key_invalid","idempotency_reason":"length","endpoint":"orders.cancel"}}"#;

#[test]
fn the_text_says_what_is_known_and_what_is_not() {
    let output = run(&["--log-line", LINE], Some(POLICY), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, command) = text.split_once("edge-idempotency explain --policy '").unwrap();
    let expected = "\
The filter refused this request: idempotency_key_invalid, reason length.
  time: 2026-11-22T04:05:06.789Z
  method: POST
  endpoint: orders.cancel
  policy: ACCEPTED
  case: A
  request id: 3f9fbb3c-6dbb-9a9c-8d5c-1f6f0d1c9d52
  key from: header
  outcome: rejected
  status: 400
  details: idempotency_key_invalid.length
  gateway route: public
  path in the policy: /orders/{order_id}/cancel
meaning: the key is malformed; `reason` says why (docs/callers.md#reasons-of-idempotency_key_invalid)
  length: more than 255 characters
what to do: send another key
retry: new_key (send another key)
page for callers: https://developers.example.com/idempotency#idempotency_key_invalid
not in the log: the key, if there was one; the body; the token, signature and other credentials; the host, the query and the \
other headers; the path
a request to try it with; by this policy it gets the same, idempotency_key_invalid, reason length:
";
    assert_eq!(text, expected);
    assert_eq!(output.status.code(), Some(1));
    // The request is a document that `explain` takes.
    let (_, request) = command.split_once("<<'END'\n").unwrap();
    let request: Value = serde_json::from_str(request.trim_end().strip_suffix("\nEND").unwrap()).unwrap();
    assert_eq!(request["url"], "https://api.example.com/orders/order_id/cancel");
    let again = run(&["--json", "--request", "-"], Some(POLICY), &request.to_string());
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["problem"]["reason"], "length");

    let text = String::from_utf8(run(&["--log-line", LINE], None, "").stdout).unwrap();
    assert!(text.contains("meaning: the key is malformed") && !text.contains("disagree"), "{text}");
}

/// The record in Envoy's own log, as text and as JSON, and Envoy's typed filter state.
#[test]
fn every_place_of_a_record_is_read() {
    let line: Value = serde_json::from_str(LINE).unwrap();
    let record = &line["edge_idempotency"];
    let text = format!(
        "[2026-11-22 04:44:17.502][21730][info][wasm] [source/extensions/common/wasm/context.cc:1151] wasm log edge-idempotency \
         edge-idempotency edge-idempotency: edge-idempotency: refused {record} more"
    );
    let typed = json!({"edge_idempotency": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": record}});
    let nested = json!({"level": "warning", "message": text});
    for line in [text.clone(), typed.to_string(), nested.to_string(), record.to_string(), format!("\n {LINE}\r\n\n")] {
        let (status, told) = explain_line(&line, Some(POLICY));
        assert_eq!(status, 1, "{line}");
        assert_eq!((&told["code"], &told["reason"]), (&json!("idempotency_key_invalid"), &json!("length")), "{line}");
        assert_eq!(told["reproduction"]["same"], true, "{line}");
    }
    let shadow = text
        .replace("refused {", "shadow {")
        .replace("\"rejected\"", "\"forwarded\",\"idempotency_shadow\":\"refuse\"");
    assert_eq!(explain_line(&shadow, None).1["verdict"], "would_be_refused");
}

#[test]
fn a_policy_that_does_not_fit_the_line_is_told() {
    let told = |change: &dyn Fn(&mut Value), policy: &str| {
        let mut line: Value = serde_json::from_str(LINE).unwrap();
        change(&mut line);
        let (_, told) = explain_line(&line.to_string(), Some(policy));
        told["disagreements"].to_string()
    };
    let same = |_: &mut Value| {};
    assert_eq!(told(&same, POLICY), "[]");
    let without = POLICY.replace("orders.cancel", "orders.abort");
    assert!(told(&same, &without).contains("the policy has no endpoint orders.cancel"));
    let operation = |line: &mut Value| line["edge_idempotency"]["endpoint"] = json!("_operations");
    assert_eq!(told(&operation, POLICY), "[]");
    let required = POLICY.replace("ACCEPTED", "REQUIRED_A");
    assert!(told(&same, &required).contains("the line says ACCEPTED, and the policy has REQUIRED_A for orders.cancel"));
    assert!(
        told(&|line| line["method"] = json!("PUT"), POLICY).contains("orders.cancel takes POST, and the line has PUT")
    );
    let shadow = POLICY.replace("\"policy\": \"ACCEPTED\"", "\"policy\": \"ACCEPTED\", \"mode\": \"shadow\"");
    assert!(told(&same, &shadow).contains("orders.cancel is in shadow mode in this policy"));
    let was_shadow = |line: &mut Value| {
        line["edge_idempotency"]["idempotency_outcome"] = json!("forwarded");
        line["edge_idempotency"]["idempotency_shadow"] = json!("refuse");
    };
    assert!(told(&was_shadow, POLICY).contains("the line is from shadow mode, and this policy enforces"));
    let moved = |line: &mut Value| line["edge_idempotency"]["original_path"] = json!("/refunds");
    assert!(told(&moved, POLICY).contains("belongs to the endpoint refunds.create in this policy"));
}

#[test]
fn a_key_that_the_log_has_in_full_is_used() {
    let stored = json!({"idempotency_outcome": "stored", "idempotency_case": "A", "idempotency_policy": "REQUIRED_A",
        "idempotency_key_namespaced": "t-acme:shop:user:alice:a.b~c", "tenant": "acme", "project": "shop",
        "endpoint": "refunds.create", "original_path": "/refunds/"});
    let (status, told) = explain_line(&stored.to_string(), Some(POLICY));
    assert_eq!(status, 0);
    assert_eq!(told["reproduction"]["verdict"]["idempotency_key"], "t-acme:shop:user:alice:a.b~c");
    assert!(!told["not_in_log"].to_string().contains("key"), "{told:#}");

    // Such a log has the path of a request that no route declares, too.
    let full = POLICY.replace("\"version\": 1,", "\"version\": 1, \"key_in_logs\": \"full\",");
    for path in ["/nothing", "/a%2Fb"] {
        let record = record(&request("POST", path, &[], json!({})), &full);
        let (_, told) = explain_line(&access_line("POST", &record), Some(&full));
        assert_eq!(told["reproduction"]["same"], true, "{told:#}");
    }
}

#[test]
fn a_caller_of_a_payload_is_rebuilt() {
    let policy = POLICY.replace(
        r#""metadata": ["envoy.filters.http.jwt_authn", "jwt"]"#,
        r#""headers_owned_by": "envoy.filters.http.jwt_authn", "payload_header": "x-payload""#,
    );
    assert_ne!(policy, POLICY);
    for (payload, key) in [
        ("eyJ0ZW5hbnRfaWQiOiJhY21lIiwicHJvamVjdF9pZCI6InNob3AiLCJzdWIiOiJhbGljZSJ9", "k"),
        ("eyJ0ZW5hbnRfaWQiOiJhY21lIiwicHJvamVjdF9pZCI6InNob3AiLCJzdWIiOiJhbGljZSJ9", "a b"),
        ("eyJ0ZW5hbnRfaWQiOiJhY21lIiwicHJvamVjdF9pZCI6InNob3AifQ", "k"),
        ("eyJ0ZW5hbnRfaWQiOjcsInByb2plY3RfaWQiOiJzaG9wIiwic3ViIjoiYWxpY2UifQ", "k"),
    ] {
        let request = json!({"method": "POST", "url": "https://api.example.com/refunds",
            "headers": [["idempotency-key", key], ["x-payload", payload]]});
        let record = record(&request, &policy);
        let (_, told) = explain_line(&access_line("POST", &record), Some(&policy));
        assert_eq!(told["reproduction"]["same"], true, "{told:#}");
    }
}

#[test]
fn requests_that_the_filter_did_not_see_or_did_not_refuse() {
    let told = |line: Value| explain_line(&line.to_string(), Some(POLICY)).1;
    let gateway =
        json!({"status": 401, "details": "jwt_authn_access_denied{Jwt_is_missing}", "edge_idempotency": null});
    assert_eq!(
        (&told(gateway.clone())["verdict"], &told(gateway)["reproduction"]),
        (&json!("undecided"), &Value::Null)
    );
    let gone = r#"{"status": 0, "details": "downstream_remote_disconnect", "flags": "DC", "edge_idempotency": null}"#;
    let text = String::from_utf8(run(&["--log-line", gone], None, "").stdout).unwrap();
    assert!(text.starts_with("The filter did not see this request, or had not decided about it"), "{text}");
    // Without the record the details still have the code.
    let text = told(json!({"status": 404, "details": "webhook_unknown.binding_not_found"}));
    assert_eq!((&text["verdict"], &text["reason"]), (&json!("refused"), &json!("binding_not_found")));
    let replaced = json!({"status": 503, "details": "via_upstream", "edge_idempotency": {"idempotency_outcome": "forwarded",
        "idempotency_code": "dependency_unavailable", "endpoint": "refunds.create", "idempotency_policy": "REQUIRED_A"}});
    let replaced = told(replaced);
    assert_eq!(replaced["verdict"], "error_replaced");
    assert!(replaced["cause"].as_str().unwrap().contains("is busy or cannot be reached"), "{replaced:#}");
    // What to do about an error of the backend is not known by its code.
    let error =
        told(json!({"edge_idempotency": {"idempotency_outcome": "forwarded", "idempotency_code": "backend_error"}}));
    assert_eq!((&error["verdict"], &error["retry"]), (&json!("error_replaced"), &Value::Null));
    // A key in flight has an outcome of its own.
    let conflict = told(json!({"edge_idempotency": {"idempotency_outcome": "conflict",
        "idempotency_code": "idempotency_key_in_flight", "endpoint": "refunds.create"}}));
    assert_eq!((&conflict["verdict"], &conflict["retry"]), (&json!("refused"), &json!("wait")));
    assert!(conflict["cause"].as_str().unwrap().contains("still runs"), "{conflict:#}");
    let unknown =
        told(json!({"edge_idempotency": {"idempotency_outcome": "rejected", "idempotency_code": "of_tomorrow"}}));
    assert_eq!((&unknown["code"], &unknown["cause"]), (&json!("of_tomorrow"), &Value::Null));
}

#[test]
fn a_delivery_that_was_acknowledged_is_told() {
    let line = json!({"status": 200, "details": "acknowledged.target_member_missing", "method": "POST", "edge_idempotency": {
        "idempotency_outcome": "acknowledged", "idempotency_reason": "target_member_missing", "idempotency_policy": "REQUIRED_B",
        "idempotency_case": "B", "endpoint": "hook"}})
    .to_string();
    let (status, told) = explain_line(&line, Some(POLICY));
    assert_eq!((status, &told["verdict"], &told["code"]), (0, &json!("acknowledged"), &Value::Null), "{told:#}");
    assert!(told["reason_meaning"].as_str().unwrap().contains("lacks a value"), "{told:#}");
    let text = String::from_utf8(run(&["--log-line", &line], None, "").stdout).unwrap();
    assert!(
        text.starts_with("The filter acknowledged this delivery with 200, and made no call: target_member_missing ("),
        "{text}"
    );
}

/// A delivery whose body did not come: the gateway's time for the request ended while the filter waited.
#[test]
fn a_request_that_the_gateway_ended_is_told() {
    let ended = json!({"status": 408, "details": "request_overall_timeout", "method": "POST", "edge_idempotency": {
        "idempotency_outcome": "rejected", "idempotency_policy": "REQUIRED_B", "idempotency_case": "B", "endpoint": "hook",
        "original_path": "/hooks/{provider}/{webhook_id}"}})
    .to_string();
    let (status, told) = explain_line(&ended, Some(POLICY));
    assert_eq!((status, &told["verdict"]), (1, &json!("ended_by_gateway")), "{told:#}");
    assert_eq!((&told["code"], &told["cause"]), (&Value::Null, &Value::Null), "{told:#}");
    assert_eq!((&told["reproduction"]["same"], &told["disagreements"]), (&json!(false), &json!([])), "{told:#}");
    let text = String::from_utf8(run(&["--log-line", &ended], None, "").stdout).unwrap();
    assert!(text.starts_with("The gateway ended this request while the filter waited for"), "{text}");
    assert!(text.contains("\n  details: request_overall_timeout\n"), "{text}");
    // In the place of the gateway's text the client can get a problem document.
    let replaced = ended.replace(r#""idempotency_case""#, r#""idempotency_code":"backend_error","idempotency_case""#);
    let (status, told) = explain_line(&replaced, Some(POLICY));
    assert_eq!((status, &told["verdict"]), (1, &json!("ended_by_gateway")), "{told:#}");
    assert_eq!(told["code"], "backend_error");
}

/// The name of a source can hold the name of a part.
#[test]
fn the_part_of_an_identity_that_was_wrong_is_known_by_its_whole_name() {
    let policy = POLICY.replace(r#""name": "jwt""#, r#""name": "tenant-jwt""#);
    let claims = json!({"tenant_id": "acme", "project_id": "shop"});
    let record = record(&request("POST", "/refunds", &["k"], claims.clone()), &policy);
    assert_eq!(record["idempotency_identity"], "tenant-jwt.subject: missing");
    let (_, told) = explain_line(&access_line("POST", &record), Some(&policy));
    let metadata = &told["reproduction"]["request"]["metadata"]["envoy.filters.http.jwt_authn"]["jwt"];
    assert_eq!(metadata.as_object().unwrap().len(), 2, "{told:#}");
    assert!(metadata["tenant_id"].is_string() && metadata["project_id"].is_string(), "{told:#}");
    assert_eq!(told["reproduction"]["same"], true, "{told:#}");
}

#[test]
fn what_is_no_line_of_a_log_is_told() {
    for (line, part) in [
        ("", "there is no line to explain"),
        ("2026-11-22T04:05:06Z POST 400", "expected a line of the JSON access log"),
        ("[]", "expected a line of the JSON access log"),
        ("wasm log edge-idempotency: refused {", "expected a line of the JSON access log"),
        (
            "wasm log edge-idempotency: 17 refused lines with code not_found were left out",
            "take the request from the access log",
        ),
    ] {
        let output = run(&["--log-line", "-"], None, line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
    let output = run(&["--log-line", "-"], None, &format!("{LINE}\n{LINE}\n{LINE}\n"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("only the first line is explained; 2 more came"));
    let output = run(&["--log-line", "-"], None, &format!("\n{}\n{LINE}\n", " {".repeat(600_000)));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()), "{text}");
    assert!(text.contains("the line is longer than 1 MiB"), "{text}");
    assert_eq!(run(&["--log-line", LINE, "--request", "-"], Some(POLICY), "").status.code(), Some(2));
    assert_eq!(run(&[], None, "").status.code(), Some(2));
}

/// Standard input of any size is read: here 200 MB in 128 MiB of address space, half of it one line.
#[test]
fn memory_does_not_grow_with_standard_input() {
    const LINES: usize = 1_000;
    const BLOCKS: usize = 200;
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 131072; exec \"$0\" explain --log-line -"])
        .arg(env!("CARGO_BIN_EXE_edge-idempotency"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let lines = format!("{LINE}\n").repeat(LINES);
        // A command that has failed reads no more.
        let mut write = |text: &[u8]| stdin.write_all(text).is_ok();
        (0..BLOCKS).all(|_| write(lines.as_bytes())) && (0..100).all(|_| write(&[b'x'; 1_000_000]))
    });
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(writer.join().unwrap(), "not everything was read: {text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(output.stdout.starts_with(b"The filter refused this request: idempotency_key_invalid"), "{text}");
    assert!(text.contains(&format!("only the first line is explained; {} more came", LINES * BLOCKS)), "{text}");
}

#[test]
fn values_of_a_line_do_not_act_on_the_terminal() {
    let mut line: Value = serde_json::from_str(LINE).unwrap();
    line["edge_idempotency"]["original_path"] = json!("/\u{1b}[2J\u{9b}\u{202e}");
    line["edge_idempotency"]["idempotency_identity"] = json!("\u{1b}]0;x\u{7}");
    for arguments in [vec!["--log-line", "-"], vec!["--json", "--log-line", "-"]] {
        let text = String::from_utf8(run(&arguments, Some(POLICY), &line.to_string()).stdout).unwrap();
        assert!(
            !text.contains(|letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}'),
            "{text:?}"
        );
    }
}

#[test]
fn the_help_has_an_example() {
    let text = String::from_utf8(run(&["--help"], None, "").stdout).unwrap();
    assert!(text.contains("access.log | edge-idempotency explain --policy policy.json --log-line -"), "{text}");
}
