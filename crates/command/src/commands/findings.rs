//! Findings of `check`: which of them count, how they are printed, and the exit status.

use super::{BAD_INPUT, FORWARD, REJECT};
use crate::diagnostics::{formats, sarif};
use crate::explain::terminal_text::printable_lines;
use crate::lint;
use crate::lints::diagnostics::lint::Severity;
use crate::lints::diagnostics::{CheckedFile, FindingCounts, text};
use crate::output::print;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::io::Write as _;
use std::path::Path;

/// How findings are printed, and which of them count.
#[derive(Args)]
pub(super) struct FindingArguments {
    /// How findings are printed: text to standard error, all others to standard output.
    #[arg(long, value_enum, default_value_t = FindingFormat::Text)]
    format: FindingFormat,
    /// Reports these lints as errors; all means every warning.
    #[arg(long, value_name = "LINT", value_delimiter = ',', value_parser = names(true), hide_possible_values = true)]
    deny: Vec<String>,
    /// Hides these lints.
    #[arg(long, value_name = "LINT", value_delimiter = ',', value_parser = names(false), hide_possible_values = true)]
    allow: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FindingFormat {
    Text,
    Json,
    Sarif,
    Github,
}

fn names(all: bool) -> PossibleValuesParser {
    let names = lint::lints().filter(|lint| all || lint::can_be_allowed(lint)).map(|lint| lint.name);
    PossibleValuesParser::new(names.chain(all.then_some("all")))
}

/// The name of a file in findings.
pub(super) fn name(path: &Path) -> String {
    if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// Prints what was found; the exit status.
pub(super) fn report(mut files: Vec<CheckedFile>, args: &FindingArguments) -> Result<u8, String> {
    let mut own_errors = false;
    for file in &mut files {
        file.findings.retain(|finding| !args.allow.iter().any(|name| name == finding.lint.name));
        file.sort();
        for finding in &mut file.findings {
            own_errors |= finding.severity == Severity::Error;
            let denied =
                |name: &String| name == finding.lint.name || name == "all" && finding.severity == Severity::Warning;
            if args.deny.iter().any(denied) {
                finding.severity = Severity::Error;
            }
        }
    }
    if args.format == FindingFormat::Text {
        files.iter_mut().for_each(make_printable);
    }
    write(&files, args.format)?;
    Ok(match FindingCounts::of(&files) {
        _ if own_errors => BAD_INPUT,
        FindingCounts { errors: 0, .. } => FORWARD,
        _ => REJECT,
    })
}

/// The renderer of findings writes colours, so what it gets holds nothing that a terminal acts on. Lines of the file it gets as
/// `SourceText::shown` gives them.
fn make_printable(file: &mut CheckedFile) {
    let shown = |text: &mut String| *text = printable_lines(text).into_owned();
    shown(&mut file.source.name);
    for finding in &mut file.findings {
        shown(&mut finding.message);
        shown(&mut finding.help);
        finding.pointer.iter_mut().for_each(shown);
    }
}

fn write(files: &[CheckedFile], format: FindingFormat) -> Result<(), String> {
    match format {
        FindingFormat::Json => print(&crate::explain::terminal_text::json(&formats::to_json(files))),
        FindingFormat::Sarif => print(&crate::explain::terminal_text::json(&sarif::to_sarif(files, lint::lints()))),
        FindingFormat::Github => print(formats::to_github(files).trim_end()),
        FindingFormat::Text => {
            let width = console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
            let mut out = anstream::stderr().lock();
            for file in files {
                // Nobody is left to tell if standard error cannot be written.
                let _ = write!(out, "{}", text::render(file, width, true));
            }
            let totals = text::totals(FindingCounts::of(files));
            if !totals.is_empty() {
                let _ = writeln!(out, "{totals}");
            }
            files
                .iter()
                .filter_map(|file| Some((file, file.summary.as_ref()?)))
                .try_for_each(|(file, summary)| print(&format!("{}: {summary}", file.source.name)))
        }
    }
}
