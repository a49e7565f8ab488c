//! `shadow-report`: what enforcing would refuse, counted from access logs.

use super::{BAD_INPUT, FORWARD, REJECT};
use crate::explain::terminal_text;
use crate::output::print;
use crate::output::tell;
use crate::shadow_report;
use clap::Args;
use std::path::PathBuf;

/// Counts from access logs what enforcing would refuse, before you switch shadow mode off.
///
/// The logs are lines of JSON with the filter's record, plain or compressed with gzip. Each group of requests that would
/// be refused is shown with its first and last time, and every tenant and endpoint with its number of requests. Keys
/// that several callers sent to one endpoint are counted: without namespaces one caller gets the answer to another.
/// A log can be of any size: memory is bounded by the number of groups, and at most a million keys are compared.
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
/// end, or no line with a record of the filter counts. What could be read is reported in every case.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShadowReportArguments {
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

/// Runs the command; its exit status.
pub(crate) fn run(args: &ShadowReportArguments) -> Result<u8, String> {
    let range = shadow_report::TimeRange { since: args.since.clone(), until: args.until.clone() };
    let report = shadow_report::Report::read(&args.files, &range);
    print(&match args.format {
        Format::Table => report.to_text(if args.top == 0 { usize::MAX } else { args.top }),
        Format::Json => terminal_text::json(&report.to_json()),
    })?;
    report.complaints().iter().for_each(|complaint| tell!("edge-idempotency: {complaint}"));
    Ok(match args.fail_over {
        _ if !report.is_complete() => BAD_INPUT,
        Some(percent) if report.is_over(percent) => REJECT,
        _ => FORWARD,
    })
}
