//! `explain`: what the filter would do with one request, or has done with one.

use super::input::{first_line_of_input, print, read, read_policy, variable};
use super::{BAD_INPUT, FORWARD, REJECT};
use crate::{explain, log_line, plain, request};
use clap::Args;
use edge_idempotency_engine::Policy;
use std::path::PathBuf;

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
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
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

/// Runs the command; its exit status.
pub(crate) fn run(args: &Arguments) -> Result<u8, String> {
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

fn explain_line(line: &str, policy: Option<&Policy>, args: &Arguments) -> Result<u8, String> {
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
