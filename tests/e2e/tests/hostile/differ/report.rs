//! What a run comes to: counts, and findings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::{Case, Protocol};
use super::client::{CaseOutcome, End};
use super::judge::shown_records;
use super::upstream::Record;

/// Who decided a case, as the columns of the table have it.
const DECIDED: [&str; 5] = ["let in", "refused by Envoy", "by RBAC", "by the filter", "not waited for"];

fn decided(outcome: &CaseOutcome, records: &[Record]) -> &'static str {
    let first = outcome.first();
    let [let_in, envoy, rbac, filter, left] = DECIDED;
    match first {
        _ if records.iter().any(|record| record.part == "1") => let_in,
        End::Left => left,
        _ if first.says("RBAC") => rbac,
        // A refusal in the form of gRPC has the status 200.
        _ if first.code().is_some() || first.status() == Some(200) => filter,
        _ => envoy,
    }
}

/// The counts of a run.
#[derive(Default)]
pub(crate) struct Report {
    seed: u64,
    cases: u64,
    /// By row and by who decided.
    rows: BTreeMap<String, BTreeMap<&'static str, u64>>,
    findings: Vec<String>,
    /// Findings beyond those that are kept.
    more: u64,
}

/// So many findings are kept in full.
const KEPT: usize = 200;

impl Report {
    /// An empty one.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// How many cases it counts.
    pub(crate) const fn cases(&self) -> u64 {
        self.cases
    }

    /// How many findings there are.
    pub(crate) fn disagreements(&self) -> u64 {
        self.more.saturating_add(u64::try_from(self.findings.len()).unwrap_or(u64::MAX))
    }

    /// The findings that are kept.
    pub(crate) fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Counts a case that has been judged.
    pub(crate) fn add(&mut self, case: &Case, outcome: &CaseOutcome, records: &[Record], wrong: &[String]) {
        self.cases += 1;
        let protocol = if case.protocol == Protocol::Http1 { "HTTP/1.1" } else { "HTTP/2" };
        for row in [protocol.to_owned(), format!("listener: {}", case.listener.name()), "all".to_owned()] {
            *self.rows.entry(row).or_default().entry(decided(outcome, records)).or_default() += 1;
        }
        if !wrong.is_empty() {
            self.find(told(case, outcome, records, wrong));
        }
    }

    /// Something is wrong that is not one case's alone, or has been told already.
    pub(crate) fn find(&mut self, what: String) {
        if self.findings.len() < KEPT { self.findings.push(what) } else { self.more += 1 }
    }

    /// One line while it runs.
    pub(crate) fn progress(&self, of: u64, took: Duration) -> String {
        let rate = f64::from(u32::try_from(self.cases).unwrap_or(u32::MAX)) / took.as_secs_f64().max(0.001);
        format!("{} of {of} cases, {rate:.0} a second, {} disagreements", self.cases, self.disagreements())
    }

    /// Everything in Markdown.
    pub(crate) fn summary(&self, took: Duration) -> String {
        let mut text = format!("{} cases, seed {}, {} s\n\n| | cases |", self.cases, self.seed, took.as_secs());
        text += &DECIDED.map(|name| format!(" {name} |")).concat();
        text += &format!("\n|---|{}\n", "---|".repeat(DECIDED.len() + 1));
        for (name, counts) in &self.rows {
            let columns = DECIDED.map(|decided| format!(" {} |", counts.get(decided).copied().unwrap_or_default()));
            text += &format!("| {name} | {} |{}\n", counts.values().sum::<u64>(), columns.concat());
        }
        text + &format!("\nbroken rules: {}\n", self.disagreements())
    }
}

/// A case with all there is to say about it.
pub(crate) fn told(case: &Case, outcome: &CaseOutcome, records: &[Record], wrong: &[String]) -> String {
    let list = |lines: &mut dyn Iterator<Item = String>| lines.map(|line| format!("\n    {line}")).collect::<String>();
    let answers = list(&mut outcome.answers.iter().map(ToString::to_string));
    let wrong = if wrong.is_empty() { " nothing".to_owned() } else { list(&mut wrong.iter().cloned()) };
    format!("{case}\n  the client saw{answers}\n{}\n  wrong:{wrong}\n", shown_records(records))
}
