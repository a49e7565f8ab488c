//! The command, run as its users run it, and the files and pages that belong to it.

mod check;
mod command;
mod credentials;
mod explain;
mod hostile_texts;
mod keys;
mod krakend_packaging;
mod log_line;
mod observability;
mod openapi;
mod pages;
mod playground;
mod release;
mod render;
mod render_backends;
mod render_krakend;
mod render_kubernetes;
mod restate_admin;
mod shadow_report;
mod structure;
mod webhook;

use std::io::{Result, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command with a text on its standard input, and gives what it wrote. A command that has already failed does not read its
/// input, which is no error here.
fn run_with_input(command: &mut Command, input: &str) -> Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."))
}
