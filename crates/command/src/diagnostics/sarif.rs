//! Findings as SARIF 2.1.0, the format that code scanning reads
//! (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>).

use super::formats;
use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::{CheckedFile, Finding};
use crate::lints::list::UNREAD_FILE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// One run with the findings of all files. The rules are those of `lints` that found something.
pub(crate) fn to_sarif(files: &[CheckedFile], lints: impl Iterator<Item = &'static Lint>) -> Value {
    let found: BTreeMap<&str, &Lint> =
        formats::each(files).map(|(_, finding)| (finding.lint.name, finding.lint)).collect();
    let rules: Vec<&Lint> = lints.filter(|lint| found.contains_key(lint.name)).collect();
    let index = |name: &str| rules.iter().position(|rule| rule.name == name);
    let results: Vec<Value> =
        formats::each(files).map(|(file, finding)| result(file, finding, index(finding.lint.name))).collect();
    let unread: Vec<Value> = formats::each(files)
        .filter(|(_, finding)| finding.lint.name == UNREAD_FILE.name)
        .map(|(_, finding)| json!({"level": "error", "message": {"text": finding.message}}))
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "edge-idempotency",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| self::rule(rule)).collect::<Vec<_>>(),
            }},
            "invocations": [{"executionSuccessful": unread.is_empty(), "toolExecutionNotifications": unread}],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(lint: &Lint) -> Value {
    json!({
        "id": lint.name,
        "shortDescription": {"text": lint.summary},
        "fullDescription": {"text": lint.why},
        "help": {"text": format!("{} See {}.", lint.instead, lint.page())},
        "defaultConfiguration": {"level": lint.severity.name()},
    })
}

fn result(file: &CheckedFile, finding: &Finding, index: Option<usize>) -> Value {
    let (start, end) = (file.source.place(finding.span.start), file.source.place(finding.span.end));
    let text = if finding.help.is_empty() {
        finding.message.clone()
    } else {
        format!("{}\n{}", finding.message, finding.help)
    };
    let mut location = json!({
        "physicalLocation": {
            "artifactLocation": {"uri": uri(&file.source.name)},
            "region": {
                "startLine": start.line,
                "startColumn": start.column,
                "endLine": end.line,
                "endColumn": end.column,
            },
        },
    });
    if let (Some(pointer), Some(members)) = (&finding.pointer, location.as_object_mut()) {
        members.insert("logicalLocations".to_owned(), json!([{"fullyQualifiedName": pointer, "kind": "member"}]));
    }
    json!({
        "ruleId": finding.lint.name,
        "ruleIndex": index,
        "level": finding.severity.name(),
        "message": {"text": text},
        "locations": [location],
    })
}

/// A path as a reference to a URI (RFC 3986): relative to the working directory where it lies below it, else with its scheme.
fn uri(path: &str) -> String {
    let own = std::env::current_dir().ok();
    let below = own.and_then(|own| Some(Path::new(path).strip_prefix(own).ok()?.display().to_string()));
    let path = below.as_deref().unwrap_or(path);
    if path == "<stdin>" {
        return "stdin".to_owned();
    }
    let scheme = if Path::new(path).is_absolute() { "file://" } else { "" };
    scheme.to_owned() + &escaped(path)
}

fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
