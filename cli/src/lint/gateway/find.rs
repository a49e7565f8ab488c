//! Where the filter is in an Envoy configuration: in the chain of a connection manager, by itself, or in a file that ECDS
//! reads.

use crate::diagnostics::source::SourceText;
use crate::diagnostics::tree::SpannedNode;
use crate::diagnostics::yaml;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The chain that the filter stands in.
pub(super) struct FilterChain<'t> {
    /// The listener, if there is one
    pub(super) listener: Option<&'t SpannedNode>,
    /// The connection manager
    pub(super) manager: &'t SpannedNode,
    /// The filter's place in `http_filters`
    pub(super) index: usize,
}

/// A filter of this project.
pub(super) struct FoundPlugin<'t> {
    /// The bytes of the filter
    pub(super) span: Range<usize>,
    /// The plugin's `config`, if it is in this file
    pub(super) config: Option<&'t SpannedNode>,
    /// The chain; `None` for a resource by itself
    pub(super) chain: Option<FilterChain<'t>>,
    /// The file that has the plugin, if ECDS reads it
    pub(super) discovered: Option<DiscoveredFile>,
}

/// A file that ECDS reads a filter from.
pub(super) struct DiscoveredFile {
    /// The resource's name
    pub(super) name: String,
    /// The text
    pub(super) source: SourceText,
    /// The text as a tree
    pub(super) tree: SpannedNode,
}

/// A filter that is there and cannot be looked at: its bytes, and the reason.
type MissingPlugin = (Range<usize>, String);

/// All filters of this project in a file.
pub(super) fn plugins<'t>(tree: &'t SpannedNode, path: &Path) -> (Vec<FoundPlugin<'t>>, Vec<MissingPlugin>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let mut managers = Vec::new();
    collect_managers(tree, None, &mut managers);
    for (listener, manager) in managers {
        let filters = manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
        for (index, filter) in filters.iter().enumerate() {
            let chain = || Some(FilterChain { listener, manager, index });
            if let Some(config) =
                filter.get("typed_config").and_then(wasm_config).filter(|config| is_ours(filter, config))
            {
                let span = filter.span.clone();
                found.push(FoundPlugin { span, config: Some(config), chain: chain(), discovered: None });
            } else if let Some(discovery) = filter.get("config_discovery") {
                match discovered(filter, discovery, path) {
                    Some(Ok(file)) => {
                        let span = filter.span.clone();
                        found.push(FoundPlugin { span, config: None, chain: chain(), discovered: Some(file) });
                    }
                    Some(Err(message)) => missing.push((filter.span.clone(), message)),
                    None => {}
                }
            }
        }
    }
    if found.is_empty() && missing.is_empty() {
        let config = plugin_config(tree, None);
        found.extend(config.map(|config| FoundPlugin {
            span: config.span.clone(),
            config: Some(config),
            chain: None,
            discovered: None,
        }));
    }
    (found, missing)
}

/// Connection managers with their listeners. A listener is what has `filter_chains`.
fn collect_managers<'t>(
    node: &'t SpannedNode,
    listener: Option<&'t SpannedNode>,
    managers: &mut Vec<(Option<&'t SpannedNode>, &'t SpannedNode)>,
) {
    if node.is_type("HttpConnectionManager") {
        managers.push((listener, node));
        return;
    }
    let listener = if node.get("filter_chains").is_some() { Some(node) } else { listener };
    node.members().iter().for_each(|member| collect_managers(&member.value, listener, managers));
    node.items().iter().for_each(|item| collect_managers(item, listener, managers));
}

/// The plugin's `config` in a Wasm filter.
fn wasm_config(typed: &SpannedNode) -> Option<&SpannedNode> {
    typed.is_type("Wasm").then(|| typed.get("config")).flatten()
}

/// Whether a Wasm filter is of this project: by a name, the module's file, or a configuration that is a policy document.
fn is_ours(filter: &SpannedNode, config: &SpannedNode) -> bool {
    let has = |node: Option<&str>, text: &str| node.is_some_and(|name| name.contains(text));
    let file = config.text_at(&["vm_config", "code", "local", "filename"]);
    let document = config.text_at(&["configuration", "value"]);
    has(filter.text_at(&["name"]), "idempotency")
        || has(config.text_at(&["name"]), "idempotency")
        || has(file, "edge_idempotency")
        || has(document, "\"routes\"") && has(document, "\"backend\"")
}

/// The first plugin of this project anywhere in a tree; with `name` the one of this resource.
pub(super) fn plugin_config<'t>(node: &'t SpannedNode, name: Option<&str>) -> Option<&'t SpannedNode> {
    if let Some(config) = node.get("typed_config").and_then(wasm_config) {
        let is_named = name.is_some() && node.text_at(&["name"]) == name;
        if is_named || name.is_none() && is_ours(node, config) {
            return Some(config);
        }
    }
    let members = node.members().iter().map(|member| &member.value);
    members.chain(node.items()).find_map(|child| plugin_config(child, name))
}

/// Reads the file of a filter that comes by ECDS. `None` if it is another filter.
fn discovered(filter: &SpannedNode, discovery: &SpannedNode, path: &Path) -> Option<Result<DiscoveredFile, String>> {
    let name = filter.text_at(&["name"])?;
    let is_named = name.contains("idempotency");
    let source = discovery.get("config_source")?;
    let file = source.text_at(&["path_config_source", "path"]).or_else(|| source.text_at(&["path"]));
    let Some(file) = file else {
        let message = format!("`{name}` comes by ECDS from a server: check the policy document by itself");
        return is_named.then_some(Err(message));
    };
    // Envoy reads it relative to its own working directory.
    let beside = path.parent().map_or_else(PathBuf::new, |parent| parent.join(file));
    let (read, bytes) = match [PathBuf::from(file), beside]
        .into_iter()
        .find_map(|path| Some((path.clone(), std::fs::read(path).ok()?)))
    {
        Some(read) => read,
        None => return is_named.then(|| Err(format!("`{name}` comes by ECDS from {file}, which cannot be read"))),
    };
    let source = SourceText::new(read.display().to_string(), &bytes);
    let tree = match yaml::read(&source.text) {
        Ok(tree) => tree,
        Err(error) => return is_named.then(|| Err(format!("`{name}` comes by ECDS from {file}: {}", error.message))),
    };
    match plugin_config(&tree, Some(name)) {
        Some(_) => Some(Ok(DiscoveredFile { name: name.to_owned(), source, tree })),
        None => is_named.then(|| Err(format!("{file} has no Wasm filter with the name `{name}`"))),
    }
}
