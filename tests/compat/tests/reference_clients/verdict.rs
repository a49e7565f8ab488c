//! Whether what a client did and told is right.
//!
//! What must never be is an error at once: two effects, two keys, an answer that nobody gave. That all was exactly as planned is another
//! matter: on a busy machine an attempt may run into its timeout although the upstream has answered at once. Such an intent is sent again,
//! and a client is wrong if it is not as planned each time ([`super::sessions::as_planned`]).

use std::time::{Duration, Instant};

use super::upstream::{IntentRecord, RecordedAttempt};
use anyhow::{Context as _, Result, bail, ensure};

use super::driver::{ClientReport, DriverSettings, ReportedAnswer};
use super::model::{AnswerHead, Got, Plan, ShownBody, SimulatedBackend, Step, next_step, predict};

/// How early a timer may end.
const EARLY: Duration = Duration::from_millis(20);

/// The time in which a driver ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverTime {
    pub(super) started: Instant,
    pub(super) ended: Instant,
}

/// A driver's run, as far as it is about one intent. Without a report the driver was killed.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntentRun<'a> {
    pub(super) settings: &'a DriverSettings,
    pub(super) time: DriverTime,
    pub(super) report: Option<&'a ClientReport>,
}

/// Checks what must hold for an intent whatever the machine does.
pub(super) fn ensure_safe(plan: &Plan, record: &IntentRecord, runs: &[IntentRun<'_>]) -> Result<()> {
    let sent = || record.attempts.iter().filter(|attempt| !attempt.is_poll);
    let key = sent().next().and_then(|attempt| attempt.key.as_deref());
    ensure!(sent().all(|attempt| attempt.key.as_deref() == key), "it was sent with several keys");
    ensure!(sent().all(|attempt| attempt.body == plan.body().as_bytes()), "it was sent with another body");
    let polls = || record.attempts.iter().filter(|attempt| attempt.is_poll);
    ensure!(polls().all(|attempt| attempt.key.is_none()), "its result was asked for with a key");
    ensure!(record.executions.len() <= 1, "it ran {} times", record.executions.len());
    let mut backend = SimulatedBackend::new(plan)?;
    let mut rest = record.attempts.as_slice();
    for run in runs {
        let count = rest.iter().take_while(|attempt| attempt.arrived <= run.time.ended).count();
        let (attempts, later) = rest.split_at_checked(count).context("more attempts than there are")?;
        rest = later;
        let answers: Vec<Got> = attempts.iter().map(|attempt| backend.attempt(attempt.is_poll)).collect();
        let Some(report) = run.report else { continue };
        ensure_numbers(run, attempts, report)?;
        // The namespace is in front of it, unless the request did not pass the filter.
        ensure!(key.is_none_or(|key| key.ends_with(report.key())), "the key {} was told", report.key());
        match report {
            ClientReport::Answer(answer) => {
                let answered = answers.iter().zip(attempts);
                let is_final =
                    |(got, attempt): &(&Got, &RecordedAttempt)| next_step(got, attempt.is_poll) == Step::Tell;
                let heads = answered.filter(is_final).filter_map(|(got, _)| got.head());
                let differences: Vec<_> = heads.map(|head| differs(head, record, answer)).collect();
                let wrong = || differences.iter().flatten().cloned().collect::<Vec<_>>().join("; ");
                ensure!(
                    differences.iter().any(Option::is_none),
                    "no final answer is the one that was told: {}",
                    wrong()
                );
            }
            ClientReport::Failed(failure) if failure.error == "no_answer" => {
                let is_used_up = failure.attempts == Some(run.settings.attempts)
                    || run.time.ended - run.time.started >= run.settings.budget;
                ensure!(is_used_up, "the client gave up after {:?} attempts", failure.attempts);
            }
            ClientReport::Failed(failure) => ensure!(failure.error == "aborted", "{} was told", failure.error),
        }
    }
    ensure!(rest.is_empty(), "attempts came after the last driver");
    let (expected, seen) = (backend.executions(), record.executions.len());
    ensure!(seen == expected, "it ran {seen} times, and not {expected}");
    Ok(())
}

fn ensure_numbers(run: &IntentRun<'_>, attempts: &[RecordedAttempt], report: &ClientReport) -> Result<()> {
    let most = run.settings.attempts;
    let told = report.attempts().unwrap_or(most);
    ensure!(told <= most, "{told} attempts were told, and there may be {most}");
    // Without numbers it is a browser, which itself sends a request again if a connection that it had used before breaks.
    let numbers: Vec<u32> = attempts.iter().filter_map(|attempt| attempt.number).collect();
    ensure!(numbers.len() <= told as usize, "{told} attempts were told, and {} came", numbers.len());
    ensure!(numbers.iter().all(|number| *number <= told), "{told} attempts were told, with the numbers {numbers:?}");
    Ok(())
}

/// In what an answer that was told is another than this one.
fn differs(head: &AnswerHead, record: &IntentRecord, answer: &ReportedAnswer) -> Option<String> {
    let compared = || -> Result<()> {
        ensure!(answer.status == head.status, "the status is {}, and {} was told", head.status, answer.status);
        ensure!(answer.replayed == head.replayed, "a replay: {}, and {} was told", head.replayed, answer.replayed);
        let (code, retry) = match &head.body {
            ShownBody::Result => {
                let [execution] = record.executions.as_slice() else { bail!("nothing ran, and a result was told") };
                ensure!(answer.body == execution.body, "the body is {}, and {} was told", execution.body, answer.body);
                (None, None)
            }
            ShownBody::Fault(name) => {
                let body = format!(r#"{{"fault":"{name}"}}"#);
                ensure!(answer.body == body, "the body is {body}, and {} was told", answer.body);
                (None, None)
            }
            ShownBody::Problem(code) => (Some(*code), head.advice),
            ShownBody::Gateway => (None, None),
        };
        let id = answer.operation_id.as_deref();
        ensure!(id.is_some() == head.has_operation, "the operation id {id:?} was told");
        ensure!(answer.code.as_deref() == code, "the code is {code:?}, and {:?} was told", answer.code);
        // Where there is no problem document, `Idempotency-Retry` may be told as well.
        let is_right = answer.retry.as_deref() == retry || answer.retry.as_deref() == head.advice;
        ensure!(is_right, "the advice is {retry:?}, and {:?} was told", answer.retry);
        Ok(())
    };
    compared().err().map(|error| format!("{error:#}"))
}

/// Checks that an intent was sent and told exactly as the model predicts, by one driver.
pub(super) fn ensure_as_planned(plan: &Plan, record: &IntentRecord, run: &IntentRun<'_>) -> Result<()> {
    let predicted = predict(plan, run.settings.attempts)?;
    let polls: Vec<bool> = record.attempts.iter().map(|attempt| attempt.is_poll).collect();
    ensure!(polls == predicted.polls, "of these attempts those were polls: {polls:?}, and not {:?}", predicted.polls);
    for (number, attempt) in (1..).zip(&record.attempts) {
        // The filter's own question, and a browser, have no number.
        ensure!(
            attempt.number.is_none_or(|told| told == number),
            "attempt {number} says that it is {:?}",
            attempt.number
        );
    }
    for (attempt, next) in record.attempts.iter().zip(record.attempts.iter().skip(1)) {
        if let Some(earliest) = attempt.next_not_before {
            let earliest = earliest.min(attempt.arrived + run.settings.max_retry_after);
            ensure!(next.arrived + EARLY >= earliest, "an attempt came before the end of Retry-After");
        }
    }
    let report = run.report.context("nothing was told")?;
    let told = report.attempts();
    ensure!(told.map(|told| told as usize) == Some(predicted.polls.len()), "{told:?} attempts were told");
    match (&predicted.told, report) {
        (Some(head), ClientReport::Answer(answer)) => match differs(head, record, answer) {
            Some(difference) => bail!("{difference}"),
            None => Ok(()),
        },
        (None, ClientReport::Failed(failure)) if failure.error == "no_answer" => Ok(()),
        (told, _) => bail!("the model tells {told:?}"),
    }
}

/// An intent with all that is known of it, for an error message.
pub(super) fn shown(plan: &Plan, record: &IntentRecord, runs: &[IntentRun<'_>]) -> String {
    let first = record.attempts.first().map(|attempt| attempt.arrived);
    let attempts = record.attempts.iter().map(|attempt| {
        let after = first.map(|first| attempt.arrived - first).unwrap_or_default().as_millis();
        let kind = if attempt.is_poll { "poll" } else { "send" };
        format!("\n    {after:>6} ms {kind} {:?} {:?}", attempt.number, attempt.key)
    });
    let attempts: String = attempts.collect();
    let reports = runs.iter().map(|run| format!("\n    {:?}", run.report)).collect::<String>();
    format!("{plan:?}\n  attempts{attempts}\n  executions {:?}\n  told{reports}", record.executions)
}
