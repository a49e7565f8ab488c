//! Headers that name the caller: a filter owns them, or the gateway removes them.

use super::names_of;
use crate::check::gateways::demo;
use crate::check::rendered::{render, root};

/// Headers that name the caller, and the filter that owns them.
#[test]
fn headers_that_name_the_caller_have_an_owner_or_are_removed() {
    let rendered = render(&root().join("policies/examples/api-keys.json"));
    let removed: String =
        rendered.lines().filter(|line| !line.contains("- remove: \"x-auth")).map(|line| format!("{line}\n")).collect();
    assert_ne!(removed, rendered);
    let ours = "          - name: edge-idempotency\n";
    let authz = |more: &str| {
        format!(
            "          - name: authz\n{more}            typed_config: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, \
             grpc_service: {{envoy_grpc: {{cluster_name: a}}}}FAIL}}\n{ours}"
        )
    };
    let owned = |config: &str, filter: &str| names_of(&config.replacen(ours, filter, 1));
    assert_eq!(names_of(&rendered), ["envoy-identity-source"]);
    assert_eq!(names_of(&removed), ["envoy-identity-headers"]);
    assert_eq!(owned(&removed, &authz("").replace("FAIL", "")), [""; 0]);
    assert_eq!(owned(&removed, &authz("            disabled: true\n").replace("FAIL", "")), ["envoy-identity-headers"]);
    assert_eq!(owned(&removed, &authz("").replace("FAIL", ", failure_mode_allow: true")), ["envoy-identity-headers"]);
    assert_eq!(owned(&rendered, &authz("").replace("FAIL", ", failure_mode_allow: true")), [""; 0]);
    let off = "              domains: [\"*\"]\n              typed_per_filter_config: {authz: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute, disabled: true}}\n";
    let per_route = removed.replacen("              domains: [\"*\"]\n", off, 1);
    assert_eq!(owned(&per_route, &authz("").replace("FAIL", "")), ["envoy-identity-headers"]);
}

/// A token's payload in a header that jwt_authn sets, and removes only where it verifies a token of that provider.
#[test]
fn a_payload_has_a_provider_and_no_client_can_write_it() {
    let metadata = "\"metadata\": [\"envoy.filters.http.jwt_authn\", \"jwt\"]";
    let header = "\"headers_owned_by\": \"envoy.filters.http.jwt_authn\", \"payload_header\": \"X-Payload\"";
    let early = "              - remove: x-edge-idempotency\n";
    let plain =
        demo().replace(metadata, header).replace("payload_in_metadata: jwt", "forward_payload_header: x-payload");
    let removed = plain.replacen(early, &format!("{early}              - remove: x-payload\n"), 1);
    let all = plain.replacen(
        "match: {prefix: /api/}\n                requires",
        "match: {prefix: /}\n                requires",
        1,
    );
    assert!(plain != demo() && removed != plain && all != plain);
    assert_eq!(names_of(&removed), [""; 0]);
    assert_eq!(names_of(&all), [""; 0], "it verifies every request's token");
    assert_eq!(names_of(&plain), ["envoy-identity-headers"], "a request that no rule fits");
    let found = |right: &str, wrong: &str| {
        let config = all.replacen(right, wrong, 1);
        assert_ne!(config, all, "{right}");
        names_of(&config)
    };
    let provider = "forward_payload_header: x-payload";
    let free = "              rules:\n              - match: {prefix: /free}\n";
    assert_eq!(found("              rules:\n", free), ["envoy-identity-headers"], "a rule that asks for no token");
    let other = "              providers:\n                other: {issuer: o, local_jwks: {inline_string: '{}'}}\n";
    assert_eq!(found("              providers:\n", other), ["envoy-identity-headers"], "a token of another provider");
    let both = removed.replacen("              providers:\n", other, 1);
    assert_eq!(names_of(&both), [""; 0], "it is removed before");
    for wrong in [
        "forward_payload_header: x-other",
        "payload_in_metadata: jwt",
        "claim_to_headers: [{header_name: x-payload, claim_name: sub}]",
    ] {
        assert_eq!(found(provider, wrong), ["envoy-identity-source"], "{wrong}");
    }
    let off = removed.replacen(
        "          - name: envoy.filters.http.jwt_authn\n",
        "          - name: envoy.filters.http.jwt_authn\n            disabled: true\n",
        1,
    );
    assert_eq!(names_of(&off), ["envoy-identity-source"]);
    let rules = all.find("              rules:\n").unwrap();
    let filter = rules + all[rules..].find("\n\n").unwrap();
    let without = format!("{}{}", &all[..rules], &all[filter..]);
    assert_eq!(names_of(&without), ["envoy-identity-source"]);
}

/// Claims that jwt_authn writes into headers are those that the source reads.
#[test]
fn claims_in_headers_have_a_provider() {
    let rendered =
        render(&root().join("policies/examples/api-keys.json")).replace("http.ext_authz\"", "http.jwt_authn\"");
    let claims = |names: &[&str]| {
        let claims: Vec<_> = names.iter().map(|name| format!("{{header_name: {name}, claim_name: c}}")).collect();
        let filter = format!(
            "          - name: jwt\n            typed_config: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication, \
             providers: {{a: {{issuer: i, forward: true, claim_to_headers: [{}]}}}}, rules: [{{match: {{prefix: /}}, requires: {{provider_name: a}}}}]}}\n          - name: edge-idempotency\n",
            claims.join(", ")
        );
        names_of(&rendered.replacen("          - name: edge-idempotency\n", &filter, 1))
    };
    assert_eq!(claims(&["x-auth-tenant", "x-auth-project", "x-auth-subject"]), [""; 0]);
    assert_eq!(claims(&["x-auth-tenant", "x-auth-subject"]), ["envoy-identity-source"]);
}
