//! `openapi`: an OpenAPI description beside a policy.

mod check;
mod overlay;

use clap::{Args, Subcommand};

/// Brings an OpenAPI description and a policy together: writes what the gateway adds to the API, and finds where the two differ.
///
/// Descriptions are of OpenAPI 3.0, 3.1 or 3.2, in YAML or JSON, in one file. `init --openapi` drafts a policy from one.
///
/// Examples:
///   edge-idempotency openapi overlay policy.json --openapi openapi.yaml > idempotency.overlay.yaml
///   edge-idempotency openapi check policy.json openapi.yaml
///
/// Exit status: 0 if it was done and nothing is wrong, 1 if the only errors are those of --deny, 2 for other errors and if something
/// cannot be read.
#[derive(Args)]
#[command(verbatim_doc_comment, arg_required_else_help = true)]
pub(crate) struct OpenapiArguments {
    #[command(subcommand)]
    command: OpenapiCommand,
}

#[derive(Subcommand)]
enum OpenapiCommand {
    Overlay(overlay::OverlayArguments),
    Check(check::OpenapiCheckArguments),
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &OpenapiArguments) -> Result<u8, String> {
    match &args.command {
        OpenapiCommand::Overlay(args) => overlay::run(args),
        OpenapiCommand::Check(args) => check::run(args),
    }
}
