//! `completions`: what a shell needs to complete the command's names and options.

use super::{Cli, FORWARD};
use crate::output::print;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

/// Prints completions for a shell.
///
/// Examples:
///   edge-idempotency completions bash > ~/.local/share/bash-completion/completions/edge-idempotency
///   edge-idempotency completions zsh > "${fpath[1]}/_edge-idempotency"
///   edge-idempotency completions fish > ~/.config/fish/completions/edge-idempotency.fish
///
/// Exit status: 0; 2 if the shell is not known.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &CompletionsArguments) -> Result<u8, String> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "edge-idempotency", &mut text);
    print(String::from_utf8_lossy(&text).trim_end())?;
    Ok(FORWARD)
}
