//! Findings as JSON, and as commands of GitHub Actions.

use crate::lints::diagnostics::{CheckedFile, Finding, FindingCounts};
use serde_json::{Value, json};

/// The findings of all files as JSON (docs/contract.md section 11).
pub(crate) fn to_json(files: &[CheckedFile]) -> Value {
    let counts = FindingCounts::of(files);
    let findings: Vec<Value> = each(files).map(|(file, finding)| one(file, finding)).collect();
    let of_file = |file: &CheckedFile| json!({"file": file.source.name, "summary": file.summary});
    json!({
        "errors": counts.errors,
        "warnings": counts.warnings,
        "notes": counts.notes,
        "files": files.iter().map(of_file).collect::<Vec<_>>(),
        "findings": findings,
    })
}

/// All findings with their files.
pub(super) fn each(files: &[CheckedFile]) -> impl Iterator<Item = (&CheckedFile, &Finding)> {
    files.iter().flat_map(|file| file.findings.iter().map(move |finding| (file, finding)))
}

fn one(file: &CheckedFile, finding: &Finding) -> Value {
    let (start, end) = (file.source.place(finding.span.start), file.source.place(finding.span.end));
    json!({
        "file": file.source.name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "lint": finding.lint.name,
        "severity": finding.severity.name(),
        "pointer": finding.pointer,
        "message": finding.message,
        "help": if finding.help.is_empty() { Value::Null } else { finding.help.as_str().into() },
        "url": finding.lint.page(),
    })
}

/// The findings as workflow commands of GitHub Actions, which shows them beside the lines of a pull request
/// (<https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>).
pub(crate) fn to_github(files: &[CheckedFile]) -> String {
    each(files)
        .map(|(file, finding)| {
            let span = file.source.first_line(&finding.span);
            let (start, end) = (file.source.place(span.start), file.source.place(span.end));
            let command = match finding.severity.name() {
                "note" => "notice",
                other => other,
            };
            let text = if finding.help.is_empty() {
                finding.message.clone()
            } else {
                format!("{}\n{}", finding.message, finding.help)
            };
            format!(
                "::{command} file={},line={},endLine={},col={},endColumn={},title={}::{}\n",
                property(&file.source.name),
                start.line,
                end.line,
                start.column,
                end.column,
                property(finding.lint.name),
                data(&text),
            )
        })
        .collect()
}

/// Escapes the text of a command, as actions/toolkit does.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a command, as actions/toolkit does.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_text_can_end_a_command_or_a_property() {
        assert_eq!(super::property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
        assert_eq!(super::data("a::b\r\n"), "a::b%0D%0A");
    }
}
