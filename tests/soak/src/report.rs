//! What a run tells: lines of progress, and the summary.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context as _, Result};

use crate::checker::{ClientObservation, EffectLedger, Got, RightAnswer, Violation};
use crate::client::{ATTEMPTS, Attempt, Noted, Notes};
use crate::faults::{FaultRecord, Group, Struck};
use crate::operations::{OperationKind, SHARES};

/// A time without any success that is told as a silence.
const SILENCE: Duration = Duration::from_secs(1);
/// How many silences and broken rules are listed.
const LISTED: usize = 10;
/// For so long after a process has come back, attempts still count as attempts during the fault.
const AFTERMATH: Duration = Duration::from_secs(2);

/// A line about how far a run is.
pub fn progress(notes: &Notes, record: &FaultRecord, done: u64, operations: u64) -> String {
    let noted = notes.noted();
    let down = record.active();
    let down = if down.is_empty() { String::new() } else { format!("; down: {}", down.join(", ")) };
    format!(
        "{:>6.1} s  {done} of {operations} operations, {} attempts, statuses {}{down}",
        notes.elapsed().as_secs_f64(),
        noted.attempts.len(),
        listed(&counted(noted.attempts.iter())),
    )
}

/// What came of a run.
pub struct RunSummary {
    /// Its seed.
    pub seed: u64,
    /// The kind of each operation that was done.
    pub kinds: Vec<OperationKind>,
    /// How long they took.
    pub took: Duration,
    /// Attempts and waits.
    pub noted: Noted,
    /// The faults.
    pub struck: Vec<Struck>,
    /// What clients saw.
    pub observations: Vec<ClientObservation>,
    /// What happened.
    pub ledger: EffectLedger,
    /// Which rules were broken.
    pub violations: Vec<Violation>,
}

/// A time without any success of any client.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// When it began.
    pub from: Duration,
    /// How long it was.
    pub lasted: Duration,
    /// Attempts in it that failed.
    pub failed: usize,
    /// How long nobody had asked for what then succeeded.
    pub idle: Duration,
}

type Counts = BTreeMap<String, usize>;

fn counted<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Counts {
    let mut counts = Counts::new();
    for attempt in attempts {
        *counts.entry(attempt.outcome.clone()).or_default() += 1;
    }
    counts
}

fn is_answer(seen: &ClientObservation) -> bool {
    matches!(seen.got, Got::Answer { .. })
}

fn is_unsure(seen: &ClientObservation) -> bool {
    seen.expected == RightAnswer::AnswerOrUnknown
}

fn listed(counts: &Counts) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by(|one, two| two.1.cmp(one.1));
    let counts: Vec<_> = counts.into_iter().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
    counts.join(", ")
}

impl RunSummary {
    /// Whether no rule was broken.
    pub fn is_right(&self) -> bool {
        self.violations.is_empty()
    }

    /// What the run did not try, so that it says nothing about it.
    pub fn gaps(&self) -> Vec<String> {
        let observed = |wanted: &dyn Fn(&ClientObservation) -> bool| self.observations.iter().any(wanted);
        let seen_status = |status: &str| self.noted.attempts.iter().any(|attempt| attempt.outcome == status);
        let hit = |group| self.struck.iter().any(|fault| fault.group == group);
        let kinds = SHARES.iter().filter(|(kind, _)| !self.kinds.contains(kind));
        let untried = [
            ("no mismatch was refused", observed(&|seen| matches!(seen.got, Got::Refused { status: 422, .. }))),
            ("no replay", observed(&|seen| matches!(seen.got, Got::Answer { replayed: true, .. }))),
            ("no question of another caller", observed(&|seen| seen.expected == RightAnswer::Unknown)),
            ("no recovery of a lost answer", observed(&|seen| is_unsure(seen) && is_answer(seen))),
            ("no recovery before the request arrived", observed(&|seen| is_unsure(seen) && !is_answer(seen))),
            ("no retry while the first attempt was under way", seen_status("409 idempotency_key_in_flight")),
            ("no invocation in the backend", !self.ledger.completed.is_empty()),
            ("no fault of Restate", hit(Group::Restate)),
            ("no fault of Envoy", hit(Group::Envoy)),
            ("no fault of a leader of partitions", self.struck.iter().any(|fault| fault.led.partitions > 0)),
        ];
        let alone = self.struck.iter().filter(|fault| self.during(&[fault]).is_empty());
        let kinds = kinds.map(|(kind, _)| format!("no operation {kind:?}"));
        let untried = untried.into_iter().filter(|(_, tried)| !tried).map(|(what, _)| what.to_owned());
        let alone = alone.map(|fault| format!("no attempt while {} was {}", fault.name, fault.blow.name()));
        kinds.chain(untried).chain(alone).collect()
    }

