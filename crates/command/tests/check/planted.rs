//! Further mistakes in a gateway, one way for each form in which Envoy lets it be made; and what looks like a mistake and is
//! none. Each stood in a running Envoy or passed its validation.

mod identity;

use super::gateways::{ConfiguredGateway, demo};
use super::names;
use super::rendered::{render, render_with, root};
use serde_json::json;
use std::collections::BTreeSet;

/// Off for our filter, with the indentation that follows.
const OFF: &str = "typed_per_filter_config: {edge-idempotency: {\"@type\": \
                   type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}, disabled: true}}";

const MARKED: &str = "route: {cluster: backend-requests, timeout: 60s}\n                request_headers_to_remove";
const PUBLIC: &str = "name: public\n                match: {prefix: /api/}\n";
const MANAGER: &str = "          codec_type: AUTO\n";
const STREAMS: &str = "max_concurrent_streams: 100}";
const FILTER: &str = "          - name: edge-idempotency\n            typed_config:\n";

/// The rules of jwt_authn.
const RULES: &str = r#"              rules:
              # The scheduler has no token: the filter asks for its signature, and refuses who has neither.
              - match: {prefix: /api/v1/reports/}
                requires: {requires_any: {requirements: [{provider_name: demo}, {allow_missing: {}}]}}
              - match: {prefix: /api/}
                requires: {provider_name: demo}
"#;

/// A listener that leads to `backend` with a connection manager of its own.
const LISTENER: &str = r#"
  - name: internal
    address: {socket_address: {address: 127.0.0.1, port_value: 10001}}
    filter_chains:
    - filters:
      - name: other
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: other
          http_filters:
          - {name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config: {virtual_hosts: [{name: a, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: CLUSTER}}]}]}
"#;

const TCP: &str = r#"
  - name: tcp
    address: {socket_address: {address: 127.0.0.1, port_value: 10002}}
    filter_chains:
    - filters:
      - name: tcp
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: backend}
"#;

