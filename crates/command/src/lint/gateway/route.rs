//! What one route says: which headers it asks for, and which clusters it leads to.

use super::mark::MARK;
use super::member_span;
use crate::lints::diagnostics::tree::SpannedNode;
use std::ops::Range;

/// Whether a route takes only requests that the filter has marked: with any mark, or with one of these values.
pub(super) fn asks_for_mark(route: &SpannedNode, values: &[String]) -> bool {
    route.get("match").is_some_and(|rule| asks_for(rule.get("headers"), MARK))
        || mark_value(route).is_some_and(|value| values.iter().any(|known| known == value))
}

/// The value of the mark that a route asks for.
pub(super) fn mark_value(route: &SpannedNode) -> Option<&str> {
    let rules = route.get("match")?.get("headers")?.items();
    let own = rules.iter().find(|rule| is_named(rule, MARK) && !rule.is_true(&["invert_match"]))?;
    own.text_at(&["string_match", "exact"]).or_else(|| own.text_at(&["exact_match"]))
}

fn is_named(rule: &SpannedNode, header: &str) -> bool {
    rule.text_at(&["name"]).is_some_and(|name| name.eq_ignore_ascii_case(header))
}

/// Whether rules for headers ask that a header is there, with whatever value.
pub(super) fn asks_for(rules: Option<&SpannedNode>, header: &str) -> bool {
    /// Members of a rule that say nothing about the value.
    const OTHERS: [&str; 4] = ["name", "present_match", "invert_match", "treat_missing_header_as_empty"];
    rules.map(SpannedNode::items).unwrap_or_default().iter().any(|rule| {
        is_named(rule, header)
            && !rule.is_true(&["invert_match"])
            && !rule.is_false(&["present_match"])
            && rule.members().len() == OTHERS.iter().filter_map(|name| rule.member(name)).count()
    })
}

/// The clusters that a route's action, or a proxy of connections, names: their places and names.
pub(super) fn leads_to(action: &SpannedNode) -> Vec<(Range<usize>, &str)> {
    let weighted = action.at(&["weighted_clusters", "clusters"]).map(SpannedNode::items).unwrap_or_default();
    let named = weighted.iter().filter_map(|cluster| cluster.member("name"));
    let places = action.member("cluster").into_iter().chain(named);
    places.filter_map(|place| Some((member_span(place), place.value.text()?))).collect()
}
