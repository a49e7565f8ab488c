//! Tests that say something about one host of Envoy alone. All others run on both (`EDGE_HOST=dynamic-module`).

/// The beginnings of their full names, and why the dynamic module has nothing of the kind.
const WASM_ALONE: [(&str, &str); 4] = [
    ("krakend::", "KrakenD's bridge runs the WebAssembly module"),
    ("observability::failed VMs are counted", "a dynamic module has no VM"),
    ("start::refused: a Struct instead of a string", "Envoy hands a dynamic module the JSON text of a Struct"),
    ("start::without the flag", "`allow_on_headers_stop_iteration` is a member of the WebAssembly filter"),
];

/// The same for the WebAssembly host.
const DYNAMIC_MODULE_ALONE: [(&str, &str); 1] =
    [("metadata::dynamic module", "a WebAssembly module reads metadata by itself")];

/// Why a test does not run on this host; `None` if it does.
pub fn left_out(name: &str, is_dynamic_module: bool) -> Option<&'static str> {
    let list: &[_] = if is_dynamic_module { &WASM_ALONE } else { &DYNAMIC_MODULE_ALONE };
    list.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, reason)| *reason)
}

/// Tests that are about stores, Restate, the command, or what the engine decides, and hardly about a host, by the beginnings of their full
/// names. `make test` runs them in the dynamic module, for which Envoy compiles nothing; `make test-all` runs them in the WebAssembly
/// module, too.
const OF_ANY_HOST: [&str; 24] = [
    "admin::",
    "api_keys::",
    "collision::",
    "explain::",
    "guard::",
    "hostile::",
    "hosts::",
    "mapping::",
    "mcp_tools::",
    "metrics_bounds::",
    "moving_over::",
    "observability::counts",
    "observability::every",
    "own_api::",
    "playbook::",
    "promises::",
    "rbac::",
    "recovery::",
    "reload::clients hang up during lookups under an old document, in the dynamic module",
    "render::",
    "rendered::",
    "restate::",
    "start::refused: no configuration",
    "webhooks::",
];

/// Whether a test is one of those.
pub fn is_of_any(name: &str) -> bool {
    OF_ANY_HOST.iter().any(|beginning| name.starts_with(beginning))
}

fn module_of(name: &str) -> &str {
    name.split_once("::").map_or(name, |(module, _)| module)
}

/// What `make test-all` runs and `make test` leaves out, and why.
const BEYOND: [(&str, &str); 12] = [
    ("admin::live: ", "it needs OpenBao"),
    ("api_keys::50,000 keys", "it floods a gateway"),
    ("cases::rest::", "every case runs in the module without Envoy, and a part of them in Envoy"),
    ("fairness::", "it floods a gateway"),
    ("krakend::load::", "it floods a gateway"),
    ("metrics_bounds::50,000 tenants", "it floods a gateway"),
    ("observability::promtool", "promtool plays days of every alert"),
    ("promises::kill -9 between every two steps", "it starts Restate for each step"),
    ("promises::random interleavings", "it has many rounds"),
    ("promises::a handler in", "it needs SDKs of Restate in four languages"),
    ("story::with OpenBao", "it needs OpenBao"),
    ("waits::", "it floods a gateway"),
];

/// Whether a test is one of those that only `make test-all` runs.
pub fn is_beyond(name: &str) -> bool {
    BEYOND.iter().any(|(beginning, _)| name.starts_with(beginning))
}

/// Entries of the lists that are about no test, though the module is one of these.
pub fn unused<'n>(names: impl Iterator<Item = &'n str> + Clone, modules: &[&str]) -> Vec<&'static str> {
    let is_unused = |beginning: &&str| !names.clone().any(|name| name.starts_with(*beginning));
    let is_here = |beginning: &&str| modules.contains(&module_of(beginning));
    let lists = WASM_ALONE.iter().chain(&DYNAMIC_MODULE_ALONE).chain(&BEYOND).map(|(beginning, _)| beginning);
    lists.chain(&OF_ANY_HOST).copied().filter(is_here).filter(is_unused).collect()
}
