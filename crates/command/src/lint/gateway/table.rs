//! Routes and clusters.

use super::callers::per_filter;
use super::endpoints::with_the_same;
use super::find::FilterChain;
use super::manager::{millis, wait};
use super::mark::{MARK, ONLY_MARK};
use super::needs::CheckedNeeds;
use super::paths::PathMatch;
use super::route::{asks_for_mark, leads_to};
use super::{GatewayFindings, again, backends, member_span};
use crate::lint::gateway_list::{
    ENVOY_CHANGED_REQUEST, ENVOY_DISABLED, ENVOY_MARKED_ROUTE, ENVOY_MISSING_CLUSTER, ENVOY_SHARED_CLUSTER,
    ENVOY_SHARED_WAITS, ENVOY_TIMEOUT,
};
use crate::lints::diagnostics::tree::{SpannedMember, SpannedNode};
use crate::lints::list::NOT_SEEN;
use std::collections::BTreeSet;

pub(super) fn check(
    tree: &SpannedNode,
    chain: &FilterChain<'_>,
    needs: Option<&CheckedNeeds>,
    findings: &mut GatewayFindings,
) {
    let Some(config) = chain.manager.member("route_config") else {
        let from = ["rds", "scoped_routes"].iter().find_map(|name| chain.manager.member(name));
        findings.at_member(
            &NOT_SEEN,
            from,
            &chain.manager.span,
            "the routes are not in this file, so they were not checked",
        );
        return;
    };
    let filters = chain.manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
    let own_name = filters.get(chain.index).and_then(|filter| filter.text_at(&["name"])).unwrap_or_default();
    config.value.visit(&mut |node| disabled(node, own_name, findings));
    again::key_removed(&config.value, findings);
    let hosts = config.value.get("virtual_hosts").map(SpannedNode::items).unwrap_or_default();
    let all = || hosts.iter().flat_map(|host| host.get("routes").map(SpannedNode::items).unwrap_or_default());
    let marks = needs.map(|needs| needs.marks.as_slice()).unwrap_or_default();
    let marked_clusters: BTreeSet<&str> = all()
        .filter(|route| asks_for_mark(route, marks))
        .filter_map(|route| route.get("route"))
        .flat_map(|action| leads_to(action).into_iter().map(|(_, name)| name))
        .collect();
    let marked_clusters = with_the_same(tree, marked_clusters);
    let mut is_seen = true;
    for host in hosts {
        again::retries(host, None, findings);
        if let Some(matcher) = host.member("matcher") {
            let text = "a matcher chooses the routes of this virtual host, so they were not checked";
            findings.add(&NOT_SEEN, matcher.name_span.clone(), text);
            is_seen = false;
            continue;
        }
        let routes = host.get("routes").map(SpannedNode::items).unwrap_or_default();
        for route in routes {
            let Some(action) = route.member("route") else { continue };
            again::retries(&action.value, route.get("match"), findings);
            again::copies(&action.value, route.get("match"), findings);
            let Some(needs) = needs else { continue };
            let is_marked = asks_for_mark(route, marks);
            if is_marked {
                rewritten_again(&action.value, findings);
            }
            let leads_to_targets = is_marked || needs.rewritten.is_empty();
            timeouts(action, leads_to_targets, needs, findings);
            shared_with_calls(&action.value, needs, findings);
        }
        if let Some(needs) = needs {
            backends::check(tree, routes, needs, findings);
            unmarked(routes, needs, &marked_clusters, findings);
            marked(host, routes, needs, &marked_clusters, findings);
            shared_with_waits(routes, needs, findings);
        }
    }
    let has_marked = all().any(|route| asks_for_mark(route, marks) && route.get("route").is_some());
    if let Some(needs) = needs
        && is_seen
        && !needs.samples.is_empty()
        && !has_marked
    {
        let message = format!("the filter marks requests for their backend, and no route asks for `{MARK}`");
        findings.add(&ENVOY_MARKED_ROUTE, config.name_span.clone(), message);
    }
}

