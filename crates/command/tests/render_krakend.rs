//! `render krakend` from outside, but for what needs a gateway (`tests/e2e/tests/krakend/`, `krakend/gateway/examples_test.go`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use crate::render::{printed, refused, run};
use crate::repository;
use serde_json::{Value, json};
use std::fs;

/// The command that makes `krakend/examples/demo`. With `UPDATE_EXAMPLES=1` the test makes it anew.
const DEMO: [&str; 12] = [
    "render",
    "krakend",
    "--policy",
    "krakend/examples/demo/policy.json",
    "--name=edge-idempotency: the demo",
    "--upstream=backend=http://127.0.0.1:8081",
    "--upstream=unkey=http://127.0.0.1:8082",
    "--upstream=openbao=http://127.0.0.1:8200",
    "--jwt-issuer=https://id.demo.invalid",
    "--jwt-keys=/etc/krakend/jwks.json",
    "--jwt-algorithm=ES256",
    "--without-token=reports.run",
];

#[test]
fn the_example_for_krakend_is_what_render_writes() {
    let made = printed(&DEMO);
    let file = repository().join("krakend/examples/demo/krakend.json");
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let shipped = fs::read_to_string(&file).unwrap();
    assert!(shipped == made, "{} is another one; UPDATE_EXAMPLES=1 makes it anew", file.display());
}

/// The reference policy with what KrakenD needs.
fn reference() -> Value {
    let text = fs::read_to_string(repository().join("policies/reference.json")).unwrap();
    let mut policy: Value = serde_json::from_str(&text).unwrap();
    policy["gateway_routes"] = true.into();
    // The second one reads headers.
    policy["identity"]["sources"].as_array_mut().unwrap().truncate(1);
    for route in policy["routes"].as_array_mut().unwrap() {
        if let Some(metadata) = route.pointer_mut("/identity/sources/0/metadata") {
            *metadata = json!(["envoy.filters.http.jwt_authn", "jwt"]);
        }
    }
    let operators = "platform.create-tenant=https://operators.example.com";
    let options = [
        "--upstream=restate=http://restate:8080",
        "--jwt-issuer=https://login.example.com",
        "--jwt-keys=https://login.example.com/keys",
        &format!("--jwt-issuer={operators}"),
        &format!("--jwt-keys={operators}/keys"),
        &format!("--jwt-issuer={}", operators.replace("create-tenant", "start-maintenance")),
        &format!("--jwt-keys={}/keys", operators.replace("create-tenant", "start-maintenance")),
    ];
    rendered_with(&policy, &options)
}

