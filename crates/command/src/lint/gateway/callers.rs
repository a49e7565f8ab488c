//! Who is calling: tokens whose claims nobody passes on, and headers that name the caller and that a client can write itself.

use super::GatewayFindings;
use super::find::FilterChain;
use super::manager::{AUTHENTICATION, removes_early};
use super::needs::{CheckedNeeds, OwnedHeaders};
use crate::lints::diagnostics::tree::{SpannedMember, SpannedNode};

/// The namespace of the metadata with claims.
const JWT_AUTHN: &str = "envoy.filters.http.jwt_authn";

pub(super) fn check(chain: &FilterChain<'_>, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let own = filters.get(chain.index).map_or(0..0, |own| own.span.clone());
    let before: Vec<&SpannedNode> = filters.iter().take(chain.index).collect();
    for (namespace, key) in &needs.metadata {
        let Some((message, _)) = AUTHENTICATION.iter().find(|(_, writes)| writes == namespace) else { continue };
        metadata(chain, &before, needs, (namespace, key, message), &own, findings);
    }
    tokens(&before, needs, findings);
    for headers in &needs.headers {
        owned(chain, &before, headers, &own, findings);
    }
}

/// Metadata that nobody writes.
fn metadata(
    chain: &FilterChain<'_>,
    before: &[&SpannedNode],
    needs: &CheckedNeeds,
    (namespace, key, message): (&str, &str, &str),
    own: &std::ops::Range<usize>,
    findings: &mut GatewayFindings,
) {
    let all: Vec<&SpannedNode> = before
        .iter()
        .copied()
        .filter(|filter| filter.get("typed_config").is_some_and(|typed| typed.is_type(message)))
        .collect();
    let enabled = || all.iter().copied().filter(|filter| !filter.is_true(&["disabled"]));
    let by_discovery = before.iter().any(|filter| filter.get("config_discovery").is_some());
    if enabled().next().is_none() && !by_discovery {
        let what = if all.is_empty() {
            "no filter before this one writes it"
        } else {
            "the filter that writes it is switched off"
        };
        let text = format!("an identity source of the policy reads `{namespace}`, and {what}");
        let place = all.first().and_then(|filter| filter.member("disabled"));
        findings.at_member("envoy-identity-source", place, own, text);
    }
    if message != "JwtAuthentication" {
        return;
    }
    enabled().for_each(|filter| without_rules(chain, filter, findings));
    let providers = || enabled().flat_map(providers);
    if let Some(first) = enabled().next()
        && !providers().any(|provider| leaves(provider) == Some(key))
    {
        // A provider whose claims nobody reads is the one that is meant.
        let wrong = providers().filter_map(|provider| provider.value.member(PAYLOAD));
        let wrong = wrong.filter(|member| member.value.text().is_some_and(|name| !is_read(needs, namespace, name)));
        let text = match wrong.clone().next().and_then(|member| member.value.text()) {
            Some(name) => {
                format!(
                    "this provider leaves the claims under `{name}`, and an identity source of the policy reads `{key}`"
                )
            }
            None => format!("no provider of tokens has `{PAYLOAD}: {key}`, which an identity source reads"),
        };
        findings.at_member("envoy-token-claims", wrong.clone().next(), &span(first), text);
    }
}

/// The configuration of a filter.
fn span(filter: &SpannedNode) -> std::ops::Range<usize> {
    filter.get("typed_config").map_or(filter.span.clone(), |typed| typed.span.clone())
}

/// A jwt_authn that verifies no token.
fn without_rules(chain: &FilterChain<'_>, filter: &SpannedNode, findings: &mut GatewayFindings) {
    if !has_rules(chain, filter) {
        let text = "jwt_authn has no `rules`, so it verifies no token and writes no claims";
        findings.add("envoy-identity-source", span(filter), text);
    }
}

/// The member of a provider that names the metadata for the claims.
const PAYLOAD: &str = "payload_in_metadata";

/// The providers of tokens of a jwt_authn.
fn providers(filter: &SpannedNode) -> &[SpannedMember] {
    let providers = filter.get("typed_config").and_then(|typed| typed.get("providers"));
    providers.map(SpannedNode::members).unwrap_or_default()
}

