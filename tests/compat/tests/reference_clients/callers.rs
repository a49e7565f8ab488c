//! What callers do: they abort, another one logs in, and their token expires. And the budget of each request.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use e2e::runner::Test;
use serde_json::json;

use super::driver::{ClientReport, DriverIntent, DriverSettings};
use super::killed::{ensure_told_success, patient, wait_for_attempts};
use super::model::Plan;
use super::sessions::{ACME, ClientSetup, as_planned, check_safe};
use super::setup::Channel::{Generic, Refusing};

pub(super) fn tests() -> Vec<Test<ClientSetup>> {
    vec![
        Test::new("an upstream that never answers gets as many attempts as the budget has", attempts),
        Test::new("a wait that does not fit into the budget ends it", time),
        Test::new("the caller aborts an attempt and a wait", aborts),
        Test::new("another user of the store sends nothing of the first one", another_user),
        Test::new("an expired token is refused once, and nothing runs", expired),
    ]
}

/// Whether a client has told that there is no answer, after so many attempts.
fn is_no_answer(report: Option<&ClientReport>, attempts: u32) -> bool {
    matches!(report, Some(ClientReport::Failed(failure)) if failure.error == "no_answer" && failure.attempts == Some(attempts))
}

fn attempts(setup: &ClientSetup) -> Result<()> {
    const ATTEMPTS: u32 = 3;
    let never = ["hang", "503", "reset", "cut", "drip", "202", "409"];
    let plans = never.map(|fault| Plan::new(format!("never-{fault}"), Generic, &[fault; ATTEMPTS as usize]));
    let refused = Plan::new("never-connected", Refusing, &[]);
    let settings = DriverSettings { attempts: ATTEMPTS, ..DriverSettings::default() };
    let session = setup.session(ACME, settings)?;
    let all: Vec<Plan> = plans.iter().chain([&refused]).cloned().collect();
    let first = session.send(&setup.intents(&all)?)?;
    for plan in &all {
        let report = first.report(plan, &setup.record(plan));
        ensure!(is_no_answer(report, ATTEMPTS), "{plan:?}: the client told {report:?}");
    }
    as_planned(setup, &plans, &first)?;
    setup.hostile.upstream.stop_refusing()?;
    let resumed = session.resume()?;
    plans.iter().try_for_each(|plan| check_safe(setup, plan, &[&first, &resumed]))?;
    // The upstream did not see the first three.
    check_safe(setup, &refused, &[&resumed])?;
    ensure_told_success(setup, &all, &resumed)
}

fn time(setup: &ClientSetup) -> Result<()> {
    let budget = Duration::from_millis(300);
    let plans = ["503_long", "hang"].map(|fault| Plan::new(format!("budget-{fault}"), Generic, &[fault]));
    let session = setup.session(ACME, DriverSettings { budget, ..DriverSettings::default() })?;
    let run = session.send(&setup.intents(&plans)?)?;
    for plan in &plans {
        let record = setup.record(plan);
        ensure!(
            is_no_answer(run.report(plan, &record), 1),
            "{plan:?}: the client told {:?}",
            run.report(plan, &record)
        );
        ensure!(record.attempts.len() <= 1, "{plan:?}: the upstream got {} attempts", record.attempts.len());
    }
    Ok(())
}

/// On a busy machine an abort can come before anything is sent. Then it is tried again, and the abort comes later.
fn aborts(setup: &ClientSetup) -> Result<()> {
    for after in [600, 2_400, 9_600].map(Duration::from_millis) {
        if have_begun_when_aborted(setup, after)? {
            return Ok(());
        }
    }
    bail!("every abort came before anything was sent")
}

