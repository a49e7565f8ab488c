//! Where the filter is in an Envoy configuration: in the chain of a connection manager, by itself, or in a file that ECDS
//! reads.

use super::reading::unwrap_structs;
use crate::diagnostics::yaml;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::tree::SpannedNode;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The message of the filter of a dynamic module.
const DYNAMIC_MODULE_MESSAGE: &str = "DynamicModuleFilter";

/// Whether a filter of this project is a dynamic module.
pub(super) fn is_dynamic_module(config: &SpannedNode) -> bool {
    config.is_type(DYNAMIC_MODULE_MESSAGE)
}

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
    /// The plugin's `config`, of a dynamic module the filter's message, if it is in this file
    pub(super) config: Option<&'t SpannedNode>,
    /// The chain; `None` for a resource by itself, and for what ECDS takes until it has one
    pub(super) chain: Option<FilterChain<'t>>,
    /// The file that has the plugin, if ECDS reads it
    pub(super) discovered: Option<DiscoveredFile>,
    /// Whether another extension decides for each request if the filter runs
    pub(super) wrapped: bool,
}

impl FoundPlugin<'_> {
    /// Whether it is a dynamic module.
    pub(super) fn is_dynamic_module(&self) -> bool {
        let discovered = || self.discovered.as_ref().and_then(|file| plugin_config(&file.tree, Some(&file.name)));
        self.config.or_else(discovered).is_some_and(is_dynamic_module)
    }
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

/// A connection manager with its listener, if there is one.
pub(super) type ListenerManager<'t> = (Option<&'t SpannedNode>, &'t SpannedNode);

/// What is in a file.
#[derive(Default)]
pub(super) struct FoundFilters<'t> {
    /// The filters of this project
    pub(super) plugins: Vec<FoundPlugin<'t>>,
    /// Filters that are there and cannot be looked at: their bytes, and the reason
    pub(super) missing: Vec<(Range<usize>, String)>,
    /// Connection managers that have the filter
    pub(super) filtered: Vec<ListenerManager<'t>>,
    /// Connection managers that do not have it
    pub(super) unfiltered: Vec<ListenerManager<'t>>,
}

/// All filters of this project in a file.
pub(super) fn filters<'t>(tree: &'t SpannedNode, path: &Path) -> FoundFilters<'t> {
    let mut found = FoundFilters::default();
    let mut managers = Vec::new();
    collect_managers(tree, None, &mut managers);
    for (listener, manager) in managers {
        let before = found.plugins.len() + found.missing.len();
        let filters = manager.get("http_filters").map(SpannedNode::items).unwrap_or_default();
        for (index, filter) in filters.iter().enumerate() {
            take(&mut found, FilterChain { listener, manager, index }, filter, path);
        }
        let has_filter = found.plugins.len() + found.missing.len() > before;
        if has_filter { &mut found.filtered } else { &mut found.unfiltered }.push((listener, manager));
    }
    if found.filtered.is_empty()
        && let Some(config) = plugin_config(tree, None)
    {
        let span = config.span.clone();
        // A patch of a connection manager (Istio's EnvoyFilter) has no filters, and no listener around it.
        if found.unfiltered.iter().any(|(_, manager)| manager.get("http_filters").is_some()) || has_listeners(tree) {
            let message = "the filter is outside of the `http_filters` of the connection managers in this file, so the \
                           gateway around it cannot be checked";
            found.missing.push((span.clone(), message.to_owned()));
        }
        found.plugins.push(FoundPlugin { span, config: Some(config), chain: None, discovered: None, wrapped: false });
    }
    found
}

