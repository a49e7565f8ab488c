//! Tests that say something about the WebAssembly host alone. All others run on the native one, too (`EDGE_HOST=native`).

/// The beginnings of their full names, and why the native host has nothing of the kind.
const WASM_ALONE: [(&str, &str); 4] = [
    ("krakend::", "KrakenD's bridge runs the WebAssembly module"),
    ("observability::failed VMs are counted", "a native module has no VM"),
    (
        "reload::another module: overwritten",
        "Envoy maps a native module's file: whoever writes to a file in use ends the process",
    ),
    ("start::without the flag", "`allow_on_headers_stop_iteration` is a member of the WebAssembly filter"),
];

/// Why a test does not run on the native host; `None` if it does.
pub fn wasm_alone(name: &str) -> Option<&'static str> {
    WASM_ALONE.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, reason)| *reason)
}

/// Entries of the list that are about no test.
pub fn unused<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Vec<&'static str> {
    let is_unused = |beginning: &&str| !names.clone().any(|name| name.starts_with(*beginning));
    WASM_ALONE.iter().map(|(beginning, _)| *beginning).filter(is_unused).collect()
}