/// The member of a provider that names the header for the payload.
const PAYLOAD_HEADER: &str = "forward_payload_header";

/// Whether a provider sets a header: to the payload of the token, or to a claim.
fn sets(provider: &SpannedMember, header: &str, is_payload: bool) -> bool {
    let is_it = |name: Option<&str>| name.is_some_and(|name| name.eq_ignore_ascii_case(header));
    let claims = provider.value.get("claim_to_headers").map(SpannedNode::items).unwrap_or_default();
    match is_payload {
        true => is_it(provider.value.text_at(&[PAYLOAD_HEADER])),
        false => claims.iter().any(|claim| is_it(claim.text_at(&["header_name"]))),
    }
}

/// Headers of claims that no provider sets, and those that jwt_authn leaves as the client wrote them: it removes them only while it
/// verifies a token for a provider that sets them. `open` are those that nothing removed before.
fn set_by_tokens(filter: &SpannedNode, headers: &OwnedHeaders, open: &[&str], findings: &mut GatewayFindings) {
    let is_set = |provider: &SpannedMember, name: &str| sets(provider, name, headers.is_payload);
    for name in headers.names.iter().filter(|name| !providers(filter).iter().any(|provider| is_set(provider, name))) {
        let member = if headers.is_payload { PAYLOAD_HEADER } else { "claim_to_headers" };
        let text =
            format!("no provider of tokens sets `{name}` by `{member}`, and an identity source of the policy reads it");
        findings.add("envoy-token-claims", span(filter), text);
    }
    let rules =
        filter.get("typed_config").and_then(|typed| typed.get("rules")).map(SpannedNode::items).unwrap_or_default();
    let asks = |rule: &&SpannedNode| rule.get("requires").is_some() || rule.get("requirement_name").is_some();
    let is_all = |rule: &SpannedNode| {
        let match_ = rule.get("match").map(SpannedNode::members).unwrap_or_default();
        matches!(match_, [only] if only.name == "prefix" && only.value.text() == Some("/"))
    };
    for name in open {
        let other = providers(filter).iter().find(|provider| !is_set(provider, name));
        let (place, text) = if let Some(rule) = rules.iter().find(|rule| !asks(rule)) {
            (rule.span.clone(), format!("this rule asks for no token, so a client can write `{name}` itself"))
        } else if !rules.is_empty() && !rules.iter().any(is_all) {
            (span(filter), format!("a client can write `{name}` itself where no rule of jwt_authn fits"))
        } else if let Some(other) = other.filter(|_| providers(filter).len() > 1) {
            (other.name_span.clone(), format!("a client with a token of `{}` can write `{name}` itself", other.name))
        } else {
            continue;
        };
        findings.add("envoy-identity-headers", place, text);
    }
}

/// The metadata in which a provider leaves claims.
fn leaves(provider: &SpannedMember) -> Option<&str> {
    provider.value.text_at(&[PAYLOAD])
}

fn is_read(needs: &CheckedNeeds, namespace: &str, name: &str) -> bool {
    needs.metadata.iter().any(|(read, key)| read == namespace && key == name)
}

/// Providers whose claims nobody reads, and those that take the token from an API that may need it.
fn tokens(before: &[&SpannedNode], needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let jwt = |filter: &&&SpannedNode| {
        filter.get("typed_config").is_some_and(|typed| typed.is_type("JwtAuthentication"))
            && !filter.is_true(&["disabled"])
    };
    let all: Vec<&SpannedMember> = before.iter().filter(jwt).flat_map(|filter| providers(filter)).collect();
    let read: Vec<&String> =
        needs.metadata.iter().filter(|(namespace, _)| namespace == JWT_AUTHN).map(|(_, key)| key).collect();
    let all_are_there = read.iter().all(|key| all.iter().any(|provider| leaves(provider) == Some(key)));
    for provider in all {
        if !read.is_empty()
            && all_are_there
            && let Some(name) = leaves(provider).filter(|name| read.iter().all(|key| key != name))
            && !needs
                .headers
                .iter()
                .any(|headers| headers.names.iter().any(|name| sets(provider, name, headers.is_payload)))
        {
            let text =
                format!("no identity source of the policy reads `{name}`, where this provider leaves the claims");
            findings.at_member("envoy-unread-claims", provider.value.member(PAYLOAD), &provider.name_span, text);
        }
        if needs.passes_tokens() && !provider.value.is_true(&["forward"]) {
            let text = format!("the provider `{}` has no `forward: true`, so the API gets no token", provider.name);
            findings.at_member("envoy-token-removed", provider.value.member("forward"), &provider.name_span, text);
        }
    }
}

