//! A text, its lines, and policy documents inside of other files.

use std::ops::Range;

/// A line and a column, both from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// The line
    pub line: usize,
    /// The column
    pub column: usize,
}

/// How many bytes are counted at once.
const BLOCK: usize = 4096;

/// How many characters begin in bytes of UTF-8.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count()
}

/// Whether a terminal could act on a character of a line, or would show nothing.
fn is_unprintable(char: char) -> bool {
    !matches!(char, '\t' | '\\' | '"' | '\'') && char.escape_debug().len() > 1
}

/// A text with its name.
#[derive(Debug)]
pub struct SourceText {
    /// The file's path as given, or `<stdin>`
    pub name: String,
    /// The text; what is not UTF-8 in it is replaced
    pub text: String,
    /// The bytes at which lines begin
    starts: Vec<usize>,
    /// How many characters begin before each [`BLOCK`] of bytes, so that a long line is not counted for each finding in it
    counted: Vec<usize>,
    /// Bytes that no output shows: secrets
    hidden: Vec<Range<usize>>,
}

impl SourceText {
    /// A text and its lines.
    pub fn new(name: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(breaks).collect();
        let counted = text.as_bytes().chunks(BLOCK).scan(0, |before, block| {
            let here = *before;
            *before += characters(block);
            Some(here)
        });
        let counted = counted.collect();
        Self { name, text, starts, counted, hidden: Vec::new() }
    }

    /// The index of the line with the byte, from 0.
    fn line_index(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// The bytes of a line, without its line break; `index` counts from 0.
    pub fn line(&self, index: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next.saturating_sub(1));
        let line = self.text.get(start..end)?;
        Some(start..start + line.trim_end_matches('\r').len())
    }

    /// Keeps bytes out of every output (docs/contract.md invariant I6).
    pub fn hide(&mut self, spans: impl IntoIterator<Item = Range<usize>>) {
        self.hidden.extend(spans);
    }

    /// Lines that may have a secret in a text that cannot be read as JSON or YAML: each line with one of `names`, and those
    /// behind it until its brackets are closed and no line is indented deeper.
    pub fn suspects(&self, names: &[&str]) -> Vec<Range<usize>> {
        let mut open: Option<SuspectLines> = None;
        let mut found = Vec::new();
        for line in (0..).map_while(|index| self.line(index)) {
            let text = self.text.get(line.clone()).unwrap_or_default();
            let indent = text.len() - text.trim_start().len();
            if let Some(lines) = &open
                && lines.is_over(text, indent)
            {
                open = None;
            }
            if open.is_none() && names.iter().any(|name| text.contains(name)) {
                open = Some(SuspectLines { indent, depth: 0, is_quoted: false, has_value: false });
            }
            if let Some(lines) = &mut open {
                lines.take(text);
                found.push(line);
            }
        }
        found
    }

    /// The bytes of a line as they may be shown: each character of a secret as `*`.
    pub fn shown(&self, line: &Range<usize>) -> String {
        let text = self.text.get(line.clone()).unwrap_or_default();
        let hidden: Vec<&Range<usize>> =
            self.hidden.iter().filter(|span| span.start < line.end && line.start < span.end).collect();
        let is_hidden = |at: usize| hidden.iter().any(|span| span.contains(&at));
        let mut shown = String::with_capacity(text.len());
        for (at, char) in text.char_indices() {
            // As many bytes as before, so that what is underlined stays where it is.
            if is_hidden(line.start + at) {
                shown.extend(std::iter::repeat_n('*', char.len_utf8()))
            } else if is_unprintable(char) {
                shown.extend(std::iter::repeat_n('?', char.len_utf8()))
            } else {
                shown.push(char)
            }
        }
        shown
    }

    /// Line and column of a byte.
    pub fn place(&self, at: usize) -> TextPlace {
        let index = self.line_index(at);
        let start = self.starts.get(index).copied().unwrap_or_default();
        let column = self.characters_before(at).saturating_sub(self.characters_before(start));
        TextPlace { line: index + 1, column: column + 1 }
    }

    /// How many characters begin before a byte.
    fn characters_before(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        let block = (at / BLOCK).min(self.counted.len().saturating_sub(1));
        let rest = self.text.as_bytes().get(block * BLOCK..at).unwrap_or_default();
        self.counted.get(block).copied().unwrap_or_default() + characters(rest)
    }

    /// The byte at line and column as [`SourceText::place`] gives them, but with a column in bytes; the end of the line if
    /// the column is behind it.
    pub fn at(&self, line: usize, column: usize) -> usize {
        let Some(range) = self.line(line.saturating_sub(1)) else { return self.text.len() };
        let mut at = (range.start + column.saturating_sub(1)).min(range.end);
        while !self.text.is_char_boundary(at) {
            at = at.saturating_sub(1);
        }
        at
    }

