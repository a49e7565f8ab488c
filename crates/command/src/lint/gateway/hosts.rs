//! Virtual hosts that do not fit the hosts of the policy's routes.

use super::find::FilterChain;
use super::needs::CheckedNeeds;
use super::route::leads_to;
use super::{GatewayFindings, member_span};
use crate::lint::gateway_list::{ENVOY_OPEN_HOST, ENVOY_UNSERVED_HOST};
use crate::lints::diagnostics::tree::SpannedNode;
use std::collections::BTreeSet;

pub(super) fn check(chain: &FilterChain<'_>, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let Some(list) = chain.manager.get("route_config").and_then(|config| config.member("virtual_hosts")) else {
        return;
    };
    let Some(first) = needs.route_hosts.first() else { return };
    let virtual_hosts: Vec<VirtualHost<'_>> = list.value.items().iter().map(VirtualHost::of).collect();
    for host in &needs.route_hosts {
        // Of a wildcard's hosts some are enough.
        let is_served = |(_, pattern): &(_, Pattern)| pattern.takes(host) || pattern.is_within(host);
        if !virtual_hosts.iter().any(|one| one.domains.iter().any(is_served)) {
            let message = format!("the policy has routes for `{host}`, and no virtual host takes this host");
            findings.add(&ENVOY_UNSERVED_HOST, member_span(list), message);
        }
    }
    let Some(unmatched) = needs.forwards_unmatched() else { return };
    let is_of_policy = |(_, pattern): &(_, Pattern)| {
        needs.route_hosts.iter().any(|host| pattern.takes(host) || pattern.is_within(host))
    };
    let of_policy = virtual_hosts.iter().filter(|one| one.domains.iter().any(is_of_policy));
    let clusters: BTreeSet<&str> = of_policy.flat_map(|one| &one.clusters).copied().collect();
    for one in virtual_hosts.iter().filter(|one| one.clusters.iter().any(|name| clusters.contains(name))) {
        for (domain, pattern) in &one.domains {
            if !needs.route_hosts.iter().any(|host| pattern.is_within(host)) {
                let message = format!(
                    "`{}` takes hosts that no route of the policy names, and `\"unmatched\": \"{unmatched}\"` forwards what comes \
                     there: with such a `Host` a client gets around the routes of `{first}`",
                    domain.text().unwrap_or_default()
                );
                findings.add(&ENVOY_OPEN_HOST, domain.span.clone(), message);
            }
        }
    }
}

/// A virtual host: its domains, and the clusters that it leads to.
struct VirtualHost<'t> {
    domains: Vec<(&'t SpannedNode, Pattern)>,
    clusters: Vec<&'t str>,
}

impl<'t> VirtualHost<'t> {
    fn of(node: &'t SpannedNode) -> Self {
        let domains = node.get("domains").map(SpannedNode::items).unwrap_or_default();
        let routes = node.get("routes").map(SpannedNode::items).unwrap_or_default();
        let actions = routes.iter().filter_map(|route| route.get("route"));
        Self {
            domains: domains.iter().filter_map(|domain| Some((domain, Pattern::of(domain.text()?)))).collect(),
            clusters: actions.flat_map(|action| leads_to(action).into_iter().map(|(_, name)| name)).collect(),
        }
    }
}

/// A domain as Envoy reads it, whatever its letter case.
enum Pattern {
    /// `api.example.com`
    Exact(String),
    /// `*.example.com` or `*-api.example.com`: the text behind the `*`; of `*` it is empty
    Suffix(String),
    /// `api.*`: the text before the `*`
    Prefix(String),
}

impl Pattern {
    fn of(domain: &str) -> Self {
        let domain = domain.to_ascii_lowercase();
        match (domain.strip_prefix('*'), domain.strip_suffix('*')) {
            (Some(suffix), _) => Self::Suffix(suffix.to_owned()),
            (None, Some(prefix)) => Self::Prefix(prefix.to_owned()),
            (None, None) => Self::Exact(domain),
        }
    }

    /// Whether it takes a host of a route, or every host of a wildcard.
    fn takes(&self, host: &str) -> bool {
        match self {
            Self::Exact(domain) => domain == host,
            Self::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            Self::Prefix(prefix) => host.len() > prefix.len() && host.starts_with(prefix.as_str()),
        }
    }

    /// Whether each host that it takes is this host of a route, or one of its wildcard.
    fn is_within(&self, host: &str) -> bool {
        match (self, host.strip_prefix('*')) {
            (Self::Exact(domain), None) => domain == host,
            (Self::Exact(domain), Some(suffix)) => domain.len() > suffix.len() && domain.ends_with(suffix),
            (Self::Suffix(own), Some(suffix)) => own.ends_with(suffix),
            (Self::Suffix(_), None) | (Self::Prefix(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_takes_hosts_and_is_within_them() {
        for (domain, host, takes, within) in [
            ("api.example.com", "api.example.com", true, true),
            ("API.example.com", "api.example.com", true, true),
            ("api.example.com:443", "api.example.com", false, false),
            ("www.example.com", "api.example.com", false, false),
            ("*", "api.example.com", true, false),
            ("*", "*.example.com", true, false),
            ("*.example.com", "api.example.com", true, false),
            ("*.example.com", "*.example.com", true, true),
            ("*.eu.example.com", "*.example.com", false, true),
            ("*-api.example.com", "*.example.com", false, true),
            ("*.com", "*.example.com", true, false),
            ("eu.example.com", "*.example.com", false, true),
            ("api.*", "api.example.com", true, false),
            ("api.*", "*.example.com", false, false),
        ] {
            let pattern = Pattern::of(domain);
            assert_eq!((pattern.takes(host), pattern.is_within(host)), (takes, within), "{domain} {host}");
        }
    }
}
