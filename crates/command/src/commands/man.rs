//! `man`: manual pages, made from the help texts.

use super::{Cli, FORWARD};
use crate::output::print;
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use std::path::PathBuf;

/// Prints the manual page of this command, or writes a page for each of its commands.
///
/// Examples:
///   edge-idempotency man | man -l -
///   edge-idempotency man --out ~/.local/share/man/man1
///
/// Exit status: 0; 2 if a page cannot be written.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArguments {
    /// The folder for the pages: edge-idempotency.1, edge-idempotency-explain.1 and so on. It is made if it is not there.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &ManArguments) -> Result<u8, String> {
    match &args.out {
        None => print(String::from_utf8_lossy(&page(Cli::command())?).trim_end())?,
        Some(folder) => {
            let write = || {
                std::fs::create_dir_all(folder)?;
                clap_mangen::generate_to(Cli::command(), folder)
            };
            write().map_err(|error| format!("{}: {error}", folder.display()))?;
            print(&format!("wrote the pages to {}", folder.display()))?;
        }
    }
    Ok(FORWARD)
}

fn page(command: Command) -> Result<Vec<u8>, String> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(|error| format!("the manual page: {error}"))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(Cli::command(), folder.path()).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let mut commands = Vec::new();
        walk(&Cli::command(), "", &mut commands);
        for (words, _) in commands {
            assert!(folder.path().join(format!("{}.1", words.replace(' ', "-"))).exists(), "{words}");
        }
        assert!(text("edge-idempotency.1").contains("edge\\-idempotency"), "{}", text("edge-idempotency.1"));
        assert!(text("edge-idempotency-webhook-sign.1").contains("\\-\\-secret"));
    }
}
