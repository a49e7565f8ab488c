//! `edge-idempotency`: the filter's engine on the command line.

mod commands;
mod diagnostics;
mod explain;
mod lines;
mod lint;
mod log_line;
mod meaning;
mod plain;
mod record;
mod request;
mod shadow_report;
mod sources;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(commands::Cli::parse().run().unwrap_or_else(|message| {
        eprintln!("edge-idempotency: {message}");
        commands::BAD_INPUT
    }))
}
