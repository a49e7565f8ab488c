//! `edge-idempotency`: the filter's engine on the command line.

mod explain;
mod lines;
mod log_line;
mod meaning;
mod plain;
mod record;
mod request;
mod shadow_report;
mod sources;

use clap::{Args, Parser, Subcommand};
use edge_idempotency_engine::{Policy, PolicyErrors};
use serde_json::json;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The native companion of the edge idempotency filter: the same engine, without a gateway.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what the filter would do with one request.
    ///
    /// The request is a JSON document:
    /// {"method": "POST", "url": "https://api.example.com/api/v1/refunds",
    ///  "headers": [["idempotency-key", "8e03978e"], ["x-blob", {"base64": "/w=="}]],
    ///  "metadata": {"envoy.filters.http.jwt_authn": {"jwt": {"tenant_id": "acme", "project_id": "shop", "sub": "u1"}}},
    ///  "route_metadata": {"edge.idempotency": {"endpoint": "refunds.create"}},
    ///  "body": "…" or "body_base64": "…", "now_unix": 1767225600}
    ///
    /// Only method and url are needed. Secrets that the policy takes from the environment are taken from this command's.
    ///
    /// --log-line takes a line of a log instead: of the JSON access log, or one that the filter wrote into Envoy's own log. It
    /// prints what became of the request, what code and reason mean, what the log does not have, and a request document that
    /// is answered in the same way, as far as that can be known. With --policy it also says where line and policy disagree.
    ///
    ///   edge-idempotency explain --policy policy.json --request request.json
    ///   grep 3f9fbb3c-6dbb-9a9c-8d5c-1f6f0d1c9d52 access.log | edge-idempotency explain --policy policy.json --log-line -
    ///
    /// Exit status: 0 if the request is forwarded, 1 if it is refused (of a line: by the filter, or by the gateway while the
    /// filter waited), 2 if the policy, the request or the line cannot be read.
    #[command(verbatim_doc_comment)]
    Explain(ExplainArgs),
    /// Checks a policy document and lists every error with its place.
    ///
    /// Secrets are looked at where they can be seen, in the document or in this command's environment: those that are
    /// short or of another provider's form, and variables that are not set here, are warned about.
    ///
    /// Exit status: 0 if the filter would start with it, its variables given; 2 if not.
    #[command(verbatim_doc_comment)]
    Check(PolicyArgs),
    /// Counts from access logs what enforcing would refuse, before you switch shadow mode off.
    ///
    /// The logs are lines of JSON with the filter's record, plain or compressed with gzip. Each group of requests that would
    /// be refused is shown with its first and last time, and every tenant and endpoint with its number of requests.
    /// A log can be of any size: memory is bounded by the number of groups.
    ///
    /// Tenant `_none`: the filter refuses a request for its path, or without an identity, before it knows a tenant. A member
    /// `tenant` of the log line itself counts then.
    ///
    /// Examples:
    ///   edge-idempotency shadow-report access.log access.log.1.gz
    ///   tail -n 100000 access.log | edge-idempotency shadow-report --format json -
    ///   edge-idempotency shadow-report --since 2026-11-20 --fail-over 0.1 access.log
    ///
    /// Exit status: 0 if all was read; 1 if more would be refused than --fail-over allows; 2 if a file cannot be read to its
    /// end, or no line with a record of the filter counts. Whatever could be read is reported all the same.
    #[command(verbatim_doc_comment)]
    ShadowReport(ShadowReportArgs),
}

#[derive(Args)]
struct ShadowReportArgs {
    /// Access logs, plain or gzip; - reads standard input.
    #[arg(required = true, value_name = "FILE|-")]
    files: Vec<PathBuf>,
    /// How the report is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Counts only lines whose `time` is not before this text, such as 2026-11-20 or 2026-11-20T08:00.
    ///
    /// Times are compared as texts, in the form in which the log has them.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Counts only lines whose `time` is before this text.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Exits with 1 if more than this share of all requests would be refused, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_over: Option<f64>,
    /// The greatest number of rows of each table; 0 shows all. JSON has always all.
    #[arg(long, value_name = "N", default_value_t = 25)]
    top: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a number from 0 to 100".to_owned()),
    }
}

#[derive(Args)]
struct ExplainArgs {
    /// The policy document, as given to the gateway. A line of a log can be explained without it.
    #[arg(long, value_name = "FILE", required_unless_present = "log_line")]
    policy: Option<PathBuf>,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
    /// The request, as JSON; - reads standard input.
    #[arg(long, value_name = "FILE|-", required_unless_present = "log_line", conflicts_with = "log_line")]
    request: Option<PathBuf>,
    /// A line of a log; - reads the first line of standard input.
    #[arg(long, value_name = "LINE|-")]
    log_line: Option<String>,
}

#[derive(Args)]
struct PolicyArgs {
    /// The policy document, as given to the gateway.
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Forward, or fine.
const FORWARD: u8 = 0;
/// The request is refused, or too many would be.
const REJECT: u8 = 1;
/// Something could not be read.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Explain(args) => explain(&args),
        Command::Check(args) => check(&args),
        Command::ShadowReport(args) => shadow_report(&args),
    };
    ExitCode::from(outcome.unwrap_or_else(|message| {
        eprintln!("edge-idempotency: {message}");
        BAD_INPUT
    }))
}

