//! Findings, where they stand, and how people are shown them.
//!
//! | module | subject |
//! |---|---|
//! | `lint` | what is looked for: a lint, its severity and its texts |
//! | `source` | a text, its lines, and policy documents inside of other files |
//! | `tree` | JSON and YAML with the place of each value |
//! | `json` | reads JSON into a tree |
//! | `text` | findings for people, as a compiler prints them |

pub mod json;
pub mod lint;
pub mod source;
pub mod text;
pub mod tree;

use lint::{Lint, Severity};
use source::SourceText;
use std::ops::Range;

/// One finding in one file.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What was looked for
    pub lint: &'static Lint,
    /// How bad it is, after `--deny`
    pub severity: Severity,
    /// The JSON pointer into the policy document, if it is about one; empty for the whole document
    pub pointer: Option<String>,
    /// The bytes of the file to underline
    pub span: Range<usize>,
    /// What is wrong
    pub message: String,
    /// What to write instead; empty if the message says it
    pub help: String,
}

/// A file and what was found in it.
#[derive(Debug)]
pub struct CheckedFile {
    /// The text
    pub source: SourceText,
    /// The findings
    pub findings: Vec<Finding>,
    /// What the filter says about the policy at start; `None` if it does not start
    pub summary: Option<String>,
}

impl CheckedFile {
    /// Puts the findings into the order of the text, the worst of a place first.
    pub fn sort(&mut self) {
        self.findings.sort_by_key(|finding| (finding.span.start, std::cmp::Reverse(finding.severity)));
    }
}

/// The number of findings of each severity.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FindingCounts {
    /// Errors, denied findings among them
    pub errors: usize,
    /// Warnings
    pub warnings: usize,
    /// Notes
    pub notes: usize,
}

impl FindingCounts {
    /// Counts the findings of all files.
    pub fn of(files: &[CheckedFile]) -> Self {
        let mut counts = Self::default();
        for finding in files.iter().flat_map(|file| &file.findings) {
            match finding.severity {
                Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
                Severity::Note => counts.notes += 1,
            }
        }
        counts
    }
}
