//! `explain` as people call it: a pasted command, a described request, a token; each answer is a snapshot.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::process::Command;

const POLICY: &str = r#"{
  "version": 1,
  "identity": {
    "sources": [
      {"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
       "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}
    ],
    "forward": {"tenant": "x-tenant-id"}
  },
  "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
  "allow_inline_secrets": true,
  "webhooks": {"static": {"wh_01JSTRIPE": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": ["whsec_0123456789abcdef"]},
    "wh_01GITHUB": {"tenant": "acme", "project": "shop", "provider": "github", "secrets": ["github-secret-of-the-hook"]}}},
  "routes": [
    {"endpoint": "refunds.create", "path": "/api/v1/refunds", "policy": "REQUIRED_A", "target": "Refunds/create",
     "key": {"format": "uuid7", "max_age": "24h"}},
    {"endpoint": "orders.create", "path": "/api/v1/orders", "policy": "REQUIRED_A", "target": "Orders/create"},
    {"endpoint": "orders.cancel", "path": "/api/v1/orders/{order_id}/cancel", "policy": "ACCEPTED", "target": "Orders/cancel"},
    {"endpoint": "orders.special", "path": "/api/v1/orders/special/cancel", "policy": "PROHIBITED", "target": "Orders/special"},
    {"endpoint": "eu.create", "path": "/api/v1/eu", "hosts": ["eu.example.com"], "policy": "REQUIRED_A", "target": "Eu/create"},
    {"endpoint": "quiet.create", "path": "/api/v1/quiet", "policy": "REQUIRED_A", "target": "Quiet/create", "mode": "shadow"},
    {"endpoint": "internal.run", "path": "/api/v1/internal", "policy": "HANDLER_INTERNAL_C", "target": "Internal/run"},
    {"endpoint": "hooks", "path": "/webhooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "target": "Hooks/take", "webhook": {}},
    {"endpoint": "objects", "path": "/objects/{webhook_id}", "policy": "REQUIRED_B", "webhook": {"provider": "github"},
     "target": "Promises/{tenant}:{project}:github:{body:/id}/resolve", "on_unmatched": "acknowledge"}
  ]
}"#;

const CLAIMS: &str = r#"{"tenant_id":"acme","project_id":"shop","sub":"u1"}"#;

fn token(claims: &str) -> String {
    format!("eyJhbGciOiJub25lIn0.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// Exit status, standard output and standard error.
fn run(arguments: &[&str], input: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(&file, POLICY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.arg("explain").arg("--policy").arg(&file).args(arguments);
    let output = crate::run_with_input(&mut command, input).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Standard output, and below it the exit status.
fn shown(arguments: &[&str]) -> String {
    let (status, text, errors) = run(arguments, "");
    assert_eq!(errors, "");
    format!("{text}exit status {status}\n")
}

#[test]
fn a_pasted_command_with_the_token_in_its_header() {
    let command = format!(
        "curl -sS 'https://api.example.com/api//v1/orders/?dry=1' \\\n  -H 'Authorization: Bearer {}' \\\n  \
         -H 'Idempotency-Key: \"8e03978e\"' \\\n  --json '{{\"amount\": 1}}' | jq",
        token(CLAIMS)
    );
    insta::assert_snapshot!(shown(&["--curl", &command]));
    let (status, text, _) = run(&["--curl", "-"], &command);
    assert_eq!(format!("{text}exit status {status}\n"), shown(&["--curl", &command]));
}

#[test]
fn refusals_say_where_and_what_to_change() {
    let (orders, key) = ("https://api.example.com/api/v1/orders", "Idempotency-Key: 8e03978e");
    let refunds = "https://api.example.com/api/v1/refunds";
    let old = "Idempotency-Key: 017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    let rules = vec!["--method", "POST", "--url", refunds, "--jwt", CLAIMS, "-H", old];
    let mut told = String::new();
    for (name, arguments) in [
        ("no_token", vec!["--method", "POST", "--url", orders, "-H", key]),
        (
            "claim_missing",
            vec!["--method", "POST", "--url", orders, "-H", key, "--jwt", r#"{"tenant_id":"acme","sub":7}"#],
        ),
        ("other_header", vec!["--method", "POST", "--url", orders, "-H", "X-Idempotency-Key: a", "--jwt", CLAIMS]),
        ("two_keys", vec!["--method", "POST", "--url", orders, "-H", "Idempotency-Key: a, b", "--jwt", CLAIMS]),
        ("method", vec!["--method", "PUT", "--url", orders]),
        ("case_of_letters", vec!["--method", "POST", "--url", "https://api.example.com/api/v1/Orders", "-H", key]),
        ("other_host", vec!["--method", "POST", "--url", "https://us.example.com/api/v1/eu", "-H", key]),
        ("closed", vec!["--method", "POST", "--url", "https://api.example.com/restate/call/Orders/create"]),
        ("path", vec!["--method", "POST", "--url", "https://api.example.com/api/v1/orders;a=1"]),
        ("rules", rules.clone()),
        (
            "prohibited",
            vec!["--method", "POST", "--url", "https://api.example.com/api/v1/orders/special/cancel", "-H", key],
        ),
        ("signature", vec!["--data", "{}", "--url", "https://api.example.com/webhooks/stripe/wh_01JSTRIPE"]),
        ("shadow", vec!["--method", "POST", "--url", "https://api.example.com/api/v1/quiet", "--jwt", CLAIMS]),
        ("other_spelling_of_host", vec!["--method", "POST", "--url", "https://EU.example.com/api/v1/eu", "-H", key]),
        (
            "colon_in_key",
            vec!["--method", "POST", "--url", orders, "-H", "Idempotency-Key: order:123", "--jwt", CLAIMS],
        ),
        ("grpc", vec!["--method", "POST", "--url", orders, "-H", "Content-Type: application/grpc", "--jwt", CLAIMS]),
        ("no_host_at_all", vec!["--method", "POST", "--url", orders, "-H", "Host: me@api.example.com", "-H", key]),
    ] {
        told += &format!("{name}\n{}", decisive(&shown(&arguments)));
    }
    insta::assert_snapshot!("refusals", told);
    insta::assert_snapshot!("rules", shown(&rules));
}

/// Of what is shown: the verdict, the step that has decided, and what to change.
fn decisive(shown: &str) -> String {
    let (steps, change) = shown.split_once("\nwhat to change:\n").unwrap_or((shown, ""));
    let decided = steps.lines().enumerate().filter(|(number, line)| *number == 0 || line.contains(" HERE. "));
    let change = change.lines().take_while(|line| line.starts_with("  - "));
    decided.map(|(_, line)| line).chain(change).map(|line| format!("  {line}\n")).collect()
}

#[test]
fn forwarded_requests_show_what_the_backend_gets() {
    let token = token(CLAIMS);
    for (name, arguments) in [
        (
            "what_client_and_gateway_take_off",
            vec![
                "--method",
                "post",
                "--url",
                "https://me:planted@eu.example.com.:8443/api\\v1/eu?a=1",
                "-H",
                "Idempotency-Key: k",
                "--jwt",
                &token,
            ],
        ),
        ("recovery", vec!["--url", "https://a/api/v1/orders/by-idempotency-key/8e03978e/output", "--jwt", &token]),
    ] {
        insta::assert_snapshot!(name, shown(&arguments));
    }
}

/// The signatures are OpenSSL's.
#[test]
fn a_target_is_made_of_the_body() {
    for (name, body, signature) in [
        ("target_of_the_body", r#"{"id":"ch:1"}"#, "eaa94ae327a71c4de5d5c468e345fa03960996900bf8d42ebab312bc78590efa"),
        ("acknowledged", r#"{"id":null}"#, "9ee7f65060e97d7fe01d0f8b8ae6e41a3b8029e64249b36440a451287b845754"),
    ] {
        let signed = format!("X-Hub-Signature-256: sha256={signature}");
        let arguments =
            ["--url", "https://a/objects/wh_01GITHUB", "--data", body, "-H", &signed, "-H", "X-GitHub-Delivery: 1"];
        insta::assert_snapshot!(name, shown(&arguments));
    }
}

#[test]
fn steps_and_notes_are_in_the_json() {
    let url = "https://api.example.com/api/v1/Orders";
    let (status, text, _) =
        run(&["--json", "--curl", &format!("curl -u a:planted -X POST {url}"), "--jwt", CLAIMS], "");
    let verdict: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, 1);
    assert_eq!(verdict["steps"][0]["step"], "path");
    assert_eq!((&verdict["steps"][1]["step"], &verdict["steps"][1]["result"]), (&"route".into(), &"refused".into()));
    assert!(verdict["steps"][1]["details"][0].as_str().unwrap().contains("orders.create"), "{verdict}");
    assert_eq!(verdict["notes"].as_array().map(Vec::len), Some(2), "{verdict}");
    assert!(!text.contains("planted"));
}

/// A token's claims stand in the header that the policy reads, in the place of a client's own.
#[test]
fn a_token_is_passed_on_in_the_payload_header() {
    let policy = POLICY.replace(
        r#""metadata": ["envoy.filters.http.jwt_authn", "jwt"]"#,
        r#""headers_owned_by": "envoy.filters.http.jwt_authn", "payload_header": "X-Payload""#,
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy).unwrap();
    let arguments = [
        "explain",
        "--json",
        "--url",
        "https://a/api/v1/orders",
        "--method",
        "POST",
        "-H",
        "Idempotency-Key: k",
        "-H",
        "x-payload: e30",
        "--jwt",
        CLAIMS,
        "--policy",
    ];
    let output =
        Command::new(env!("CARGO_BIN_EXE_edge-idempotency")).args(arguments).arg(file.path()).output().unwrap();
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["idempotency_key"], "t-acme:shop:user:u1:k", "{verdict}");
    assert_eq!(
        verdict["identity"][0]["subject"],
        serde_json::json!({"header": "x-payload", "pointer": "/sub", "value": "u1"})
    );
    assert_eq!(verdict["notes"].as_array().unwrap().len(), 1, "{verdict}");
}

/// A request is evaluated again when it is known whose its API key is; each step is told once.
#[test]
fn an_api_key_names_its_caller() {
    let request = r#"{"method": "POST", "url": "https://a/orders", "headers": [["x-api-key", "sk_live_1"], ["idempotency-key", "k1"]],
        "lookups": {"api_keys": {"sk_live_1":
            {"keyId": "key_9", "identity": {"externalId": "acme"}, "meta": {"project_id": "shop"}}}}}"#;
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/examples/unkey.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
    command.args(["explain", "--json", "--policy", policy, "--request", "-"]);
    let output = crate::run_with_input(&mut command, request).unwrap();
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["idempotency_key"], "t-acme:shop:client:key_9:k1", "{verdict}");
    assert_eq!(verdict["identity"][1]["tenant"]["value"], "acme", "{verdict}");
    let steps: Vec<&str> =
        verdict["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["path", "route", "policy", "identity", "key"]);
}

/// The document of a described request gives the same verdict.
#[test]
fn a_described_request_can_be_printed_as_a_document() {
    let arguments = ["--url", "https://a/api/v1/orders", "--data", "{}", "-H", "Idempotency-Key: k", "--jwt", CLAIMS];
    let (status, document, _) = run(&[&arguments[..], &["--print-request"]].concat(), "");
    assert_eq!(status, 0);
    let mut by_document: Value = serde_json::from_str(&run(&["--json", "--request", "-"], &document).1).unwrap();
    let described: Value = serde_json::from_str(&run(&[&arguments[..], &["--json"]].concat(), "").1).unwrap();
    by_document["notes"] = described["notes"].clone();
    assert_eq!(by_document, described);
    assert_eq!(described["action"], "forward");
}

/// No gateway shows a filter a value with a line break, so no verdict is made of it.
#[test]
fn a_request_document_has_no_line_break_in_a_header() {
    for value in [r#""k\r\nx: y""#, r#"{"base64": "awp4"}"#] {
        let document = format!(
            r#"{{"method": "POST", "url": "https://a/api/v1/orders", "headers": [["idempotency-key", {value}]]}}"#
        );
        let (status, text, errors) = run(&["--request", "-"], &document);
        assert_eq!((status, text.as_str()), (2, ""));
        assert!(errors.contains("/headers/0: the value of a header must not contain a line break"), "{errors}");
    }
}

#[test]
fn what_cannot_be_read_exits_with_2_and_repeats_no_token() {
    for (arguments, told) in [
        (vec!["--curl", "wget https://a/"], "does not begin with `curl`"),
        (vec!["--url", "/relative"], "--url: not a request document"),
        (vec!["--url", "https://a/", "--jwt", "planted"], "no token of three parts"),
        (vec!["--url", "https://a/", "--jwt", "@/no/such/file"], "/no/such/file"),
        (vec!["--curl", "-", "--jwt", "-"], "can be read only once"),
        (vec!["--url", "https://a/", "-H", "nothing"], "Name: value"),
        (vec!["--url", "https://a/", "--curl", "curl https://a/"], "cannot be used with"),
        (vec!["--json"], "required"),
        (vec!["--url", "https://a/", "-H", "Host:"], "without a Host"),
        (vec!["--curl", "curl a -H \"Idempotency-Key: $(uuidgen)\""], "replace $(uuidgen)"),
    ] {
        let (status, text, errors) = run(&arguments, "curl https://a/");
        assert_eq!((status, text.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.contains(told) && !errors.contains("planted"), "{arguments:?}: {errors}");
    }
}