fn explain(args: &ExplainArgs) -> Result<u8, String> {
    let mut policy = None;
    if let Some(file) = &args.policy {
        let Some(mut read) = read_policy(file, args.json)? else { return Ok(BAD_INPUT) };
        // Without them a delivery is refused as the gateway would refuse it: 503.
        let taken = read.take_secrets_or_advise(variable, edge_idempotency_envoy::ENVIRONMENT_ADVICE);
        // The line of a delivery has no signature that a secret could fit.
        if let (Err(missing), None) = (taken, &args.log_line) {
            missing.0.iter().for_each(|issue| eprintln!("warning: {issue}"));
        }
        policy = Some(read);
    }
    if let Some(line) = &args.log_line {
        return explain_line(line, policy.as_ref(), args);
    }
    // The parser of the arguments has seen to it that both are there.
    let (Some(policy), Some(file)) = (policy, &args.request) else { return Ok(BAD_INPUT) };
    let request = request::Request::parse(&read(file)?).map_err(|errors| format!("{}: {errors}", file.display()))?;
    let verdict = explain::explain(&policy, &request);
    let text = if args.json { verdict.to_json().to_string() } else { verdict.to_string() };
    print(&text)?;
    Ok(if verdict.is_forwarded() { FORWARD } else { REJECT })
}

fn explain_line(line: &str, policy: Option<&Policy>, args: &ExplainArgs) -> Result<u8, String> {
    let (first, more) = if line == "-" {
        first_line_of_input()?
    } else {
        let mut lines = line.lines().filter(|line| !line.trim().is_empty());
        (lines.next().map(str::to_owned), lines.count())
    };
    let line = log_line::LogLine::parse(&first.ok_or("there is no line to explain")?)?;
    if more > 0 {
        eprintln!("edge-idempotency: only the first line is explained; {more} more came");
    }
    let explanation = log_line::Explanation::of(line, policy);
    let file = args.policy.as_ref().map(|file| file.display().to_string());
    print(&if args.json { plain::json(&explanation.to_json()) } else { explanation.to_text(file.as_deref()) })?;
    Ok(if explanation.is_refused() { REJECT } else { FORWARD })
}

/// The first line of standard input that is not empty, and the number of those behind it. All of the input is read, so that
/// the command that writes it does not fail; only one line is kept.
///
/// # Errors
/// Standard input cannot be read, or its first line is longer than 1 MiB.
fn first_line_of_input() -> Result<(Option<String>, usize), String> {
    let error = |error: std::io::Error| format!("standard input: {error}");
    let mut lines = lines::LogLines::open(Path::new("-"), &indicatif::ProgressBar::hidden()).map_err(error)?;
    let (mut first, mut more) = (None, 0);
    while let Some(line) = lines.next().map_err(error)? {
        match line {
            lines::Line::Text(text) if text.trim_ascii().is_empty() => {}
            _ if first.is_some() => more += 1,
            lines::Line::Text(text) => first = Some(String::from_utf8_lossy(text).into_owned()),
            lines::Line::TooLong => return Err("the line is longer than 1 MiB: it is no line of a log".to_owned()),
        }
    }
    Ok((first, more))
}

fn check(args: &PolicyArgs) -> Result<u8, String> {
    let Some(mut policy) = read_policy(&args.policy, args.json)? else { return Ok(BAD_INPUT) };
    let mut warnings = policy.warnings().to_vec();
    if let Err(PolicyErrors(missing)) =
        policy.take_secrets_or_advise(variable, edge_idempotency_envoy::ENVIRONMENT_ADVICE)
    {
        warnings.extend(missing.into_iter().map(|mut issue| {
            issue.message = format!("not set here: {}", issue.message);
            issue
        }));
    }
    warnings.extend(policy.weak_secrets());
    if args.json {
        print(&json!({"errors": [], "warnings": issues(&warnings)}).to_string())?;
    } else {
        for warning in &warnings {
            eprintln!("warning: {warning}");
        }
        print(&format!("{}: {}", args.policy.display(), policy.summary()))?;
    }
    Ok(FORWARD)
}

fn shadow_report(args: &ShadowReportArgs) -> Result<u8, String> {
    let range = shadow_report::TimeRange { since: args.since.clone(), until: args.until.clone() };
    let report = shadow_report::Report::read(&args.files, &range);
    print(&match args.format {
        Format::Table => report.to_text(if args.top == 0 { usize::MAX } else { args.top }),
        Format::Json => plain::json(&report.to_json()),
    })?;
    report.complaints().iter().for_each(|complaint| eprintln!("edge-idempotency: {complaint}"));
    Ok(match args.fail_over {
        _ if !report.is_complete() => BAD_INPUT,
        Some(percent) if report.is_over(percent) => REJECT,
        _ => FORWARD,
    })
}

/// A variable of this command's environment.
fn variable(name: &str) -> Option<Vec<u8>> {
    std::env::var_os(name).map(OsString::into_encoded_bytes)
}

/// `None` if the document was read and is no policy; then its errors have been printed.
fn read_policy(file: &Path, as_json: bool) -> Result<Option<Policy>, String> {
    match Policy::from_json(&read(file)?) {
        Ok(policy) => Ok(Some(policy)),
        Err(errors) => {
            if as_json {
                print(&json!({"errors": issues(&errors.0)}).to_string())?;
            }
            let PolicyErrors(list) = &errors;
            eprintln!("{}: {}", file.display(), errors.headline());
            list.iter().for_each(|error| eprintln!("  {error}"));
            Ok(None)
        }
    }
}

fn issues(list: &[edge_idempotency_engine::json::Issue]) -> serde_json::Value {
    list.iter().map(|issue| json!({"pointer": issue.pointer, "message": issue.message})).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map(|_| bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// A reader that has gone away (`| head`) is no error.
fn print(text: &str) -> Result<(), String> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}
