//! A client with a gateway of its own, and its sessions: a store, and the drivers that use it one after the other.

use std::sync::OnceLock;
use std::time::Instant;

use super::upstream::IntentRecord;
use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::driver::{Caller, ClientReport, Driver, DriverIntent, DriverReports, DriverSettings, ReferenceClient};
use super::model::Plan;
use super::setup::HostileSetup;
use super::verdict::{DriverTime, IntentRun, ensure_as_planned, ensure_safe, shown};

/// The tenant of most sessions.
pub(super) const ACME: &str = "acme";

/// What the tests of a client share.
pub(super) struct ClientSetup {
    pub(super) client: ReferenceClient,
    pub(super) hostile: HostileSetup,
    /// The run that sends the intents of all rows, by the first of their tests.
    pub(super) alone: OnceLock<Result<SessionRun, String>>,
}

impl ClientSetup {
    pub(super) fn start(client: ReferenceClient) -> Result<Self> {
        Ok(Self { client, hostile: HostileSetup::start()?, alone: OnceLock::new() })
    }

    pub(super) fn record(&self, plan: &Plan) -> IntentRecord {
        self.hostile.upstream.record(&plan.name)
    }

    /// The intents with where they go.
    pub(super) fn intents(&self, plans: &[Plan]) -> Result<Vec<DriverIntent>> {
        let intent = |(number, plan): (usize, &Plan)| {
            let url = self.hostile.url(plan.channel, &self.client.host(number))?;
            Ok(DriverIntent { plan: plan.clone(), url, abort_after: None })
        };
        plans.iter().enumerate().map(intent).collect()
    }

    /// A session with an empty store.
    pub(super) fn session(&self, tenant: &str, settings: DriverSettings) -> Result<Session<'_>> {
        let caller = self.hostile.caller(tenant, "u1")?;
        let settings = if self.client.is_browser { settings.of_browser() } else { settings };
        Ok(Session { setup: self, directory: tempfile::tempdir()?, caller, settings })
    }
}

/// A store, and who uses it.
pub(super) struct Session<'a> {
    pub(super) setup: &'a ClientSetup,
    pub(super) directory: TempDir,
    pub(super) caller: Caller,
    pub(super) settings: DriverSettings,
}

/// What a driver did.
pub(super) struct SessionRun {
    pub(super) reports: DriverReports,
    pub(super) settings: DriverSettings,
    pub(super) time: DriverTime,
}

impl Session<'_> {
    pub(super) fn start(&self, resume: bool, intents: &[DriverIntent]) -> Result<Driver> {
        Driver::start(self.setup.client, self.directory.path(), &self.caller, &self.settings, (resume, intents))
    }

    /// Sends intents, and waits for what is told of them.
    pub(super) fn send(&self, intents: &[DriverIntent]) -> Result<SessionRun> {
        let run = self.finish(self.start(false, intents)?)?;
        for intent in intents {
            ensure!(run.reports.sent.contains_key(&intent.plan.name), "nothing was told of {:?}", intent.plan);
        }
        ensure!(run.reports.sent.len() == intents.len(), "intents were told that nobody sent");
        ensure!(run.reports.resumed.is_empty(), "it resumed what it was not asked for: {:?}", run.reports.resumed);
        Ok(run)
    }

    /// Sends what is in the store.
    pub(super) fn resume(&self) -> Result<SessionRun> {
        self.finish(self.start(true, &[])?)
    }

    /// Waits for the driver's end.
    pub(super) fn finish(&self, driver: Driver) -> Result<SessionRun> {
        self.ended(driver, Driver::finish)
    }

    /// Kills the driver.
    pub(super) fn kill(&self, driver: Driver) -> Result<SessionRun> {
        self.ended(driver, Driver::kill)
    }

    fn ended(&self, driver: Driver, end: impl FnOnce(Driver) -> Result<DriverReports>) -> Result<SessionRun> {
        let started = driver.started;
        let reports = end(driver)?;
        let time = DriverTime { started, ended: Instant::now() };
        Ok(SessionRun { reports, settings: self.settings, time })
    }
}

impl SessionRun {
    /// What was told of an intent, which has this record.
    pub(super) fn report(&self, plan: &Plan, record: &IntentRecord) -> Option<&ClientReport> {
        let resumed = || {
            let key = record.attempts.first()?.key.as_ref()?;
            self.reports.resumed.get(key.rsplit(':').next()?)
        };
        self.reports.sent.get(&plan.name).or_else(resumed)
    }

    fn of<'a>(&'a self, plan: &Plan, record: &IntentRecord) -> IntentRun<'a> {
        IntentRun { settings: &self.settings, time: self.time, report: self.report(plan, record) }
    }
}

/// How often an intent is sent until it goes as planned.
const TRIES: usize = 3;

/// Checks what must hold for an intent whatever the machine does, through these runs, the last of which told of it.
pub(super) fn check_safe(setup: &ClientSetup, plan: &Plan, runs: &[&SessionRun]) -> Result<()> {
    let record = setup.record(plan);
    let runs: Vec<IntentRun<'_>> = runs.iter().map(|run| run.of(plan, &record)).collect();
    let is_told = runs.last().is_some_and(|run| run.report.is_some());
    ensure!(is_told, "nothing was told in the end of {}", shown(plan, &record, &runs));
    ensure_safe(plan, &record, &runs).with_context(|| shown(plan, &record, &runs))
}

/// Checks intents that were sent in one run. Those that did not go as planned are sent again, under other names, fewer at once
/// and with more time.
pub(super) fn as_planned(setup: &ClientSetup, plans: &[Plan], run: &SessionRun) -> Result<()> {
    let mut errors = disturbed(setup, plans.to_vec(), run)?;
    for number in 1..TRIES {
        if errors.is_empty() {
            return Ok(());
        }
        let again = |(plan, _): &(Plan, _)| Plan { name: format!("{}-{number}", plan.name), ..plan.clone() };
        let plans: Vec<Plan> = errors.iter().map(again).collect();
        // What was a busy machine once shall be none again.
        let settings =
            DriverSettings { concurrency: 4, attempt_timeout: 4 * run.settings.attempt_timeout, ..run.settings };
        let run = setup.session(ACME, settings)?.send(&setup.intents(&plans)?)?;
        errors = disturbed(setup, plans, &run)?;
    }
    let count = errors.len();
    match errors.into_iter().next() {
        Some((_, error)) => Err(error.context(format!("{count} intents do not go as planned, the first of them"))),
        None => Ok(()),
    }
}

/// The intents that did not go as planned, and in what.
fn disturbed(setup: &ClientSetup, plans: Vec<Plan>, run: &SessionRun) -> Result<Vec<(Plan, anyhow::Error)>> {
    let mut found = Vec::new();
    for plan in plans {
        check_safe(setup, &plan, &[run])?;
        let record = setup.record(&plan);
        let of_intent = run.of(&plan, &record);
        if let Err(error) = ensure_as_planned(&plan, &record, &of_intent) {
            let error = error.context(shown(&plan, &record, &[of_intent]));
            found.push((plan, error));
        }
    }
    Ok(found)
}
