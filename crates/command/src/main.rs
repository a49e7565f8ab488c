//! `edge-idempotency`: the filter's engine on the command line.

// `output` alone prints.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod diagnostics;
mod http;
mod init_policy;
mod input;
mod lines;
mod lint;
mod live;
mod log_line;
mod material;
mod openapi;
mod output;
mod record;
mod render;
mod restate_admin;
mod shadow_report;
mod stores;
mod webhook;

use crate::output::tell;
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match commands::Cli::try_parse() {
        Ok(cli) => cli,
        // Help, or the version.
        Err(error) if !error.use_stderr() => error.exit(),
        // It repeats what was given.
        Err(error) => {
            output::tell_text(&error.render().to_string());
            return ExitCode::from(commands::BAD_INPUT);
        }
    };
    ExitCode::from(cli.run().unwrap_or_else(|message| {
        tell!("edge-idempotency: {message}");
        commands::BAD_INPUT
    }))
}
