//! The commands: arguments and help texts, and what each of them runs.
//!
//! | module | subject |
//! |---|---|
//! | `check` | a policy document before it reaches a gateway |
//! | `completions`, `man` | completions for shells, manual pages |
//! | `explain` | one request, one line of a log, or a namespaced key |
//! | `shadow_report` | logs of a policy in shadow mode |
//! | `keys` | what Restate stores under keys, and purging of it |
//! | `retention` | Restate's retention beside the policy's |
//! | `init` | a first policy document |
//! | `render` | configurations of gateways |
//! | `openapi` | an OpenAPI description beside a policy |
//! | `webhook` | providers, new webhooks, signed deliveries |
//! | `question` | questions on the terminal |
//! | `findings` | how findings are printed |

mod check;
mod completions;
mod explain;
mod findings;
mod init;
mod keys;
mod man;
mod openapi;
mod question;
mod render;
mod retention;
mod shadow_report;
mod webhook;

use crate::output::tell;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The release and the commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("EDGE_IDEMPOTENCY_GIT_HASH"), ")");

/// The companion of the edge idempotency filter: the same engine, without a gateway.
///
/// Examples:
///   edge-idempotency check policy.json
///   edge-idempotency explain --policy policy.json --curl "curl https://api.example.com/orders -d '{}'"
///   edge-idempotency COMMAND --help
///
/// Exit status: 0 if all is fine, 1 if something is refused, 2 if something cannot be read. The help of each command says
/// what that means there.
///
/// Where a command takes a file, - is standard input. Colours are left out if the variable NO_COLOR is set.
#[derive(Parser)]
#[command(name = "edge-idempotency", version = VERSION, verbatim_doc_comment, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Explain(explain::ExplainArguments),
    Check(check::CheckArguments),
    ShadowReport(shadow_report::ShadowReportArguments),
    Retention(retention::RetentionArguments),
    Keys(Box<keys::KeysArguments>),
    Init(init::InitArguments),
    Render(render::RenderArguments),
    Openapi(openapi::OpenapiArguments),
    Webhook(webhook::WebhookArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
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
            Command::Retention(args) => retention::run(args),
            Command::Keys(args) => keys::run(args),
            Command::Init(args) => init::run(args),
            Command::Render(args) => render::run(args),
            Command::Openapi(args) => openapi::run(args),
            Command::Webhook(args) => webhook::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Man(args) => man::run(args),
        }
    }
}

/// Runs the command with the arguments of the process, and prints what it says.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help, or the version.
        Err(error) if !error.use_stderr() => error.exit(),
        // It repeats what was given.
        Err(error) => {
            crate::output::tell_text(&error.render().to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    ExitCode::from(cli.run().unwrap_or_else(|message| {
        tell!("edge-idempotency: {message}");
        BAD_INPUT
    }))
}
