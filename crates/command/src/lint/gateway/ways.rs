//! Ways to the backend that do not pass the filter: other connection managers, proxies of connections, upgraded requests.

use super::GatewayFindings;
use super::endpoints::with_the_same;
use super::find::FoundFilters;
use super::needs::CheckedNeeds;
use super::route::{asks_for_mark, leads_to};
use crate::lint::gateway_list::ENVOY_OTHER_WAY;
use crate::lints::diagnostics::tree::SpannedNode;
use crate::lints::list::NOT_SEEN;
use std::collections::BTreeSet;

pub(super) fn check(
    tree: &SpannedNode,
    found: &FoundFilters<'_>,
    needs: &[CheckedNeeds],
    findings: &mut GatewayFindings,
) {
    if found.filtered.is_empty() {
        return;
    }
    for (_, manager) in &found.filtered {
        upgrades(manager, findings);
    }
    let marks: Vec<String> = needs.iter().flat_map(|needs| needs.marks.clone()).collect();
    let mut protected: BTreeSet<&str> = needs.iter().flat_map(|needs| needs.called_backends().into_keys()).collect();
    for (_, manager) in &found.filtered {
        let routes = manager.get("route_config").map(actions).unwrap_or_default();
        let marked: Vec<_> = routes.iter().filter(|(route, _)| asks_for_mark(route, &marks)).collect();
        let all = routes.iter();
        let counted: Vec<_> = if marked.is_empty() { all.collect() } else { marked };
        protected.extend(counted.iter().flat_map(|(_, action)| leads_to(action)).map(|(_, name)| name));
    }
    let protected = with_the_same(tree, protected);
    for (_, manager) in &found.unfiltered {
        let Some(config) = manager.get("route_config") else {
            let text = "a connection manager without the filter: its routes are not in this file, so they were not \
                        checked";
            let from = ["rds", "scoped_routes"].iter().find_map(|name| manager.member(name));
            findings.at_member(&NOT_SEEN, from, &manager.span, text);
            continue;
        };
        let all: Vec<_> = actions(config).iter().flat_map(|(_, action)| leads_to(action)).collect();
        if let Some((place, name)) = all.iter().find(|(_, name)| protected.contains(name)) {
            let text = format!("requests reach `{name}` here, and this connection manager does not have the filter");
            findings.add(&ENVOY_OTHER_WAY, place.clone(), text);
        }
    }
    tree.visit(&mut |node| {
        if node.is_type("TcpProxy")
            && let Some((place, name)) = leads_to(node).into_iter().find(|(_, name)| protected.contains(name))
        {
            let text = format!("connections reach `{name}` here, and no filter sees the requests on them");
            findings.add(&ENVOY_OTHER_WAY, place, text);
        }
    });
}

/// Every route with its action.
fn actions(config: &SpannedNode) -> Vec<(&SpannedNode, &SpannedNode)> {
    let mut found = Vec::new();
    config.visit(&mut |node| found.extend(node.get("route").map(|action| (node, action))));
    found
}

/// Chains of their own for upgraded requests.
fn upgrades(manager: &SpannedNode, findings: &mut GatewayFindings) {
    for upgrade in manager.get("upgrade_configs").map(SpannedNode::items).unwrap_or_default() {
        let Some(filters) = upgrade.member("filters").filter(|filters| !filters.value.items().is_empty()) else {
            continue;
        };
        if super::find::plugin_config(&filters.value, None).is_none() {
            let kind = upgrade.text_at(&["upgrade_type"]).unwrap_or_default();
            let text = format!("requests with `Upgrade: {kind}` take these filters, and this filter is not among them");
            findings.add(&ENVOY_OTHER_WAY, filters.name_span.clone(), text);
        }
    }
}