const SKIP: &str = r#"          -
           name: edge-idempotency
           typed_config:
            "@type": type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher
            xds_matcher:
              matcher_tree:
                input: {name: h, typed_config: {"@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: x-skip}}
                exact_match_map: {map: {"1": {action: {name: skip, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.common.matcher.action.v3.SkipFilter}}}}}
            extension_config:
             name: edge-idempotency
             typed_config:
"#;

/// One place of the demo, what is written there instead, and the lints that find it.
type Edit = (&'static str, String, &'static [&'static str]);

fn edits() -> Vec<Edit> {
    let before = |place: &'static str, text: &str| (place, format!("{text}{place}"));
    let after = |place: &'static str, text: &str| (place, format!("{place}{text}"));
    let with = |(place, text): (&'static str, String), lints: &'static [&'static str]| -> Edit { (place, text, lints) };
    let route = |text: &str| {
        format!("route: {{cluster: backend-requests, timeout: 60s, {text}}}\n                request_headers_to_remove")
    };
    let public = |text: &str| format!("name: public\n                {text}\n");
    vec![
        // The filter is off.
        with(after("            name: gateway\n", &format!("            {OFF}\n")), &["envoy-disabled"]),
        with(
            after("              domains: [\"*\"]\n", &format!("              {}\n", OFF.replace("true", "True"))),
            &["envoy-disabled"],
        ),
        (
            MARKED,
            format!(
                "route: {{timeout: 60s, weighted_clusters: {{clusters: [{{name: backend-requests, weight: 1, {OFF}}}]}}}}\n                request_headers_to_remove"
            ),
            &["envoy-disabled"],
        ),
        with(after("          - name: edge-idempotency\n", "            disabled: yes\n"), &["envoy-disabled"]),
        (FILTER, SKIP.to_owned(), &["envoy-disabled"]),
        ("failure_policy: FAIL_RELOAD", "fail_open: True".to_owned(), &["envoy-fail-open"]),
        ("failure_policy: FAIL_RELOAD", "failure_policy: 3".to_owned(), &["envoy-fail-open"]),
        ("failure_policy: FAIL_RELOAD", "failure_policy: 2".to_owned(), &["envoy-failure-policy"]),
        (
            "path_with_escaped_slashes_action: REJECT_REQUEST",
            "path_with_escaped_slashes_action: 4".to_owned(),
            &["envoy-escaped-slashes"],
        ),
        ("          path_with_escaped_slashes_action: REJECT_REQUEST\n", String::new(), &["envoy-escaped-slashes"]),
        (
            "path_with_escaped_slashes_action: REJECT_REQUEST",
            "path_with_escaped_slashes_action: IMPLEMENTATION_SPECIFIC_DEFAULT".to_owned(),
            &["envoy-escaped-slashes"],
        ),
        // What stands twice.
        with(
            after("normalize_path: true", "\n          normalize_path: false"),
            &["envoy-duplicate-member", "envoy-normalize-path"],
        ),
        with(after("normalize_path: true", "\n          normalizePath: true"), &["envoy-duplicate-member"]),
        with(
            after("failure_policy: FAIL_RELOAD", "\n                failure_policy: FAIL_OPEN"),
            &["envoy-duplicate-member", "envoy-fail-open"],
        ),
        // Other ways to the backend.
        with(before("\n  clusters:\n", &LISTENER.replace("CLUSTER", "backend")), &["envoy-other-way"]),
        with(
            before(
                "\n  clusters:\n",
                &LISTENER.replace("cluster: CLUSTER", "weighted_clusters: {clusters: [{name: backend-requests, weight: 1}]}"),
            ),
            &["envoy-other-way"],
        ),
        with(before("\n  clusters:\n", TCP), &["envoy-other-way"]),
        with(
            before(
                MANAGER,
                "          upgrade_configs: [{upgrade_type: websocket, filters: [{name: router, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}]\n",
            ),
            &["envoy-other-way"],
        ),
        // The backend's own paths.
        ("\"version\": 1,", "\"version\": 1, \"mark_all\": true,".to_owned(), &["envoy-marked-route"]),
        (PUBLIC, public("match: {safe_regex: {regex: '.*'}}"), &["envoy-marked-route"]),
        (
            PUBLIC,
            public(
                "match: {path_match_policy: {name: t, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig, path_template: '/**'}}}",
            ),
            &["envoy-marked-route"],
        ),
        (PUBLIC, public("match: {prefix: /RESTATE/, case_sensitive: false}"), &["envoy-marked-route"]),
        (
            "match: {prefix: /api/}\n                route: {",
            "match: {prefix: /api/}\n                route: {prefix_rewrite: /, ".to_owned(),
            &["envoy-marked-route"],
        ),
        (
            "prefix: /\n                  headers:\n                  - name: x-edge-idempotency\n                    present_match: true\n",
            "prefix: /\n                  headers:\n                  - name: x-edge-idempotency\n                    string_match: {exact: nonsense}\n"
                .to_owned(),
            &["envoy-marked-route", "envoy-marked-route"],
        ),
        (
            "                  prefix: /\n                  headers:",
            "                  prefix: /other/\n                  headers:".to_owned(),
            &["envoy-marked-route"],
        ),
        with(
            before(
                "\n  clusters:\n",
                "            - {name: second, domains: [b.example.com], routes: [{match: {prefix: /api/}, route: {cluster: backend-requests, timeout: 60s}}]}\n",
            ),
            &["envoy-marked-route"],
        ),
        // Twice at the backend.
        (
            MARKED,
            route(
                "retry_policy_typed_config: {\"@type\": type.googleapis.com/envoy.config.route.v3.RetryPolicy, retry_on: 5xx}",
            ),
            &["envoy-keyless-retry"],
        ),
        (
            MARKED,
            route(
                "retry_policy: {retry_on: 5xx, retriable_request_headers: [{name: idempotency-key, present_match: false}]}",
            ),
            &["envoy-keyless-retry"],
        ),
        (MARKED, route("hedge_policy: {hedge_on_per_try_timeout: true}"), &["envoy-keyless-retry"]),
        (MARKED, route("request_mirror_policies: [{cluster: backend-requests}]"), &["envoy-keyless-retry"]),
        with(
            after(
                "  - name: backend-requests\n    type: STATIC\n",
                "    typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {\"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http_protocol_options: {}}, retry_policy: {retry_on: 5xx}}}\n",
            ),
            &["envoy-keyless-retry"],
        ),
        // The key and the path behind the filter.
        (
            "request_headers_to_remove: [x-edge-idempotency]",
            "request_headers_to_remove: [x-edge-idempotency, Idempotency-Key]".to_owned(),
            &["envoy-changed-request"],
        ),
        with(
            after("              domains: [\"*\"]\n", "              request_headers_to_remove: [idempotency-key]\n"),
            &["envoy-changed-request"],
        ),
        (MARKED, route("prefix_rewrite: /api/"), &["envoy-changed-request"]),
        // Buffers and times.
        (STREAMS, STREAMS.replace('}', ", initial_stream_window_size: 65536}"), &["envoy-buffer-limit"]),
        with(
            before(
                "          # 4. The filter",
                "          - {name: envoy.filters.http.buffer, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 1000}}\n",
            ),
            &["envoy-buffer-limit"],
        ),
        // The `Location` of refunds.create is made out of the answer; the routes' own limits are about requests.
        (
            "per_connection_buffer_limit_bytes: 1114112",
            "per_connection_buffer_limit_bytes: 32768".to_owned(),
            &["envoy-buffer-limit"],
        ),
        (
            "common_http_protocol_options: {",
            "common_http_protocol_options: {max_stream_duration: 5s, ".to_owned(),
            &["envoy-timeout"],
        ),
        // Callers.
        with(
            after("          - name: envoy.filters.http.jwt_authn\n", "            disabled: true\n"),
            &["envoy-identity-source"],
        ),
        (RULES, String::new(), &["envoy-identity-source"]),
        // Mentions that are no meanings.
        ("%TYPED_CEL(filter_state['wasm.edge_idempotency'])%", "edge_idempotency".to_owned(), &["envoy-access-log"]),
        (
            "- remove: x-edge-idempotency\n",
            "- append: {header: {key: x-edge-idempotency, value: \"1\"}}\n".to_owned(),
            &["envoy-client-mark"],
        ),
        ("- remove: x-edge-idempotency\n", "- remove: x-edge-idempotency-x\n".to_owned(), &["envoy-client-mark"]),
    ]
}

#[test]
fn each_form_of_a_mistake_is_found() {
    let demo = demo();
    let mut missed = Vec::new();
    for (right, wrong, lints) in edits() {
        assert!(demo.contains(right), "the demo has no {right}");
        let config = demo.replacen(right, &wrong, 1);
        let report = ConfiguredGateway::new(&config).report();
        let found: BTreeSet<&str> = names(&report).into_iter().collect();
        no_advice_is_there_already(&report, &config);
        if found != lints.iter().copied().collect() {
            missed.push(format!("{wrong}\nhas {found:?} for {lints:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

/// What a finding says to write does not stand in its line already: `member: value` in the help.
pub(super) fn no_advice_is_there_already(report: &serde_json::Value, config: &str) {
    for finding in report["findings"].as_array().unwrap() {
        let help = finding["help"].as_str().unwrap_or_default();
        let line = finding["line"].as_u64().and_then(|line| config.lines().nth(usize::try_from(line).unwrap() - 1));
        // This one names what stands there twice.
        let Some(line) = line.filter(|_| finding["lint"] != "envoy-streamed-requests") else { continue };
        for code in help.split('`').skip(1).step_by(2).filter(|code| code.contains(": ")) {
            assert!(!line.contains(code), "{} advises `{code}`, which is there", finding["lint"]);
        }
    }
}

#[test]
fn what_is_no_mistake_has_no_finding() {
    let demo = demo();
    let listener = "per_connection_buffer_limit_bytes: 1114112";
    let small = listener.replace("1114112", "131072");
    let big = PUBLIC.to_owned() + "                request_body_buffer_limit: 1114112\n";
    for edits in [
        vec![("normalize_path: true", "normalize_path: yes"), ("merge_slashes: true", "merge_slashes: \"T\"")],
        // Another backend, which no route with the mark leads to.
        vec![("\n  clusters:\n", &*(LISTENER.replace("CLUSTER", "unkey") + "\n  clusters:\n"))],
        vec![("request_body_buffer_limit: 1114112", "request_body_buffer_limit: 4096")],
        vec![(listener, &*small), (PUBLIC, &big), ("{body:/order}", "latest")],
        vec![(STREAMS, "max_concurrent_streams: 100, initial_stream_window_size: 1114112}")],
        vec![(
            "match: {prefix: /api/}\n                route: {",
            "match: {prefix: /api/}\n                route: {prefix_rewrite: /v2/, ",
        )],
        vec![("                    present_match: true\n", "                    string_match: {exact: \"1\"}\n")],
        vec![(
            PUBLIC,
            "name: closed\n                match: {prefix: /restate/}\n                direct_response: {status: 404}\n              - name: public\n                match: {prefix: /}\n",
        )],
        vec![(MANAGER, "          codec_type: AUTO\n          upgrade_configs: [{upgrade_type: websocket}]\n")],
        vec![(
            "edge_idempotency: \"%TYPED_CEL",
            "Edge_Idempotency: none\n                  edge_idempotency: \"%TYPED_CEL",
        )],
    ] {
        let mut config = demo.clone();
        for (right, other) in &edits {
            assert!(config.contains(right), "the demo has no {right}");
            config = config.replacen(right, other, 1);
        }
        let report = ConfiguredGateway::new(&config).report();
        assert_eq!(names(&report), [""; 0], "{edits:?}: {report}");
    }
}

/// The filter keeps headers back for bodies that a policy has it wait for: a generic backend's errors are no such bodies by default.
#[test]
fn a_policy_that_waits_for_no_body_needs_no_held_headers() {
    let rendered = render(&root().join("policies/examples/generic-backend.json"));
    let held = "allow_on_headers_stop_iteration: true";
    assert!(
        rendered.contains(held)
            && rendered.contains("\"version\": 1,")
            && rendered.contains("\"endpoint\": \"payments.create\",")
    );
    let plain = rendered.replacen(held, "allow_on_headers_stop_iteration: false", 1);
    assert_eq!(names_of(&plain), names_of(&rendered));
    for (place, more) in [
        ("\"version\": 1,", "\"answers\": {\"clean_errors\": true},"),
        ("\"endpoint\": \"payments.create\",", "\"clean_errors\": true,"),
    ] {
        let cleans = |config: &str| names_of(&config.replacen(place, &format!("{place} {more}"), 1));
        assert!(!cleans(&rendered).iter().any(|lint| lint == "envoy-stop-iteration"), "{more}");
        assert!(cleans(&plain).iter().any(|lint| lint == "envoy-stop-iteration"), "{more}");
    }
}

/// The lints of a configuration.
fn names_of(config: &str) -> Vec<String> {
    names(&ConfiguredGateway::new(config).report()).into_iter().map(str::to_owned).collect()
}

/// A filter that stands where nothing around it can be looked at does not look judged.
#[test]
fn what_cannot_be_judged_is_told() {
    let demo = demo();
    let start = demo.find("          - name: edge-idempotency\n").unwrap();
    let end = demo.find("          - name: envoy.filters.http.router\n").unwrap();
    let alone: String =
        demo[start..end].lines().map(|line| format!("{}\n", line.strip_prefix("          ").unwrap_or(line))).collect();
    assert_eq!(names_of(&alone), ["not-seen"]);
    let elsewhere = demo[..start].to_owned() + &demo[end..] + "other:\n" + &alone;
    assert!(names_of(&elsewhere).contains(&"envoy-no-filter".to_owned()), "{:?}", names_of(&elsewhere));
    // A connection manager in a TypedStruct is one.
    let manager = "\"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n";
    let from = demo.find(manager).unwrap() + manager.len();
    let to = demo.find("\n  clusters:\n").unwrap();
    let body: String = demo[from..to].lines().map(|line| format!("  {line}\n")).collect();
    let wrapped = format!(
        "{}\"@type\": type.googleapis.com/xds.type.v3.TypedStruct\n          type_url: {}          value:\n{body}{}",
        &demo[..from - manager.len()],
        manager.replacen("\"@type\": ", "", 1),
        &demo[to..]
    );
    assert_eq!(names_of(&wrapped), [""; 0]);
    assert_eq!(names_of(&wrapped.replace("normalize_path: true", "normalize_path: false")), ["envoy-normalize-path"]);
}

/// Two listeners that share a chain by an alias have the filter's mistakes once.
#[test]
fn a_chain_that_two_listeners_share_is_told_once() {
    let shared = LISTENER.replace("CLUSTER", "backend").replace(
        "          - {name: router, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}\n",
        "",
    );
    let shared = shared.replacen("          http_filters:\n", "          http_filters: *chain\n", 1);
    let config = demo()
        .replacen("          http_filters:\n", "          http_filters: &chain\n", 1)
        .replacen("\n  clusters:\n", &format!("{shared}\n  clusters:\n"), 1)
        .replacen("failure_policy: FAIL_RELOAD", "failure_policy: FAIL_OPEN", 1);
    let found = names_of(&config);
    assert_eq!(found.iter().filter(|lint| *lint == "envoy-fail-open").count(), 1, "{found:?}");
    assert!(found.contains(&"envoy-normalize-path".to_owned()), "{found:?}");
}

/// Envoy reads the first document of a file only.
#[test]
fn a_filter_in_a_second_document_is_told() {
    let gateway = ConfiguredGateway::new(&format!("static_resources: {{}}\n---\n{}", demo()));
    let report = gateway.report();
    assert_eq!(names(&report), ["envoy-no-filter"]);
    assert!(report["findings"][0]["message"].as_str().unwrap().contains("first document"), "{report}");
}

/// The demo with secrets of SDS: its module is a WebAssembly one.
#[test]
fn secrets_of_sds_need_a_dynamic_module() {
    let policy = json!({
        "version": 1, "backend": {"kind": "generic"},
        "routes": [{"endpoint": "hooks", "path": "/hooks", "policy": "REQUIRED_B", "webhook": {"provider": "stripe", "id": "wh_01JABC12"}}],
        "webhooks": {"static": {"wh_01JABC12": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [
            {"sds": "stripe", "config_source": {"path_config_source": {"path": "/etc/envoy/stripe.yaml"}}}]}}},
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.json");
    std::fs::write(&file, policy.to_string()).unwrap();
    let found =
        |config: &str| names_of(config).into_iter().filter(|name| name == "envoy-missing-secret").collect::<Vec<_>>();
    assert_eq!(found(&render_with(&file, &["--dynamic-module"])), [""; 0]);
    // In the place of the dynamic module the other one.
    let demo = demo();
    let secret = r#"{"env": "STRIPE_WHSEC"}"#;
    for other in
        [r#"{"sds": "stripe"}"#, r#"{"sds": "stripe", "config_source": {"path_config_source": {"path": "/a"}}}"#]
    {
        assert!(demo.contains(secret));
        assert_eq!(found(&demo.replacen(secret, other, 1)), ["envoy-missing-secret"], "{other}");
    }
    for gateway in ["envoy", "krakend"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_edge-idempotency"));
        command.args(["render", gateway, "--upstream=backend=http://a", "--policy"]).arg(&file);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && told.contains("SDS"), "{gateway}: {told}");
    }
}

/// What scripts of another origin may send and read, in each form in which Envoy takes it.
#[test]
fn scripts_may_send_keys_and_read_answers() {
    let config =
        render_with(&root().join("policies/examples/payments.json"), &["--cors-origin=https://app.example.com"]);
    let line = |name: &str| config.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    let (allow, expose) = (line("allow_headers:"), line("expose_headers:"));
    let found = |old: &str, new: &str| {
        assert!(config.contains(old), "{old}");
        names_of(&config.replacen(old, new, 1))
    };
    assert_eq!(names_of(&config), [""; 0]);
    let put = |line: &str, value: &str| format!("{}: {value}", line.split(':').next().unwrap());
    for wrong in
        ["authorization, content-type", "idempotency_key", "\"\"", "\"*\"\n                  allow_credentials: true"]
    {
        assert_eq!(found(allow, &put(allow, wrong)), ["envoy-cors"], "{wrong}");
    }
    for right in ["\"*\"", "Authorization,  Idempotency-Key"] {
        assert_eq!(found(allow, &put(allow, right)), [""; 0], "{right}");
    }
    assert_eq!(found(allow, ""), ["envoy-cors"]);
    assert_eq!(found(expose, ""), ["envoy-cors"]);
    assert_eq!(found("idempotent-replayed, ", ""), ["envoy-cors"]);
    assert_eq!(found(expose, &put(expose, "\"*\"")), [""; 0]);
    // A route's own rules count as well, and a filter that is not there has none.
    let route = "              - name: public\n";
    let own = "                typed_per_filter_config: {envoy.filters.http.cors: {\"@type\": \
               type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy, allow_headers: a, expose_headers: \"*\"}}\n";
    assert_eq!(found(route, &format!("{route}{own}")), ["envoy-cors"]);
    let filter = "          - name: envoy.filters.http.cors\n";
    assert!(config.contains(filter));
    let off = config.replacen(filter, &format!("{filter}            disabled: true\n"), 1).replacen(allow, "", 1);
    assert_eq!(names_of(&off), [""; 0]);
}

/// Resources of Kubernetes that have requests tried again: they cannot ask for a key.
#[test]
fn retries_of_resources_are_told() {
    let route = |rule: &str| {
        format!("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nspec:\n  rules:\n  - {rule}\n")
    };
    let policy = |retry: &str| format!("kind: BackendTrafficPolicy\nspec: {{retry: {retry}}}\n");
    let istio = |retries: &str| format!("kind: VirtualService\nspec: {{http: [{{retries: {retries}}}]}}\n");
    for (resource, is_told) in [
        (route("retry: {codes: [503], attempts: 2}"), true),
        (route("retry: {attempts: 1}"), true),
        (route("{matches: [{path: {value: /}}], retry: {backoff: 1s}}"), true),
        (
            route(
                "{matches: [{headers: [{name: Idempotency-Key, type: RegularExpression, value: .+}]}], retry: {attempts: 2}}",
            ),
            false,
        ),
        (route("retry: {attempts: 0}"), false),
        (route("timeouts: {request: 60s}"), false),
        (policy("{numRetries: 2}"), true),
        (policy("{retryOn: {triggers: [connect-failure], httpStatusCodes: [503]}}"), true),
        (policy("{retryOn: {triggers: [connect-failure, refused-stream]}}"), false),
        (istio("{attempts: 2, retryOn: \"5xx,reset\"}"), true),
        (istio("{attempts: 2, retryOn: \"connect-failure,unavailable\"}"), false),
        (istio("{attempts: 2}"), false),
    ] {
        // Also behind other documents.
        for text in [resource.clone(), format!("kind: Other\n---\n{resource}")] {
            let found = names_of(&text);
            assert_eq!(found.contains(&"envoy-keyless-retry".to_owned()), is_told, "{text}: {found:?}");
        }
    }
}
