//! What `check` finds, where it stands, and how it is printed.
//!
//! | module | subject |
//! |---|---|
//! | `lint` | what is looked for: a lint, its severity and its texts |
//! | `source` | a text, its lines, and policy documents inside of other files |
//! | `tree` | JSON and YAML with the place of each value |
//! | `json` | reads JSON into a tree |
//! | `yaml` | reads YAML into a tree |
//! | `text` | findings for people, as a compiler prints them |
//! | `formats` | findings as JSON and as commands of GitHub Actions |
//! | `sarif` | findings as SARIF 2.1.0 |

pub(crate) mod formats;
pub(crate) mod json;
pub(crate) mod lint;
pub(crate) mod sarif;
pub(crate) mod source;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod yaml;

use lint::{Lint, Severity};
use source::SourceText;
use std::ops::Range;

/// One finding in one file.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// What was looked for
    pub(crate) lint: &'static Lint,
    /// How bad it is, after `--deny`
    pub(crate) severity: Severity,
    /// The JSON pointer into the policy document, if it is about one; empty for the whole document
    pub(crate) pointer: Option<String>,
    /// The bytes of the file to underline
    pub(crate) span: Range<usize>,
    /// What is wrong
    pub(crate) message: String,
    /// What to write instead; empty if the message says it
    pub(crate) help: String,
}

/// A file and what was found in it.
#[derive(Debug)]
pub(crate) struct CheckedFile {
    /// The text
    pub(crate) source: SourceText,
    /// The findings, in the order of the text
    pub(crate) findings: Vec<Finding>,
    /// What the filter says about the policy at start; `None` if it does not start
    pub(crate) summary: Option<String>,
}

/// The number of findings of each severity.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FindingCounts {
    /// Errors, denied findings among them
    pub(crate) errors: usize,
    /// Warnings
    pub(crate) warnings: usize,
    /// Notes
    pub(crate) notes: usize,
}

impl FindingCounts {
    /// Counts the findings of all files.
    pub(crate) fn of(files: &[CheckedFile]) -> Self {
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
