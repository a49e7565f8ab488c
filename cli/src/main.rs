//! `edge-idempotency`: the filter's engine on the command line.

mod backends;
mod catalogue;
mod commands;
mod diagnostics;
mod explain;
mod explanations;
mod http;
mod init_policy;
mod input;
mod lines;
mod lint;
mod live;
mod log_line;
mod openapi;
mod record;
mod render;
mod request;
mod request_input;
mod restate_admin;
mod shadow_report;
mod sources;
mod stores;
mod terminal_text;
mod trace;
mod webhook;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(commands::Cli::parse().run().unwrap_or_else(|message| {
        eprintln!("edge-idempotency: {message}");
        commands::BAD_INPUT
    }))
}
