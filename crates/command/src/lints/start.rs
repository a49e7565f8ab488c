//! What the engine itself says about a document: what the filter refuses, what the start log warns about, and secrets.

use super::{PolicyFinding, Variables, secrets};
use crate::lints::diagnostics::json;
use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::list::{
    CONTESTED_HEADER, LOST_PARAMETER, MISSING_VARIABLE, NOT_JSON, NOT_SEEN, SHADOW_MODE, SHARED_KEYS, START_ERROR,
    START_WARNING, WRONG_SECRET,
};
use edge_idempotency_engine::json::Issue;
use edge_idempotency_engine::{Policy, PolicyErrors};
use std::collections::BTreeSet;

/// What the filter refuses.
pub(super) fn errors(document: &SourceText, issues: &[Issue]) -> Vec<PolicyFinding> {
    let twice = issues.iter().any(|issue| issue.message.contains("stands twice in the object"));
    let twice = if twice { second_members(document) } else { Vec::new() };
    if !twice.is_empty() {
        return twice;
    }
    issues
        .iter()
        .map(|issue| {
            let is_json = !issue.message.starts_with("not a JSON document");
            let lint = if is_json { &START_ERROR } else { &NOT_JSON };
            let mut finding = PolicyFinding::new(lint, issue.pointer.clone(), issue.message.clone(), "");
            if !is_json {
                let at = place(&issue.message).map_or(0, |(line, column)| document.at(line, column));
                in_characters(&mut finding.message, document, at);
                finding.span = Some(at..document.text.get(at..).map_or(at, |rest| at + first_char(rest)));
            }
            finding
        })
        .collect()
}

/// Every member that stands in an object a second time. The engine names the last one, and the end of its object.
fn second_members(document: &SourceText) -> Vec<PolicyFinding> {
    let mut found = Vec::new();
    let Some(tree) = json::read(&document.text) else { return found };
    tree.visit(&mut |node| {
        let mut seen = BTreeSet::new();
        for member in node.members().iter().filter(|member| !seen.insert(member.name.as_str())) {
            let message = format!("not a JSON document: the member `{}` stands here a second time", member.name);
            let mut finding = PolicyFinding::new(&NOT_JSON, "", message, "");
            finding.span = Some(member.name_span.clone());
            found.push(finding);
        }
    });
    found
}

/// Writes the column of a message in characters, as all columns of this command are.
fn in_characters(message: &mut String, document: &SourceText, at: usize) {
    if let Some((line, column)) = place(message) {
        let from = format!("line {line} column {column}");
        *message = message.replace(&from, &format!("line {line} column {}", document.place(at).column));
    }
}

fn first_char(text: &str) -> usize {
    text.chars().next().filter(|char| *char != '\n').map_or(0, char::len_utf8)
}

/// The last `line N column M` of a message.
fn place(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.rsplit_once("line ")?;
    let (line, rest) = rest.split_once(" column ")?;
    let digits = rest.split(|char: char| !char.is_ascii_digit()).next()?;
    Some((line.parse().ok()?, digits.parse().ok()?))
}

/// The start log's warnings, each with its lint, and what the secrets that can be seen lack. `perhaps_krakend`: the gateway
/// may be KrakenD, because it names the endpoints.
pub(super) fn warnings(policy: &mut Policy, variable: Variables, perhaps_krakend: bool) -> Vec<PolicyFinding> {
    let taken = policy.read_secrets(variable, |_| true, edge_idempotency_envoy::ADVICE.environment);
    let mut findings: Vec<PolicyFinding> = policy.warnings().iter().map(warning).collect();
    if perhaps_krakend {
        for finding in findings.iter_mut().filter(|finding| finding.lint.name == NOT_SEEN.name) {
            finding.help = "this is for Envoy; for KrakenD the bridge takes the port and a final dot away".to_owned();
        }
        findings.push(PolicyFinding::new(
            &NOT_SEEN,
            "/gateway_routes",
            "the gateway names the endpoints, and this command has not seen its configuration",
            "for KrakenD `go run ./check --policy policy.json --module edge_idempotency.wasm krakend.json` in krakend/ compares the two files, for Envoy \
             `edge-idempotency check --envoy envoy.yaml`",
        ));
    }
    if let Err(PolicyErrors(missing)) = taken {
        findings.extend(missing.into_iter().map(|issue| {
            let message = format!("not set here: {}", issue.message);
            PolicyFinding::new(&MISSING_VARIABLE, issue.pointer, message, "")
        }));
    }
    secrets::check(policy, &mut findings);
    findings
}

/// What a warning is about, by words that only it has, and its lint. A test has one document for each.
static OF_WARNINGS: [(&str, &Lint); 8] = [
    ("which is taken for a part of it", &WRONG_SECRET),
    ("the secret holds `", &WRONG_SECRET),
    ("this provider's secrets", &WRONG_SECRET),
    ("shadow mode: requests that break", &SHADOW_MODE),
    ("`strip_any_host_port: true`", &NOT_SEEN),
    ("the backend does not get", &LOST_PARAMETER),
    ("an identity source reads", &CONTESTED_HEADER),
    ("have the same constant subject", &SHARED_KEYS),
];

fn warning(issue: &Issue) -> PolicyFinding {
    let known = OF_WARNINGS.iter().find(|(words, _)| issue.message.contains(words));
    let lint = known.map_or(&START_WARNING, |(_, lint)| lint);
    PolicyFinding::new(lint, issue.pointer.clone(), issue.message.clone(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_slip_is_read_from_its_message() {
        assert_eq!(place("a comma with nothing behind it at line 2 column 12: remove it"), Some((2, 12)));
        assert_eq!(place("expected value at line 1 column 9"), Some((1, 9)));
        assert_eq!(place("this is YAML, from line 3 column 1 on: convert it"), Some((3, 1)));
        assert_eq!(place("the document is empty"), None);
    }
}