    /// Leaves the summary, all broken rules and everything that clients saw in files of this directory.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let lines = |lines: &mut dyn Iterator<Item = String>| lines.collect::<Vec<_>>().join("\n");
        for (name, text) in [
            ("summary.txt", self.to_string()),
            ("violations.txt", lines(&mut self.violations.iter().map(ToString::to_string))),
            ("observations.txt", lines(&mut self.observations.iter().map(|seen| format!("{seen:?}")))),
        ] {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Times without any success, longest first.
    pub fn silences(&self) -> Vec<Silence> {
        let attempts = &self.noted.attempts;
        let success = |attempt: &&Attempt| attempt.outcome.starts_with('2');
        let mut ends: Vec<_> = attempts.iter().filter(success).map(|attempt| attempt.at + attempt.took).collect();
        ends.sort();
        let gaps = ends.iter().zip(ends.iter().skip(1)).filter(|(one, two)| two.saturating_sub(**one) >= SILENCE);
        let mut silences: Vec<_> = gaps
            .map(|(&from, &until)| {
                let overlaps = |attempt: &&Attempt| attempt.at < until && attempt.at + attempt.took > from;
                // The attempt that ends the silence is no failure.
                let failed = attempts.iter().filter(overlaps).filter(|attempt| !success(attempt)).count();
                let waited = attempts.iter().filter(overlaps).filter(success).map(|attempt| attempt.at);
                let idle = waited.min().unwrap_or(until).saturating_sub(from);
                Silence { from, lasted: until.saturating_sub(from), failed, idle }
            })
            .collect();
        silences.sort_by_key(|silence| std::cmp::Reverse(silence.lasted));
        silences
    }

    /// Attempts that overlap one of these faults.
    fn during(&self, faults: &[&Struck]) -> Vec<&Attempt> {
        let overlaps = |attempt: &Attempt| {
            faults.iter().any(|fault| attempt.at < fault.until + AFTERMATH && attempt.at + attempt.took > fault.at)
        };
        self.noted.attempts.iter().filter(|attempt| overlaps(attempt)).collect()
    }

    fn longest_wait(&self, faults: &[&Struck]) -> Duration {
        let waits = self.noted.waits.iter();
        let waits = waits.filter(|wait| {
            faults.iter().any(|fault| wait.at < fault.until + AFTERMATH && wait.at + wait.took > fault.at)
        });
        waits.map(|wait| wait.took).max().unwrap_or_default()
    }

    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults: {}", self.struck.len())?;
        for group in Group::ALL {
            let of_group: Vec<_> = self.struck.iter().filter(|fault| fault.group == group).collect();
            let mut blows: BTreeMap<_, Vec<Duration>> = BTreeMap::new();
            for fault in &of_group {
                blows.entry(fault.blow).or_default().push(fault.until.saturating_sub(fault.at));
            }
            for (blow, times) in blows {
                let longest = times.iter().max().copied().unwrap_or_default();
                let sum: Duration = times.iter().sum();
                writeln!(
                    f,
                    "  {:<16} {:<9} {:>3} times, down {:.1} s in all, {:.1} s at most",
                    group.name(),
                    blow.name(),
                    times.len(),
                    sum.as_secs_f64(),
                    longest.as_secs_f64()
                )?;
            }
        }
        let forced = self.struck.iter().filter(|fault| fault.forced).count();
        writeln!(f, "  asked to end, and killed because they did not within 10 s: {forced}")?;
        let leaders: Vec<_> = self.struck.iter().filter(|fault| fault.led.partitions > 0).collect();
        writeln!(
            f,
            "while a leader of partitions was down ({} times), and {} s after:",
            leaders.len(),
            AFTERMATH.as_secs()
        )?;
        self.seen_during(f, &leaders)?;
        self.leaders(f, &leaders)?;
        let gateways: Vec<_> = self.struck.iter().filter(|fault| fault.group == Group::Envoy).collect();
        writeln!(f, "while an Envoy was down ({} times), and {} s after:", gateways.len(), AFTERMATH.as_secs())?;
        self.seen_during(f, &gateways)
    }

    fn seen_during(&self, f: &mut fmt::Formatter<'_>, faults: &[&Struck]) -> fmt::Result {
        let attempts = self.during(faults);
        let longest = attempts.iter().map(|attempt| attempt.took).max().unwrap_or_default();
        writeln!(f, "  {} attempts: {}", attempts.len(), listed(&counted(attempts.iter().copied())))?;
        writeln!(
            f,
            "  longest attempt {:.1} s, longest wait of a caller with all retries {:.1} s",
            longest.as_secs_f64(),
            self.longest_wait(faults).as_secs_f64()
        )
    }

