//! Filters that read bodies, before ours and behind it.

use anyhow::Result;
use e2e::config::Change;
use e2e::ext_proc::{BodyMode, Processor};
use serde_json::{Value, json};

const MODES: [(&str, BodyMode); 4] = [
    ("ext_proc BUFFERED", BodyMode::Buffered),
    ("ext_proc STREAMED", BodyMode::Streamed),
    ("ext_proc FULL_DUPLEX_STREAMED", BodyMode::FullDuplex),
    ("ext_proc FULL_DUPLEX_STREAMED at once", BodyMode::FullDuplexAtOnce),
];

/// Each filter stands before ours, behind it, and on both sides.
const FILTERS: [&str; 9] = [
    "buffer",
    "lua that reads all",
    "lua that reads parts",
    "gzip and back",
    "ext_authz",
    MODES[0].0,
    MODES[1].0,
    MODES[2].0,
    MODES[3].0,
];
const PLACES: [&str; 3] = ["before", "behind", "both sides"];

/// The listeners' names.
pub(crate) fn names() -> Vec<&'static str> {
    static NAMES: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let placed = FILTERS.iter().flat_map(|filter| PLACES.map(|place| format!("{filter}, {place}")));
        std::iter::once("ours alone".to_owned()).chain(placed).collect()
    });
    names.iter().map(String::as_str).collect()
}

/// Envoy's filter `buffer` gives a request without a length one, and over HTTP/1.1 what has a length has no trailers.
pub(crate) fn keeps_trailers(name: &str) -> bool {
    !name.starts_with("buffer")
}

/// All listeners, each with what stands beside our filter. The processors are started.
pub(crate) fn all(processors: &mut Vec<Processor>) -> Result<Vec<(String, Vec<Change>)>> {
    let mut external = Vec::new();
    for (name, mode) in MODES {
        let processor = Processor::start(mode)?;
        external.push((name, processor.filter_of_both()));
        processors.push(processor);
    }
    let mut chains = Vec::new();
    for name in names() {
        let Some((filter, place)) = name.split_once(", ") else {
            chains.push((name.to_owned(), Vec::new()));
            chains.push((without_ours(name), vec![Change::Instead(lua("handle:body()"))]));
            continue;
        };
        let filters = match external.iter().find(|(name, _)| *name == filter) {
            Some((_, external)) => vec![external.clone()],
            None => named(filter),
        };
        let mut changes = Vec::new();
        let is_gzip = filter == "gzip and back";
        if place != "behind" {
            changes.extend(filters.iter().cloned().map(Change::Before));
        }
        if place != "before" {
            // Each comes directly behind ours. A decompressor that answers pass before a filter which waits for their bodies is left
            // out: it adds trailers, and Envoy never shows them to that filter, nor to its own `lua` (`handle:body()`).
            let filters = if is_gzip { gzip_and_back(false) } else { filters };
            changes.extend(filters.into_iter().rev().map(Change::Behind));
        }
        let mut without = changes.clone();
        without.push(Change::Instead(lua("handle:body()")));
        chains.push((name.to_owned(), changes));
        chains.push((without_ours(name), without));
    }
    Ok(chains)
}

/// The name of the same listener with a filter of Envoy's in the place of ours. It waits for bodies, too.
pub(crate) fn without_ours(name: &str) -> String {
    format!("{name}, without ours")
}

fn named(name: &str) -> Vec<Value> {
    match name {
        "buffer" => vec![filter("buffer", "buffer.v3.Buffer", json!({"max_request_bytes": 2 << 20}))],
        "lua that reads all" => vec![lua("handle:body()")],
        "lua that reads parts" => vec![lua("for chunk in handle:bodyChunks() do chunk:length() end")],
        "gzip and back" => gzip_and_back(true),
        "ext_authz" => vec![authorization()],
        _ => Vec::new(),
    }
}

fn filter(name: &str, kind: &str, config: Value) -> Value {
    let mut config = config;
    if let Some(config) = config.as_object_mut() {
        config.insert("@type".to_owned(), format!("type.googleapis.com/envoy.extensions.filters.http.{kind}").into());
    }
    json!({"name": format!("envoy.filters.http.{name}"), "typed_config": config})
}

/// A script that does this with requests and with answers.
fn lua(what: &str) -> Value {
    let code = format!("function envoy_on_request(handle) {what} end function envoy_on_response(handle) {what} end");
    filter("lua", "lua.v3.Lua", json!({"default_source_code": {"inline_string": code}}))
}

/// A request passes the first two, an answer (if `answers`) the last two, from behind: what is compressed is decompressed again.
fn gzip_and_back(answers: bool) -> Vec<Value> {
    let library = |kind: &str| json!({"name": kind, "typed_config": {"@type": format!("type.googleapis.com/envoy.extensions.compression.gzip.{kind}.v3.Gzip")}});
    let enabled = |is: bool| json!({"common_config": {"enabled": {"default_value": is, "runtime_key": "none"}}});
    let compressor = |requests: bool| {
        let directions = json!({
            "request_direction_config": enabled(requests),
            "response_direction_config": enabled(answers && !requests),
            "compressor_library": library("compressor"),
        });
        filter("compressor", "compressor.v3.Compressor", directions)
    };
    let decompressor = filter(
        "decompressor",
        "decompressor.v3.Decompressor",
        json!({
            "decompressor_library": library("decompressor"),
            "request_direction_config": {"advertise_accept_encoding": answers},
            "response_direction_config": enabled(answers),
        }),
    );
    vec![compressor(true), decompressor, compressor(false)]
}

/// Asks the upstream, which allows everything, with the request's body.
fn authorization() -> Value {
    filter(
        "ext_authz",
        "ext_authz.v3.ExtAuthz",
        json!({
            "http_service": {
                "server_uri": {"uri": "http://backend", "cluster": "backend", "timeout": "10s"},
                "path_prefix": "/authorize",
            },
            "with_request_body": {"max_request_bytes": 2 << 20, "allow_partial_message": false},
        }),
    )
}
