//! What a run comes to: counts, and findings.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::api::LISTENERS;
use super::case::{CLASSES, Case, Class, Protocol};
use super::client::CaseOutcome;
use super::judge::shown_records;
use super::model::{ModelAnswer, Reach};
use super::upstream::Record;

/// Who decided a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decided {
    /// The request reached the upstream.
    LetIn,
    /// Envoy itself refused it, authentication included.
    Envoy,
    /// Envoy's RBAC filter refused it.
    Rbac,
    /// Our filter refused it.
    Filter,
    /// The client did not wait for an answer.
    Left,
}

/// Every one of them, and its heading.
const DECIDED: [(Decided, &str); 5] = [
    (Decided::LetIn, "let in"),
    (Decided::Envoy, "refused by Envoy"),
    (Decided::Rbac, "by RBAC"),
    (Decided::Filter, "by the filter"),
    (Decided::Left, "not waited for"),
];

impl Decided {
    /// Who decided, and the refusal in short.
    pub(crate) fn of(outcome: &CaseOutcome, records: &[Record]) -> (Self, String) {
        let first = outcome.first();
        let status = first.status().map_or("no answer".to_owned(), |status| status.to_string());
        if records.iter().any(|record| record.part == "1") {
            (Self::LetIn, status)
        } else if let Some(code) = first.code() {
            (Self::Filter, format!("{status} `{code}`"))
        } else if first.says("RBAC") {
            (Self::Rbac, status)
        } else if first.says("Jwt") {
            (Self::Envoy, format!("{status}, authentication"))
        } else if matches!(first, super::client::End::Left) {
            (Self::Left, status)
        } else if status == "200" {
            (Self::Filter, "a refusal in the form of gRPC".to_owned())
        } else {
            (Self::Envoy, status)
        }
    }
}

/// The counts of a run.
#[derive(Default)]
pub(crate) struct Report {
    seed: u64,
    cases: u64,
    /// By row and by who decided.
    rows: BTreeMap<(usize, String), BTreeMap<Decided, u64>>,
    refusals: BTreeMap<(Decided, String), u64>,
    /// By reason: cases, and those that were let in.
    doubts: BTreeMap<&'static str, (u64, u64)>,
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
    pub(crate) fn add(
        &mut self,
        case: &Case,
        expected: &ModelAnswer,
        outcome: &CaseOutcome,
        records: &[Record],
        wrong: &[String],
    ) {
        let (decided, how) = Decided::of(outcome, records);
        self.cases += 1;
        let protocol = if case.protocol == Protocol::Http1 { (0, "HTTP/1.1") } else { (1, "HTTP/2") };
        let listener = LISTENERS.iter().position(|listener| *listener == case.listener).unwrap_or_default();
        let mut rows =
            vec![(protocol.0, protocol.1.to_owned()), (2 + listener, format!("listener: {}", case.listener.name()))];
        if case.mutations.is_empty() {
            rows.push((10, "no mutation".to_owned()));
        }
        for (index, class) in CLASSES.iter().enumerate().filter(|(_, class)| case.has(**class)) {
            rows.push((11 + index, format!("mutated: {}", class_name(*class))));
        }
        rows.push((20, "all".to_owned()));
        for row in rows {
            *self.rows.entry(row).or_default().entry(decided).or_default() += 1;
        }
        if decided != Decided::LetIn {
            *self.refusals.entry((decided, how)).or_default() += 1;
        }
        if let Reach::Either(why) = expected.reach {
            let (cases, let_in) = self.doubts.entry(why).or_default();
            *cases += 1;
            *let_in += u64::from(decided == Decided::LetIn);
        }
        if !wrong.is_empty() {
            self.find(told(case, expected, outcome, records, wrong));
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
        let mut text = format!("{} cases, seed {}, {} s\n\n| |", self.cases, self.seed, took.as_secs());
        text += &DECIDED.iter().fold(String::from(" cases |"), |line, (_, name)| format!("{line} {name} |"));
        text += &format!("\n|---|{}\n", "---|".repeat(DECIDED.len() + 1));
        for ((_, name), counts) in &self.rows {
            text += &format!("| {name} | {} |", counts.values().sum::<u64>());
            for (decided, _) in DECIDED {
                text += &format!(" {} |", counts.get(&decided).copied().unwrap_or_default());
            }
            text.push('\n');
        }
        text += "\n| refused by | with | cases |\n|---|---|---|\n";
        for ((decided, how), count) in &self.refusals {
            let by = match decided {
                Decided::Rbac => "RBAC",
                Decided::Filter => "the filter",
                Decided::Left => "nobody: the client left",
                Decided::LetIn | Decided::Envoy => "Envoy",
            };
            text += &format!("| {by} | {how} | {count} |\n");
        }
        text += "\n| either is right | cases | let in |\n|---|---|---|\n";
        for (why, (cases, let_in)) in &self.doubts {
            text += &format!("| {why} | {cases} | {let_in} |\n");
        }
        text + &format!("\ndisagreements: {}\n", self.disagreements())
    }
}

const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Path => "path",
        Class::Host => "host",
        Class::Header => "header",
        Class::Method => "method",
        Class::Framing => "framing",
        Class::Token => "token",
    }
}

/// A case with all there is to say about it.
pub(crate) fn told(
    case: &Case,
    expected: &ModelAnswer,
    outcome: &CaseOutcome,
    records: &[Record],
    wrong: &[String],
) -> String {
    let reach = match expected.reach {
        Reach::Never(why) => format!("it does not reach the upstream: {why}"),
        Reach::Must => "it reaches the upstream".to_owned(),
        Reach::Either(why) => format!("it may reach the upstream: {why}"),
    };
    let forwarded = expected.forwarded.as_ref().map(|forwarded| format!("\n    as {forwarded:?}")).unwrap_or_default();
    let answers: String = outcome.answers.iter().map(|answer| format!("\n    {answer}")).collect();
    let wrong: String = match wrong {
        [] => " nothing".to_owned(),
        wrong => wrong.iter().map(|what| format!("\n    {what}")).collect(),
    };
    format!(
        "{case}\n  the model says {reach}{forwarded}\n  the client saw{answers}\n{}\n  wrong:{wrong}\n",
        shown_records(records)
    )
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases, {} disagreements", self.cases, self.disagreements())
    }
}
