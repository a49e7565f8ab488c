//! `check --envoy`: the demo's gateway is clean, and each mistake that is planted in it is found.

use super::{all_lints, json, names};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEMO: &str = include_str!("../../../../deploy/demo/envoy.yaml");
const LOOKUPS: &str = include_str!("../../../../deploy/demo/lookups.yaml");
const POLICY: &str = include_str!("../../../../deploy/demo/policy.json");

/// What stands in the places of the demo's template. The policy has a retention, so that it is clean by itself.
fn places() -> Vec<(&'static str, String)> {
    let retention =
        r#""retention": {"classes": {"webhook": "3d"}, "services": {"Promises": "webhook", "Webhooks": "webhook"}},"#;
    let policy = POLICY.replacen("\"routes\": [", &format!("{retention}\n  \"routes\": ["), 1);
    vec![
        ("GATEWAY_PORT", "10000".to_owned()),
        ("ADMIN_PORT", "9901".to_owned()),
        ("ACCESS_LOG", "/dev/stdout".to_owned()),
        ("ISSUER", "https://issuer.example.com".to_owned()),
        ("JWKS", "{\"keys\": []}".to_owned()),
        ("TOKEN_REQUIREMENT", "{provider_name: demo}".to_owned()),
        ("WASM", "/modules/edge_idempotency.wasm".to_owned()),
        ("POLICY", policy),
        ("BACKEND_ADDRESS", "127.0.0.1".to_owned()),
        ("BACKEND_PORT", "8080".to_owned()),
        ("LOOKUP_CLUSTERS", fill(LOOKUPS, &[])),
    ]
}

/// Fills the places of a template as the demo does: lines of a value take over the indentation.
fn fill(template: &str, places: &[(&str, String)]) -> String {
    let mut filled = String::new();
    for line in template.lines() {
        let indent: String = line.chars().take_while(|char| *char == ' ').collect();
        let mut line = line.to_owned();
        while let Some((before, rest)) = line.clone().split_once("{{") {
            let (name, after) = rest.split_once("}}").unwrap();
            let value = places.iter().find(|(place, _)| *place == name).map_or("1", |(_, value)| value);
            line = format!("{before}{}{after}", value.trim_end().replace('\n', &format!("\n{indent}")));
        }
        filled += &(line + "\n");
    }
    filled
}

/// What the demo's policy has by itself: its deliveries are short.
const DEMOS_OWN: &str = "short-body-limit";

/// A gateway's file, and the arguments that allow what the demo's policy has by itself.
pub(super) struct ConfiguredGateway {
    directory: tempfile::TempDir,
}

impl ConfiguredGateway {
    pub(super) fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("envoy.yaml"), config).unwrap();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("envoy.yaml")
    }

    pub(super) fn report(&self) -> serde_json::Value {
        json(&["--allow", DEMOS_OWN, "--envoy", self.path().to_str().unwrap()])
    }
}

pub(super) fn demo() -> String {
    fill(DEMO, &places())
}

#[test]
fn the_demo_is_clean() {
    let report = ConfiguredGateway::new(&demo()).report();
    assert_eq!(names(&report), [""; 0], "{report}");
    assert!(report["files"][0]["summary"].as_str().unwrap().starts_with("policy with 13 routes"), "{report}");
}

/// The shipped example for an API of one's own: what it says by itself is an exception with its reason (`shipped`).
#[test]
fn the_example_has_nothing_but_its_exceptions() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-api/envoy.yaml");
    let report = json(&["--envoy", file.to_str().unwrap()]);
    assert_eq!(names(&report), ["unmatched-write"], "{report}");
}

const TWO_BACKENDS: &str = include_str!("../../../../examples/own-api/two-backends.yaml");

/// The shipped example of two backends is what `render envoy` writes for its policy.
#[test]
fn the_example_of_two_backends_is_rendered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"))
        .current_dir(root.join("examples/own-api"))
        .args(["render", "envoy", "--policy", "../../policies/examples/own-api-and-restate.json"])
        .args(["--upstream", "api=http://127.0.0.1:9000", "--upstream", "restate=http://127.0.0.1:8080"])
        .args(["--jwt-issuer", "https://trial.example.com", "--jwt-keys", "jwks.json"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), TWO_BACKENDS, "write the file anew with this command");
}

