//! `check`: every error of a policy document with its place.

use super::input::{issues, print, read_policy, variable};
use super::{BAD_INPUT, FORWARD};
use clap::Args;
use edge_idempotency_engine::PolicyErrors;
use serde_json::json;
use std::path::PathBuf;

/// Checks a policy document and lists every error with its place.
///
/// Secrets are looked at where they can be seen, in the document or in this command's environment: those that are
/// short or of another provider's form, and variables that are not set here, are warned about.
///
/// Examples:
///   edge-idempotency check --policy policy.json
///   edge-idempotency check --json --policy - < policy.json
///
/// Exit status: 0 if the filter would start with it, its variables given; 2 if not.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The policy document, as given to the gateway.
    #[arg(long, value_name = "FILE|-")]
    policy: PathBuf,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &Arguments) -> Result<u8, String> {
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
