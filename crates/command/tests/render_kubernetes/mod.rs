//! `render kubernetes`: the resources fit the published custom resource definitions (`crd.rs`), and their Envoy parts
//! are those of `render envoy`, which `tests/e2e/tests/render.rs` lets Envoy validate.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

pub(crate) mod crd;

use crate::check::rendered::upstream_names;
use crate::repository;
use serde_json::{Value, json};
use std::process::{Command, Output};

const CLUSTERS: [&str; 3] = [
    "--upstream=backend=http://restate.default.svc:8080",
    "--upstream=unkey=https://api.unkey.com",
    "--upstream=openbao=http://bao:8200",
];

/// The digest of an image.
const DIGEST: &str = "7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a";
/// An image, by its digest.
const IMAGE: [&str; 2] = [
    "--module=oci://registry/edge:1",
    "--module-digest=sha256:7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a7c5b1b2a",
];
/// The same for a file that is fetched.
const FETCHED: [&str; 2] = ["--module=https://m.example/m.wasm", IMAGE[1]];

/// The smallest module, and its SHA-256.
fn module() -> (tempfile::NamedTempFile, &'static str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"\0asm\x01\0\0\0").unwrap();
    (file, "93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476")
}

/// Runs the command with the module.
fn run_with_module(args: &[&str]) -> Output {
    let (file, _) = module();
    run(&[args, &["--module", file.path().to_str().unwrap()]].concat())
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edge-idempotency")).args(args).current_dir(repository()).output().unwrap()
}

/// The documents that a command printed.
fn documents(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn read(output: &Output) -> Value {
    documents(output).pop().unwrap()
}

/// The resource with the filter, which is the last. All of them fit their definitions.
fn resource(args: &[&str]) -> Value {
    fitting(args, &run_with_module(args)).pop().unwrap()
}

fn fitting(args: &[&str], output: &Output) -> Vec<Value> {
    let resources = documents(output);
    for resource in &resources {
        assert_eq!(crd::errors(resource), [""; 0], "{args:?}: {resource}");
    }
    resources
}

/// The resource of a kind, and of a name if there are several.
fn of_kind<'r>(resources: &'r [Value], kind: &str, name: &str) -> &'r Value {
    let found = resources.iter().find(|own| own["kind"] == kind && own["metadata"]["name"] == name);
    &found.unwrap_or_else(|| panic!("no {kind} {name}"))["spec"]
}

/// The filter's configuration as `render envoy --filter-only` has it for proxies that have files in this directory.
fn filter(policy: &str, directory: &str) -> Value {
    let (file, _) = module();
    let module = ["--module", file.path().to_str().unwrap(), "--module-dir", directory];
    let args = [&["render", "envoy", "--policy", policy, "--filter-only"], &module[..]].concat();
    read(&run(&args))[0]["typed_config"].clone()
}

fn document(policy: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(repository().join(policy)).unwrap()).unwrap()
}