    /// The part of a span that is on its first line, and at least one byte of it if the line has one.
    pub fn first_line(&self, span: &Range<usize>) -> Range<usize> {
        let line = self.line(self.line_index(span.start)).unwrap_or(0..0);
        let start = span.start.min(line.end);
        start..span.end.clamp(start, line.end.max(start))
    }
}

/// Lines from one with the name of a secret on.
struct SuspectLines {
    /// The indentation of the first line
    indent: usize,
    /// How many brackets are open
    depth: i32,
    /// Whether a text in quotation marks is open
    is_quoted: bool,
    /// Whether something stands behind the colon
    has_value: bool,
}

impl SuspectLines {
    fn take(&mut self, text: &str) {
        for char in text.chars() {
            match char {
                '"' => self.is_quoted = !self.is_quoted,
                '[' | '{' if !self.is_quoted => self.depth += 1,
                ']' | '}' if !self.is_quoted => self.depth -= 1,
                _ => {}
            }
        }
        self.has_value |= !text.trim_end().ends_with(':') && !text.trim().is_empty();
    }

    /// Whether the line behind these is none of them.
    fn is_over(&self, text: &str, indent: usize) -> bool {
        let is_deeper = text.trim().is_empty() || indent > self.indent;
        self.has_value && self.depth <= 0 && !self.is_quoted && !is_deeper
    }
}

/// Where the lines of a document stand in the file that holds it.
#[derive(Debug)]
pub struct EmbeddedText {
    /// For each line of the document: its first byte there, and the byte in the file
    lines: Vec<(usize, usize)>,
}

impl EmbeddedText {
    /// Finds the lines of `document`, which a YAML scalar holds, in the file from the line of the byte `from` on, or from
    /// the next one on. `None` if the scalar is not a literal block: then the bytes of the two differ.
    pub fn find(file: &SourceText, from: usize, document: &str) -> Option<Self> {
        let index = file.line_index(from);
        Self::lines(file, index, document).or_else(|| Self::lines(file, index + 1, document))
    }

    /// The lines of the document, if they stand in the file from line `index` on, all with the same indentation.
    fn lines(file: &SourceText, mut index: usize, document: &str) -> Option<Self> {
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
    pub fn span(&self, span: &Range<usize>) -> Range<usize> {
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
    fn places_in_a_long_line_are_those_of_a_count_from_its_beginning() {
        let text = format!("x\n{}", "aé€𝄞".repeat(3_000));
        let source = SourceText::new("a".into(), text.as_bytes());
        for (column, (at, _)) in text.char_indices().skip(2).enumerate() {
            assert_eq!(source.place(at), TextPlace { line: 2, column: column + 1 });
        }
        assert_eq!(source.place(text.len()), TextPlace { line: 2, column: 12_001 });
        assert_eq!(SourceText::new("a".into(), b"").place(0), TextPlace { line: 1, column: 1 });
    }

    #[test]
    fn lines_that_may_have_a_secret_end_with_their_brackets_and_indentation() {
        for (text, shown) in [
            ("{\n\"secrets\":\n[\n\"a\", {\"env\": \"b\"},\n\"planted\",]\n\"x\": 1", vec!["{", "\"x\": 1"]),
            ("\"token\": \"planted\",\n\"x\": 1", vec!["\"x\": 1"]),
            ("a:\n  secret: |\n    planted\n\n    planted\n  x: 1", vec!["a:", "  x: 1"]),
            ("\"secrets\": [\"planted]\",\n\"planted\"],\n\"x\": 1", vec!["\"x\": 1"]),
            ("\"secret\": \"planted\n\"x\": 1", vec![]),
        ] {
            let mut source = SourceText::new("a".into(), text.as_bytes());
            source.hide(source.suspects(&["secret", "token"]));
            let lines: Vec<_> = (0..).map_while(|index| source.line(index)).map(|line| source.shown(&line)).collect();
            let plain: Vec<_> = lines.iter().filter(|line| !line.contains('*') && !line.is_empty()).collect();
            assert_eq!(plain, shown.iter().collect::<Vec<_>>(), "{text}");
            assert!(!lines.concat().contains("planted"), "{lines:?}");
        }
    }

    #[test]
    fn a_literal_block_has_the_lines_of_the_document() {
        let file = SourceText::new("a".into(), b"x:\n  value: |\n    {\n      \"a\": 1\n\n    }\n");
        let document = "{\n  \"a\": 1\n\n}\n";
        let embedded = EmbeddedText::find(&file, 5, document).unwrap();
        let at = document.find("\"a\"").unwrap();
        let there = embedded.span(&(at..at + 3));
        assert_eq!(file.text.get(there), Some("\"a\""));
        assert!(EmbeddedText::find(&file, 5, "{\"a\": 1}").is_none());
    }
}
