//! Whether requests arrive at the backend that the filter has chosen, where a policy has several.

use super::GatewayFindings;
use super::endpoints::with_the_same;
use super::mark::MARK;
use super::needs::CheckedNeeds;
use super::paths::PathMatch;
use super::route::{asks_for_mark, leads_to, mark_value};
use crate::lint::gateway_list::ENVOY_WRONG_BACKEND;
use crate::lints::diagnostics::tree::SpannedNode;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Checks the routes of one virtual host.
pub(super) fn check(tree: &SpannedNode, routes: &[SpannedNode], needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let Some((default, [_, ..])) = needs.marks.split_first() else { return };
    let marks: BTreeSet<&str> = needs.samples.iter().map(|(_, mark)| mark.as_str()).collect();
    // The clusters that requests with each mark reach, and where a route says so.
    let mut reached: BTreeMap<&str, BTreeMap<&str, Range<usize>>> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for (sample, mark) in &needs.samples {
        let Some(route) = routes.iter().find(|route| may_take(route, sample, mark)) else { continue };
        let is_asked_for = mark_value(route) == Some(mark) || marks.len() == 1 && asks_for_mark(route, &[]);
        if let Some(rule) = route.get("match").filter(|_| !is_asked_for)
            && told.insert(rule.span.start)
        {
            let message = format!(
                "requests for the backend `{mark}`, such as `{sample}`, take this route, which does not ask for `{MARK}: {mark}`"
            );
            findings.add(&ENVOY_WRONG_BACKEND, rule.span.clone(), message);
        }
        if let Some(action) = route.get("route").filter(|_| is_asked_for) {
            let places = leads_to(action).into_iter().map(|(place, cluster)| (cluster, place));
            reached.entry(mark).or_default().extend(places);
        }
    }
    let own = |mark: &str| {
        let clusters = reached.get(mark).into_iter().flat_map(BTreeMap::keys).copied().collect();
        with_the_same(tree, clusters)
    };
    for (mark, clusters) in &reached {
        let others = reached.keys().take_while(|other| *other != mark);
        let shared =
            others.filter_map(|other| Some((other, clusters.iter().find(|(name, _)| own(other).contains(*name))?)));
        for (other, (name, place)) in shared {
            let message = format!("requests for the backends `{other}` and `{mark}` both go to `{name}`");
            findings.add(&ENVOY_WRONG_BACKEND, place.clone(), message);
        }
    }
    for mark in needs.marks.iter().filter(|mark| *mark != default) {
        let clusters = own(mark);
        for route in routes.iter().filter(|route| !asks_for_mark(route, &needs.marks)) {
            let places = route.get("route").map(leads_to).unwrap_or_default();
            if let Some((place, name)) = places.into_iter().find(|(_, name)| clusters.contains(name)) {
                let message =
                    format!("requests without the filter's mark go to `{name}`, which is the backend `{mark}`");
                findings.add(&ENVOY_WRONG_BACKEND, place, message);
            }
        }
    }
}

/// Whether a route takes requests to this path with this mark, as far as its `match` says it without conditions on other headers.
fn may_take(route: &SpannedNode, path: &str, mark: &str) -> bool {
    let Some(rule) = route.get("match") else { return false };
    let headers = rule.get("headers").map(SpannedNode::items).unwrap_or_default();
    let is_mark = |header: &SpannedNode| header.text_at(&["name"]).is_some_and(|name| name.eq_ignore_ascii_case(MARK));
    let others = ["query_parameters", "runtime_fraction", "dynamic_metadata", "grpc"];
    headers.iter().all(is_mark)
        && others.iter().all(|name| rule.get(name).is_none())
        && (headers.is_empty() || asks_for_mark(route, &[mark.to_owned()]))
        && PathMatch::of(rule).takes(path) != Some(false)
}