#[test]
fn an_envoy_filter_has_all_parts() {
    let args = [
        &["render", "kubernetes", "--form=envoy-filter", "--policy", "deploy/demo/policy.json", "--label=app=edge"],
        &CLUSTERS[..],
    ]
    .concat();
    let all = fitting(&args, &run_with_module(&args));
    let spec = all[2]["spec"].clone();
    assert_eq!(spec["workloadSelector"]["labels"], json!({"app": "edge"}));
    let patches = spec["configPatches"].as_array().unwrap();
    let value = |what: &str| &patches.iter().find(|patch| patch["applyTo"] == what).unwrap()["patch"]["value"];
    let routes: Vec<&Value> = patches.iter().filter(|patch| patch["applyTo"] == "HTTP_ROUTE").collect();
    let clusters = ["backend-requests", "backend-waits"];
    assert_eq!(
        [0, 1].map(|at| &routes[at]["patch"]["value"]["route"]["cluster"]),
        clusters,
        "each is put before the others"
    );
    let mut expected = filter("deploy/demo/policy.json", "/etc/istio/extensions");
    assert_eq!(value("HTTP_FILTER")["name"], value("EXTENSION_CONFIG")["name"]);
    let own = value("EXTENSION_CONFIG")["typed_config"].clone();
    let policy = |config: &Value| {
        let text = config["config"]["configuration"]["value"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    // Istio leaves the claims under its own name; nothing else is other than in the file.
    let mut there = policy(&expected);
    assert_eq!(there["identity"]["sources"][0]["metadata"][1], "jwt");
    there["identity"]["sources"][0]["metadata"][1] = json!("payload");
    assert_eq!(policy(&own), there);
    expected["config"]["configuration"] = own["config"]["configuration"].clone();
    assert_eq!(own, expected);
    assert_eq!(value("LISTENER")["per_connection_buffer_limit_bytes"], 1_114_112);
    assert_eq!(value("HTTP_ROUTE")["match"]["headers"][0]["name"], "x-edge-idempotency");
    assert_eq!(value("HTTP_ROUTE")["route"]["retry_policy"]["retriable_request_headers"][0]["name"], "idempotency-key");
    let kinds: Vec<&Value> = all.iter().map(|resource| &resource["kind"]).collect();
    assert_eq!(kinds, ["AuthorizationPolicy", "ConfigMap", "EnvoyFilter"]);
    let denied = &all[0]["spec"];
    assert_eq!((&denied["action"], &denied["selector"]["matchLabels"]), (&json!("DENY"), &json!({"app": "edge"})));
    let bootstrap: Value = serde_saphyr::from_str(all[1]["data"]["custom_bootstrap.json"].as_str().unwrap()).unwrap();
    assert_eq!(bootstrap["stats_config"]["stats_tags"].as_array().unwrap().len(), 17);
    assert_eq!(patches.iter().filter(|patch| patch["applyTo"] == "CLUSTER").count(), 5);
    let api_keys = ["render", "kubernetes", "--form=envoy-filter", "--policy", "policies/examples/api-keys.json"];
    let removed = resource(&api_keys)["spec"]["configPatches"][2]["patch"]["value"].to_string();
    for source in document("policies/examples/api-keys.json")["identity"]["sources"].as_array().unwrap() {
        assert!(removed.contains(&format!("{{\"remove\":{}}}", source["tenant"])), "{removed}");
    }
}

#[test]
fn envoy_gateway_has_all_parts() {
    let own = [
        "render",
        "kubernetes",
        "--form=envoy-patch-policy",
        "--policy",
        "deploy/demo/policy.json",
        "--gateway=edge",
        "--listener=https",
        "--hostname=api.example.com",
    ];
    let keys = repository().join("crates/command/tests/render_kubernetes/crd.rs");
    let tokens = ["--jwt-issuer=https://id.example.com", &format!("--jwt-keys={}", keys.display())];
    let args = [&own, &CLUSTERS[..], &tokens].concat();
    let all = fitting(&args, &run_with_module(&args));
    let spec = of_kind(&all, "EnvoyPatchPolicy", "edge-idempotency");
    assert_eq!(spec["targetRef"]["name"], "edge");
    let patches = spec["jsonPatches"].as_array().unwrap();
    assert_eq!(patches[0]["name"], "default/edge/https");
    assert_eq!(patches[0]["operation"]["value"]["typed_config"], filter("deploy/demo/policy.json", "/etc/envoy"));
    let clusters = patches.iter().filter(|patch| patch["operation"]["path"] == "").map(|patch| &patch["name"]);
    assert_eq!(clusters.collect::<Vec<_>>(), ["backend", "unkey", "openbao"], "those that the policy names");
    let client = of_kind(&all, "ClientTrafficPolicy", "edge-idempotency");
    assert_eq!(client["connection"]["bufferLimit"], 1_114_112);
    assert_eq!(client["headers"]["earlyRequestHeaders"]["remove"], json!(["x-edge-idempotency"]));
    let route = of_kind(&all, "HTTPRoute", "edge-idempotency");
    let rules = route["rules"].as_array().unwrap();
    let names: Vec<&Value> = rules.iter().map(|rule| &rule["name"]).collect();
    assert_eq!(names, ["waits", "backend", "without-token", "everything"]);
    // Only what the filter marked leads to a backend, and each path that another rule has is in the marked one, too.
    for rule in rules {
        let marked =
            rule["matches"].as_array().unwrap().iter().all(|own| own["headers"][0]["name"] == "x-edge-idempotency");
        assert_eq!(marked, rule["backendRefs"].is_array(), "{rule}");
    }
    assert_eq!(rules[1]["matches"].as_array().unwrap().len(), rules[2]["matches"].as_array().unwrap().len() + 1);
    assert_eq!(rules[1]["backendRefs"], json!([{"name": "restate", "port": 8080}]));
    let security = of_kind(&all, "SecurityPolicy", "edge-idempotency-without-token");
    assert_eq!(
        (&security["jwt"]["optional"], &security["targetRefs"][0]["sectionName"]),
        (&json!(true), &json!("without-token"))
    );
    assert_eq!(of_kind(&all, "SecurityPolicy", "edge-idempotency")["jwt"]["providers"][0]["name"], "jwt");
}

/// Without `mark_all` a policy of an API leads unmarked requests to the backend, and the command says so.
#[test]
fn envoy_gateway_is_closed_where_everything_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let mut policy = document("policies/examples/own-api.json");
    for closed in [false, true] {
        policy["mark_all"] = json!(closed);
        let file = folder.path().join("policy.json");
        std::fs::write(&file, policy.to_string()).unwrap();
        let args = [
            "render",
            "kubernetes",
            "--form=envoy-patch-policy",
            "--policy",
            file.to_str().unwrap(),
            "--upstream=api=https://api.example.com",
        ];
        let output = run_with_module(&args);
        let all = fitting(&args, &output);
        let rules = of_kind(&all, "HTTPRoute", "edge-idempotency")["rules"].as_array().unwrap().clone();
        assert_eq!(rules.last().unwrap()["backendRefs"].is_array(), !closed);
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("mark_all"), !closed);
        assert_eq!(of_kind(&all, "Backend", "api")["endpoints"][0]["fqdn"]["port"], 443);
    }
}

