//! How Envoy reads a file: what stands twice in it, and messages that are wrapped.

use super::GatewayFindings;
use crate::lint::gateway_list::ENVOY_DUPLICATE_MEMBER;
use crate::lints::diagnostics::tree::{NodeContent, SpannedMember, SpannedNode};
use std::collections::BTreeMap;

/// Members whose own members have names that the writer of the file chooses. `request_id` and `requestId` are two names there.
const CHOSEN_NAMES: [&str; 7] = [
    "json_format",
    "key_values",
    "providers",
    "requirement_map",
    "filter_metadata",
    "typed_per_filter_config",
    "typed_extension_protocol_options",
];

/// Puts each message in a `TypedStruct` in the place of the `TypedStruct`, as Envoy does.
pub(super) fn unwrap_structs(node: &mut SpannedNode) {
    if node.is_type("TypedStruct")
        && let Some(name) = node.text_at(&["type_url"]).map(str::to_owned)
        && let Some(NodeContent::Map(members)) = node.get("value").map(|value| value.content.clone())
    {
        let type_span = node.member("type_url").map_or(0..0, |member| member.name_span.clone());
        let value = SpannedNode { span: type_span.clone(), content: NodeContent::Scalar(name) };
        let own = SpannedMember { name: "@type".to_owned(), name_span: type_span, value };
        node.content = NodeContent::Map(std::iter::once(own).chain(members).collect());
    }
    match &mut node.content {
        NodeContent::Map(members) => members.iter_mut().for_each(|member| unwrap_structs(&mut member.value)),
        NodeContent::List(items) => items.iter_mut().for_each(unwrap_structs),
        NodeContent::Scalar(_) => {}
    }
}

/// Members that stand twice in one object, also under the two spellings of a protobuf field.
pub(super) fn duplicates(node: &SpannedNode, findings: &mut GatewayFindings) {
    look(node, true, findings);
}

/// `fields`: whether the names are those of protobuf fields.
fn look(node: &SpannedNode, fields: bool, findings: &mut GatewayFindings) {
    let mut seen: BTreeMap<String, &SpannedMember> = BTreeMap::new();
    for member in node.members() {
        let key = if fields { snake_case(&member.name) } else { member.name.clone() };
        if let Some(first) = seen.insert(key, member) {
            let message = if first.name == member.name {
                format!("`{}` is here a second time: Envoy takes the last one and reports nothing", member.name)
            } else {
                format!(
                    "`{}` is another name for `{}`, which is above: Envoy takes one of the two and reports nothing",
                    member.name, first.name
                )
            };
            findings.add(&ENVOY_DUPLICATE_MEMBER, member.name_span.clone(), message);
        }
        look(&member.value, fields && !CHOSEN_NAMES.contains(&snake_case(&member.name).as_str()), findings);
    }
    node.items().iter().for_each(|item| look(item, fields, findings));
}

/// `normalizePath` as `normalize_path`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for char in name.chars() {
        if char.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    snake
}

/// Leaves one of several findings that say the same about the same place: two listeners can share a part of the file.
pub(super) fn distinct(findings: &mut GatewayFindings) {
    let mut seen = std::collections::BTreeSet::new();
    findings.0.retain(|finding| {
        seen.insert((finding.lint.name, finding.span.start, finding.span.end, finding.message.clone()))
    });
}
