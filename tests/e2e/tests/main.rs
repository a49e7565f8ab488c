//! The end-to-end tests: each module starts the gateways that its tests need, with the built module in them.
//!
//! `cargo test --test e2e -- hosts::` runs those of one module.

use std::process::ExitCode;

use e2e::runner::{Module, run};

mod access_log;
mod admin;
mod api_keys;
mod body_integrity;
mod buffers;
mod cases;
mod collision;
mod dynamic_module;
mod explain;
mod fairness;
mod guard;
mod hostile;
mod hosts;
mod krakend;
mod mapping;
mod mcp_tools;
mod metadata;
mod metrics_bounds;
mod moving_over;
mod observability;
mod own_api;
mod panics;
mod playbook;
mod promises;
mod rbac;
mod recovery;
mod reload;
mod render;
mod rendered;
mod restate;
mod start;
mod story;
mod streamed_answers;
mod waits;
mod webhooks;

/// Modules that take long come first.
const MODULES: &[Module] = &[
    ("start", start::groups),
    ("admin", admin::groups),
    ("collision", collision::groups),
    ("moving_over", moving_over::groups),
    ("recovery", recovery::groups),
    ("body_integrity", body_integrity::groups),
    ("restate", restate::groups),
    ("observability", observability::groups),
    ("access_log", access_log::groups),
    ("panics", panics::groups),
    ("krakend", krakend::groups),
    ("story", story::groups),
    ("reload", reload::groups),
    ("hostile", hostile::groups),
    ("api_keys", api_keys::groups),
    ("buffers", buffers::groups),
    ("cases", cases::groups),
    ("dynamic_module", dynamic_module::groups),
    ("explain", explain::groups),
    ("fairness", fairness::groups),
    ("guard", guard::groups),
    ("hosts", hosts::groups),
    ("mapping", mapping::groups),
    ("mcp_tools", mcp_tools::groups),
    ("metadata", metadata::groups),
    ("metrics_bounds", metrics_bounds::groups),
    ("own_api", own_api::groups),
    ("playbook", playbook::groups),
    ("promises", promises::groups),
    ("rbac", rbac::groups),
    ("render", render::groups),
    ("rendered", rendered::groups),
    ("streamed_answers", streamed_answers::groups),
    ("waits", waits::groups),
    ("webhooks", webhooks::groups),
];

fn main() -> ExitCode {
    run(MODULES)
}
