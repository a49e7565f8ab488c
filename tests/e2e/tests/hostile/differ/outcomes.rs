//! What became of each case, a line each, without what differs from run to run: `crates/xtask/scripts/hostile-hosts.sh` compares the lines of the
//! two hosts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use e2e::wire::{HeaderLine, shown};

use super::case::Case;
use super::client::CaseOutcome;
use super::upstream::Record;

/// Headers whose values belong to a run: the tokens' signatures are made anew for each.
const OF_A_RUN: [&str; 2] = ["authorization", "x-request-id"];

/// The lines, by the numbers of the cases.
pub(crate) struct OutcomeLines {
    file: PathBuf,
    lines: BTreeMap<u64, String>,
}

impl OutcomeLines {
    /// No line yet. They go to `file`.
    pub(crate) const fn to(file: PathBuf) -> Self {
        Self { file, lines: BTreeMap::new() }
    }

    /// Adds a case: what the client saw, and what the upstream got.
    pub(crate) fn add(&mut self, case: &Case, outcome: &CaseOutcome, records: &[Record]) {
        let answers: Vec<String> = outcome.answers.iter().map(|answer| without_instance(&answer.to_string())).collect();
        let mut got: Vec<String> = records.iter().map(of_record).collect();
        got.sort_unstable();
        self.lines.insert(case.number, format!("saw {} | the upstream got {}", answers.join(", "), got.join(", ")));
    }

    /// Writes the file.
    pub(crate) fn write(&self) -> Result<()> {
        let lines: String = self.lines.iter().map(|(number, line)| format!("{number}: {line}\n")).collect();
        fs::write(&self.file, lines).with_context(|| self.file.display().to_string())
    }
}

/// A problem document without the UUID of its `instance`.
fn without_instance(answer: &str) -> String {
    const BEFORE: &str = "urn:uuid:";
    match answer.split_once(BEFORE) {
        Some((head, rest)) => {
            format!("{head}{BEFORE}…{}", rest.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '-'))
        }
        None => answer.to_owned(),
    }
}

fn of_record(record: &Record) -> String {
    let Record { message, complete, part } = record;
    let end = if *complete { "" } else { " and no more" };
    let (headers, trailers) = (of_lines(&message.headers), of_lines(&message.trailers));
    let (start, body) = (shown(&message.start), shown(&message.body));
    format!("part {part}: {start} [{headers}] {body} [{trailers}]{end}")
}

/// The lines in order, except that those of different names are sorted.
fn of_lines(lines: &[HeaderLine]) -> String {
    let mut lines: Vec<&HeaderLine> = lines.iter().collect();
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    let line = |(name, value): &&HeaderLine| {
        let value = if OF_A_RUN.contains(&name.as_str()) { "…".to_owned() } else { shown(value) };
        format!("{name}: {value}")
    };
    lines.iter().map(line).collect::<Vec<_>>().join("; ")
}
