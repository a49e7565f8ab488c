//! The explanation as text for people and as JSON for programs.

use super::{Explanation, Fate, logged};
use crate::explain::terminal_text::{self, printable};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The members of a line and of its record that are shown as they stand, with their labels.
const SHOWN: [(&str, &str); 19] = [
    ("time", "time"),
    ("method", "method"),
    ("original_path", "path"),
    ("endpoint", "endpoint"),
    ("idempotency_policy", "policy"),
    ("idempotency_case", "case"),
    ("tenant", "tenant"),
    ("project", "project"),
    ("request_id", "request id"),
    ("idempotency_key_namespaced", "key"),
    ("idempotency_source", "key from"),
    ("payload_hash", "payload"),
    ("attempt", "attempt"),
    ("idempotency_outcome", "outcome"),
    ("restate_invocation_id", "invocation"),
    ("status", "status"),
    ("details", "details"),
    ("flags", "flags"),
    ("route", "gateway route"),
];

impl Explanation {
    /// The explanation as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let shown = SHOWN.iter().filter_map(|(name, _)| Some(((*name).to_owned(), json!(self.line.text(name)?))));
        let reproduction = self.request.as_ref().map(|request| {
            json!({"request": request, "verdict": self.verdict, "same": self.verdict.as_ref().map(|_| self.is_same)})
        });
        json!({
            "verdict": self.fate.name(),
            "line": shown.collect::<Map<_, _>>(),
            "template": self.template,
            "code": self.line.code(),
            "reason": self.line.reason(),
            "identity": self.line.identity_problem(),
            "retry": self.retry,
            "docs_url": self.docs_url,
            "cause": self.meaning.as_ref().map(|meaning| &meaning.cause),
            "reason_meaning": self.reason_meaning,
            "cure": self.meaning.as_ref().map(|meaning| &meaning.cure),
            "not_in_log": self.not_in_log,
            "disagreements": self.disagreements,
            "reproduction": reproduction,
        })
    }

    /// The explanation as text. `policy` is the policy's file as the command was given it.
    pub(crate) fn to_text(&self, policy: Option<&str>) -> String {
        let mut text = String::new();
        let mut add = |line: &str| {
            text.push_str(&printable(line));
            text.push('\n');
        };
        add(&self.headline());
        for (name, label) in SHOWN {
            if let Some(value) = self.line.text(name) {
                add(&format!("  {label}: {value}"));
            }
        }
        let path = self.line.text("original_path");
        if let Some(template) = self.template.as_ref().filter(|template| path.as_ref() != Some(template)) {
            add(&format!("  path in the policy: {template}"));
        }
        if let Some(problem) = self.line.identity_problem() {
            add(&format!("  identity: {problem}"));
        }
        match &self.meaning {
            Some(meaning) => {
                add(&format!("meaning: {}", meaning.cause));
                if let (Some(reason), Some(meaning)) = (self.line.reason(), &self.reason_meaning) {
                    add(&format!("  {reason}: {meaning}"));
                }
                add(&format!("what to do: {}", meaning.cure));
            }
            None if self.line.code().is_some() => {
                add(
                    "meaning: this release of the command does not know the code; compare its version with the filter's",
                );
            }
            None => {}
        }
        if let Some(retry) = self.retry {
            add(&format!("retry: {retry} ({})", advice(retry)));
        }
        if let Some(url) = &self.docs_url {
            add(&format!("page for callers: {url}"));
        }
        add(&format!("not in the log: {}", self.not_in_log.join("; ")));
        for disagreement in &self.disagreements {
            add(&format!("the log and the policy disagree: {disagreement}"));
        }
        self.write_reproduction(&mut text, policy);
        text.trim_end().to_owned()
    }

    /// What became of the request.
    fn headline(&self) -> String {
        let code = self.line.code().unwrap_or_default();
        let what = match self.line.reason() {
            Some(reason) => format!("{code}, reason {reason}"),
            None => code,
        };
        match self.fate {
            Fate::Refused => format!("The filter refused this request: {what}."),
            Fate::WouldBeRefused => {
                format!("The filter forwarded this request, because of shadow mode. Enforcing would refuse it: {what}.")
            }
            Fate::ErrorReplaced => format!(
                "The filter forwarded this request. A problem document took the place of the error that came back, or that the \
                 gateway made: {what}."
            ),
            Fate::Forwarded if self.line.text("idempotency_shadow").as_deref() == Some("rewrite") => {
                "The filter forwarded this request, because of shadow mode with the client's key. Enforcing would rewrite the \
                 key."
                    .to_owned()
            }
            Fate::Forwarded => "The filter forwarded this request. An error in the answer is the backend's own, or the gateway's: \
                 `details` and `flags` say which."
                .to_owned(),
            Fate::Acknowledged => format!(
                "The filter acknowledged this delivery with 200, and made no call: {} ({}).",
                self.line.reason().unwrap_or_default(),
                self.reason_meaning.as_deref().unwrap_or_default()
            ),
            Fate::EndedByGateway => "The gateway ended this request while the filter waited for its body, or for a lookup: it did \
                 not reach the backend. `details` and `flags` say why; docs/callers.md, \"Answers of the gateway's own\", has the \
                 usual cases."
                .to_owned(),
            Fate::Undecided => "The filter did not see this request, or had not decided about it when it ended: the gateway, or a \
                 filter before this one, answered it, or the client went away (`flags` has `DC`). `details` and `flags` say which; \
                 docs/callers.md, \"Answers of the gateway's own\", has the usual cases."
                .to_owned(),
        }
    }

    /// The request that is answered in the same way, and whether it is.
    fn write_reproduction(&self, text: &mut String, policy: Option<&str>) {
        let Some(request) = &self.request else { return };
        // Writing to a string does not fail.
        let _ = match (&self.verdict, policy) {
            (Some(verdict), _) => {
                let code = logged(verdict, "idempotency_code");
                let reason = logged(verdict, "idempotency_reason");
                let given = match (code, reason) {
                    (Some(code), Some(reason)) => format!("{code}, reason {reason}"),
                    (Some(code), None) => code.to_owned(),
                    (None, _) => "no refusal".to_owned(),
                };
                if self.is_same && matches!(self.fate, Fate::Forwarded | Fate::ErrorReplaced) {
                    writeln!(text, "a request to try it with; by this policy it is forwarded, as the line says:")
                } else if self.is_same {
                    writeln!(text, "a request to try it with; by this policy it gets the same, {}:", printable(&given))
                } else {
                    writeln!(
                        text,
                        "a request to begin with: put in what the log lacks. As it stands, this policy gives it {}:",
                        printable(&given)
                    )
                }
            }
            (None, _) => writeln!(text, "a request to begin with; --policy FILE adds what the policy says about it:"),
        };
        let policy = policy.unwrap_or("policy.json").replace('\'', r"'\''");
        let _ = write!(
            text,
            "edge-idempotency explain --policy '{}' --request - <<'END'\n{}\nEND",
            printable(&policy),
            one_member_a_line(request)
        );
    }
}

/// A request document as JSON, with a line for each member.
fn one_member_a_line(request: &Value) -> String {
    let members = request.as_object().into_iter().flatten();
    let lines: Vec<String> =
        members.map(|(name, value)| format!("  {}: {}", json!(name), terminal_text::json_line(value))).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

/// The retry advice in words.
fn advice(retry: &str) -> &'static str {
    match retry {
        "new_request" => "change the request",
        "new_key" => "send another key",
        "same_key" => "send the same request with the same key later",
        _ => "the same request will be refused again",
    }
}
