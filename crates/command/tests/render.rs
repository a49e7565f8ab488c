//! `render` and `init` from outside, but for what needs a gateway (`tests/e2e/tests/render.rs`, `krakend/gateway/examples_test.go`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use crate::repository;
use std::fs;
use std::process::{Command, Output};

pub(crate) fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edge-idempotency")).args(args).current_dir(repository()).output().unwrap()
}

pub(crate) fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn missing_options_are_named() {
    let envoy = ["render", "envoy", "--policy", "deploy/demo/policy.json"];
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
    let told = refused(&[&envoy[..], &["--module=deploy/demo/policy.json"], &tokens].concat());
    assert!(told.contains("no WebAssembly module"), "{told}");
}

/// Of two values the first one would be as wrong as the second.
#[test]
fn what_is_taken_once_is_not_given_twice() {
    let upstreams = ["--upstream=backend=http://b", "--upstream=unkey=http://u", "--upstream=openbao=http://o"];
    let tokens = ["--jwt-issuer=https://i", "--jwt-keys=/k"];
    for (gateway, policy, twice) in [
        ("envoy", "deploy/demo/policy.json", &["--jwt-issuer=https://j"][..]),
        ("envoy", "deploy/demo/policy.json", &["--jwt-keys=/l"]),
        ("krakend", "krakend/examples/demo/policy.json", &["--jwt-issuer=https://j"]),
        ("krakend", "krakend/examples/demo/policy.json", &["--jwt-keys=/l"]),
        ("krakend", "krakend/examples/demo/policy.json", &["--jwt-algorithm=ES256", "--jwt-algorithm=RS256"]),
    ] {
        let told = refused(&[&["render", gateway, "--policy", policy], &upstreams[..], &tokens, twice].concat());
        assert!(told.contains("takes one value for each place"), "{gateway} {twice:?}: {told}");
    }
    let told =
        refused(&["check", "--live", "--upstream=a=http://b", "--upstream=a=http://c", "deploy/demo/policy.json"]);
    assert!(told.contains("two --upstream have the same name"), "{told}");
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
    policy["recovery_wait_ms"] = 300_500.into();
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

/// A limit of the route has no effect with a direct response (tests/e2e/tests/body_buffer.rs).
#[test]
fn a_route_has_a_limit_only_if_it_leads_to_a_cluster() {
    let tokens = ["--jwt-issuer=https://i", "--jwt-keys=/k"];
    for (options, limits) in [
        (&["--policy=policies/examples/webhooks.json", "--upstream=b=http://b"][..], 2),
        (
            &[
                "--policy=deploy/demo/policy.json",
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
    let demo = made("deploy/demo/policy.json");
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

/// The tests in tests/e2e/ let Envoy read it.
#[test]
fn the_dynamic_module_module_has_its_own_filter_and_what_it_needs() {
    let made = |policy: &str, options: &[&str]| {
        let policy = format!("--policy={policy}");
        let tokens = ["--jwt-issuer=https://i", "--jwt-keys=/k", "--upstream=restate=http://r"];
        printed(&[&["render", "envoy", "--dynamic-module", &policy], &tokens[..], options].concat())
    };
    let whole = made("policies/examples/payments.json", &[]);
    let config: serde_json::Value = serde_saphyr::from_str(&whole).unwrap();
    let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
    let filters = config.pointer(&format!("{manager}/http_filters")).unwrap().as_array().unwrap();
    let names: Vec<_> = filters.iter().rev().take(3).map(|filter| filter["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["envoy.filters.http.router", "edge-idempotency", "envoy.filters.http.set_filter_state"]);
    let object = filters[filters.len() - 3].pointer("/typed_config/on_request_headers/0").unwrap();
    assert_eq!(object["object_key"], "edge_idempotency.metadata.envoy.filters.http.jwt_authn");
    let text = &object["format_string"]["text_format_source"]["inline_string"];
    assert_eq!(text, "%DYNAMIC_METADATA(envoy.filters.http.jwt_authn)%");
    let ours = &filters[filters.len() - 2]["typed_config"];
    assert_eq!(ours["dynamic_module_config"]["do_not_close"], true);
    assert!(ours["filter_config"]["value"].as_str().unwrap().contains("\"routes\""), "{ours}");
    assert!(
        whole.contains("%TYPED_CEL(metadata.typed_filter_metadata['edge_idempotency'])%")
            && whole.contains("dynamic_modules_strip_custom_stat_prefix")
    );
    for wasm in ["wasm", "vm_config", "stats_config", "host_env_keys"] {
        assert!(!whole.contains(wasm), "{wasm}: {whole}");
    }

    let file = made("policies/examples/payments.json", &["--ecds=/e", "--filter-only"]);
    assert!(file.contains("DynamicModuleFilter") && !file.contains("set_filter_state"), "{file}");
    let bootstrap = made("policies/examples/payments.json", &["--ecds=/e"]);
    assert!(bootstrap.contains("set_filter_state") && !bootstrap.contains("\"routes\""), "{bootstrap}");
    let headers = made("policies/examples/api-keys.json", &["--filter-only"]);
    assert!(!headers.contains("set_filter_state"), "its sources read headers alone: {headers}");
}

/// A source that reads the payload of a token in a header.
#[test]
fn the_payload_of_a_token_is_passed_on_in_its_header() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let option = format!("--policy={}", file.display());
    let source = |name: &str, payload: bool| {
        let owner = "envoy.filters.http.jwt_authn";
        match payload {
            true => {
                serde_json::json!({"name": name, "headers_owned_by": owner, "payload_header": "x-jwt-payload", "tenant": "tenant_id",
                "project": ["app", "id"], "subject": {"field": "sub", "type": "user"}})
            }
            false => {
                serde_json::json!({"name": name, "headers_owned_by": owner, "tenant": "x-tenant", "project": "x-project",
                "subject": {"field": "x-subject", "type": "user"}})
            }
        }
    };
    let write = |sources: &[serde_json::Value], kind: &str| {
        let routes = serde_json::json!([{"endpoint": "a", "path": "/a", "policy": "REQUIRED_A"}]);
        let policy = serde_json::json!({"version": 1, "backend": {"kind": kind}, "identity": {"sources": sources}, "routes": routes});
        fs::write(&file, policy.to_string()).unwrap();
    };
    let envoy = |more: &[&str]| {
        let tokens = ["--jwt-issuer=https://i", "--jwt-keys=/k", "--upstream=api=http://a"];
        let output = run(&[&["render", "envoy", &option][..], &tokens, more].concat());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    write(&[source("token", true)], "generic");
    for more in [&[][..], &["--dynamic-module"]] {
        let (made, notes) = envoy(more);
        let parts = [
            "forward_payload_header: \"x-jwt-payload\"",
            "- remove: \"x-jwt-payload\"",
            "requires: {provider_name: \"x-jwt-payload\"}",
        ];
        parts.iter().for_each(|part| assert!(made.contains(part), "{part}: {made}"));
        for part in ["payload_in_metadata", "CHECK: put", "allow_missing", "set_filter_state"] {
            assert!(!made.contains(part), "{part}: {made}");
        }
        assert_eq!(made.matches("- remove:").count(), 3, "{made}");
        assert!(!notes.contains("jwt_authn"), "{notes}");
    }
    assert!(refused(&["render", "envoy", &option, "--upstream=api=http://a"]).contains("--jwt-issuer https://"));
    let alone = printed(&["render", "envoy", &option, "--filter-only"]);
    assert!(alone.contains("read:\n#   {forward_payload_header: \"x-jwt-payload\"}. Its `rules`"), "{alone}");
    let wasm = directory.path().join("filter.wasm");
    fs::write(&wasm, b"\0asm\x01\0\0\0").unwrap();
    let module = format!("--module={}", wasm.display());
    let pulled = ["--module=oci://r/e:1", &format!("--module-digest=sha256:{}", "0".repeat(64))];
    for more in [&[module.as_str()][..], &[pulled[0], pulled[1]]] {
        let istio = printed(&[&["render", "kubernetes", "--form=envoy-filter", &option][..], more].concat());
        let check = "passes the payload of tokens on ({outputPayloadToHeader: \"x-jwt-payload\"})";
        assert!(istio.contains(check) && istio.contains("forwardOriginalToken"), "{istio}");
        assert!(!istio.contains("name `payload`") && istio.contains("- remove: \"x-jwt-payload\""), "{istio}");
    }
    // A client's own header would stay there.
    let told = refused(&["render", "kubernetes", "--form=traffic-extension", &option, pulled[0], pulled[1]]);
    assert!(told.contains("x-jwt-payload") && told.contains("--form envoy-filter"), "{told}");
    let tokens = ["--upstream=api=http://a", "--jwt-issuer=https://i", "--jwt-keys=https://k"];
    for gateway in [&["kubernetes", "--form=envoy-patch-policy", &module][..], &["krakend"]] {
        let told = refused(&[&["render"][..], gateway, &[&option], &tokens].concat());
        assert!(told.contains("x-jwt-payload"), "{gateway:?}: {told}");
    }
    // Claims in headers are another matter.
    write(&[source("token", true), source("claims", false)], "generic");
    let (made, notes) = envoy(&[]);
    assert!(made.contains("sets (x-tenant, x-project, x-subject)") && made.contains("allow_missing"), "{made}");
    assert!(notes.contains("add envoy.filters.http.jwt_authn"), "{notes}");
    // One member of the metadata and one header are of one token.
    let metadata = serde_json::json!({"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"], "tenant": "t", "project": "p",
        "subject": {"field": "sub", "type": "user"}});
    let partner = serde_json::json!({"name": "partner", "metadata": ["envoy.filters.http.jwt_authn", "partner"], "tenant": "t", "project": "p",
        "subject": {"field": "sub", "type": "client"}});
    write(&[source("token", true), metadata.clone()], "generic");
    let (made, _) = envoy(&[]);
    assert_eq!(
        (made.matches("issuer:").count(), made.matches("payload_in_metadata: \"jwt\"").count()),
        (1, 1),
        "{made}"
    );
    assert!(made.contains("forward_payload_header: \"x-jwt-payload\""), "{made}");
    write(&[source("token", true), metadata, partner], "generic");
    let told = refused(&["render", "envoy", &option, "--upstream=api=http://a"]);
    assert!(
        told.contains("--jwt-issuer x-jwt-payload=https://") && told.contains("--jwt-issuer partner=https://"),
        "{told}"
    );
}

#[test]
fn each_host_has_its_own_module() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let (wasm, dynamic_module) =
        (file("edge_idempotency.wasm", b"\0asm1"), file("libedge_idempotency.so", b"\x7fELF1"));
    let render = ["render", "envoy", "--policy=policies/examples/payments.json", "--filter-only"];
    let named = |module: &str, options: &[&str]| printed(&[&render[..], &["--module", module], options].concat());
    assert!(
        named(&wasm, &[]).contains(&wasm) && named(&dynamic_module, &["--dynamic-module"]).contains(&dynamic_module)
    );
    let elsewhere = named(&dynamic_module, &["--dynamic-module", "--module-dir=/opt"]);
    assert!(elsewhere.contains("\"/opt/libedge_idempotency-") && elsewhere.contains(".so\""), "{elsewhere}");
    for (module, options, told) in [
        (&wasm, &["--dynamic-module"][..], "leave --dynamic-module out"),
        (&dynamic_module, &[], "add --dynamic-module"),
        (&file("text", b"text"), &["--dynamic-module"], "no dynamic module"),
    ] {
        let said = refused(&[&render[..], &["--module", module], options].concat());
        assert!(said.contains(told), "{told}: {said}");
    }
}

/// `:` stands between the segments of the operator's argument.
#[test]
fn a_dynamic_module_module_gets_no_metadata_that_the_operator_cannot_name() {
    let directory = tempfile::tempdir().unwrap();
    let policy = fs::read_to_string(repository().join("policies/examples/payments.json")).unwrap();
    let file = directory.path().join("policy.json");
    for (namespace, made) in [("a:b", false), ("https", true)] {
        fs::write(&file, policy.replace("envoy.filters.http.jwt_authn", namespace)).unwrap();
        let args = ["render", "envoy", "--dynamic-module", "--filter-only", "--policy", file.to_str().unwrap()];
        match made {
            true => assert!(printed(&args).contains("%DYNAMIC_METADATA(https)%")),
            false => assert!(refused(&args).contains("namespace `a:b`")),
        }
    }
}