/// Whether jwt_authn verifies tokens: by rules of its own, or because a route asks for a requirement.
fn has_rules(chain: &FilterChain<'_>, filter: &SpannedNode) -> bool {
    let typed = filter.get("typed_config");
    let rules = typed.and_then(|typed| typed.get("rules")).is_some_and(|rules| !rules.items().is_empty());
    let by_state = typed.is_some_and(|typed| typed.get("filter_state_rules").is_some());
    let name = filter.text_at(&["name"]).unwrap_or_default();
    let routes = chain.manager.get("route_config");
    let mut is_asked = routes.is_none();
    if let Some(routes) = routes {
        routes.visit(&mut |node| is_asked |= per_filter(node, name).is_some());
    }
    rules || by_state || is_asked
}

/// The member for a filter in the `typed_per_filter_config` of a value.
pub(super) fn per_filter<'t>(node: &'t SpannedNode, name: &str) -> Option<&'t SpannedMember> {
    let members = node.get("typed_per_filter_config").map(SpannedNode::members).unwrap_or_default();
    members.iter().rev().find(|member| member.name == name)
}

/// Whether a filter is the one of this name: it is called so, or its message is of the extension of this name.
pub(super) fn is_called(filter: &SpannedNode, name: &str) -> bool {
    let extension = name.rsplit('.').next().unwrap_or(name);
    let message = filter.text_at(&["typed_config", "@type"]).unwrap_or_default();
    filter.text_at(&["name"]) == Some(name) || message.contains(&format!(".filters.http.{extension}.v"))
}

/// Headers that name the caller, and the filter that the policy says owns them.
fn owned(
    chain: &FilterChain<'_>,
    before: &[&SpannedNode],
    headers: &OwnedHeaders,
    own: &std::ops::Range<usize>,
    findings: &mut GatewayFindings,
) {
    let owner = &headers.owner;
    let open: Vec<&str> =
        headers.names.iter().map(String::as_str).filter(|name| !removes_early(chain.manager, name)).collect();
    let open_names = open.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let filters: Vec<&SpannedNode> = before.iter().copied().filter(|filter| is_called(filter, owner)).collect();
    let Some(filter) = filters.iter().find(|filter| !filter.is_true(&["disabled"])) else {
        let is_off = filters.first().and_then(|filter| filter.member("disabled"));
        let what = if is_off.is_some() { "is switched off" } else { "does not come before this one" };
        if open.is_empty() {
            let text = format!("the policy takes identities from headers of `{owner}`, and this filter {what}");
            findings.at_member("envoy-identity-source", is_off, own, text);
        } else {
            let text = format!("the filter `{owner}` {what}, so a client can write {open_names} itself");
            findings.at_member("envoy-identity-headers", is_off, own, text);
        }
        return;
    };
    if filter.get("typed_config").is_some_and(|typed| typed.is_type("JwtAuthentication")) {
        without_rules(chain, filter, findings);
        set_by_tokens(filter, headers, &open, findings);
    }
    if open.is_empty() {
        return;
    }
    let typed = filter.get("typed_config");
    if let Some(allow) = typed.and_then(|typed| typed.member("failure_mode_allow"))
        && typed.is_some_and(|typed| typed.is_true(&["failure_mode_allow"]))
    {
        let text = format!("while the service of `{owner}` fails, a client can write {open_names} itself");
        findings.at_member("envoy-identity-headers", Some(allow), own, text);
    }
    let Some(routes) = chain.manager.get("route_config") else { return };
    let name = filter.text_at(&["name"]).unwrap_or_default();
    routes.visit(&mut |node| {
        if let Some(member) = per_filter(node, name)
            && member.value.is_true(&["disabled"])
        {
            let text = format!("`{name}` is off here, so a client can write {open_names} itself");
            findings.add("envoy-identity-headers", member.name_span.clone(), text);
        }
    });
}
