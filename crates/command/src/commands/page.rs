//! docs/command.md, from the arguments and help texts. It is compiled for tests only.

use super::Cli;
use clap::{Command, CommandFactory as _};
use std::fmt::Write as _;

const HEAD: &str = "\
# The command

<!-- Made from the help texts in crates/command/src/commands/ by `UPDATE_DOCS=1 cargo test --workspace --bin edge-idempotency commands::page`. -->

`edge-idempotency` is the filter's engine on the command line: it writes and checks policies and configurations, says what happens to a
request, and looks after what Restate stores. `make cli` builds `dist/edge-idempotency`. Below is what `edge-idempotency COMMAND --help`
prints; `edge-idempotency man` makes manual pages of it, and `edge-idempotency completions` what a shell completes.

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
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let about: Vec<_> = about.split_whitespace().collect();
        let (indent, anchor) = ("  ".repeat(depth), words(command).replace(' ', "-"));
        writeln!(page, "{indent}- [`{}`](#{anchor}): {}", command.get_name(), about.join(" ")).unwrap();
        contents(command, depth + 1, page);
    }
}

fn section(command: &Command, page: &mut String) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n## {}\n\n```text\n{}\n```\n", words(command), lines.join("\n")).unwrap();
    below(command).for_each(|command| section(command, page));
}

/// `UPDATE_DOCS=1` writes the page anew.
#[test]
fn the_page_has_the_help_texts() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    assert!(std::fs::read_to_string(file).is_ok_and(|text| text == page()), "run this test with UPDATE_DOCS=1");
}
