//! The commands: arguments and help texts, and what each of them runs.
//!
//! | module | subject |
//! |---|---|
//! | `check` | a policy document before it reaches a gateway |
//! | `completions` | completions for shells |
//! | `explain` | one request, one line of a log, or a namespaced key |
//! | `shadow_report` | logs of a policy in shadow mode |
//! | `keys` | what Restate stores under keys, and purging of it |
//! | `retention` | Restate's retention beside the policy's |
//! | `init` | a first policy document |
//! | `render` | configurations of gateways |
//! | `overlay` | what the gateway adds to an OpenAPI description |
//! | `webhook` | new webhooks, signed deliveries |
//! | `question` | questions on the terminal |
//! | `findings` | how findings are printed |

mod check;
mod completions;
mod explain;
mod findings;
mod init;
mod keys;
mod overlay;
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
    command: CommandArguments,
}

#[derive(Subcommand)]
enum CommandArguments {
    Explain(explain::ExplainArguments),
    Check(Box<check::CheckArguments>),
    ShadowReport(shadow_report::ShadowReportArguments),
    Retention(retention::RetentionArguments),
    Keys(Box<keys::KeysArguments>),
    Init(init::InitArguments),
    Render(render::RenderArguments),
    Overlay(overlay::OverlayArguments),
    Webhook(webhook::WebhookArguments),
    Completions(completions::CompletionsArguments),
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
            CommandArguments::Explain(args) => explain::run(args),
            CommandArguments::Check(args) => check::run(args),
            CommandArguments::ShadowReport(args) => shadow_report::run(args),
            CommandArguments::Retention(args) => retention::run(args),
            CommandArguments::Keys(args) => keys::run(args),
            CommandArguments::Init(args) => init::run(args),
            CommandArguments::Render(args) => render::run(args),
            CommandArguments::Overlay(args) => overlay::run(args),
            CommandArguments::Webhook(args) => webhook::run(args),
            CommandArguments::Completions(args) => completions::run(args),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory as _};

    /// Every command below `command`, itself included, with its words: `edge-idempotency webhook new`.
    fn walk(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
        let words =
            if words.is_empty() { command.get_name().to_owned() } else { format!("{words} {}", command.get_name()) };
        found.push((words.clone(), command.clone()));
        command
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .for_each(|below| walk(below, &words, found));
    }

    #[test]
    fn every_command_has_help_with_examples_and_exit_status() {
        let mut commands = Vec::new();
        walk(&Cli::command(), "", &mut commands);
        assert!(commands.len() >= 8, "{commands:?}");
        for (words, mut command) in commands {
            let help = command.render_long_help().to_string();
            let examples: Vec<&str> =
                help.lines().skip_while(|line| !matches!(*line, "Examples:" | "Example:")).skip(1).collect();
            let called = examples.iter().any(|line| line.starts_with("  ") && line.contains(&words));
            assert!(called, "the help of `{words}` has no example of it:\n{help}");
            let is_leaf = !command.has_subcommands();
            assert!(!is_leaf || help.contains("Exit status"), "the help of `{words}` does not say its exit status");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "`{words}`: {} has no help", argument.get_id());
                // What is read can come from standard input.
                let names = argument.get_value_names().unwrap_or_default();
                let is_read = argument.get_id() == "policy" || argument.get_id() == "request";
                assert!(
                    !is_read || names.iter().any(|name| name.ends_with("|-")),
                    "`{words}`: {} does not say that - is standard input: {names:?}",
                    argument.get_id()
                );
            }
        }
        Cli::command().debug_assert();
    }
}
