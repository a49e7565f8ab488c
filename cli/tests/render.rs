//! `render` and `init` from outside, but for what needs a gateway (`e2e/tests/render.rs`, `krakend/gateway/examples_test.go`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::repository;
use std::fs;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edge-idempotency")).args(args).current_dir(repository()).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The commands that make `krakend/examples`. With `UPDATE_EXAMPLES=1` the test makes them anew.
const KRAKEND: [(&str, &[&str]); 2] = [
    (
        "demo",
        &[
            "--name=edge-idempotency: the demo",
            "--upstream=backend=http://127.0.0.1:8081",
            "--upstream=unkey=http://127.0.0.1:8082",
            "--upstream=openbao=http://127.0.0.1:8200",
            "--jwt-issuer=https://id.demo.invalid",
            "--jwt-keys=/etc/krakend/jwks.json",
            "--jwt-algorithm=ES256",
            "--without-token=reports.run",
        ],
    ),
    (
        "reference",
        &[
            "--name=edge-idempotency: the reference policy",
            "--upstream=restate=http://restate:8080",
            "--jwt-issuer=https://login.example.com",
            "--jwt-keys=https://login.example.com/.well-known/jwks.json",
            "--jwt-issuer=platform.create-tenant=https://operators.example.com",
            "--jwt-keys=platform.create-tenant=https://operators.example.com/.well-known/jwks.json",
            "--jwt-issuer=platform.start-maintenance=https://operators.example.com",
            "--jwt-keys=platform.start-maintenance=https://operators.example.com/.well-known/jwks.json",
        ],
    ),
];

#[test]
fn the_examples_for_krakend_are_what_render_writes() {
    for (name, options) in KRAKEND {
        let policy = format!("krakend/examples/{name}/policy.json");
        let made = printed(&[&["render", "krakend", "--policy", &policy], options].concat());
        let file = repository().join(format!("krakend/examples/{name}/krakend.json"));
        if std::env::var_os("UPDATE_EXAMPLES").is_some() {
            fs::write(&file, &made).unwrap();
        }
        let shipped = fs::read_to_string(&file).unwrap();
        assert!(shipped == made, "{} is another one; UPDATE_EXAMPLES=1 makes it anew", file.display());
    }
}

#[test]
fn a_custom_build_has_no_plugin() {
    let made = printed(&[
        "render",
        "krakend",
        "--custom-build",
        "--policy",
        "krakend/examples/demo/policy.json",
        "--upstream=backend=http://b",
        "--upstream=unkey=http://u",
        "--upstream=openbao=http://o",
        "--jwt-issuer=https://i",
        "--jwt-keys=https://i/keys",
    ]);
    let config: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert!(!made.contains("plugin") && !made.contains("disable_jwk_security"), "{made}");
    let extra = config.pointer("/endpoints/0/backend/0/extra_config/edge-idempotency/endpoint");
    assert_eq!(extra.unwrap(), "conversations.send-message");
}

#[test]
fn what_krakend_cannot_have_is_told_at_once() {
    let told = refused(&["render", "krakend", "--policy", "policies/reference.json"]);
    for part in ["\"gateway_routes\": true", "x-auth-tenant", "jwt, operator"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = refused(&["render", "krakend", "--policy", "demo/policy.json"]);
    assert!(told.contains("webhooks.unkey.root_key") && told.contains("webhooks.openbao.token"), "{told}");
}

#[test]
fn missing_options_are_named() {
    let envoy = ["render", "envoy", "--policy", "demo/policy.json"];
    let told = refused(&envoy);
    assert!(told.contains("--jwt-issuer https://") && told.contains("--jwt-keys https://"), "{told}");
    let tokens = ["--jwt-issuer=https://i", "--jwt-keys=/k"];
    let told = refused(&[&envoy[..], &tokens].concat());
    for name in ["backend", "unkey", "openbao"] {
        assert!(told.contains(&format!("--upstream {name}=")), "{told}");
    }
    let told = refused(&["render", "envoy", "--policy", "policies/reference.json"]);
    assert!(told.contains("--jwt-issuer operator="), "{told}");
    let unused = ["--upstream=restate=http://r", "--upstream=other=http://o"];
    let told = refused(&[&["render", "envoy", "--policy", "policies/examples/webhooks.json"], &unused[..]].concat());
    assert!(told.contains("other and restate"), "{told}");
    let told = refused(&[&envoy[..], &["--module=demo/policy.json"], &tokens].concat());
    assert!(told.contains("no WebAssembly module"), "{told}");
}

#[test]
fn a_document_with_errors_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    fs::write(&file, r#"{"version": 1, "backend": {"kind": "generic"}, "routes": [{"path": "/a"}]}"#).unwrap();
    for gateway in ["envoy", "krakend"] {
        let told = refused(&["render", gateway, "--policy", file.to_str().unwrap()]);
        assert!(told.contains("/routes/0"), "{told}");
    }
}

/// The largest body of the policy and 64 KiB; the longest wait and a minute.
#[test]
fn buffers_and_timeouts_fit_the_policy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let policy = fs::read_to_string(repository().join("policies/examples/payments.json")).unwrap();
    let mut policy: serde_json::Value = serde_json::from_str(&policy).unwrap();
    policy["routes"][0]["max_body_bytes"] = 8_000_000.into();
    policy["recovery"] = serde_json::json!({"wait_ms": 300_500});
    fs::write(&file, policy.to_string()).unwrap();
    let made = printed(&[
        "render",
        "envoy",
        "--policy",
        file.to_str().unwrap(),
        "--upstream=restate=http://r",
        "--jwt-issuer=https://i",
        "--jwt-keys=/k",
        "--retries=0",
    ]);
    assert!(made.contains("per_connection_buffer_limit_bytes: 8065536\n"), "{made}");
    policy["answers"]["max_body_bytes"] = 9_000_000.into();
    fs::write(&file, policy.to_string()).unwrap();
    let needs_more = printed(&[
        "render",
        "envoy",
        "--policy",
        file.to_str().unwrap(),
        "--upstream=restate=http://r",
        "--jwt-issuer=https://i",
        "--jwt-keys=/k",
    ]);
    assert!(needs_more.contains("per_connection_buffer_limit_bytes: 9065536\n"), "{needs_more}");
    assert!(made.contains("stream_idle_timeout: 361s\n") && !made.contains("retry_policy"), "{made}");
}