/// Whether something had been sent when the calls were aborted.
fn have_begun_when_aborted(setup: &ClientSetup, after: Duration) -> Result<bool> {
    let plans = ["hang", "hang_before", "hang_after", "503_long", "503_long_before", "202_location"]
        .map(|fault| Plan::new(format!("aborted-{fault}-{}", after.as_millis()), Generic, &[fault, "503_long"]));
    let mut session = setup.session(ACME, patient())?;
    let abort = |intent: DriverIntent| DriverIntent { abort_after: Some(after), ..intent };
    let intents: Vec<DriverIntent> = setup.intents(&plans)?.into_iter().map(abort).collect();
    let aborted = session.send(&intents)?;
    for plan in &plans {
        let report = aborted.report(plan, &setup.record(plan));
        let is_aborted = matches!(report, Some(ClientReport::Failed(failure)) if failure.error == "aborted");
        ensure!(is_aborted, "{plan:?}: the client told {report:?}");
    }
    let begun: Vec<Plan> = plans.iter().filter(|plan| !setup.record(plan).attempts.is_empty()).cloned().collect();
    session.settings = DriverSettings::default();
    let resumed = session.resume()?;
    for plan in &plans {
        // Of what was aborted before anything was kept there is nothing to resume.
        let is_resumed = resumed.report(plan, &setup.record(plan)).is_some();
        let runs = [&aborted, &resumed];
        check_safe(setup, plan, if is_resumed { &runs } else { &runs[..1] })?;
    }
    ensure_told_success(setup, &begun, &resumed)?;
    Ok(!begun.is_empty())
}

/// A store, a browser's for example, has what one user has under way, and another user logs in.
fn another_user(setup: &ClientSetup) -> Result<()> {
    let stops = ["hang", "hang_before", "hang_after", "503_long_before"];
    let plans = stops.map(|stop| Plan::new(format!("of-another-user-{stop}"), Generic, &[stop]));
    let mut session = setup.session(ACME, patient())?;
    let driver = session.start(false, &setup.intents(&plans)?)?;
    wait_for_attempts(setup, &plans.clone().map(|plan| (plan, 1)))?;
    let killed = session.kill(driver)?;
    session.settings = DriverSettings::default();

    let own = Plan::new("of-the-other-user-itself", Generic, &["503"]);
    let first = std::mem::replace(&mut session.caller, setup.hostile.caller(ACME, "u2")?);
    let driver = session.start(true, &setup.intents(std::slice::from_ref(&own))?)?;
    let other = session.finish(driver)?;
    ensure_told_success(setup, std::slice::from_ref(&own), &other)?;
    for plan in &plans {
        let record = setup.record(plan);
        let report = other.report(plan, &record);
        let is_refused = matches!(report, Some(ClientReport::Failed(failure)) if failure.error == "other_owner");
        ensure!(is_refused, "{plan:?}: the other user's client told {report:?}");
        ensure!(record.attempts.len() == 1, "{plan:?}: the other user's client sent it");
    }

    session.caller = first;
    let resumed = session.resume()?;
    plans.iter().try_for_each(|plan| check_safe(setup, plan, &[&killed, &resumed]))?;
    ensure_told_success(setup, &plans, &resumed)?;
    for plan in plans.iter().chain([&own]) {
        let user = if plan.name == own.name { ":u2:" } else { ":u1:" };
        let executions = setup.record(plan).executions;
        ensure!(
            executions.iter().all(|execution| execution.key.contains(user)),
            "{plan:?} ran for another user: {executions:?}"
        );
    }
    Ok(())
}

fn expired(setup: &ClientSetup) -> Result<()> {
    let plan = Plan::new("expired", Generic, &[]);
    let mut session = setup.session(ACME, patient())?;
    session.caller.token =
        setup.hostile.gateway.token(&json!({"tenant_id": ACME, "project_id": "shop", "sub": "u1", "exp": 1}))?;
    let run = session.send(&setup.intents(std::slice::from_ref(&plan))?)?;
    let report = run.report(&plan, &setup.record(&plan));
    let is_refused =
        matches!(report, Some(ClientReport::Answer(answer)) if answer.status == 401 && answer.attempts == 1);
    ensure!(is_refused, "the client told {report:?}");
    ensure!(setup.record(&plan).attempts.is_empty(), "the upstream got a request without a caller");
    session.caller = setup.hostile.caller(ACME, "u1")?;
    let resumed = session.resume()?;
    ensure!(resumed.reports.resumed.is_empty(), "a final answer was kept as pending: {:?}", resumed.reports.resumed);
    Ok(())
}
