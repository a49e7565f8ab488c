//! `explain`: what the filter would do with one request, or has done with one.

mod namespaced_key;

use super::{BAD_INPUT, FORWARD, REJECT};
use crate::explain::request::Request;
use crate::explain::request_input::{DescribedRequest, Files as _, RequestInput, curl};
use crate::explain::{explain, terminal_text};
use crate::input::{first_line_of_input, read_policy, variable};
use crate::log_line;
use crate::material::{Material, now_unix_ms};
use crate::output::tell;
use crate::output::{print, print_document};
use clap::{ArgGroup, Args};
use edge_idempotency_engine::Policy;
use std::path::PathBuf;
use std::sync::Arc;

/// Shows what the filter would do with one request, step by step, and what to change if it is refused.
///
/// The request is one of these:
///   --curl COMMAND   a curl command as you paste it; - reads it from standard input
///   --url URL        with --method, -H and --data
///   --request FILE   a request document in JSON, for programs, and for answers of stores
///   --log-line LINE  a line of a log: what became of a request that came
///
/// --key KEY takes a namespaced key instead, and splits it into tenant, project, subject and the key that the caller sent.
///
/// Examples:
///   edge-idempotency explain --policy policy.json --jwt @token.txt \
///     --curl "curl https://api.example.com/orders -H 'Idempotency-Key: 8e03978e' -d '{}'"
///   edge-idempotency explain --policy policy.json --method POST --url https://api.example.com/orders \
///     -H 'Idempotency-Key: 8e03978e' --jwt '{"tenant_id": "acme", "project_id": "shop", "sub": "u1"}'
///   edge-idempotency explain --policy policy.json --request request.json --json
///   grep 3f9fbb3c-6dbb-9a9c-8d5c-1f6f0d1c9d52 access.log | edge-idempotency explain --policy policy.json --log-line -
///   edge-idempotency explain --key t-acme:health-prod:user:alice:refund-1001
///
/// --curl takes a command as it is pasted, for bash. In its method, URL and key, write
/// the values themselves in place of what the shell would replace, such as $KEY. The filter sees a URL without user information, and without the port and the
/// final dot of its host, which clients and the gateway take off; a request document is taken as it is.
///
/// --jwt shows the claims of a token to the policy as Envoy's jwt_authn does. The token is not verified. Without --jwt, the
/// token of a header `Authorization: Bearer …` is taken. Nothing is sent to anybody.
///
/// A request document:
///   {"method": "POST", "url": "https://api.example.com/api/v1/refunds",
///    "headers": [["idempotency-key", "8e03978e"], ["x-blob", {"base64": "/w=="}]],
///    "metadata": {"envoy.filters.http.jwt_authn": {"jwt": {"tenant_id": "acme", "project_id": "shop", "sub": "u1"}}},
///    "route_metadata": {"edge.idempotency": {"endpoint": "refunds.create"}},
///    "body": "…" or "body_base64": "…", "now_unix": 1767225600}
/// Only method and url are needed. --print-request prints the document of a request that is described in another way.
/// Secrets that the policy takes from the environment are taken from this command's.
///
/// --log-line takes a line of the JSON access log, or one that the filter wrote into Envoy's own log. It prints what became of
/// the request, what code and reason mean, what the log does not have, and a request document that is answered in the same
/// way, as far as that can be known. With --policy it also says where line and policy disagree.
///
/// --key takes a key of the form t-{tenant}:{project}:{type}:{id}:{key}, as Restate stores it, and the access log has it with
/// "key_in_logs": "full". Only the last part can hold colons. The subject's id is shown as the identity source gave it, so
/// percent-decoded.
///
/// Exit status: 0 if the request is forwarded, 1 if it is refused (of a line: by the filter, or by the gateway while the
/// filter waited), 2 if the policy, the request, the line or the key cannot be read.
#[derive(Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("what").required(true).args(["request", "curl", "url", "log_line", "key"]))]
pub(crate) struct ExplainArguments {
    /// The policy document, as given to the gateway. A line of a log can be explained without it, and a key always is.
    #[arg(long, value_name = "FILE|-", required_unless_present_any = ["log_line", "key"], conflicts_with = "key")]
    policy: Option<PathBuf>,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
    /// The request, as JSON; - reads standard input.
    #[arg(long, value_name = "FILE|-")]
    request: Option<PathBuf>,
    /// The request, as a curl command; - reads standard input.
    #[arg(long, value_name = "COMMAND|-")]
    curl: Option<String>,
    /// The request's URL.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The request's method; without it POST if there is --data, else GET.
    #[arg(long, value_name = "METHOD", requires = "url")]
    method: Option<String>,
    /// A header of the request. With --curl it is added.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", conflicts_with_all = ["request", "log_line", "key"])]
    headers: Vec<String>,
    /// The request's body.
    #[arg(long, value_name = "TEXT|@FILE|@-", requires = "url")]
    data: Option<String>,
    /// The caller's token, or its claims as a JSON object. It is not verified. Give a real token as @FILE or -: other users of the
    /// machine can see arguments.
    #[arg(long, value_name = "TOKEN|@FILE|-", conflicts_with_all = ["request", "log_line", "key"])]
    jwt: Option<String>,
    /// Prints the request document instead of the verdict.
    #[arg(long, conflicts_with_all = ["request", "log_line", "key"])]
    print_request: bool,
    /// A line of a log; - reads the first line of standard input.
    #[arg(long, value_name = "LINE|-")]
    log_line: Option<String>,
    /// A namespaced key; - reads the first line of standard input.
    #[arg(long, value_name = "KEY|-")]
    key: Option<String>,
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &ExplainArguments) -> Result<u8, String> {
    if let Some(key) = &args.key {
        let line = if key == "-" { first_line_of_input()?.0.ok_or("standard input has no line")? } else { key.clone() };
        print(&namespaced_key::explained(line.trim_end(), args.json)?)?;
        return Ok(FORWARD);
    }
    let mut material = Material::default();
    let mut policy = None;
    if let Some(file) = &args.policy {
        if file.as_os_str() == "-" {
            material.take_input()?;
        }
        let Some(mut read) = read_policy(file, args.json)? else { return Ok(BAD_INPUT) };
        // Without them a delivery is refused as the gateway would refuse it: 503.
        let taken = read.read_secrets(variable, |_| true, edge_idempotency_envoy::ADVICE.environment);
        // The line of a delivery has no signature that a secret could fit.
        if let (Err(missing), None) = (taken, &args.log_line) {
            missing.0.iter().for_each(|issue| tell!("warning: {issue}"));
        }
        policy = Some(Arc::new(read));
    }
    if let Some(line) = &args.log_line {
        if line == "-" {
            material.take_input()?;
        }
        return explain_line(line, policy.as_ref(), args);
    }
    // The parser of the arguments has seen to it that there is one.
    let Some(policy) = policy else { return Ok(BAD_INPUT) };
    let (source, request, notes) = read_request(args, &policy, &mut material)?;
    if args.print_request {
        print_document(&String::from_utf8_lossy(&request))?;
        return Ok(FORWARD);
    }
    let request = Request::parse(&request, now_unix_ms()).map_err(|errors| format!("{source}: {errors}"))?;
    let verdict = explain(&policy, &request);
    match args.json {
        true => print_document(&verdict.to_json(&notes).to_string())?,
        false => print(&verdict.to_text(&notes))?,
    }
    Ok(if verdict.is_forwarded() { FORWARD } else { REJECT })
}