fn custom_build() -> Value {
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

/// The example, what `render` writes for a custom build, and the whole example of the page.
fn krakend_files() -> Vec<(String, Value)> {
    let more = ["--cors-origin=https://app.example.com", "--trusted-proxy=10.0.0.0/8", "--header=Accept-Language"];
    let mut files = vec![
        ("render krakend --custom-build".to_owned(), custom_build()),
        ("render krakend".to_owned(), serde_json::from_str(&printed(&DEMO)).unwrap()),
        ("the reference policy".to_owned(), reference()),
        ("render krakend --cors-origin".to_owned(), rendered(&orders(), &[&TOKENS[..], &more].concat())),
    ];
    let page = fs::read_to_string(repository().join("docs/gateways.md")).unwrap();
    let of_page = page.split("```json\n").skip(1).filter_map(|text| text.split_once("\n```"));
    let of_page = of_page.filter(|(text, _)| text.contains("\"$schema\": \"https://www.krakend.io/"));
    files.extend(of_page.map(|(text, _)| ("docs/gateways.md".to_owned(), serde_json::from_str(text).unwrap())));
    assert_eq!(files.len(), 5);
    files
}

/// The members of `extra_config` of the service, an endpoint and a backend that these files need, and that the schema of
/// KrakenD 2.13 has. It refuses all others.
const EXTRA_CONFIG: [&[&str]; 3] = [
    &["plugin/http-server", "router", "telemetry/logging", "security/cors"],
    &["auth/validator"],
    &["plugin/http-client"],
];

#[test]
fn configurations_for_krakend_have_no_members_of_extra_config_but_krakends() {
    let [service, endpoint, backend] = EXTRA_CONFIG;
    let check = |file: &str, part: &Value, known: &[&str]| {
        for (name, _) in part.get("extra_config").and_then(Value::as_object).into_iter().flatten() {
            assert!(name.starts_with('@') || known.contains(&name.as_str()), "{file}: extra_config has {name}");
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
    let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for (file, config) in krakend_files() {
        let errors: Vec<_> = schema.iter_errors(&config).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{file}: {errors:#?}");
    }
}

#[test]
fn what_krakend_cannot_have_is_told_at_once() {
    let told = refused(&["render", "krakend", "--policy", "policies/reference.json"]);
    for part in
        ["\"gateway_routes\": true", "x-auth-tenant", "\"jwt\"] and [\"envoy.filters.http.jwt_authn\",\"operator\"]"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = refused(&["render", "krakend", "--policy", "deploy/demo/policy.json"]);
    for part in ["`root_key` of the store behind unkey", "`token` of the store behind openbao"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = refused(&["render", "krakend", "--policy", "policies/examples/unkey.json"]);
    assert!(told.contains("a route takes tokens or API keys"), "{told}");
}

/// What `render krakend` writes for a policy with this identity, and with these members besides.
fn rendered(policy: &Value, options: &[&str]) -> Value {
    rendered_with(policy, &[&["--upstream=api=http://a"], options].concat())
}

fn rendered_with(policy: &Value, options: &[&str]) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), policy.to_string()).unwrap();
    let own = ["render", "krakend", "--policy", file.path().to_str().unwrap()];
    serde_json::from_str(&printed(&[&own[..], options].concat())).unwrap()
}

const TOKENS: [&str; 2] = ["--jwt-issuer=https://i", "--jwt-keys=https://i/keys"];

fn policy(routes: Value) -> Value {
    json!({
        "version": 1, "gateway_routes": true, "backend": {"kind": "generic"},
        "identity": {"sources": [{"name": "jwt", "metadata": ["krakend", "jwt"], "tenant": "t", "project": "p",
            "subject": {"field": "sub", "type": "user"}}]},
        "routes": routes,
    })
}

#[test]
fn callers_with_api_keys_need_their_header_and_no_validator() {
    let mut policy = orders();
    policy["identity"]["sources"] = json!([{
        "name": "partner",
        "unkey": {"header": "x-partner-key", "cluster": "unkey", "root_key": {"env": "UNKEY_ROOT_KEY"}},
        "tenant": "/identity/externalId", "project": "/meta/project_id", "subject": {"field": "/keyId", "type": "client"},
    }]);
    let config = rendered(&policy, &["--upstream=unkey=https://api.unkey.com"]);
    let endpoint = &config["endpoints"][0];
    assert!(endpoint["input_headers"].as_array().unwrap().contains(&json!("x-partner-key")), "{endpoint}");
    assert!(endpoint.pointer("/extra_config/auth~1validator").is_none(), "{endpoint}");
}

fn orders() -> Value {
    policy(json!([{"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A"}]))
}

#[test]
fn what_a_client_says_of_its_address_is_not_believed_unless_a_proxy_is_named() {
    let config = rendered(&orders(), &TOKENS);
    assert_eq!(config["extra_config"]["router"]["forwarded_by_client_ip"], false);
    let config = rendered(&orders(), &[&TOKENS[..], &["--trusted-proxy=10.0.0.0/8", "--trusted-proxy=::1"]].concat());
    let router = &config["extra_config"]["router"];
    assert_eq!(
        (&router["forwarded_by_client_ip"], &router["trusted_proxies"]),
        (&json!(true), &json!(["10.0.0.0/8", "::1"]))
    );
    for wrong in ["10.0.0.0/33", "proxy", "", "10.0.0.1/", "::1/129"] {
        let told = refused(&["render", "krakend", "--policy=-", &format!("--trusted-proxy={wrong}")]);
        assert!(told.contains("an address or a network"), "{told}");
    }
}

/// Paths of requests for results have the key in them.
#[test]
fn no_log_has_the_keys_of_recovery() {
    let demo = custom_build();
    let router = &demo["extra_config"]["router"];
    assert_eq!(router["disable_access_log"], true);
    let records = demo.pointer("/extra_config/plugin~1http-server/edge-idempotency/log_records");
    assert_eq!(records, None, "the bridge writes records unless it is told not to");
    let without = rendered(&orders(), &TOKENS);
    assert_eq!(without["extra_config"]["router"].get("disable_access_log"), None, "{without}");
}

/// `CHECK` stands where a reader has to look, and nowhere without need.
#[test]
fn check_stands_where_a_reader_has_to_look() {
    let checks = |options: &[&str]| {
        let config = rendered(&orders(), options);
        let audience = config["extra_config"].get("@auth/validator").map(ToString::to_string).unwrap_or_default();
        assert!(config["@port"].to_string().contains("CHECK") && config["@endpoints"].to_string().contains("CHECK"));
        audience
    };
    assert!(checks(&TOKENS).contains("--jwt-audience"));
    assert_eq!(checks(&[&TOKENS[..], &["--jwt-audience=api"]].concat()), "");
    let plain = checks(&["--jwt-issuer=https://i", "--jwt-keys=http://i/keys", "--jwt-audience=api"]);
    assert!(plain.contains("come over http") && !plain.contains("audience"), "{plain}");
}

fn listed(config: &Value, method: &str, path: &str) -> Vec<String> {
    let is = |one: &&Value| one["method"] == method && one["endpoint"] == path;
    let endpoint = config["endpoints"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("{config}"));
    let list = endpoint["input_headers"].as_array().unwrap();
    list.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn backends_get_the_headers_that_they_read() {
    let options = [&TOKENS[..], &["--header=Accept-Language", "--header=accept"]].concat();
    let headers = listed(&rendered(&orders(), &options), "POST", "/orders");
    // An API of one's own may read the token.
    let claims = ["X-Claim-Tenant", "X-Claim-Project", "X-Claim-Subject"];
    assert_eq!(headers, [&["Content-Type", "Accept"], &claims[..], &["Authorization", "Accept-Language"]].concat());
    let mut restate = orders();
    restate["backend"] =
        json!({"kind": "restate", "cluster": "api", "rewrite_path": true, "keep_headers": ["x-api-key"]});
    restate["routes"][0]["target"] = "Orders/create".into();
    assert_eq!(
        listed(&rendered(&restate, &TOKENS), "POST", "/orders"),
        [&["Content-Type", "Accept"], &claims[..], &["x-api-key"]].concat()
    );
    for name in ["*", "Idempotency-Key", "idempotency-key", "X Y", "", "x-claim-tenant"] {
        refused(&["render", "krakend", "--policy=-", &format!("--header={name}")]);
    }
}

#[test]
fn handlers_of_webhooks_get_the_headers_that_they_read() {
    let mut document = policy(json!([
        {"endpoint": "hooks", "path": "/hooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
        {"endpoint": "acme", "path": "/acme", "policy": "REQUIRED_B", "webhook": {"provider": "acme", "id": "wh_02JABCDEF"}},
    ]));
    document["webhooks"] = json!({
        "static": {
            "wh_01JABCDEF": {"tenant": "a", "project": "p", "provider": "github", "secrets": [{"env": "S"}]},
            "wh_02JABCDEF": {"tenant": "a", "project": "p", "provider": "acme", "secrets": [{"env": "S"}]},
        },
        "providers": {"acme": {
            "schemes": [{"algorithm": "hmac-sha256", "signature": {"header": "Acme-Signature", "encoding": "hex"}, "template": "{body}"}],
            "identifiers": [{"header": "Acme-Id", "signed": false}], "handler_headers": ["Acme-Kind", "Authorization"],
        }},
    });
    let hooks = "/hooks/{provider}/{webhook_id}";
    let config = rendered(&document, &[]);
    assert_eq!(listed(&config, "POST", "/acme"), ["Content-Type", "Accept", "Acme-Id", "Acme-Kind"]);
    let of_all = listed(&config, "POST", hooks);
    for (name, is_there) in
        [("X-GitHub-Event", true), ("X-GitHub-Delivery", true), ("Acme-Kind", true), ("X-Hub-Signature-256", false)]
    {
        assert_eq!(of_all.iter().any(|header| header == name), is_there, "{name}: {of_all:?}");
    }
    // GitLab's identifier is in `Idempotency-Key`, which is never listed.
    let of_all = listed(&rendered(&document, &["--webhook-provider=gitlab"]), "POST", hooks);
    assert!(
        of_all.iter().any(|name| name == "X-Gitlab-Event") && !of_all.iter().any(|name| name == "Idempotency-Key"),
        "{of_all:?}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), document.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let told =
        refused(&["render", "krakend", "--policy", path, "--upstream=api=http://a", "--webhook-provider=githup"]);
    assert!(told.contains("did you mean `github`?"), "{told}");
    // Webhooks that are looked up have providers that the policy does not name.
    let comment =
        custom_build()["endpoints"].as_array().unwrap().iter().find_map(|one| {
            (one["endpoint"] == "/webhooks/{provider}/{webhook_id}").then(|| one["@comment"].to_string())
        });
    assert!(comment.unwrap().contains("CHECK: webhooks are looked up"));
}

/// KrakenD, the bridge and the upstream wait as long as the policy does.
#[test]
fn timeouts_fit_the_policy() {
    let mut document = orders();
    document["backend"] = json!({"kind": "restate", "cluster": "api", "rewrite_path": true});
    document["routes"][0]["target"] = "Orders/create".into();
    let waits = |document: &Value, options: &[&str]| {
        let config = rendered(document, &[&TOKENS[..], options].concat());
        let timeouts: Vec<_> =
            config["endpoints"].as_array().unwrap().iter().map(|one| one["timeout"].clone()).collect();
        let upstream =
            config.pointer("/extra_config/plugin~1http-server/edge-idempotency/upstreams/api/timeout_ms").cloned();
        (config["timeout"].clone(), timeouts, upstream)
    };
    let none = Value::Null;
    assert_eq!(waits(&document, &[]), (json!("60s"), vec![none.clone(); 3], None));
    assert_eq!(
        waits(&document, &["--timeout=10"]),
        (json!("10s"), vec![none.clone(), json!("32s"), none.clone()], None)
    );
    assert_eq!(waits(&document, &["--timeout=120"]), (json!("120s"), vec![none.clone(); 3], Some(json!(120_000))));
    document["recovery_wait_ms"] = json!(300_500);
    assert_eq!(waits(&document, &[]), (json!("60s"), vec![none.clone(), json!("303s"), none], Some(json!(303_000))));
}

#[test]
fn two_routes_that_krakend_takes_for_one_are_refused() {
    for (one, two) in [
        (json!({"path": "/a/key:{key}"}), json!({"path": "/a/id:{id}"})),
        (json!({"path": "/a/orders:batch"}), json!({"path": "/a/orders:cancel"})),
        (json!({"path": "/a", "hosts": ["x.example.com"]}), json!({"path": "/a", "hosts": ["y.example.com"]})),
    ] {
        let mut routes = [one, two];
        for (name, route) in ["first", "second"].iter().zip(&mut routes) {
            route["endpoint"] = (*name).into();
            route["policy"] = "REQUIRED_A".into();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), policy(json!(routes)).to_string()).unwrap();
        let path = file.path().to_str().unwrap();
        let told =
            refused(&[&["render", "krakend", "--policy", path, "--upstream=api=http://a"], &TOKENS[..]].concat());
        assert!(told.contains("give one of first and second another path"), "{told}");
        routes[1]["methods"] = json!(["PUT"]);
        let made = rendered(&policy(json!(routes)), &TOKENS);
        // The router takes one name for a parameter.
        let paths: Vec<_> = made["endpoints"].as_array().unwrap().iter().map(|one| one["endpoint"].clone()).collect();
        assert_eq!(paths[0], paths[1]);
    }
}

/// `render::krakend::router` says which; here what the endpoints are.
#[test]
fn paths_that_the_router_takes_away_are_endpoints_of_their_own() {
    let route = |endpoint: &str, path: &str| json!({"endpoint": endpoint, "path": path, "policy": "REQUIRED_A"});
    let routes =
        |paths: &[(&str, &str)]| policy(json!(paths.iter().map(|(name, path)| route(name, path)).collect::<Vec<_>>()));
    for (paths, added) in [
        // The longer path, the shorter one, and one with a text on each side.
        (vec![("a", "/a/{x}/b"), ("p", "/{p}/{x}")], Some(("p", "/a/{x}"))),
        (vec![("a", "/a/{x}"), ("p", "/{p}/{q}/b")], Some(("p", "/a/{x}/b"))),
        (vec![("a", "/a/{x}/b"), ("p", "/{p}/c")], Some(("p", "/a/c"))),
        (vec![("a", "/a/b"), ("p", "/{p}/{q}")], None),
    ] {
        let made = rendered(&routes(&paths), &TOKENS);
        let all = made["endpoints"].as_array().unwrap();
        let found = all
            .iter()
            .find(|one| one["@comment"].as_str().is_some_and(|text| text.contains("does not go back from POST")));
        let bound = "/backend/0/extra_config/plugin~1http-client/edge-idempotency/endpoint";
        let found = found.map(|one| {
            assert_eq!(one["endpoint"], one["backend"][0]["url_pattern"], "{one}");
            (one.pointer(bound).and_then(Value::as_str).unwrap(), one["endpoint"].as_str().unwrap())
        });
        assert_eq!(found, added, "{paths:?}");
    }
}

#[test]
fn what_krakend_answers_by_itself_and_a_missing_key_file_are_noted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let routes = json!([{"endpoint": "orders", "path": "/orders", "methods": ["GET", "HEAD"], "policy": "PROHIBITED"}]);
    fs::write(file.path(), policy(routes).to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&[
        "render",
        "krakend",
        "--policy",
        path,
        "--upstream=api=http://a",
        "--jwt-issuer=i",
        "--jwt-keys=/no/such/file",
    ]);
    let told = String::from_utf8(output.stderr).unwrap();
    for part in
        ["orders: KrakenD answers HEAD and OPTIONS by itself", "/no/such/file (--jwt-keys) is not here: KrakenD"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn browsers_may_send_keys_and_read_what_became_of_them() {
    let config = rendered(&orders(), &[&TOKENS[..], &["--cors-origin=https://app.example.com"]].concat());
    let cors = &config["extra_config"]["security/cors"];
    assert_eq!(
        (&cors["allow_origins"], &cors["allow_methods"]),
        (&json!(["https://app.example.com"]), &json!(["POST"]))
    );
    for (member, name) in [("allow_headers", "idempotency-key"), ("expose_headers", "idempotency-status")] {
        assert!(cors[member].as_array().unwrap().contains(&json!(name)), "{cors}");
    }
    assert_eq!(rendered(&orders(), &TOKENS)["extra_config"].get("security/cors"), None);
}

/// What `init` writes, `render krakend` takes, and `init` says so.
#[test]
fn init_makes_a_policy_that_krakend_can_serve() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    let path = file.to_str().unwrap();
    for backend in ["generic", "restate"] {
        let made = run(&["init", path, "--yes", "--force", "--gateway=krakend", "--backend", backend]);
        let told = String::from_utf8(made.stderr).unwrap();
        assert!(told.contains(&format!("edge-idempotency render krakend --policy {path}")), "{told}");
        let own = ["render", "krakend", "--policy", path, "--upstream=restate=http://a"];
        let config: Value = serde_json::from_str(&printed(&[&own[..], &TOKENS].concat())).unwrap();
        assert_eq!(config["endpoints"][0]["endpoint"], "/orders");
    }
}

/// KrakenD removes what is not listed.
#[test]
fn backends_get_the_query_that_the_policy_lets_through() {
    let query = |document: &Value| {
        let made = rendered(document, &TOKENS);
        let listed = made["endpoints"].as_array().unwrap().iter().map(|one| one["input_query_strings"].clone());
        listed.collect::<Vec<_>>()
    };
    assert_eq!(query(&orders()), [json!(["*"])]);
    let mut document = orders();
    document["backend"] = json!({"kind": "restate", "cluster": "api", "rewrite_path": true});
    document["routes"][0]["target"] = "Orders/create".into();
    assert_eq!(query(&document), [Value::Null, Value::Null, Value::Null]);
    document["routes"][0]["query"] = json!(["dry_run"]);
    assert_eq!(query(&document), [json!(["dry_run"]), Value::Null, Value::Null]);
    document["routes"][0]["webhook"] = json!({"provider": "twilio", "id": "wh_01JABCDEF"});
    document["routes"][0]["policy"] = "REQUIRED_B".into();
    document["webhooks"] = json!({"public_base_url": "https://a.example.com", "static": {
        "wh_01JABCDEF": {"tenant": "a", "project": "p", "provider": "twilio", "secrets": [{"env": "S"}]}}});
    assert_eq!(query(&document), [json!(["*"])]);
}
