//! The end-to-end tests with other people's software: frameworks, SDKs, languages' clients, guards, retry libraries, gateways' control planes,
//! the real OpenBao. `make test-all` runs them; those whose software is not installed say so.
//!
//! `cargo test --workspace --test compat -- sdks::` runs those of one module.

use std::process::ExitCode;

use e2e::runner::{Module, run};

mod adcp;
mod framework_errors;
mod guards;
mod idempotent_apis;
mod lookups;
mod openapi;
mod path_readers;
mod platforms;
mod recipes;
mod recorded;
mod reference_clients;
mod rpc;
mod sample_client;
mod scripted;
mod sdks;
mod secrets;
mod slashes;
mod tutorials;

/// Modules that take long come first.
const MODULES: &[Module] = &[
    ("reference_clients", reference_clients::groups),
    ("recipes", recipes::groups),
    ("recorded", recorded::groups),
    ("lookups", lookups::groups),
    ("guards", guards::groups),
    ("idempotent_apis", idempotent_apis::groups),
    ("adcp", adcp::groups),
    ("framework_errors", framework_errors::groups),
    ("openapi", openapi::groups),
    ("path_readers", path_readers::groups),
    ("platforms", platforms::groups),
    ("rpc", rpc::groups),
    ("sample_client", sample_client::groups),
    ("sdks", sdks::groups),
    ("secrets", secrets::groups),
    ("slashes", slashes::groups),
    ("tutorials", tutorials::groups),
];

fn main() -> ExitCode {
    run(MODULES)
}
