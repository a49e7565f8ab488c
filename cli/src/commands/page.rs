//! docs/command.md, from the arguments and help texts. It is compiled for tests only.

use super::Cli;
use clap::{Arg, Command, CommandFactory as _};
use std::fmt::Write as _;

const HEAD: &str = "\
# The command

<!-- Made from the help texts in cli/src/commands/ by `UPDATE_DOCS=1 cargo test --workspace --bin edge-idempotency commands::page`. -->

`edge-idempotency` is the filter's engine on the command line: it writes and checks policies and configurations, says what happens to a
request, and looks after what Restate stores. `make cli` builds `dist/edge-idempotency`. `edge-idempotency COMMAND --help` prints what
stands here, `edge-idempotency man` makes manual pages of it, and `edge-idempotency completions` what a shell completes.

";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut root = Cli::command();
    root.build();
    contents(&root, 0, &mut page);
    section(&root, &mut page);
    page
}

/// The commands that a person types, with those below them.
fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
}

/// The command with all of its words: `edge-idempotency webhook new`.
fn words(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}

fn contents(command: &Command, depth: usize, page: &mut String) {
    for command in below(command) {
        let (words, about) = (words(command), command.get_about().map(ToString::to_string).unwrap_or_default());
        let anchor = words.replace(' ', "-");
        let about = first_sentence(&about);
        writeln!(page, "{}- [`{}`](#{anchor}): {}", "  ".repeat(depth), command.get_name(), escaped(about)).unwrap();
        contents(command, depth + 1, page);
    }
}

fn first_sentence(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn section(command: &Command, page: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    // The help text is laid out for a terminal.
    write!(page, "\n## {}\n\n```text\n{}\n\nUsage: {usage}\n```\n", words(command), about.trim_end()).unwrap();
    let rows: String = command.get_arguments().filter(|argument| !argument.is_hide_set()).map(row).collect();
    if !rows.is_empty() {
        write!(page, "\n| argument | |\n|---|---|\n{rows}").unwrap();
    }
    below(command).for_each(|command| section(command, page));
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = escaped(&help.replace("\n\n", "<br>").replace('\n', " "));
    if argument.get_action().takes_values() {
        let values = argument.get_possible_values();
        let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
        if !values.is_empty() {
            write!(text, " One of `{}`.", values.join("`, `")).unwrap();
        }
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() {
            write!(text, " Default: `{}`.", defaults.join(" ")).unwrap();
        }
    }
    format!("| `{}` | {text} |\n", argument.to_string().replace('|', "\\|"))
}

/// Text of a help as Markdown in a table.
fn escaped(text: &str) -> String {
    let text = text.replace("<br>", "\u{0}");
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "\\<").replace('*', "\\*").replace('\u{0}', "<br>")
}

/// `UPDATE_DOCS=1` writes the page anew.
#[test]
fn the_page_has_the_help_texts() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    assert!(std::fs::read_to_string(file).is_ok_and(|text| text == page()), "run this test with UPDATE_DOCS=1");
}