    /// Each fault of a leader, one by one.
    fn leaders(&self, f: &mut fmt::Formatter<'_>, leaders: &[&Struck]) -> fmt::Result {
        writeln!(
            f,
            "  {:>8}  {:<10} {:<10} {:<25} {:>7} {:>13} {:>8}",
            "at", "node", "is", "leads", "down", "failed", "silence"
        )?;
        for fault in leaders {
            let (from, until) = (fault.at, fault.until + AFTERMATH);
            let metadata = if fault.led.metadata { " and metadata" } else { "" };
            let attempts = self.during(&[fault]);
            let failed = attempts.iter().filter(|attempt| !attempt.outcome.starts_with(['2', '4'])).count();
            let ends = attempts
                .iter()
                .filter(|attempt| attempt.outcome.starts_with('2'))
                .map(|attempt| attempt.at + attempt.took);
            let mut ends: Vec<_> = ends.map(|end| end.clamp(from, until)).chain([from, until]).collect();
            ends.sort();
            let gaps = ends.iter().zip(ends.iter().skip(1)).map(|(one, two)| two.saturating_sub(*one));
            writeln!(
                f,
                "  {:>6.1} s  {:<10} {:<10} {:<25} {:>5.1} s {:>4} of {:>5} {:>6.1} s",
                from.as_secs_f64(),
                fault.name,
                fault.blow.name(),
                format!("{} partitions{metadata}", fault.led.partitions),
                fault.until.saturating_sub(from).as_secs_f64(),
                failed,
                attempts.len(),
                gaps.max().unwrap_or_default().as_secs_f64()
            )?;
        }
        Ok(())
    }

    fn checks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count =
            |wanted: &dyn Fn(&ClientObservation) -> bool| self.observations.iter().filter(|seen| wanted(seen)).count();
        let effects: usize = self.ledger.effects.values().map(Vec::len).sum();
        let refused = |seen: &ClientObservation| matches!(&seen.got, Got::Refused { status: 422, .. });
        writeln!(f, "checked: {} observations against {effects} effects", self.observations.len())?;
        for (what, number) in [
            ("answers", count(&|seen| matches!(seen.got, Got::Answer { .. }))),
            ("  of them replays", count(&|seen| matches!(seen.got, Got::Answer { replayed: true, .. }))),
            ("mismatches refused", count(&refused)),
            (
                "recoveries and lookups that said \"unknown\"",
                count(&|seen| matches!(&seen.got, Got::Refused { status: 404, .. })),
            ),
            ("recoveries after a lost answer: found", count(&|seen| is_unsure(seen) && is_answer(seen))),
            ("recoveries after a lost answer: unknown", count(&|seen| is_unsure(seen) && !is_answer(seen))),
            ("questions of other callers", count(&|seen| seen.expected == RightAnswer::Unknown)),
            ("webhooks that were the first", count(&|seen| seen.got == Got::Completed { first: true })),
            ("webhooks that were not", count(&|seen| seen.got == Got::Completed { first: false })),
            ("callers without an answer", count(&|seen| seen.got == Got::Nothing)),
        ] {
            writeln!(f, "  {what:<44} {number}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let retried = self.noted.waits.iter().filter(|wait| wait.attempts > 1).count();
        let most = self.noted.waits.iter().map(|wait| wait.attempts).max().unwrap_or_default();
        let longest = self.noted.waits.iter().map(|wait| wait.took).max().unwrap_or_default();
        writeln!(f, "\nseed {}: {} operations in {:.0} s", self.seed, self.kinds.len(), self.took.as_secs_f64())?;
        writeln!(
            f,
            "requests: {}, attempts: {}; {retried} requests were retried, at most {most} attempts",
            self.noted.waits.len(),
            self.noted.attempts.len()
        )?;
        writeln!(f, "statuses: {}", listed(&counted(self.noted.attempts.iter())))?;
        let patient = self.noted.waits.iter().filter(|wait| wait.attempts > ATTEMPTS).count();
        writeln!(f, "requests that took more than {ATTEMPTS} attempts: {patient}")?;
        writeln!(f, "longest wait of a caller, with all retries: {:.1} s", longest.as_secs_f64())?;
        let silences = self.silences();
        writeln!(f, "silences of a second or more (no success of any client): {}", silences.len())?;
        for Silence { from, lasted, failed, idle } in silences.iter().take(LISTED) {
            let nobody = if *failed == 0 && *idle * 2 > *lasted {
                "; the clients were waiting, as they had been told"
            } else {
                ""
            };
            let (lasted, from) = (lasted.as_secs_f64(), from.as_secs_f64());
            writeln!(f, "  {lasted:.1} s, from {from:.1} s on, with {failed} failed attempts{nobody}")?;
        }
        self.faults(f)?;
        self.checks(f)?;
        let gaps = self.gaps();
        if !gaps.is_empty() {
            writeln!(f, "NOT TRIED: {}", gaps.join("; "))?;
        }
        if self.is_right() {
            return writeln!(f, "lost: nothing; doubled: nothing; every rule holds");
        }
        let mut rules = Counts::new();
        for violation in &self.violations {
            *rules.entry(violation.rule.words().to_owned()).or_default() += 1;
        }
        writeln!(f, "BROKEN RULES: {}", self.violations.len())?;
        for (rule, count) in rules {
            writeln!(f, "  {count:>6}  {rule}")?;
        }
        for violation in self.violations.iter().take(LISTED) {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}
