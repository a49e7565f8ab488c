//! Who the gateway says it is: Envoy asks for nothing that it discovers without a name of its own.

use super::GatewayFindings;
use super::needs::CheckedNeeds;
use crate::lints::diagnostics::tree::SpannedNode;

/// Members with a source of configuration.
const SOURCES: [&str; 3] = ["path_config_source", "api_config_source", "ads"];

pub(super) fn check(tree: &SpannedNode, all_needs: &[CheckedNeeds], findings: &mut GatewayFindings) {
    // A file with listeners or clusters alone is a part of a configuration.
    if tree.get("static_resources").is_none() && tree.get("dynamic_resources").is_none() {
        return;
    }
    let missing: Vec<&str> =
        ["id", "cluster"].into_iter().filter(|name| tree.text_at(&["node", name]).is_none_or(str::is_empty)).collect();
    if missing.is_empty() {
        return;
    }
    let mut discovers = false;
    tree.visit(&mut |node| discovers |= SOURCES.iter().any(|source| node.get(source).is_some()));
    let asked = all_needs.iter().flat_map(|needs| needs.discovered()).find(|(.., is_asked)| *is_asked);
    let what = match asked {
        Some((pointer, ..)) => format!("the secret {pointer} of the policy"),
        None if discovers => "a part of its configuration".to_owned(),
        None => return,
    };
    let names = missing.iter().map(|name| format!("`node.{name}`")).collect::<Vec<_>>().join(" and ");
    let message = format!("the gateway discovers {what}, and the file has no {names}");
    findings.at_member("envoy-no-node", tree.member("node"), &(tree.span.start..tree.span.start), message);
}
