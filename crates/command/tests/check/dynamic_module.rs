//! `check --envoy` of the filter as a dynamic module: what `render envoy --dynamic-module` writes is clean, and each mistake that is planted
//! in it is found.

use super::gateways::ConfiguredGateway;
use super::names;
use super::rendered::{render_with, root};
use std::collections::BTreeSet;

/// The lints that only a dynamic module has.
pub(super) const LINTS: [&str; 3] =
    ["envoy-dynamic-module-unload", "envoy-dynamic-module-metadata", "envoy-dynamic-module-metrics"];

fn gateway() -> String {
    render_with(&root().join("policies/examples/payments.json"), &["--dynamic-module"])
}

fn found(config: &str) -> BTreeSet<String> {
    names(&ConfiguredGateway::new(config).report()).into_iter().map(str::to_owned).collect()
}

#[test]
fn what_render_writes_is_clean() {
    assert_eq!(found(&gateway()), BTreeSet::new());
}

const OPERATOR: &str = "%DYNAMIC_METADATA(envoy.filters.http.jwt_authn)%";
const FILTER: &str = "          - name: edge-idempotency\n";
const STATE: &str = "          - name: envoy.filters.http.set_filter_state\n";
const ROUTER: &str = "          - name: envoy.filters.http.router\n";

#[test]
fn each_planted_mistake_is_found_and_nothing_else() {
    let clean = gateway();
    let start = clean.find(STATE).unwrap();
    let state = &clean[start..start + clean[start..].find("\n\n").unwrap() + 1];
    let authentication = clean.find("          - name: envoy.filters.http.jwt_authn\n").unwrap();
    let without = clean.replacen(state, "", 1);
    let before = [&clean[..authentication], state, &without[authentication..]].concat();
    let replaced = |right: &str, wrong: &str| {
        assert!(clean.contains(right), "{right}");
        clean.replacen(right, wrong, 1)
    };
    let planted = [
        ("envoy-dynamic-module-unload", replaced("do_not_close: true", "do_not_close: false"), None),
        ("envoy-dynamic-module-metadata", without.clone(), None),
        ("envoy-dynamic-module-metadata", replaced(STATE, &format!("{STATE}            disabled: true\n")), None),
        ("envoy-dynamic-module-metadata", replaced("edge_idempotency.metadata.", "metadata."), None),
        ("envoy-dynamic-module-metadata", replaced(OPERATOR, &OPERATOR.replace(")%", ":jwt)%")), None),
        ("envoy-dynamic-module-metadata", replaced(OPERATOR, &format!("claims: {OPERATOR}")), None),
        ("envoy-dynamic-module-metadata", replaced("envoy.string", "envoy.hashable_string"), None),
        (
            "envoy-dynamic-module-metadata",
            replaced("{text_format_source: {inline_string: ", "{json_format: {inline_string: "),
            None,
        ),
        ("envoy-dynamic-module-metadata", before, None),
        (
            "envoy-dynamic-module-metadata",
            without.replacen(ROUTER, &format!("{state}{ROUTER}"), 1),
            Some("envoy-filter-order"),
        ),
        (
            "envoy-dynamic-module-metrics",
            replaced("strip_custom_stat_prefix: true", "strip_custom_stat_prefix: false"),
            None,
        ),
        (
            "envoy-access-log",
            replaced("metadata.typed_filter_metadata['edge_idempotency']", "filter_state['wasm.edge_idempotency']"),
            None,
        ),
        ("envoy-configuration", replaced("filter_config:", "other:"), None),
        ("not-seen", replaced("google.protobuf.StringValue", "google.protobuf.Struct"), None),
        ("envoy-disabled", replaced(FILTER, &format!("{FILTER}            disabled: true\n")), None),
        ("envoy-buffer-limit", replaced("limit_bytes: 1114112", "limit_bytes: 1048576"), None),
    ];
    let mut seen = BTreeSet::new();
    for (lint, config, also) in planted {
        let expected: BTreeSet<String> = also.into_iter().chain([lint]).map(str::to_owned).collect();
        assert_eq!(found(&config), expected, "{config}");
        seen.insert(lint);
    }
    assert!(LINTS.iter().all(|lint| seen.contains(lint)), "{seen:?}");
}

/// The lines stand in the finding as they can be put into the file.
#[test]
fn the_lines_to_add_are_printed() {
    let clean = gateway();
    let start = clean.find(STATE).unwrap();
    let state = &clean[start..start + clean[start..].find("\n\n").unwrap() + 1];
    let report = ConfiguredGateway::new(&clean.replacen(state, "", 1)).report();
    let help = report["findings"][0]["help"].as_str().unwrap();
    let (said, lines) = help.split_once('\n').unwrap();
    assert_eq!(said, "Put this before the filter, behind authentication:");
    let indented: String = lines.lines().map(|line| format!("          {line}\n")).collect();
    assert_eq!(indented, state);
}

/// `:` stands between the segments of the operator's argument.
#[test]
fn a_namespace_that_no_operator_can_name_is_found() {
    let config = gateway().replacen("\"metadata\": [\"envoy.filters.http.jwt_authn\"", "\"metadata\": [\"a:b\"", 1);
    assert!(found(&config).contains("envoy-dynamic-module-metadata"));
}
