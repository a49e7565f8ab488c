//! `render` and `init` from outside, but for what needs a gateway (`e2e/tests/render.rs`, `krakend/gateway/examples_test.go`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

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

fn custom_build() -> serde_json::Value {
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
    serde_json::from_str(&made).unwrap()
}

#[test]
fn a_custom_build_loads_no_plugin() {
    let config = custom_build();
    assert!(config.get("plugin").is_none() && !config.to_string().contains("disable_jwk_security"), "{config}");
    let extra = config.pointer("/endpoints/0/backend/0/extra_config/plugin~1http-client/edge-idempotency/endpoint");
    assert_eq!(extra.unwrap(), "conversations.send-message");
}

/// The examples, what `render` writes for a custom build, and the whole example of the page.
fn krakend_files() -> Vec<(String, serde_json::Value)> {
    let mut files = vec![("render krakend --custom-build".to_owned(), custom_build())];
    for (name, _) in KRAKEND {
        let file = format!("krakend/examples/{name}/krakend.json");
        files
            .push((file.clone(), serde_json::from_str(&fs::read_to_string(repository().join(file)).unwrap()).unwrap()));
    }
    let page = fs::read_to_string(repository().join("docs/hosts.md")).unwrap();
    let of_page = page.split("```json\n").skip(1).filter_map(|text| text.split_once("\n```"));
    let of_page = of_page.filter(|(text, _)| text.contains("\"$schema\": \"https://www.krakend.io/"));
    files.extend(of_page.map(|(text, _)| ("docs/hosts.md".to_owned(), serde_json::from_str(text).unwrap())));
    assert_eq!(files.len(), 4);
    files
}

/// The members of `extra_config` of the service, an endpoint and a backend that these files need, and that the schema of
/// KrakenD 2.13 has. It refuses all others.
const EXTRA_CONFIG: [&[&str]; 3] =
    [&["plugin/http-server", "router", "telemetry/logging"], &["auth/validator"], &["plugin/http-client"]];

#[test]
fn configurations_for_krakend_have_no_members_of_extra_config_but_krakends() {
    let [service, endpoint, backend] = EXTRA_CONFIG;
    let check = |file: &str, part: &serde_json::Value, known: &[&str]| {
        for name in part.get("extra_config").and_then(serde_json::Value::as_object).into_iter().flatten() {
            assert!(known.contains(&name.0.as_str()), "{file}: extra_config has {}", name.0);
        }
    };
    for (file, config) in krakend_files() {
        check(&file, &config, service);
        for of_config in config["endpoints"].as_array().unwrap() {
            check(&file, of_config, endpoint);
            of_config["backend"].as_array().unwrap().iter().for_each(|one| check(&file, one, backend));
        }
    }
}