#[test]
fn the_policy_reaches_the_module_as_a_document() {
    let policy = "policies/examples/own-api.json";
    let (file, sha256) = module();
    let here = ["--module", file.path().to_str().unwrap()];
    let own = ["render", "kubernetes", "--form", "traffic-extension", "--policy", policy];
    let istio = |module: [&str; 2]| {
        let args = [&own[..], &module].concat();
        fitting(&args, &run(&args)).pop().unwrap()["spec"]["wasm"].clone()
    };
    let mut at_istio = document(policy);
    at_istio["identity"]["sources"][0]["metadata"][1] = json!("payload");
    let path = "file:///etc/istio/extensions/edge_idempotency-93a44bbb96c7.wasm";
    for (module, url, sha256) in
        [(here, path, sha256), (IMAGE, "oci://registry/edge:1", DIGEST), (FETCHED, "https://m.example/m.wasm", DIGEST)]
    {
        let plugin = istio(module);
        let found = (&plugin["pluginConfig"], &plugin["url"], &plugin["sha256"]);
        assert_eq!(found, (&at_istio, &json!(url), &json!(sha256)), "{plugin}");
    }
    // The patch can have an image, too: Istio's agent fetches it.
    let own = ["render", "kubernetes", "--form=envoy-filter", "--policy", policy];
    let args = [&own[..], &IMAGE].concat();
    let patches = fitting(&args, &run(&args)).pop().unwrap()["spec"]["configPatches"].clone();
    let remote = &patches[1]["patch"]["value"]["typed_config"]["config"]["vm_config"]["code"]["remote"];
    assert_eq!((&remote["http_uri"]["uri"], &remote["sha256"]), (&json!("oci://registry/edge:1"), &json!(DIGEST)));

    let own =
        ["render", "kubernetes", "--form", "envoy-extension-policy", "--policy", policy, "--upstream=api=http://a"];
    let gateway = |module: [&str; 2]| {
        let args = [&own[..], &module].concat();
        fitting(&args, &run(&args)).pop().unwrap()["spec"]["wasm"][0].clone()
    };
    let wasm = gateway(FETCHED);
    assert_eq!(
        (&wasm["config"], &wasm["code"]["type"], &wasm["failOpen"]),
        (&document(policy), &json!("HTTP"), &json!(false))
    );
    assert_eq!(wasm["code"]["http"], json!({"url": "https://m.example/m.wasm", "sha256": DIGEST}));
    let image = json!({"type": "Image", "image": {"url": "registry/edge:1", "sha256": DIGEST}});
    assert_eq!(gateway(IMAGE)["code"], image);
}

/// What a command refuses, on standard error.
fn refused(output: &Output) -> String {
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    told
}

