//! `openapi check`: where a description and a policy differ.

use crate::commands::findings::{FindingArguments, name, report};
use crate::input::read;
use crate::lint;
use crate::lints::diagnostics::source::SourceText;
use clap::Args;
use std::path::{Path, PathBuf};

/// The error if both files should come from standard input.
pub(super) const BOTH_FROM_INPUT: &str = "only one of the policy and the description can be standard input";

/// Finds where an OpenAPI description and a policy differ.
///
/// Finds operations without a route and routes without an operation; a key parameter that is missing, required wrongly, not taken, or
/// has a schema that the filter does not follow; refusals and headers that the description lacks; an x-idempotency-policy that
/// differs; webhooks that are described as operations for callers. Each finding shows the line, what is wrong and what to write
/// instead; docs/lints.md says more about each of them. `openapi overlay` writes most of what is missing.
///
/// Examples:
///   edge-idempotency openapi check policy.json openapi.yaml
///   edge-idempotency openapi check --deny all --allow openapi-no-operation policy.json openapi.yaml
///   edge-idempotency openapi check --format sarif policy.json openapi.yaml > openapi.sarif
///
/// Exit status: 0 if there is no error; 1 if the only errors are those of --deny; 2 if there is another error, or a file cannot
/// be read.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct OpenapiCheckArguments {
    /// The policy document; - is standard input.
    #[arg(value_name = "POLICY|-")]
    policy: PathBuf,
    /// The description; - is standard input.
    #[arg(value_name = "FILE|-")]
    description: PathBuf,
    #[command(flatten)]
    findings: FindingArguments,
}

/// Runs the command; its exit status.
pub(super) fn run(args: &OpenapiCheckArguments) -> Result<u8, String> {
    let stdin = Path::new("-");
    if args.policy == stdin && args.description == stdin {
        return Err(BOTH_FROM_INPUT.to_owned());
    }
    let files = match (read(&args.policy), read(&args.description)) {
        (Ok(policy), Ok(description)) => {
            let source = |path: &Path, bytes: &[u8]| SourceText::new(name(path), bytes);
            lint::openapi::check_files(source(&args.policy, &policy), &policy, source(&args.description, &description))
        }
        (policy, description) => {
            let unread = |path: &Path, read: Result<Vec<u8>, String>| {
                read.err().map(|message| lint::unread_file(name(path), message))
            };
            unread(&args.policy, policy).into_iter().chain(unread(&args.description, description)).collect()
        }
    };
    report(files, &args.findings)
}