/// Takes an entry of `http_filters` if it is of this project.
fn take<'t>(found: &mut FoundFilters<'t>, chain: FilterChain<'t>, filter: &'t SpannedNode, path: &Path) {
    let span = filter.span.clone();
    let direct = filter.get("typed_config").and_then(message_config).filter(|config| is_ours(filter, config));
    if let Some(discovery) = filter.get("config_discovery") {
        let Some(result) = discovered(filter, discovery, path) else { return };
        if let Some(config) = discovery.get("default_config").and_then(message_config) {
            let span = config.span.clone();
            found.plugins.push(FoundPlugin {
                span,
                config: Some(config),
                chain: None,
                discovered: None,
                wrapped: false,
            });
        }
        match result {
            Ok(file) => {
                let mut wrapped = false;
                file.tree.visit(&mut |node| wrapped |= node.is_type("ExtensionWithMatcher"));
                let discovered = Some(file);
                found.plugins.push(FoundPlugin { span, config: None, chain: Some(chain), discovered, wrapped });
            }
            Err(message) => found.missing.push((span, message)),
        }
    } else if let Some(config) = direct.or_else(|| plugin_config(filter, None)) {
        let wrapped = direct.is_none();
        found.plugins.push(FoundPlugin { span, config: Some(config), chain: Some(chain), discovered: None, wrapped });
    }
}

/// Whether the file is about listeners, so that a filter has its place there.
fn has_listeners(tree: &SpannedNode) -> bool {
    let mut has = false;
    tree.visit(&mut |node| has |= is_listener(node));
    has
}

fn is_listener(node: &SpannedNode) -> bool {
    node.get("filter_chains").is_some() || node.get("default_filter_chain").is_some()
}

/// Connection managers with their listeners.
fn collect_managers<'t>(
    node: &'t SpannedNode,
    listener: Option<&'t SpannedNode>,
    managers: &mut Vec<ListenerManager<'t>>,
) {
    if node.is_type("HttpConnectionManager") {
        managers.push((listener, node));
        return;
    }
    let listener = if is_listener(node) { Some(node) } else { listener };
    node.members().iter().for_each(|member| collect_managers(&member.value, listener, managers));
    node.items().iter().for_each(|item| collect_managers(item, listener, managers));
}

/// The plugin's `config` in a Wasm filter; the whole message of a dynamic module.
fn message_config(typed: &SpannedNode) -> Option<&SpannedNode> {
    if typed.is_type(DYNAMIC_MODULE_MESSAGE) {
        Some(typed)
    } else {
        typed.is_type("Wasm").then(|| typed.get("config")).flatten()
    }
}

/// Whether a filter is of this project: by a name, the module's file, or a configuration that is a policy document.
fn is_ours(filter: &SpannedNode, config: &SpannedNode) -> bool {
    let has = |node: Option<&str>, text: &str| node.is_some_and(|name| name.contains(text));
    let module = config.get("dynamic_module_config");
    let file = config.text_at(&["vm_config", "code", "local", "filename"]);
    let file = file.or_else(|| module.and_then(|module| module.text_at(&["module", "local", "filename"])));
    let file = file.or_else(|| module.and_then(|module| module.text_at(&["name"])));
    let document = config.text_at(&["configuration", "value"]).or_else(|| config.text_at(&["filter_config", "value"]));
    has(config.text_at(&["filter_name"]), "idempotency")
        || has(filter.text_at(&["name"]), "idempotency")
        || has(config.text_at(&["name"]), "idempotency")
        || has(file, "edge_idempotency")
        || has(document, "\"routes\"") && has(document, "\"backend\"")
}

/// Whether an entry of `http_filters` is a filter of this project, with its configuration in this file or by ECDS.
pub(super) fn is_own(filter: &SpannedNode) -> bool {
    let by_name = filter.get("config_discovery").is_some()
        && filter.text_at(&["name"]).is_some_and(|name| name.contains("idempotency"));
    by_name || plugin_config(filter, None).is_some()
}

/// The first plugin of this project anywhere in a tree; with `name` the one of this resource.
pub(super) fn plugin_config<'t>(node: &'t SpannedNode, name: Option<&str>) -> Option<&'t SpannedNode> {
    if let Some(config) = node.get("typed_config").and_then(message_config) {
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
        Ok(mut tree) => {
            unwrap_structs(&mut tree);
            tree
        }
        Err(error) => return is_named.then(|| Err(format!("`{name}` comes by ECDS from {file}: {}", error.message))),
    };
    match plugin_config(&tree, Some(name)) {
        Some(_) => Some(Ok(DiscoveredFile { name: name.to_owned(), source, tree })),
        None => is_named.then(|| Err(format!("{file} has no filter of this project with the name `{name}`"))),
    }
}