#[test]
#[ignore = "EDGE_KRAKEND_SCHEMA has to name the file that https://www.krakend.io/schema/v2.13/krakend.json serves"]
fn configurations_for_krakend_pass_its_published_schema() {
    let file = std::env::var_os("EDGE_KRAKEND_SCHEMA").unwrap();
    let schema: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for (file, config) in krakend_files() {
        let errors: Vec<_> = schema.iter_errors(&config).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{file}: {errors:#?}");
    }
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

#[test]
fn krakend_knows_whole_segments_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let policy = |other: &str| {
        serde_json::json!({"version": 1, "gateway_routes": true, "backend": {"kind": "generic"}, "routes": [
            {"endpoint": "by-key", "path": "/promises/key:{key}", "methods": ["GET"], "policy": "PROHIBITED"},
            {"endpoint": "by-other", "path": other, "methods": ["GET"], "policy": "PROHIBITED"}
        ]})
    };
    let file_name = file.to_str().unwrap();
    let command = ["render", "krakend", "--policy", file_name, "--upstream", "backend=http://127.0.0.1:8080"];
    fs::write(&file, policy("/promises/id:{id}").to_string()).unwrap();
    let told = refused(&command);
    assert!(told.contains("give by-key or by-other another path: KrakenD takes /promises/key:{key} and"), "{told}");
    fs::write(&file, policy("/promises/by-id/{id}").to_string()).unwrap();
    printed(&command);
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

/// What stands around the filter of an API, for the policy of `policies/examples/own-api.json` with these routes.
fn own_api(routes: serde_json::Value, unmatched: &str, options: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let text = fs::read_to_string(repository().join("policies/examples/own-api.json")).unwrap();
    let mut policy: serde_json::Value = serde_json::from_str(&text).unwrap();
    policy["routes"] = routes;
    policy["unmatched"] = unmatched.into();
    fs::write(&file, policy.to_string()).unwrap();
    let own = ["render", "envoy", "--policy", file.to_str().unwrap(), "--upstream=api=http://a", "--jwt-issuer=i"];
    run(&[&own[..], &["--jwt-keys=Cargo.toml"], options].concat())
}

/// A path that the filter would refuse, or that needs its caller, cannot be public.
#[test]
fn a_public_path_is_one_that_the_filter_lets_through() {
    let routes = serde_json::json!([
        {"endpoint": "create", "path": "/orders", "policy": "REQUIRED_A"},
        {"endpoint": "list", "path": "/orders", "methods": ["GET"], "policy": "PROHIBITED"},
        {"endpoint": "item", "path": "/orders/{id}", "methods": ["PUT"], "policy": "ACCEPTED"},
    ]);
    for (path, unmatched, told) in [
        ("GET /orders", "REJECT", None),
        ("/elsewhere", "PROHIBITED", None),
        ("/orders", "REJECT", Some("create takes keys")),
        ("/orders/", "PROHIBITED", Some("item takes keys")),
        ("GET /orders/", "PROHIBITED", None),
        ("/elsewhere", "REJECT", Some("\"path\": \"/elsewhere\"")),
        ("/assets/", "REJECT", Some("\"path\": \"/assets/{name}\"")),
    ] {
        let output = own_api(routes.clone(), unmatched, &["--public-path", path]);
        let errors = String::from_utf8(output.stderr).unwrap();
        match told {
            None => assert!(output.status.success(), "{path}: {errors}"),
            Some(told) => assert!(output.status.code() == Some(2) && errors.contains(told), "{path}: {errors}"),
        }
    }
}

/// The gateway answers at `/healthz` unless somebody else does.
#[test]
fn the_path_for_load_balancers_is_nobody_elses() {
    let routes =
        |path: &str| serde_json::json!([{"endpoint": "a", "path": path, "methods": ["GET"], "policy": "PROHIBITED"}]);
    let path = |path: &str, options: &[&str]| {
        let output = own_api(routes(path), "PROHIBITED", options);
        let made = String::from_utf8(output.stdout).unwrap();
        let line = made.lines().find_map(|line| line.trim().strip_prefix("- {name: \":path\", string_match: {exact: "));
        (output.status.code(), line.map(|rest| rest.trim_end_matches("}}").to_owned()))
    };
    assert_eq!(path("/a", &[]), (Some(0), Some("\"/healthz\"".to_owned())));
    assert_eq!(path("/a", &["--health-path=/up"]), (Some(0), Some("\"/up\"".to_owned())));
    assert_eq!(path("/healthz", &[]), (Some(0), None));
    assert_eq!(path("/a", &["--public-path=/healthz"]), (Some(0), None));
    for taken in [&["--health-path=/a"][..], &["--health-path=/up", "--public-path=/up"], &["--health-path=/up/"]] {
        assert_eq!(path("/a", taken), (Some(2), None), "{taken:?}");
    }
}

#[test]
fn a_service_that_nobody_reads_is_refused() {
    let envoy = ["render", "envoy", "--policy=policies/examples/own-api.json", "--upstream=api=http://a"];
    let told = refused(&[&envoy[..], &["--jwt-issuer=i", "--jwt-keys=k", "--ext-authz=grpc://authz"]].concat());
    assert!(told.contains("headers_owned_by"), "{told}");
    let keys = ["render", "envoy", "--policy=policies/examples/api-keys.json", "--upstream=ext-authz=http://a"];
    let told = refused(&[&keys[..], &["--ext-authz=grpc://authz"]].concat());
    assert!(told.contains("--upstream ext-authz"), "{told}");
    let without = run(&["render", "envoy", "--policy=policies/examples/api-keys.json", "--upstream=api=http://a"]);
    let notes = String::from_utf8(without.stderr).unwrap();
    assert!(notes.contains("give --ext-authz, or add envoy.filters.http.ext_authz"), "{notes}");
}

/// What the gateway around the filter has to have.
#[test]
fn the_filter_alone_says_what_it_needs() {
    let made = |policy: &str| printed(&["render", "envoy", "--filter-only", "--policy", policy]);
    let own = made("policies/examples/own-api.json");
    for part in ["{payload_in_metadata: \"jwt\"}", "forward: true", "http.cors as the first", "wasm.edge_idempotency"] {
        assert!(own.contains(part), "{part}: {own}");
    }
    let demo = made("demo/policy.json");
    assert!(!demo.contains("forward: true") && demo.contains("{payload_in_metadata: \"jwt\"}"), "{demo}");
    let keys = made("policies/examples/api-keys.json");
    assert!(keys.contains("ext_authz, which sets x-auth-tenant") && !keys.contains("payload_in_metadata"), "{keys}");
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
    // A constant is a constant in each part.
    let constants = ["--tenant==acme", "--project==main", "--subject==service:worker"];
    let told = refused(&[&["init", path, "--yes", "--force"], constants.as_slice()].concat());
    assert!(told.contains("/identity/sources/0"), "{told}");
    let made = run(&["init", "-", "--yes", constants[1], constants[2]]);
    assert!(String::from_utf8_lossy(&made.stdout).contains("\"value\": \"service:worker\""), "{made:?}");
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