/// Routes that take clients to the backend's own paths.
fn unmarked(
    routes: &[SpannedNode],
    needs: &CheckedNeeds,
    marked_clusters: &BTreeSet<&str>,
    findings: &mut GatewayFindings,
) {
    // Routes that lead nowhere close what they take.
    let mut closed: BTreeSet<&String> = BTreeSet::new();
    for route in routes {
        let Some(rule) = route.get("match") else { continue };
        let path = PathMatch::of(rule);
        let Some(action) = route.get("route") else {
            let is_always = ["headers", "query_parameters", "runtime_fraction", "dynamic_metadata", "grpc"];
            if is_always.iter().all(|name| rule.get(name).is_none()) {
                closed.extend(needs.rewritten.iter().filter(|rewritten| path.takes_all(rewritten)));
            }
            continue;
        };
        let clusters = leads_to(action);
        let is_elsewhere = !marked_clusters.is_empty()
            && !clusters.is_empty()
            && clusters.iter().all(|(_, name)| !marked_clusters.contains(name));
        if is_elsewhere || asks_for_mark(route, &needs.marks) {
            continue;
        }
        let name = route.text_at(&["name"]).map(|name| format!(" `{name}`")).unwrap_or_default();
        let takes = |rewritten: &&String| {
            !closed.contains(rewritten)
                && path.takes_one(rewritten, needs.samples.iter().map(|(path, _)| path.as_str()))
        };
        let becomes = |rewritten: &&String| path.becomes_one(action, rewritten);
        if let Some(rewritten) = needs.rewritten.iter().find(takes) {
            let message = format!(
                "the route{name} takes paths below `{rewritten}`, which are the backend's own, without asking for the \
                 filter's mark"
            );
            findings.add(&ENVOY_MARKED_ROUTE, rule.span.clone(), message);
        } else if let Some(rewritten) = needs.rewritten.iter().find(becomes) {
            let message = format!(
                "the route{name} can rewrite clients' paths to paths below `{rewritten}`, which are the backend's own, \
                 without asking for the filter's mark"
            );
            findings.add(&ENVOY_MARKED_ROUTE, rule.span.clone(), message);
        } else if needs.mark_all {
            let message = format!(
                "the policy has every request marked (`mark_all`), and the route{name} does not ask for the mark: without the filter it leads \
                 requests to the backend"
            );
            findings.add(&ENVOY_MARKED_ROUTE, rule.span.clone(), message);
        }
    }
}

/// Paths that the filter writes, and for which a virtual host has no route.
fn marked(
    host: &SpannedNode,
    routes: &[SpannedNode],
    needs: &CheckedNeeds,
    marked_clusters: &BTreeSet<&str>,
    findings: &mut GatewayFindings,
) {
    let actions = || routes.iter().filter_map(|route| route.get("route"));
    let leads = |action| leads_to(action).iter().any(|(_, name)| marked_clusters.contains(name));
    if !actions().any(leads) {
        return;
    }
    let takes = |(sample, mark): &&(String, String)| {
        routes
            .iter()
            .filter(|route| asks_for_mark(route, std::slice::from_ref(mark)) && route.get("route").is_some())
            .any(|route| route.get("match").is_some_and(|rule| PathMatch::of(rule).takes(sample) != Some(false)))
    };
    if let Some((sample, mark)) = needs.samples.iter().find(|sample| !takes(sample)) {
        let name = host.text_at(&["name"]).unwrap_or_default();
        let asked = if *mark == ONLY_MARK { MARK.to_owned() } else { format!("{MARK}: {mark}") };
        let message = format!(
            "the filter marks requests to paths such as `{sample}`, and no route of `{name}` that asks for `{asked}` takes them"
        );
        let place = host.member("routes").map_or(host.span.clone(), |routes| routes.name_span.clone());
        findings.add(&ENVOY_MARKED_ROUTE, place, message);
    }
}

/// A route of clients to the cluster of the filter's own calls.
fn shared_with_calls(action: &SpannedNode, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let called = leads_to(action)
        .into_iter()
        .find_map(|(place, name)| Some((place, name, needs.called_backends().get(name).copied()?)));
    if let Some((place, name, pointer)) = called {
        let message =
            format!("requests of clients go to `{name}`, the cluster of the filter's own calls ({pointer}/cluster)");
        findings.add(&ENVOY_SHARED_CLUSTER, place, message);
    }
}

