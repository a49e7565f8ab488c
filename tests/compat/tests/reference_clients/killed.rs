//! Clients whose process is killed, and that send what is in their store after the restart.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::upstream::IntentRecords;
use anyhow::{Result, ensure};
use e2e::runner::Test;
use serde_json::json;

use super::driver::{ClientReport, DriverSettings};
use super::model::Plan;
use super::sessions::{ACME, ClientSetup, Session, SessionRun, check_safe};
use super::setup::Channel::{self, Generic, Restate};

pub(super) fn tests() -> Vec<Test<ClientSetup>> {
    vec![
        Test::new("killed between attempts and in attempts, and resumed", killed),
        Test::new("killed again while it resumes", killed_twice),
    ]
}

/// A client that obeys these waits for longer than any test: an attempt that hangs is under way, and after `Retry-After: 600` it is
/// between two attempts.
pub(super) fn patient() -> DriverSettings {
    let long = Duration::from_secs(60);
    DriverSettings { attempt_timeout: long, budget: 20 * long, max_retry_after: long, ..DriverSettings::default() }
}

/// What stops a client at each of its attempts, with the three times of the effect.
const STOPS: [&str; 6] = ["503_long", "503_long_before", "503_long_after", "hang", "hang_before", "hang_after"];

/// Waits until the upstream has seen so many attempts of each intent.
pub(super) fn wait_for_attempts(setup: &ClientSetup, plans: &[(Plan, usize)]) -> Result<()> {
    let seen = |records: &IntentRecords| {
        let attempts = |plan: &Plan| records.get(&plan.name).map_or(0, |record| record.attempts.len());
        plans.iter().all(|(plan, count)| attempts(plan) >= *count)
    };
    setup.hostile.upstream.wait_until("the upstream has seen the attempts", seen)
}

/// The token must not be kept: it is asked for before each attempt.
fn ensure_no_token(session: &Session<'_>) -> Result<()> {
    fn look(path: &Path, token: &[u8]) -> Result<()> {
        if path.is_dir() {
            return fs::read_dir(path)?.try_for_each(|entry| look(&entry?.path(), token));
        }
        let bytes = fs::read(path)?;
        ensure!(!bytes.windows(token.len()).any(|part| part == token), "{} holds the token", path.display());
        Ok(())
    }
    let signature = session.caller.token.rsplit('.').next().unwrap_or_default();
    let store = session.directory.path().join("store");
    ensure!(store.exists(), "there is no store at {}", store.display());
    look(&store, signature.as_bytes())
}

fn killed(setup: &ClientSetup) -> Result<()> {
    let mut plans = Vec::new();
    let mut add = |channel: Channel, faults: &[&str], stops_at: usize| {
        plans.push((Plan::new(format!("killed-{}", plans.len()), channel, faults), stops_at));
    };
    for stop in STOPS {
        add(Generic, &[stop], 1);
        add(Generic, &["503", stop], 2);
        add(Generic, &["cut_before", stop], 2);
        add(Generic, &["202_location", stop], 2);
    }
    add(Restate, &["hang_before"], 1);
    add(Restate, &["hang_after"], 1);
    let mut session = setup.session(ACME, patient())?;
    let all: Vec<Plan> = plans.iter().map(|(plan, _)| plan.clone()).collect();
    let driver = session.start(false, &setup.intents(&all)?)?;
    wait_for_attempts(setup, &plans)?;
    let killed = session.kill(driver)?;
    ensure!(killed.reports.sent.is_empty(), "it told of intents without an answer: {:?}", killed.reports.sent);
    ensure_no_token(&session)?;

    // The user has logged in again.
    session.caller.token =
        setup.hostile.gateway.token(&json!({"tenant_id": ACME, "project_id": "shop", "sub": "u1", "login": 2}))?;
    session.settings = DriverSettings::default();
    let resumed = session.resume()?;
    ensure!(resumed.reports.resumed.len() == all.len(), "it resumed {}", resumed.reports.resumed.len());
    all.iter().try_for_each(|plan| check_safe(setup, plan, &[&killed, &resumed]))?;
    ensure_told_success(setup, &all, &resumed)?;
    let rest = session.resume()?;
    ensure!(rest.reports.resumed.is_empty(), "it resumed what was answered: {:?}", rest.reports.resumed);
    Ok(())
}

fn killed_twice(setup: &ClientSetup) -> Result<()> {
    let plans: Vec<Plan> = STOPS
        .iter()
        .enumerate()
        .map(|(number, stop)| Plan::new(format!("killed-twice-{number}"), Generic, &[stop, stop]))
        .collect();
    let mut session = setup.session(ACME, patient())?;
    let driver = session.start(false, &setup.intents(&plans)?)?;
    wait_for_attempts(setup, &plans.iter().map(|plan| (plan.clone(), 1)).collect::<Vec<_>>())?;
    let first = session.kill(driver)?;
    let driver = session.start(true, &[])?;
    // Where the first attempt left the key in flight, the second is told so, and the third one stops.
    let seen = |plan: &Plan| if plan.faults.iter().any(|fault| fault.ends_with("_after")) { 3 } else { 2 };
    wait_for_attempts(setup, &plans.iter().map(|plan| (plan.clone(), seen(plan))).collect::<Vec<_>>())?;
    let second = session.kill(driver)?;
    session.settings = DriverSettings::default();
    let third = session.resume()?;
    plans.iter().try_for_each(|plan| check_safe(setup, plan, &[&first, &second, &third]))?;
    ensure_told_success(setup, &plans, &third)
}

/// Every intent got the operation's success.
pub(super) fn ensure_told_success(setup: &ClientSetup, plans: &[Plan], run: &SessionRun) -> Result<()> {
    for plan in plans {
        let record = setup.record(plan);
        let report = run.report(plan, &record);
        let is_success = matches!(report, Some(ClientReport::Answer(answer)) if answer.status == 200);
        ensure!(is_success && record.executions.len() == 1, "{plan:?}: {report:?}, it ran {}", record.executions.len());
    }
    Ok(())
}
