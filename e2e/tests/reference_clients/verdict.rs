//! Whether what a client did and told is right: its attempts against the rules of [`super::model`], and what it told against what the
//! upstream knows.
//!
//! On a busy machine an attempt may run into its timeout although the upstream has answered at once, or never get as far as the
//! upstream. A client that goes on after an answer is right only if so much time has passed that this can be the reason.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::hostile_upstream::{IntentRecord, RecordedAttempt};

use super::driver::{ClientReport, DriverSettings, ReportedAnswer};
use super::model::{AnswerHead, Got, Plan, ShownBody, SimulatedBackend, Step, next_step};

/// How early a timer may end.
const EARLY: Duration = Duration::from_millis(20);

/// The time in which a driver ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverTime {
    pub(super) started: Instant,
    pub(super) ended: Instant,
}

/// Follows an intent through the runs of one or more drivers.
pub(super) struct IntentCheck<'a> {
    plan: &'a Plan,
    record: &'a IntentRecord,
    backend: SimulatedBackend,
    /// How many attempts have been looked at.
    seen: usize,
}

impl<'a> IntentCheck<'a> {
    /// Checks what holds whatever was told: one key, one body, one execution at most.
    pub(super) fn new(plan: &'a Plan, record: &'a IntentRecord) -> Result<Self> {
        let check = Self { plan, record, backend: SimulatedBackend::new(plan)?, seen: 0 };
        check.intent().with_context(|| check.shown())?;
        Ok(check)
    }

    fn intent(&self) -> Result<()> {
        let sent = || self.record.attempts.iter().filter(|attempt| !attempt.is_poll);
        let key = sent().next().and_then(|attempt| attempt.key.as_ref());
        ensure!(sent().all(|attempt| attempt.key.as_ref() == key), "it was sent with several keys");
        ensure!(sent().all(|attempt| attempt.body == self.plan.body().as_bytes()), "it was sent with another body");
        let polls = || self.record.attempts.iter().filter(|attempt| attempt.is_poll);
        ensure!(polls().all(|attempt| attempt.key.is_none()), "it was asked for with a key");
        ensure!(self.record.executions.len() <= 1, "it ran {} times", self.record.executions.len());
        Ok(())
    }

    /// Checks the attempts that came while a driver ran, and what it told. Without a report the driver was killed.
    pub(super) fn ran(
        &mut self,
        settings: &DriverSettings,
        time: DriverTime,
        report: Option<&ClientReport>,
    ) -> Result<()> {
        let told = format!("told {report:?}\n{}", self.shown());
        self.follow(settings, time, report).context(told)
    }