/// A module that can be replaced unnoticed, options that would change nothing, and tokens that Istio mixes up are refused.
#[test]
fn what_a_form_cannot_have_is_told() {
    let policy = ["--policy", "policies/examples/api-keys.json"];
    let upstream = "--upstream=api=http://a";
    let forms = [("--form=envoy-filter", true), ("--form=traffic-extension", false)];
    for (form, patches) in forms {
        let own = [&["render", "kubernetes", form], &policy[..]].concat();
        let told = |options: &[&str]| refused(&run(&[&own, options].concat()));
        assert!(told(&[]).contains("--module dist/"), "{form:?}");
        assert!(told(&["--module=oci://registry/edge:1"]).contains("add --module-digest"), "{form:?}");
        assert!(told(&["--module=oci://registry/edge@sha256:00"]).contains("--module-digest"), "{form:?}");
        assert!(
            told(&["--module=oci://registry/edge:1", "--module-digest=sha256:00"]).contains("64 digits"),
            "{form:?}"
        );
        assert!(told(&[IMAGE[1]]).contains("--module URL"), "{form:?}");
        assert!(told(&[&IMAGE[..], &["--module-dir=/m"]].concat()).contains("--module-dir would change nothing"));
        let (file, _) = module();
        let here = ["--module", file.path().to_str().unwrap(), IMAGE[1]];
        assert!(told(&here).contains("--module-digest would change nothing"), "{form:?}");
        if !patches {
            for option in [upstream, "--retries=1", "--gateway=eg", "--hostname=a", "--jwt-claim=a=b"] {
                let name = option.split('=').next().unwrap();
                let said = told(&[&IMAGE[..], &[option]].concat());
                assert!(said.contains(&format!("{name} would change nothing")), "{form:?} {option}: {said}");
            }
        } else {
            assert!(told(&[&IMAGE[..], &[upstream]].concat()).contains("marks no requests"), "{form:?}");
        }
    }
    let gateway_with = |form| [&["render", "kubernetes", form, upstream][..], &policy].concat();
    let (gateway, extension) =
        (gateway_with("--form=envoy-patch-policy"), gateway_with("--form=envoy-extension-policy"));
    let told = |options: &[&str]| refused(&run_with_module(&[&gateway[..], options].concat()));
    let extended = |options: &[&str]| refused(&run_with_module(&[&extension[..], options].concat()));
    assert!(refused(&run(&gateway)).contains("--module dist/"));
    assert!(refused(&run(&[&gateway[..], &IMAGE].concat())).contains("names a file of the proxy"));
    assert!(told(&["--retries=1"]).contains("--retries would change nothing"));
    assert!(told(&["--label=a=b"]).contains("--label would change nothing"));
    assert!(extended(&[]).contains("Envoy Gateway fetches the module"));
    assert!(refused(&run(&[&extension[..], &[IMAGE[0]]].concat())).contains("add --module-digest"));
    assert!(extended(&["--listener=a"]).contains("--listener would change nothing"));
    let keys = ["--jwt-issuer=https://id.example.com", "--jwt-keys=https://id.example.com/keys"];
    let headers = [
        "render",
        "kubernetes",
        "--form=envoy-extension-policy",
        "--dynamic-module",
        upstream,
        "--policy=policies/examples/api-keys.json",
    ];
    assert!(refused(&run(&[&headers[..], &keys].concat())).contains("would change nothing"));
}

