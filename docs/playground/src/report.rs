//! What the command would print about a policy in `policy.json` and a request.

use edge_idempotency_command::explain::request::Request;
use edge_idempotency_command::explain::request_input::{DescribedRequest, Files, curl};
use edge_idempotency_command::explain::{Verdict, explain, terminal_text};
use edge_idempotency_command::lints::diagnostics::source::SourceText;
use edge_idempotency_command::lints::diagnostics::{CheckedFile, FindingCounts, text};
use edge_idempotency_engine::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The policy's file in messages.
const POLICY: &str = "policy.json";
/// The request document's file in messages.
const REQUEST: &str = "request.json";

/// What the page asks.
#[derive(Debug, Deserialize)]
pub struct Question {
    /// The policy document
    pub policy: String,
    /// A curl command, or a request document
    pub request: String,
    /// The caller's token, or its claims as JSON; empty for none. Only with a curl command.
    pub token: String,
    /// The page's clock, in milliseconds since 1970-01-01 UTC
    pub now_unix_ms: u64,
}

/// What the page shows.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What `check policy.json` prints, the findings first
    pub check: String,
    /// How bad the policy is: `error`, `warning`, `note`; or `fine`
    pub policy: &'static str,
    /// Where the findings stand
    pub findings: Vec<FindingPlace>,
    /// What `explain --policy policy.json` prints about the request; `None` if there is no verdict
    pub explain: Option<String>,
    /// What becomes of the request: `forward`, `shadow`, `acknowledge` or `reject`
    pub action: Option<&'static str>,
    /// Why there is no verdict
    pub error: Option<String>,
    /// The request document of a curl command, as `--print-request` prints it
    pub document: Option<String>,
}

/// A place in the policy document. Lines and columns count from 1, and columns count characters.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FindingPlace {
    severity: &'static str,
    message: String,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

/// Answers a question in JSON.
#[must_use]
pub fn answer(question: &[u8]) -> String {
    let report = match serde_json::from_slice(question) {
        Ok(question) => report(&question),
        Err(error) => {
            Report { error: Some(format!("the page asked what cannot be read: {error}")), ..Report::default() }
        }
    };
    serde_json::to_string(&report).unwrap_or_default()
}

/// What the command would print.
#[must_use]
pub fn report(question: &Question) -> Report {
    let bytes = question.policy.as_bytes();
    let source = SourceText::new(POLICY.to_owned(), bytes);
    let checked = edge_idempotency_command::lints::check_file(source, bytes, |_| None, |_, _| Vec::new());
    let mut report = of_policy(checked);
    if let Ok(mut policy) = Policy::from_json(bytes) {
        // The page has no environment: a delivery whose secret is a variable is refused as a gateway without the variable would refuse it.
        let _ = policy.read_secrets(|_| None, |_| true, edge_idempotency_envoy::ADVICE.environment);
        if let Err(message) = of_request(question, &Arc::new(policy), &mut report) {
            report.error = Some(message);
        }
    }
    report
}

fn of_policy(mut checked: CheckedFile) -> Report {
    checked.sort();
    let mut check = text::render(&checked, None, false);
    check += &text::totals(FindingCounts::of(std::slice::from_ref(&checked)));
    if let Some(summary) = &checked.summary {
        check = format!("{}\n{}: {summary}", check.trim_end(), checked.source.name);
    }
    let findings = checked.findings.iter().map(|finding| {
        let (start, end) = (checked.source.place(finding.span.start), checked.source.place(finding.span.end));
        FindingPlace {
            severity: finding.severity.name(),
            message: finding.message.clone(),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
        }
    });
    let worst = checked.findings.iter().map(|finding| finding.severity).max();
    Report {
        check: check.trim().to_owned(),
        policy: worst.map_or("fine", edge_idempotency_command::lints::diagnostics::lint::Severity::name),
        findings: findings.collect(),
        ..Report::default()
    }
}

/// Adds the verdict on the request.
fn of_request(question: &Question, policy: &Arc<Policy>, report: &mut Report) -> Result<(), String> {
    let (now, text) = (question.now_unix_ms, question.request.trim());
    let (source, request, notes) = if text.is_empty() {
        return Err("there is no request: paste a curl command, or write a request document".to_owned());
    } else if text.starts_with('{') {
        (REQUEST, text.to_owned(), Vec::new())
    } else {
        let token = Some(question.token.trim()).filter(|token| !token.is_empty());
        let DescribedRequest { document, notes } =
            curl::parse(text, &mut NoFiles)?.describe(token, policy, now / 1000)?;
        ("--curl", terminal_text::json(&document), notes)
    };
    let read = Request::parse(request.as_bytes(), now).map_err(|errors| format!("{source}: {errors}"))?;
    let verdict = explain(policy, &read);
    report.action = Some(action(&verdict));
    report.explain = Some(verdict.to_text(&notes));
    report.document = Some(request).filter(|_| source != REQUEST);
    Ok(())
}

fn action(verdict: &Verdict) -> &'static str {
    let json = verdict.to_json(&[]);
    match json.get("action").and_then(Value::as_str) {
        Some("forward") if json.get("shadow").is_some() => "shadow",
        Some("forward") => "forward",
        Some("acknowledge") => "acknowledge",
        _ => "reject",
    }
}

/// A page reads no files.
struct NoFiles;

impl Files for NoFiles {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        Err(format!("{name}: the playground reads no files: write the content into the command"))
    }
}