    fn follow(&mut self, settings: &DriverSettings, time: DriverTime, report: Option<&ClientReport>) -> Result<()> {
        let attempts: Vec<&RecordedAttempt> =
            self.record.attempts.iter().skip(self.seen).take_while(|attempt| attempt.arrived <= time.ended).collect();
        self.seen += attempts.len();
        // How many attempts can have got lost between two times.
        let lost = |from: Instant, to: Instant| {
            let timeouts = to.saturating_duration_since(from).as_millis() / settings.attempt_timeout.as_millis().max(1);
            u32::try_from(timeouts).unwrap_or(u32::MAX)
        };
        let (mut number, mut before) = (0, time.started);
        let mut last = Step::Again;
        let mut answered = Got::Nothing;
        // A driver begins with the intent, also if the one before it had polled.
        let mut polls = false;
        for (position, attempt) in attempts.iter().enumerate() {
            let step = if position == 0 { Step::SendAgain } else { last };
            let expects_poll = match step {
                Step::Poll => true,
                Step::SendAgain => false,
                Step::Again | Step::Tell => polls,
            };
            let may_be_lost = lost(before, attempt.arrived) > 0;
            let goes_on = step != Step::Tell && attempt.is_poll == expects_poll;
            ensure!(goes_on || may_be_lost && attempt.is_poll == polls, "attempt {} has no reason", position + 1);
            let most = number + 1 + lost(before, attempt.arrived);
            let at_least = number + 1;
            number = attempt.number.unwrap_or(at_least);
            ensure!((at_least..=most).contains(&number), "X-Retry-Attempt is {number}, and not {at_least} to {most}");
            polls = attempt.is_poll;
            answered = self.backend.attempt(polls);
            last = next_step(&answered, polls);
            before = attempt.arrived;
            if let Some(next) = attempts.get(position + 1)
                && let Some(earliest) = attempt.next_not_before
            {
                let earliest = earliest.min(attempt.arrived + settings.max_retry_after);
                let is_early = next.arrived + EARLY < earliest && lost(attempt.arrived, next.arrived) == 0;
                ensure!(!is_early, "attempt {} came before the end of Retry-After", position + 2);
            }
        }
        let Some(report) = report else { return Ok(()) };
        let unseen = if attempts.iter().any(|attempt| attempt.number.is_some()) {
            lost(before, time.ended)
        } else {
            lost(time.started, time.ended)
        };
        let told = report.attempts();
        ensure!(told <= settings.attempts, "it told of {told} attempts, and may make {}", settings.attempts);
        ensure!((number..=number + unseen).contains(&told), "it told of {told} attempts, and made {number}");
        let key = self.record.attempts.first().and_then(|attempt| attempt.key.as_deref());
        // The namespace is in front of it, unless the request did not pass the filter.
        ensure!(key.is_none_or(|key| key.ends_with(report.key())), "it told the key {}", report.key());
        match report {
            ClientReport::Failed(failure) => match failure.error.as_str() {
                "no_answer" => {
                    let is_used_up = told == settings.attempts || time.ended - time.started >= settings.budget;
                    ensure!(is_used_up, "it gave up after {told} attempts");
                    ensure!(last != Step::Tell || unseen > 0, "it told of no answer, and had one: {answered:?}");
                    Ok(())
                }
                "aborted" => Ok(()),
                error => bail!("it told the error {error}"),
            },
            ClientReport::Answer(answer) => {
                let Got::Whole(head) = answered else { bail!("it told an answer, and had none that is whole") };
                ensure!(last == Step::Tell, "it told an answer that is not final: {head:?}");
                self.answer(&head, answer)
            }
        }
    }

    /// Whether the answer is this one.
    fn answer(&self, head: &AnswerHead, answer: &ReportedAnswer) -> Result<()> {
        ensure!(answer.status == head.status, "it told the status {}, and not {}", answer.status, head.status);
        ensure!(answer.replayed == head.replayed, "it told a replay: {}", answer.replayed);
        let (code, retry) = match &head.body {
            ShownBody::Result => {
                let [execution] = self.record.executions.as_slice() else { bail!("it told a result, and nothing ran") };
                ensure!(answer.body == execution.body, "it told the body {}, and not {}", answer.body, execution.body);
                (None, None)
            }
            ShownBody::Fault(name) => {
                ensure!(answer.body == format!(r#"{{"fault":"{name}"}}"#), "it told the body {}", answer.body);
                (None, None)
            }
            ShownBody::Problem(code) => (Some(*code), head.advice),
            ShownBody::Gateway => (None, None),
        };
        ensure!(answer.code.as_deref() == code, "it told the code {:?}, and not {code:?}", answer.code);
        // Where there is no problem document, `Idempotency-Retry` may be told as well.
        let retry_is_right = answer.retry.as_deref() == retry || answer.retry.as_deref() == head.advice;
        ensure!(retry_is_right, "it told the advice {:?}, and not {retry:?}", answer.retry);
        Ok(())
    }

    /// Checks that the simulated backend and the upstream have done the same, and that all attempts came while a driver ran.
    pub(super) fn end(self) -> Result<()> {
        let (expected, seen) = (self.backend.executions(), self.record.executions.len());
        ensure!(seen == expected, "it ran {seen} times, and not {expected}\n{}", self.shown());
        ensure!(self.seen == self.record.attempts.len(), "attempts came after the last driver\n{}", self.shown());
        Ok(())
    }

    fn shown(&self) -> String {
        let first = self.record.attempts.first().map(|attempt| attempt.arrived);
        let attempts = self.record.attempts.iter().map(|attempt| {
            let after = first.map(|first| attempt.arrived - first).unwrap_or_default().as_millis();
            let kind = if attempt.is_poll { "poll" } else { "send" };
            format!("\n    {after:>6} ms {kind} {:?} {:?}", attempt.number, attempt.key)
        });
        format!(
            "{:?}\n  attempts{}\n  executions {:?}",
            self.plan,
            attempts.collect::<String>(),
            self.record.executions
        )
    }
}
