//! A text, its lines, and policy documents inside of other files.

use std::ops::Range;

/// A line and a column, both from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPlace {
    /// The line
    pub(crate) line: usize,
    /// The column
    pub(crate) column: usize,
}

/// A text with its name.
#[derive(Debug)]
pub(crate) struct SourceText {
    /// The file's path as given, or `<stdin>`
    pub(crate) name: String,
    /// The text; what is not UTF-8 in it is replaced
    pub(crate) text: String,
    /// The bytes at which lines begin
    starts: Vec<usize>,
}

impl SourceText {
    /// A text and its lines.
    pub(crate) fn new(name: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(breaks).collect();
        Self { name, text, starts }
    }

    /// The index of the line with the byte, from 0.
    fn line_index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// The bytes of a line, without its line break; `index` counts from 0.
    pub(crate) fn line(&self, index: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next.saturating_sub(1));
        let line = self.text.get(start..end)?;
        Some(start..start + line.trim_end_matches('\r').len())
    }

    /// Line and column of a byte.
    pub(crate) fn place(&self, at: usize) -> TextPlace {
        let index = self.line_index(at);
        let before = self.starts.get(index).and_then(|start| self.text.get(*start..at));
        TextPlace { line: index + 1, column: before.map_or(0, |before| before.chars().count()) + 1 }
    }

    /// The byte at line and column as [`SourceText::place`] gives them, but with a column in bytes; the end of the line if
    /// the column is behind it.
    pub(crate) fn at(&self, line: usize, column: usize) -> usize {
        let Some(range) = self.line(line.saturating_sub(1)) else { return self.text.len() };
        let mut at = (range.start + column.saturating_sub(1)).min(range.end);
        while !self.text.is_char_boundary(at) {
            at = at.saturating_sub(1);
        }
        at
    }

    /// The part of a span that is on its first line, and at least one byte of it if the line has one.
    pub(crate) fn first_line(&self, span: &Range<usize>) -> Range<usize> {
        let line = self.line(self.line_index(span.start)).unwrap_or(0..0);
        let start = span.start.min(line.end);
        start..span.end.clamp(start, line.end.max(start))
    }
}

/// Where the lines of a document stand in the file that holds it.
#[derive(Debug)]
pub(crate) struct EmbeddedText {
    /// For each line of the document: its first byte there, and the byte in the file
    lines: Vec<(usize, usize)>,
}

impl EmbeddedText {
    /// Finds the lines of `document`, which a YAML scalar holds, behind `from` in the file. `None` if the scalar is not a
    /// literal block: then the bytes of the two differ.
    pub(crate) fn find(file: &SourceText, from: usize, document: &str) -> Option<Self> {
        let mut index = file.line_index(from) + 1;
        let mut lines = Vec::new();
        let (mut at, mut indent) = (0, None);
        for line in document.split_inclusive('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            let range = file.line(index)?;
            let written = file.text.get(range.clone())?;
            if content.trim().is_empty() {
                lines.push((at, range.end));
            } else {
                let here = written.len().checked_sub(content.len()).filter(|_| written.ends_with(content))?;
                if *indent.get_or_insert(here) != here {
                    return None;
                }
                lines.push((at, range.start + here));
            }
            (at, index) = (at + line.len(), index + 1);
        }
        Some(Self { lines })
    }

    /// The bytes of the file that are those of the document, from its first line on.
    pub(crate) fn span(&self, span: &Range<usize>) -> Range<usize> {
        let index = self.lines.partition_point(|(start, _)| *start <= span.start).saturating_sub(1);
        let (start, there) = self.lines.get(index).copied().unwrap_or_default();
        let begin = there + span.start.saturating_sub(start);
        begin..begin + span.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_in_characters() {
        let source = SourceText::new("a".into(), "{\n  \"é\": 1,\r\n}\n".as_bytes());
        assert_eq!(source.place(0), TextPlace { line: 1, column: 1 });
        assert_eq!(source.place(8), TextPlace { line: 2, column: 6 });
        assert_eq!(source.line(1), Some(2..12));
        assert_eq!(source.at(2, 7), 8);
        assert_eq!(source.at(2, 99), 12);
        assert_eq!(source.at(99, 1), source.text.len());
        assert_eq!(source.first_line(&(2..15)), 2..12);
    }

    #[test]
    fn a_literal_block_has_the_lines_of_the_document() {
        let file = SourceText::new("a".into(), b"x:\n  value: |\n    {\n      \"a\": 1\n\n    }\n");
        let document = "{\n  \"a\": 1\n\n}\n";
        let embedded = EmbeddedText::find(&file, 5, document).unwrap();
        let at = document.find("\"a\"").unwrap();
        let there = embedded.span(&(at..at + 3));
        assert_eq!(&file.text[there], "\"a\"");
        assert!(EmbeddedText::find(&file, 5, "{\"a\": 1}").is_none());
    }
}