/// What an operator has to look at is on a line that says so.
#[test]
fn places_to_look_at_say_so() {
    for form in ["--form=envoy-filter", "--form=traffic-extension"] {
        let output = run_with_module(&["render", "kubernetes", form, "--policy", "policies/examples/own-api.json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        for member in ["  namespace:", "  workloadSelector:", "  selector:"] {
            let Some((before, _)) = text.split_once(&format!("\n{member}")) else { continue };
            assert!(before.lines().last().unwrap().starts_with("  # CHECK: "), "{member}: {text}");
        }
        assert!(text.contains("\n  namespace:") && text.contains("forwardOriginalToken"), "{text}");
    }
}

#[test]
fn forms_that_cannot_wait_for_bodies_refuse_policies_that_do() {
    for form in ["traffic-extension", "envoy-extension-policy"] {
        let own = ["render", "kubernetes", "--form", form, FETCHED[0], FETCHED[1], "--policy"];
        for (policy, endpoint) in
            [("deploy/demo/policy.json", "reports.run"), ("policies/examples/payments.json", "charges.create")]
        {
            let told = refused(&run(&[&own, &[policy][..]].concat()));
            assert!(told.contains("allow_on_headers_stop_iteration") && told.contains(endpoint), "{told}");
        }
    }
}

/// Every policy of the project in every form fits the form's definition, or waits for bodies where the form cannot.
#[test]
fn every_form_of_every_policy_fits_its_definition() {
    let examples = std::fs::read_dir(repository().join("policies/examples")).unwrap();
    let mut policies: Vec<String> =
        examples.map(|entry| format!("policies/examples/{}", entry.unwrap().file_name().display())).collect();
    policies.extend(["deploy/demo/policy.json".to_owned(), "policies/reference.json".to_owned()]);
    // Secrets, and no route that waits for a body: the short forms write the names of variables, too.
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("operations.json");
    let text = json!({
        "version": 1,
        "backend": {"kind": "restate", "cluster": "restate", "operations": {"path": "/operations/{operation_id}", "secret": {"env": "OPERATIONS_SECRET"}}, "rewrite_path": true},
        "identity": {"sources": [{"name": "gate", "metadata": ["envoy.filters.http.ext_authz"], "tenant": "tenant",
            "project": "project", "subject": {"field": "subject", "type": "user"}}]},
        "routes": [{"endpoint": "a", "path": "/a", "policy": "REQUIRED_A", "target": "A/run"}]
    });
    std::fs::write(&own, text.to_string()).unwrap();
    policies.push(own.display().to_string());
    let forms = [
        ("envoy-filter", true, None),
        ("envoy-filter", true, Some(IMAGE)),
        ("traffic-extension", false, None),
        ("traffic-extension", false, Some(IMAGE)),
        ("traffic-extension", false, Some(FETCHED)),
        ("envoy-patch-policy", true, None),
        ("envoy-extension-policy", false, Some(IMAGE)),
        ("envoy-extension-policy", false, Some(FETCHED)),
    ];
    let mut count = 0;
    for policy in &policies {
        let upstreams = upstreams(&document(policy));
        for (form, patches, by_url) in forms {
            let mut args = vec!["render", "kubernetes", "--form", form, "--policy", policy];
            args.extend(by_url.into_iter().flatten());
            let run = |args: &[&str]| if by_url.is_some() { run(args) } else { run_with_module(args) };
            let with_upstreams: Vec<&str> = args.iter().copied().chain(upstreams.iter().map(String::as_str)).collect();
            let takes_upstreams = form != "traffic-extension";
            let mut output = run(if takes_upstreams { &with_upstreams } else { &args });
            if String::from_utf8_lossy(&output.stderr).contains("--upstream would change nothing") {
                output = run(&args);
            }
            let told = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(0) {
                let text = json!(fitting(&args, &output)).to_string();
                let is_own = policy.ends_with("operations.json");
                assert!(!is_own || text.contains("OPERATIONS_SECRET"), "{text}");
                count += 1;
            } else {
                let mixes =
                    ["envoy-filter", "traffic-extension"].contains(&form) && told.contains("tells tokens apart");
                let trusts = form == "traffic-extension" && told.contains("cannot remove a client's own header");
                assert!(mixes || trusts || !patches && told.contains("wait for bodies"), "{args:?}: {told}");
            }
        }
    }
    assert!(count > 4 * policies.len(), "only {count} resources of {} policies were checked", policies.len());
}

/// The options that name a policy's clusters.
fn upstreams(document: &Value) -> Vec<String> {
    let names = upstream_names(document);
    names.iter().map(|name| format!("--upstream={name}=https://{name}.example:8443")).collect()
}

/// Envoy Gateway loads dynamic modules, which need no flag to wait for bodies.
#[test]
fn a_dynamic_module_module_is_for_envoy_gateway_alone() {
    let dynamic_module = ["--dynamic-module", "--module-dir=/opt", "--upstream=api=http://a"];
    let gateway = ["render", "kubernetes", "--form=envoy-extension-policy", "--policy"];
    let args = [&gateway[..], &["policies/examples/api-keys.json"], &dynamic_module].concat();
    let resource = fitting(&args, &run(&args)).pop().unwrap();
    let module = &resource["spec"]["dynamicModule"][0];
    assert_eq!((&module["name"], &module["filterName"]), (&json!("edge-idempotency"), &json!("edge-idempotency")));
    assert_eq!(module["config"], document("policies/examples/api-keys.json"));
    for (args, told) in [
        ([&gateway[..], &["policies/examples/payments.json"], &dynamic_module].concat(), "claimToHeaders"),
        ([&args[..5], &["--dynamic-module", dynamic_module[2]], &FETCHED].concat(), "names a file of the proxy"),
        (
            vec![
                "render",
                "kubernetes",
                "--form=envoy-patch-policy",
                "--dynamic-module",
                "--policy=policies/examples/api-keys.json",
            ],
            "envoy-extension-policy",
        ),
        (
            vec![
                "render",
                "kubernetes",
                "--form=envoy-filter",
                "--dynamic-module",
                "--policy=policies/examples/api-keys.json",
            ],
            "Istio has no resource",
        ),
    ] {
        let output = run(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty() && said.contains(told), "{args:?}: {said}");
    }
}
