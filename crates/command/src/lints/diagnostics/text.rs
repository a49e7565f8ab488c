//! Findings for people, as a compiler prints them: the line, the text underlined, what to write instead.

use super::lint::Severity;
use super::source::SourceText;
use super::{CheckedFile, Finding, FindingCounts};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::ops::Range;

/// A line that is longer is not shown, as in documents without line breaks.
const MAX_LINE: usize = 1_000;
/// The width where there is no terminal.
const WIDTH: usize = 140;

/// All findings of a file; with colours for a terminal, where whoever prints them takes them out if they are not wanted.
pub fn render(file: &CheckedFile, width: Option<usize>, in_colours: bool) -> String {
    let renderer = if in_colours { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(width.unwrap_or(WIDTH));
    file.findings.iter().map(|finding| renderer.render(&[group(file, finding)]) + "\n\n").collect()
}

fn group<'f>(file: &'f CheckedFile, finding: &'f Finding) -> Group<'f> {
    let source = &file.source;
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(finding.message.as_str()).id(finding.lint.name);
    let span = source.first_line(&finding.span);
    let place = source.place(span.start);
    let line = source.line(place.line.saturating_sub(1)).unwrap_or_default();
    let is_long = line.len() > MAX_LINE;
    let text = if is_long { String::new() } else { source.shown(&line) };
    let pointer = finding.pointer.as_deref().filter(|pointer| !pointer.is_empty());
    let mut group = if is_long || text.trim().is_empty() {
        let origin = Origin::path(source.name.as_str()).line(place.line).char_column(place.column);
        let pointed = pointer.map(|pointer| Level::NOTE.message(format!("the place is {pointer}")));
        let group = Group::with_title(title).element(origin);
        let around = source.shown(&around(source, &line, span.start));
        let near = (!around.trim().is_empty()).then(|| Level::NOTE.message(format!("it is in `{around}`")));
        pointed.into_iter().chain(near).fold(group, Group::element)
    } else {
        let in_line = span.start.saturating_sub(line.start)..span.end.saturating_sub(line.start);
        let annotation = AnnotationKind::Primary.span(in_line).label(pointer);
        let snippet = Snippet::source(text).line_start(place.line).path(source.name.as_str()).annotation(annotation);
        Group::with_title(title).element(snippet)
    };
    if !finding.help.is_empty() {
        group = group.element(Level::HELP.message(finding.help.as_str()));
    }
    group
}

/// The bytes of about a hundred characters around a place in a long line.
fn around(source: &SourceText, line: &Range<usize>, at: usize) -> Range<usize> {
    let at = source.text.floor_char_boundary(at.clamp(line.start, line.end));
    let (before, after) = (source.text.get(line.start..at), source.text.get(at..line.end));
    let head: usize = before.unwrap_or_default().chars().rev().take(30).map(char::len_utf8).sum();
    let tail: usize = after.unwrap_or_default().chars().take(70).map(char::len_utf8).sum();
    at - head..at + tail
}

/// The last line: how many findings there are. Empty if there are none.
pub fn totals(counts: FindingCounts) -> String {
    let of = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{count} {word}s")),
    };
    let parts = [of(counts.errors, "error"), of(counts.warnings, "warning"), of(counts.notes, "note")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
