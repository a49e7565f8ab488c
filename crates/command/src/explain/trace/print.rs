//! The verdict, its steps and what follows from them, as text for people.

use super::{StepResult, Steps, callers::pairs, name};
use crate::explain::explanations;
use crate::explain::terminal_text::printable;
use serde_json::Value;
use std::fmt::Write as _;

impl Steps {
    /// The text. `verdict` is the verdict as JSON; `notes` say what was left out of the request.
    pub(crate) fn to_text(&self, verdict: &Value, notes: &[String]) -> String {
        let mut text = String::new();
        let member = |name: &str| verdict.get(name).and_then(Value::as_str);
        let (problem, is_shadow) = match (verdict.get("problem"), verdict.pointer("/shadow/problem")) {
            (Some(problem), _) => (Some(problem), false),
            (None, shadowed) => (shadowed, shadowed.is_some()),
        };
        // Writing to a string does not fail.
        let _ = match (member("action"), problem) {
            (Some("reject"), Some(problem)) => writeln!(text, "REFUSED: {}", headline(problem)),
            (_, Some(problem)) => {
                writeln!(text, "FORWARDED, in shadow mode. Enforcing would refuse it: {}", headline(problem))
            }
            (Some("acknowledge"), _) => writeln!(text, "ACKNOWLEDGED with 200, without a call"),
            _ if verdict.get("shadow").is_some() => writeln!(text, "FORWARDED, in shadow mode with the client's key"),
            _ => writeln!(text, "FORWARDED"),
        };
        text.push('\n');
        for step in &self.steps {
            let mark = match step.result {
                StepResult::Passed => "",
                StepResult::Refused => "REFUSED HERE. ",
                StepResult::WouldRefuse => "WOULD BE REFUSED HERE. ",
            };
            let _ = writeln!(text, "{:<10}{mark}{}", name(step.step), printable(&step.text));
            for detail in &step.details {
                let _ = writeln!(text, "{:<10}  {}", "", printable(detail));
            }
        }
        if member("action") == Some("forward") {
            backend_gets(&mut text, verdict);
        }
        if let Some(problem) = problem {
            let gets = if is_shadow { "without shadow mode the client would get" } else { "the client gets" };
            let _ = writeln!(text, "\n{gets}:");
            for pair in pairs(problem) {
                let _ = writeln!(text, "  {}", printable(&pair));
            }
            if let Some(rpc) = verdict.get("rpc") {
                let rpc = |name: &str| rpc.get(name).map(ToString::to_string).unwrap_or_default().replace('"', "");
                let (protocol, code, number) = (rpc("protocol"), rpc("code"), rpc("grpc_status"));
                let _ = writeln!(
                    text,
                    "in the form of {protocol}: the status is {code} ({number} in gRPC), the message is code and detail"
                );
            }
            let changes = self.changes(problem, verdict);
            if !changes.is_empty() {
                text.push_str("\nwhat to change:\n");
                for change in changes {
                    let _ = writeln!(text, "  - {}", printable(&change));
                }
            }
        }
        if !notes.is_empty() {
            text.push_str("\nnotes:\n");
            for note in notes {
                let _ = writeln!(text, "  - {}", printable(note));
            }
        }
        text.trim_end().to_owned()
    }

    /// What to change: the hints for this request, then the advice of docs/callers.md.
    pub(crate) fn changes(&self, problem: &Value, verdict: &Value) -> Vec<String> {
        let mut changes = self.hints.clone();
        let is_webhook = verdict.get("policy").and_then(Value::as_str) == Some("REQUIRED_B")
            || verdict.get("case").and_then(Value::as_str) == Some("B");
        let code = problem.get("code").and_then(Value::as_str).unwrap_or_default();
        if let Some(meaning) = explanations::of_code(code, is_webhook) {
            changes.push(sentence(&meaning.cure));
        }
        changes
    }
}

/// A cell of a table, as a sentence.
fn sentence(cell: &str) -> String {
    let mut letters = cell.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if cell.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// `400 idempotency_key_invalid, reason charset`
fn headline(problem: &Value) -> String {
    let member = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
    let status = problem.get("status").map(Value::to_string).unwrap_or_default();
    match member("reason") {
        "" => format!("{status} {}", member("code")),
        reason => format!("{status} {}, reason {reason}", member("code")),
    }
}

/// What the backend gets.
fn backend_gets(text: &mut String, verdict: &Value) {
    let path = verdict.get("path").and_then(Value::as_str).unwrap_or_default();
    let _ = writeln!(text, "\nthe backend gets:\n  path: {}", printable(path));
    for pair in verdict.get("set_headers").map(pairs).unwrap_or_default() {
        let _ = writeln!(text, "  {}", printable(&pair));
    }
    let removed = verdict.get("remove_headers").and_then(Value::as_array).into_iter().flatten();
    let removed: Vec<&str> = removed.filter_map(Value::as_str).collect();
    if !removed.is_empty() {
        let _ = writeln!(text, "  removed: {}", printable(&removed.join(", ")));
    }
}
