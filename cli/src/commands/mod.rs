//! The commands: arguments and help texts, and what each of them runs.
//!
//! | module | subject |
//! |---|---|
//! | `check` | a policy document before it reaches a gateway |
//! | `explain` | one request, or one line of a log |
//! | `shadow_report` | logs of a policy in shadow mode |
//! | `input` | reading files and standard input, printing |

mod check;
mod explain;
mod input;
mod shadow_report;

use clap::{Parser, Subcommand};
pub(crate) use input::variable;

/// The native companion of the edge idempotency filter: the same engine, without a gateway.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Explain(explain::Arguments),
    Check(check::Arguments),
    ShadowReport(shadow_report::Arguments),
}

/// Forward, or fine.
pub(crate) const FORWARD: u8 = 0;
/// The request is refused, or too many would be.
pub(crate) const REJECT: u8 = 1;
/// Something could not be read.
pub(crate) const BAD_INPUT: u8 = 2;

impl Cli {
    /// Runs the command; its exit status. The error is a sentence.
    pub(crate) fn run(&self) -> Result<u8, String> {
        match &self.command {
            Command::Explain(args) => explain::run(args),
            Command::Check(args) => check::run(args),
            Command::ShadowReport(args) => shadow_report::run(args),
        }
    }
}
