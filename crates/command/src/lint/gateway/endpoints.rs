//! Clusters that lead to the same place: a backend has several, so that kinds of requests have connections of their own.

use crate::lints::diagnostics::tree::SpannedNode;
use std::collections::BTreeSet;

/// These clusters, and all others of the configuration that share an endpoint with one of them.
pub(super) fn with_the_same<'t>(tree: &'t SpannedNode, mut clusters: BTreeSet<&'t str>) -> BTreeSet<&'t str> {
    let all: Vec<(&str, BTreeSet<[&str; 2]>)> = tree
        .at(&["static_resources", "clusters"])
        .map(SpannedNode::items)
        .unwrap_or_default()
        .iter()
        .filter_map(|cluster| Some((cluster.text_at(&["name"])?, endpoints(cluster))))
        .collect();
    let known = all.iter().filter(|(name, _)| clusters.contains(name));
    let known: BTreeSet<[&str; 2]> = known.flat_map(|(_, endpoints)| endpoints.iter().copied()).collect();
    clusters.extend(all.iter().filter(|(_, endpoints)| !endpoints.is_disjoint(&known)).map(|(name, _)| *name));
    clusters
}

/// Address and port of each endpoint; of a socket in the file system its path.
fn endpoints(cluster: &SpannedNode) -> BTreeSet<[&str; 2]> {
    let mut found = BTreeSet::new();
    let Some(list) = cluster.get("load_assignment") else { return found };
    list.visit(&mut |node| {
        let address = node.get("socket_address");
        found.extend(address.and_then(|at| Some([at.text_at(&["address"])?, at.text_at(&["port_value"])?])));
        found.extend(node.text_at(&["pipe", "path"]).map(|path| [path, ""]));
    });
    found
}