/// A route that takes every request before the marked ones do.
const TAKES_ALL: &str = "              routes:
              - match: {prefix: /}
                route: {cluster: api, timeout: 60s}
";
/// A route to Restate for requests that the filter has not marked.
const WITHOUT_MARK: &str = "              routes:
              - match: {prefix: /refunds}
                route: {cluster: restate-requests, timeout: 60s}
";

/// The gateway chooses the backend by the name in the mark, so a route for each name has to be there.
#[test]
fn a_backend_without_a_route_for_its_name_is_found() {
    let usual = BTreeSet::from(["unmatched-write"]);
    let exact = r#"string_match: {exact: "restate"}"#;
    for (right, wrong, more) in [
        (exact, exact, &[][..]),
        (exact, "present_match: true", &[]),
        (exact, r#"string_match: {exact: "api"}"#, &["envoy-marked-route", "envoy-wrong-backend"]),
        (exact, r#"string_match: {exact: "1"}"#, &["envoy-marked-route", "envoy-marked-route", "envoy-wrong-backend"]),
        ("- remove: x-edge-idempotency\n", "", &["envoy-client-mark"]),
        (r#"cluster: "restate-requests""#, r#"cluster: "restate""#, &["envoy-shared-cluster"]),
        (r#"cluster: "restate-requests""#, r#"cluster: "api""#, &["envoy-wrong-backend"]),
        ("              routes:\n", TAKES_ALL, &["envoy-wrong-backend"]),
        ("              routes:\n", WITHOUT_MARK, &["envoy-wrong-backend"]),
    ] {
        assert!(TWO_BACKENDS.contains(right), "{right}");
        let report = ConfiguredGateway::new(&TWO_BACKENDS.replace(right, wrong)).report();
        let expected: BTreeSet<&str> = usual.iter().chain(more).copied().collect();
        assert_eq!(names(&report).into_iter().collect::<BTreeSet<_>>(), expected, "{wrong}");
    }
}

/// What is planted: the lint that finds it, what stands in the demo, and what stands there instead.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("not-seen", "          route_config:\n", "          rds: {route_config_name: gateway}\n          other:\n"),
    ("not-seen", "static_resources:\n", "dynamic_resources: {cds_config: {ads: {}}}\nstatic_resources:\n"),
    ("envoy-no-filter", "extensions.filters.http.wasm.v3.Wasm", "extensions.filters.http.wasm.v3.Wasn"),
    (
        "envoy-configuration",
        "type.googleapis.com/google.protobuf.StringValue",
        "type.googleapis.com/google.protobuf.Struct",
    ),
    ("envoy-fail-open", "failure_policy: FAIL_RELOAD", "failure_policy: FAIL_OPEN"),
    ("envoy-failure-policy", "failure_policy: FAIL_RELOAD", "failure_policy: FAIL_CLOSED"),
    ("envoy-stop-iteration", "allow_on_headers_stop_iteration: true", "allow_on_headers_stop_iteration: false"),
    ("envoy-missing-secret", "host_env_keys: [STRIPE_WHSEC, STRIPE_WHSEC_PREVIOUS, ", "host_env_keys: [STRIPE_WHSEC, "),
    (
        "inline-secret",
        "SCHEDULER_SECRET, OPERATIONS_SECRET]",
        "SCHEDULER_SECRET]\n                    key_values: {OPERATIONS_SECRET: planted}",
    ),
    (
        "envoy-filter-order",
        "          - name: envoy.filters.http.router\n",
        "          - name: envoy.filters.http.ext_authz\n            typed_config:\n              \"@type\": \
         type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz\n          - name: \
         envoy.filters.http.router\n",
    ),
    (
        "envoy-streamed-requests",
        "          - name: edge-idempotency\n",
        "          - name: envoy.filters.http.ext_proc\n            typed_config:\n              \"@type\": \
         type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor\n              processing_mode: {request_body_mode: FULL_DUPLEX_STREAMED}\n          - name: envoy.filters.http.ext_proc\n            typed_config:\n              \"@type\": \
         type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor\n              processing_mode: {request_body_mode: FULL_DUPLEX_STREAMED}\n          - name: edge-idempotency\n",
    ),
    (
        "envoy-identity-source",
        "          - name: envoy.filters.http.jwt_authn\n",
        "          - name: envoy.filters.http.jwt_authn\n            disabled: true\n",
    ),
    ("envoy-identity-source", "payload_in_metadata: jwt", "payload_in_metadata: payload"),
    ("envoy-identity-source", "                  payload_in_metadata: jwt\n", ""),
    (
        "envoy-identity-source",
        "              providers:\n",
        "              providers:\n                other: {issuer: o, payload_in_metadata: operator, local_jwks: {inline_string: '{}'}}\n",
    ),
    (
        "envoy-disabled",
        "          - name: edge-idempotency\n",
        "          - name: edge-idempotency\n            disabled: true\n",
    ),
    (
        "envoy-identity-headers",
        "\"metadata\": [\"envoy.filters.http.jwt_authn\", \"jwt\"],\n                            \"tenant\": \"tenant_id\",\n                            \"project\": \"project_id\",",
        "\"headers_owned_by\": \"envoy.filters.http.ext_authz\",\n                            \"tenant\": \"x-tenant\",\n                            \"project\": \"x-project\",",
    ),
    ("envoy-duplicate-member", "normalize_path: true", "normalize_path: false\n          normalize_path: true"),
    (
        "envoy-other-way",
        "          normalize_path: true\n",
        "          normalize_path: true\n          upgrade_configs: [{upgrade_type: websocket, filters: [{name: router}]}]\n",
    ),
    (
        "envoy-changed-request",
        "request_headers_to_remove: [x-edge-idempotency]",
        "request_headers_to_remove: [x-edge-idempotency, idempotency-key]",
    ),
    ("envoy-normalize-path", "normalize_path: true", "normalize_path: false"),
    ("envoy-normalize-path", "          merge_slashes: true\n", ""),
    (
        "envoy-escaped-slashes",
        "path_with_escaped_slashes_action: REJECT_REQUEST",
        "path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT",
    ),
    ("envoy-buffer-limit", "per_connection_buffer_limit_bytes: 1114112", "per_connection_buffer_limit_bytes: 1048576"),
    ("envoy-timeout", "          request_timeout: 60s\n", ""),
    ("envoy-connection-limits", "          max_request_headers_kb: 16\n", ""),
    ("envoy-connection-limits", "          http2_protocol_options: {max_concurrent_streams: 100}\n", ""),
    ("envoy-timeout", "stream_idle_timeout: 120s", "stream_idle_timeout: 30s"),
    ("envoy-access-log", "edge_idempotency: \"%TYPED_CEL(filter_state['wasm.edge_idempotency'])%\"", "user: none"),
    ("envoy-access-log", "\"version\": 1,", "\"version\": 1, \"record\": false,"),
    ("envoy-client-mark", "              - remove: x-edge-idempotency\n", ""),
    (
        "envoy-marked-route",
        "name: public\n                match: {prefix: /api/}",
        "name: public\n                match: {prefix: /}",
    ),
    (
        "envoy-marked-route",
        "prefix: /\n                  headers:\n                  - name: x-edge-idempotency",
        "prefix: /\n                  headers:\n                  - name: x-something-else",
    ),
    (
        "envoy-timeout",
        "route: {cluster: backend-requests, timeout: 60s}\n                request_headers",
        "route: {cluster: backend-requests}\n                request_headers",
    ),
    (
        "envoy-keyless-retry",
        "route: {cluster: backend-requests, timeout: 60s}\n                request_headers",
        "route: {cluster: backend-requests, timeout: 60s, retry_policy: {retry_on: \"connect-failure,reset\"}}\n                \
         request_headers",
    ),
    (
        "envoy-shared-cluster",
        "route: {cluster: backend-requests, timeout: 60s}\n                request_headers",
        "route: {cluster: backend, timeout: 60s}\n                request_headers",
    ),
    ("envoy-shared-waits", "route: {cluster: backend-waits,", "route: {cluster: backend-requests,"),
    ("envoy-missing-cluster", "\"cluster\": \"backend\"", "\"cluster\": \"restate\""),
    ("not-yaml", "static_resources:", "static_resources: {"),
];

#[test]
fn each_planted_mistake_is_found_where_it_stands_and_nothing_else() {
    let mut places = String::new();
    for (lint, right, wrong) in MISTAKES {
        let config = demo();
        assert!(config.contains(right), "the demo has no {right}");
        let config = config.replacen(right, wrong, 1);
        let report = ConfiguredGateway::new(&config).report();
        let found: BTreeSet<&str> = names(&report).into_iter().collect();
        super::planted::no_advice_is_there_already(&report, &config);
        assert_eq!(found, BTreeSet::from([*lint]), "{wrong}: {report}");
        assert!(!report.to_string().contains("planted"), "{lint} shows a secret");
        for finding in report["findings"].as_array().unwrap() {
            let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
            places += &format!("{lint}: {}\n", config.lines().nth(line - 1).unwrap().trim());
        }
    }
    insta::assert_snapshot!("places", places);
}

/// A policy with `hosts` needs more of the gateway.
#[test]
fn a_host_has_one_spelling_where_routes_have_hosts() {
    let hosts = demo().replacen(
        "\"endpoint\": \"refunds.create\",",
        "\"endpoint\": \"refunds.create\", \"hosts\": [\"a.example.com\"],",
        1,
    );
    assert_eq!(names(&ConfiguredGateway::new(&hosts).report()), [""; 0]);
    let report =
        ConfiguredGateway::new(&hosts.replace("strip_any_host_port: true", "strip_any_host_port: false")).report();
    assert_eq!(names(&report), ["envoy-host-spelling"], "{report}");
}

/// Virtual hosts and the policy's hosts, in the shipped example for an API of one's own, which forwards what it does not declare.
#[test]
fn virtual_hosts_fit_the_hosts_of_the_policy() {
    let example = include_str!("../../../../examples/own-api/envoy.yaml");
    let found = |hosts: &str, domains: &str, unmatched: &str| {
        let config = example
            .replacen(
                "\"endpoint\": \"orders.create\",",
                &format!("\"endpoint\": \"orders.create\", \"hosts\": {hosts},"),
                1,
            )
            .replacen("domains: [\"*\"]", &format!("domains: {domains}"), 1)
            .replacen("\"unmatched\": \"PROHIBITED\"", &format!("\"unmatched\": \"{unmatched}\""), 1);
        let report = ConfiguredGateway::new(&config).report();
        let ours = |name: &&str| ["envoy-open-host", "envoy-unserved-host", "envoy-host-spelling"].contains(name);
        names(&report).into_iter().filter(ours).map(str::to_owned).collect::<Vec<String>>()
    };
    let one = r#"["api.example.com"]"#;
    for (hosts, domains, unmatched, expected) in [
        (one, r#"["api.example.com"]"#, "PROHIBITED", &[][..]),
        (one, r#"["API.example.com"]"#, "PROHIBITED", &[]),
        (one, r#"["*"]"#, "REJECT", &[]),
        (one, r#"["*"]"#, "PROHIBITED", &["envoy-open-host"]),
        (one, r#"["*"]"#, "HANDLER_INTERNAL_C", &["envoy-open-host"]),
        (one, r#"["api.example.com", "www.example.com"]"#, "PROHIBITED", &["envoy-open-host"]),
        (one, r#"["api.example.com", "www.example.com"]"#, "REJECT", &[]),
        (one, r#"["api.example.com:443"]"#, "PROHIBITED", &["envoy-unserved-host"]),
        (one, r#"["www.example.com"]"#, "REJECT", &["envoy-unserved-host"]),
        (one, r#"["*.example.com"]"#, "PROHIBITED", &["envoy-open-host"]),
        (r#"["*.example.com"]"#, r#"["*.example.com"]"#, "PROHIBITED", &[]),
        (r#"["*.example.com"]"#, r#"["eu.example.com"]"#, "PROHIBITED", &[]),
        (r#"["api.example.com", "pay.example.com"]"#, r#"["api.example.com"]"#, "PROHIBITED", &["envoy-unserved-host"]),
    ] {
        assert_eq!(found(hosts, domains, unmatched), expected, "{hosts} {domains} {unmatched}");
    }
}

/// The second filter of a chain is the only thing that is wrong with it, also where ECDS reads it from a file.
#[test]
fn two_filters_in_a_chain_are_named_as_such() {
    let demo = demo();
    let start = demo.find("          - name: edge-idempotency\n").unwrap();
    let end = demo.find("          - name: envoy.filters.http.router\n").unwrap();
    let second = demo[start..end].replacen("name: edge-idempotency", "name: second", 1);
    let gateway = ConfiguredGateway::new(&[&demo[..end], &second, &demo[end..]].concat());
    let report = gateway.report();
    assert_eq!(names(&report), ["envoy-filter-order"], "{report}");
    assert_eq!(report["findings"][0]["message"].as_str().unwrap().split('`').nth(1), Some("second"), "{report}");
}

#[test]
fn every_lint_of_a_gateway_has_a_mistake() {
    let planted: BTreeSet<&str> = MISTAKES
        .iter()
        .map(|(lint, ..)| *lint)
        .chain(["envoy-host-spelling", "envoy-open-host", "envoy-unserved-host"])
        .chain(["envoy-wrong-backend", "envoy-missing-secret", "envoy-cors"])
        .chain(super::dynamic_module::LINTS)
        .collect();
    for name in all_lints().iter().filter(|name| name.starts_with("envoy-")) {
        assert!(planted.contains(name.as_str()), "{name}");
    }
}

#[test]
fn a_mistake_in_the_policy_shows_its_line_in_the_gateways_file() {
    let config = demo().replacen("\"policy\": \"REQUIRED_A\"", "\"policy\": \"REQUIRE_A\"", 1);
    let report = ConfiguredGateway::new(&config).report();
    let finding = &report["findings"][0];
    assert_eq!(finding["pointer"], "/routes/0/policy");
    let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
    assert!(config.lines().nth(line - 1).unwrap().contains("REQUIRE_A"), "{report}");
}

/// Retries of requests with a key, and of those that never ran, are right.
#[test]
fn retries_of_requests_with_a_key_are_no_mistake() {
    for policy in [
        "{retry_on: \"connect-failure,refused-stream\"}",
        "{retry_on: \"reset,5xx\", retriable_request_headers: [{name: Idempotency-Key, present_match: true}]}",
    ] {
        let config = demo().replacen(
            "route: {cluster: backend-requests, timeout: 60s}\n                request_headers",
            &format!(
                "route: {{cluster: backend-requests, timeout: 60s, retryPolicy: {policy}}}\n                request_headers"
            ),
            1,
        );
        assert_eq!(names(&ConfiguredGateway::new(&config).report()), [""; 0], "{policy}");
    }
}

/// A filter that ECDS reads from a file is checked there.
#[test]
fn a_filter_that_comes_from_a_file_is_found() {
    let demo = demo();
    let start = demo.find("          - name: edge-idempotency\n").unwrap();
    let end = demo.find("          - name: envoy.filters.http.router\n").unwrap();
    let filter = &demo[start..end];
    let own: String =
        filter.lines().map(|line| format!("{}\n", line.strip_prefix("          ").unwrap_or(line))).collect();
    let own = own.replacen(
        "- name: edge-idempotency\n",
        "- \"@type\": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig\n  name: edge-idempotency\n",
        1,
    );
    let discovery = "          - name: edge-idempotency\n            config_discovery:\n              config_source: {path_config_source: {path: ecds.yaml}}\n              type_urls: [type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm]\n\n";
    let gateway = ConfiguredGateway::new(&demo.replacen(filter, discovery, 1));
    assert_eq!(names(&gateway.report()), ["envoy-no-filter"]);
    let ecds =
        |text: &str| std::fs::write(gateway.directory.path().join("ecds.yaml"), format!("resources:\n{text}")).unwrap();
    ecds(&own);
    let report = gateway.report();
    assert_eq!(names(&report), [""; 0], "{report}");
    ecds(&own.replace("failure_policy: FAIL_RELOAD", "failure_policy: FAIL_OPEN"));
    let report = gateway.report();
    assert_eq!(names(&report), ["envoy-fail-open"], "{report}");
    assert!(report["findings"][0]["file"].as_str().unwrap().ends_with("ecds.yaml"));
    // What Envoy takes until the file has come.
    ecds(&own);
    let default = "              default_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm, config: \
                   {failure_policy: FAIL_OPEN, allow_on_headers_stop_iteration: true}}\n";
    let with = std::fs::read_to_string(gateway.path()).unwrap().replacen(
        "              type_urls:",
        &format!("{default}              type_urls:"),
        1,
    );
    std::fs::write(gateway.path(), with).unwrap();
    let report = gateway.report();
    assert_eq!(names(&report), ["envoy-configuration", "envoy-fail-open"], "{report}");
}