/// What the configuration is right with and a reader should know all the same.
#[test]
fn an_open_admin_interface_and_a_missing_key_file_are_noted() {
    let told = |options: &[&str]| {
        let envoy = [
            "render",
            "envoy",
            "--policy=policies/examples/own-api.json",
            "--upstream=api=http://r",
            "--jwt-issuer=https://i",
        ];
        let output = run(&[&envoy[..], options].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, notes) = told(&["--jwt-keys=/no/such/file", "--admin=0.0.0.0:9901"]);
    assert_eq!(status, Some(0), "{notes}");
    for part in ["/no/such/file (--jwt-keys) is not here", "--admin 0.0.0.0 can stop the gateway"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    for quiet in [["--jwt-keys=Cargo.toml", "--admin=[::1]:9901"], ["--jwt-keys=https://i/keys", "--admin=localhost:1"]]
    {
        assert_eq!(told(&quiet), (Some(0), String::new()));
    }
    for listen in ["--listen=:80", "--listen=a", "--listen=a:0", "--listen=a:x"] {
        let (status, errors) = told(&["--jwt-keys=Cargo.toml", listen]);
        assert!(status == Some(2) && errors.contains("write HOST:PORT"), "{errors}");
    }
}

/// A limit of the route has no effect with a direct response (e2e/tests/body_buffer.rs).
#[test]
fn a_route_has_a_limit_only_if_it_leads_to_a_cluster() {
    let tokens = ["--jwt-issuer=https://i", "--jwt-keys=/k"];
    for (options, limits) in [
        (&["--policy=policies/examples/webhooks.json", "--upstream=b=http://b"][..], 2),
        (
            &[
                "--policy=demo/policy.json",
                "--upstream=backend=http://b",
                "--upstream=unkey=http://u",
                "--upstream=openbao=http://o",
            ],
            0,
        ),
    ] {
        let made = printed(&[&["render", "envoy"], options, &tokens].concat());
        assert_eq!(made.matches("request_body_buffer_limit:").count(), limits, "{made}");
    }
}

/// Which requests jwt_authn asks for a token. The first rule that fits counts.
#[test]
fn only_webhooks_and_signed_callers_need_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let policy = serde_json::json!({
        "version": 1,
        "backend": {"kind": "generic"},
        "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "t", "project": "p",
            "subject": {"field": "sub", "type": "user"}}]},
        "routes": [
            {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
            {"endpoint": "admin", "path": "/hooks/admin/{name}", "policy": "PROHIBITED"},
        ],
        "webhooks": {"static": {"wh_01JABCDEF": {"tenant": "a", "project": "p", "provider": "stripe", "secrets": [{"env": "S"}]}}},
    });
    fs::write(&file, policy.to_string()).unwrap();
    let made = printed(&[
        "render",
        "envoy",
        "--policy",
        file.to_str().unwrap(),
        "--upstream=api=http://r",
        "--jwt-issuer=https://i",
        "--jwt-keys=/k",
    ]);
    let rules: Vec<_> = made.lines().filter(|line| line.trim_start().starts_with("- {match:")).map(str::trim).collect();
    let [admin, hooks, rest] = rules[..] else { panic!("{rules:?}") };
    assert!(admin.contains("/hooks/admin/[^/%]+") && admin.contains("provider_name"), "{admin}");
    assert!(hooks.contains("/hooks/[a-z0-9_]+/[A-Za-z0-9_-]+") && !hooks.contains("requires"), "{hooks}");
    assert!(rest.contains("prefix: \"/\"") && rest.contains("provider_name"), "{rest}");
}

#[test]
fn init_writes_a_policy_and_never_over_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let path = file.to_str().unwrap();
    let made = run(&["init", path, "--yes", "--project=main_claim"]);
    assert_eq!(made.status.code(), Some(0));
    let first = fs::read_to_string(&file).unwrap();
    assert!(first.contains("\"main_claim\"") && printed(&["check", path]).contains("1 route"), "{first}");
    let told = String::from_utf8(made.stderr).unwrap();
    assert!(told.contains(&format!("next: edge-idempotency check {path}; edge-idempotency render envoy")), "{told}");
    let told = refused(&["init", path, "--yes"]);
    assert!(told.contains("--force"), "{told}");
    // Answers that make no policy leave the file as it is.
    let told = refused(&["init", path, "--yes", "--force", "--tenant==a b"]);
    assert!(told.contains("/identity/sources/0/tenant/value"), "{told}");
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    assert_eq!(run(&["init", path, "--yes", "--force", "--backend=restate"]).status.code(), Some(0));
    assert!(fs::read_to_string(&file).unwrap().contains("Orders/create"));
}

#[test]
fn init_asks_nobody_where_there_is_no_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let told = refused(&["init", file.to_str().unwrap()]);
    assert!(told.contains("--yes") && !file.exists(), "{told}");
    assert!(printed(&["init", "--yes", "-"]).contains("REQUIRED_A"));
}