/// Requests that wait for results, and go to a cluster of other requests.
fn shared_with_waits(routes: &[SpannedNode], needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let Some(path) = needs.waits() else { return };
    let takes = |route: &SpannedNode| {
        asks_for_mark(route, &needs.marks)
            && route.get("match").is_some_and(|rule| PathMatch::of(rule).takes(path) != Some(false))
    };
    let Some(index) = routes.iter().position(takes) else { return };
    let actions =
        || routes.iter().enumerate().filter_map(|(index, route)| Some((index, leads_to(route.get("route")?))));
    let others: BTreeSet<&str> =
        actions().filter(|(other, _)| *other != index).flat_map(|(_, to)| to).map(|(_, name)| name).collect();
    // The only route of a virtual host takes other requests of the filter, too.
    let takes_others = needs.samples.iter().any(|(sample, _)| {
        routes
            .get(index)
            .and_then(|route| route.get("match"))
            .is_some_and(|rule| PathMatch::of(rule).takes(sample) != Some(false))
    });
    let own = actions().find(|(other, _)| *other == index).map(|(_, to)| to).unwrap_or_default();
    if let Some((place, name)) = own.into_iter().find(|(_, name)| takes_others || others.contains(name)) {
        let message = format!("requests that wait for results (`{path}`) go to `{name}`, as other requests do");
        findings.add(&ENVOY_SHARED_WAITS, place, message);
    }
}

/// Rewrites of a path that the filter has written.
fn rewritten_again(action: &SpannedNode, findings: &mut GatewayFindings) {
    let names = ["prefix_rewrite", "regex_rewrite", "path_rewrite_policy", "path_rewrite"];
    if let Some(rewrite) = names.iter().find_map(|name| action.member(name)) {
        let message = format!("`{}` changes the path that the filter has written", rewrite.name);
        findings.add(&ENVOY_CHANGED_REQUEST, member_span(rewrite), message);
    }
}

fn timeouts(action: &SpannedMember, leads_to_targets: bool, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    let route = &action.value;
    if leads_to_targets && route.member("timeout").is_none() {
        findings.add(
            &ENVOY_TIMEOUT,
            action.name_span.clone(),
            "the route has no `timeout`, so Envoy waits 15 s for an answer",
        );
    }
    let Some(wait_ms) = needs.result_wait_ms else { return };
    let retry = route.get("retry_policy");
    let stream = route.get("max_stream_duration");
    let limits = [
        route.member("idle_timeout"),
        retry.and_then(|retry| retry.member("per_try_timeout")),
        retry.and_then(|retry| retry.member("per_try_idle_timeout")),
        stream.and_then(|stream| stream.member("max_stream_duration")),
    ];
    for limit in limits.into_iter().flatten() {
        if millis(&limit.value).is_some_and(|limit| limit > 0 && limit <= wait_ms) {
            let message =
                format!("a request for a result waits up to {}, but the gateway ends it earlier", wait(wait_ms));
            findings.add(&ENVOY_TIMEOUT, member_span(limit), message);
        }
    }
}

/// `disabled` for our filter, at whatever place.
fn disabled(holder: &SpannedNode, name: &str, findings: &mut GatewayFindings) {
    if let Some(member) = per_filter(holder, name)
        && member.value.is_true(&["disabled"])
    {
        findings.add(&ENVOY_DISABLED, member.name_span.clone(), "the filter is off on this route");
    }
}

/// Clusters that the policy names.
pub(super) fn clusters(tree: &SpannedNode, needs: &CheckedNeeds, findings: &mut GatewayFindings) {
    if let Some(config) = tree.get("dynamic_resources").and_then(|resources| resources.member("cds_config")) {
        if !needs.clusters().is_empty() {
            findings.add(
                &NOT_SEEN,
                config.name_span.clone(),
                "the clusters come from a server, so they were not checked",
            );
        }
        return;
    }
    // A file with a listener alone has no clusters.
    let Some(resources) = tree.member("static_resources") else { return };
    let list = resources.value.member("clusters");
    let clusters = list.map(|list| list.value.items()).unwrap_or_default();
    let names: BTreeSet<&str> = clusters.iter().filter_map(|cluster| cluster.text_at(&["name"])).collect();
    let place = list.map_or(&resources.name_span, |list| &list.name_span);
    for (name, pointer) in needs.clusters().into_iter().filter(|(name, _)| !names.contains(name)) {
        let message = format!("the policy calls the cluster `{name}` ({pointer}), which is not defined here");
        findings.add(&ENVOY_MISSING_CLUSTER, place.clone(), message);
    }
}
