//! `webhook`: new webhooks, signed test deliveries.

mod new;
mod sign;

use clap::{Args, Subcommand};

/// Makes webhooks and their records, and signs test deliveries. docs/providers.md lists the providers.
///
/// Examples:
///   edge-idempotency webhook new --policy policy.json --tenant acme --project shop --provider stripe
///   edge-idempotency webhook sign --policy policy.json --id wh_01JSTRIPE --secret env:STRIPE_WHSEC --send
///
/// Exit status: 0 if it was done, 1 if a delivery was not accepted, 2 if something cannot be read or reached.
#[derive(Args)]
#[command(verbatim_doc_comment, arg_required_else_help = true)]
pub(crate) struct WebhookArguments {
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(Subcommand)]
enum WebhookCommand {
    New(new::NewArguments),
    Sign(sign::SignArguments),
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &WebhookArguments) -> Result<u8, String> {
    match &args.command {
        WebhookCommand::New(args) => new::run(args),
        WebhookCommand::Sign(args) => sign::run(args),
    }
}