/// The request document, where it comes from, and what a reader has to know about it.
fn read_request(
    args: &ExplainArguments,
    policy: &Policy,
    material: &mut Material,
) -> Result<(String, Vec<u8>, Vec<String>), String> {
    if let Some(file) = &args.request {
        let name = file.to_string_lossy();
        return Ok((name.clone().into_owned(), material.file(&name)?, Vec::new()));
    }
    let mut request = match (&args.curl, &args.url) {
        (Some(command), _) if command == "-" => curl::parse(&String::from_utf8_lossy(&material.file("-")?), material)?,
        (Some(command), _) => curl::parse(command, material)?,
        (None, url) => {
            let body = args.data.as_ref().map(|data| material.text_or_file(data)).transpose()?;
            let method = if body.is_some() { "POST" } else { "GET" };
            RequestInput {
                method: args.method.clone().unwrap_or_else(|| method.to_owned()),
                url: url.clone().unwrap_or_default(),
                body: body.unwrap_or_default(),
                ..RequestInput::default()
            }
        }
    };
    for line in &args.headers {
        request.add_header(line)?;
    }
    let token = match args.jwt.as_deref() {
        Some("-") => Some(String::from_utf8_lossy(&material.file("-")?).into_owned()),
        Some(text) => Some(String::from_utf8_lossy(&material.text_or_file(text)?).into_owned()),
        None => None,
    };
    let DescribedRequest { document, notes } = request.describe(token.as_deref(), policy, now_unix_ms() / 1000)?;
    let source = if args.curl.is_some() { "--curl" } else { "--url" };
    Ok((source.to_owned(), terminal_text::json(&document).into_bytes(), notes))
}

fn explain_line(line: &str, policy: Option<&Arc<Policy>>, args: &ExplainArguments) -> Result<u8, String> {
    let (first, more) = if line == "-" {
        first_line_of_input()?
    } else {
        let mut lines = line.lines().filter(|line| !line.trim().is_empty());
        (lines.next().map(str::to_owned), lines.count())
    };
    let line = log_line::LogLine::parse(&first.ok_or("there is no line to explain")?)?;
    if more > 0 {
        tell!("edge-idempotency: only the first line is explained; {more} more came");
    }
    let explanation = log_line::Explanation::of(line, policy);
    let file = args.policy.as_ref().map(|file| file.display().to_string());
    print(&if args.json { terminal_text::json(&explanation.to_json()) } else { explanation.to_text(file.as_deref()) })?;
    Ok(if explanation.is_refused() { REJECT } else { FORWARD })
}
