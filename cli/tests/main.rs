//! The command, run as its users run it, and the files and pages that belong to it.

mod check;
mod command;
mod credentials;
mod explain;
mod keys;
mod krakend_packaging;
mod log_line;
mod observability;
mod openapi;
mod pages;
mod render;
mod render_backends;
mod render_krakend;
mod render_kubernetes;
mod shadow_report;
mod structure;
mod webhook;

use std::path::Path;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
