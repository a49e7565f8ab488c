//! The end-to-end tests: each module starts the gateways that its tests need, with the built module in them.
//!
//! `cargo test --workspace --test e2e -- hosts::` runs those of one module.

use std::process::ExitCode;

use e2e::runner::{Module, run};

mod access_log;
mod admin;
mod answer_buffer;
mod api_keys;
mod body_buffer;
mod body_integrity;
mod cases;
mod clients;
mod collision;
mod explain;
mod fairness;
mod guard;
mod guards;
mod hostile;
mod hosts;
mod idempotent_apis;
mod krakend;
mod lookups;
mod mapping;
mod metadata;
mod metrics;
mod metrics_bounds;
mod moving_over;
mod native_errors;
mod native_host;
mod native_paths;
mod observability;
mod openapi;
mod own_api;
mod panics;
mod path_readers;
mod platforms;
mod playbook;
mod promises;
mod rbac;
mod recipes;
mod recovery;
mod reference_clients;
mod reload;
mod render;
mod rendered;
mod request_ids;
mod restate;
mod restate_doors;
mod rpc;
mod sdks;
mod secrets;
mod slashes;
mod start;
mod story;
mod streamed_answers;
mod tutorials;
mod waits;
mod webhooks;

/// Modules that take long come first.
const MODULES: &[Module] = &[
    ("hostile", hostile::groups),
    ("reference_clients", reference_clients::groups),
    ("recovery", recovery::groups),
    ("recipes", recipes::groups),
    ("observability", observability::groups),
    ("collision", collision::groups),
    ("metrics_bounds", metrics_bounds::groups),
    ("story", story::groups),
    ("krakend", krakend::groups),
    ("promises", promises::groups),
    ("lookups", lookups::groups),
    ("admin", admin::groups),
    ("access_log", access_log::groups),
    ("answer_buffer", answer_buffer::groups),
    ("api_keys", api_keys::groups),
    ("body_buffer", body_buffer::groups),
    ("body_integrity", body_integrity::groups),
    ("cases", cases::groups),
    ("clients", clients::groups),
    ("explain", explain::groups),
    ("fairness", fairness::groups),
    ("guard", guard::groups),
    ("guards", guards::groups),
    ("hosts", hosts::groups),
    ("idempotent_apis", idempotent_apis::groups),
    ("mapping", mapping::groups),
    ("metadata", metadata::groups),
    ("metrics", metrics::groups),
    ("native_errors", native_errors::groups),
    ("native_host", native_host::groups),
    ("moving_over", moving_over::groups),
    ("native_paths", native_paths::groups),
    ("openapi", openapi::groups),
    ("own_api", own_api::groups),
    ("panics", panics::groups),
    ("path_readers", path_readers::groups),
    ("platforms", platforms::groups),
    ("playbook", playbook::groups),
    ("rbac", rbac::groups),
    ("reload", reload::groups),
    ("render", render::groups),
    ("rendered", rendered::groups),
    ("request_ids", request_ids::groups),
    ("restate", restate::groups),
    ("restate_doors", restate_doors::groups),
    ("rpc", rpc::groups),
    ("sdks", sdks::groups),
    ("secrets", secrets::groups),
    ("slashes", slashes::groups),
    ("start", start::groups),
    ("streamed_answers", streamed_answers::groups),
    ("tutorials", tutorials::groups),
    ("waits", waits::groups),
    ("webhooks", webhooks::groups),
];

fn main() -> ExitCode {
    run(MODULES)
}
