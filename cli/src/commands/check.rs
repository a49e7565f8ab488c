//! `check`: a policy document, or a gateway's configuration, before it is used.

use super::{BAD_INPUT, FORWARD, REJECT};
use crate::diagnostics::lint::Severity;
use crate::diagnostics::source::SourceText;
use crate::diagnostics::{CheckedFile, FindingCounts, formats, sarif, text};
use crate::input::{print, read, variable};
use crate::lint;
use crate::live::{self, arguments::LiveArguments};
use clap::Args;
use clap::builder::PossibleValuesParser;
use edge_idempotency_engine::Policy;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Checks policy documents, and the gateway around them, before they are used.
///
/// Finds everything that the filter refuses at start, and documents that start and do not do what was meant: writes
/// without a policy, results that are gone before the retry comes, secrets in the file, and more. Each finding shows the
/// line, what is wrong and what to write instead; docs/lints.md says more about each of them.
///
/// With --envoy the files are configurations of Envoy (YAML or JSON). The command takes the policy out of the filter's
/// configuration, checks it, and also checks the gateway: order of filters, buffer limits, path normalisation, variables,
/// clusters, routes, retries, access log.
///
/// With --live the command also asks what the policy needs: the guard, Restate, the registry, the secret store, the issuer's keys
/// and the gateway. Options say where they are, as seen from here. Credentials come from the environment: those that the policy
/// names, UNKEY_ROOT_KEY, BAO_TOKEN or VAULT_TOKEN, RESTATE_AUTH_TOKEN. The guard keeps two claims of a made-up key.
///
/// Secrets are checked where the command can see them: in the document, or in this command's environment.
///
/// Examples:
///   edge-idempotency check policy.json
///   cat policy.json | edge-idempotency check -
///   edge-idempotency check --deny all --allow unmatched-write policies/examples/*.json
///   edge-idempotency check --envoy envoy.yaml
///   edge-idempotency check --live --upstream restate=http://127.0.0.1:8080 --admin http://127.0.0.1:9070 \
///     --admin-envoy http://127.0.0.1:9901 policy.json
///   edge-idempotency check --format sarif policy.json > check.sarif
///
/// Exit status: 0 if there is no error; 1 if the only errors are those of --deny; 2 if the filter would not start, the
/// gateway has an error, or a file cannot be read.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Policy documents, or with --envoy configurations of Envoy; - reads standard input.
    #[arg(value_name = "FILE|-", required_unless_present = "list_lints")]
    files: Vec<PathBuf>,
    /// The files are configurations of Envoy.
    #[arg(long)]
    envoy: bool,
    #[command(flatten)]
    live: LiveArguments,
    /// How findings are printed: text to standard error, all others to standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Reports these lints as errors; all means every warning.
    #[arg(long, value_name = "LINT", value_delimiter = ',', value_parser = names(true), hide_possible_values = true)]
    deny: Vec<String>,
    /// Hides these lints.
    #[arg(long, value_name = "LINT", value_delimiter = ',', value_parser = names(false), hide_possible_values = true)]
    allow: Vec<String>,
    /// Prints the names of all lints and what they find.
    #[arg(long, exclusive = true)]
    list_lints: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
    Github,
}

fn names(all: bool) -> PossibleValuesParser {
    let names = lint::lints().filter(|lint| all || lint::can_be_allowed(lint)).map(|lint| lint.name);
    PossibleValuesParser::new(names.chain(all.then_some("all")))
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &Arguments) -> Result<u8, String> {
    if args.list_lints {
        print(lint::page::table().trim_end())?;
        return Ok(FORWARD);
    }
    if !args.live.live && args.live.restate.is_given() {
        return Err("--admin and --header-env say where `check --live` asks: add --live".to_owned());
    }
    let mut files = Vec::new();
    for path in &args.files {
        match read(path) {
            Ok(bytes) => files.extend(check(path, &bytes, args)),
            Err(message) => files.push(lint::unread_file(name(path), message)),
        }
    }
    let mut own_errors = false;
    for file in &mut files {
        file.findings.retain(|finding| !args.allow.iter().any(|name| name == finding.lint.name));
        file.findings.sort_by_key(|finding| (finding.span.start, std::cmp::Reverse(finding.severity)));
        for finding in &mut file.findings {
            own_errors |= finding.severity == Severity::Error;
            let denied =
                |name: &String| name == finding.lint.name || name == "all" && finding.severity == Severity::Warning;
            if args.deny.iter().any(denied) {
                finding.severity = Severity::Error;
            }
        }
    }
    report(&files, args.format)?;
    Ok(match FindingCounts::of(&files) {
        _ if own_errors => BAD_INPUT,
        FindingCounts { errors: 0, .. } => FORWARD,
        _ => REJECT,
    })
}

/// The name of a file in findings.
fn name(path: &Path) -> String {
    if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() }
}

fn check(path: &Path, bytes: &[u8], args: &Arguments) -> Vec<CheckedFile> {
    let source = SourceText::new(name(path), bytes);
    if args.envoy {
        lint::gateway::check_file(source, path, variable)
    } else {
        let live = |policy: &Policy, document: &Value| match args.live.live {
            true => live::check(&args.live, policy, document),
            false => Vec::new(),
        };
        vec![lint::check_file(source, bytes, variable, live)]
    }
}

fn report(files: &[CheckedFile], format: Format) -> Result<(), String> {
    match format {
        Format::Json => print(&crate::terminal_text::json(&formats::to_json(files))),
        Format::Sarif => print(&crate::terminal_text::json(&sarif::to_sarif(files, lint::lints()))),
        Format::Github => print(formats::to_github(files).trim_end()),
        Format::Text => {
            let width = console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
            let mut out = anstream::stderr().lock();
            for file in files {
                // Nobody is left to tell if standard error cannot be written.
                let _ = write!(out, "{}", text::render(file, width));
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
