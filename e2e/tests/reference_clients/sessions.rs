//! A client with a gateway of its own, and its sessions: a store, and the drivers that use it one after the other.

use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::hostile_upstream::IntentRecord;
use tempfile::TempDir;

use super::alone::AloneRun;
use super::driver::{ClientReport, Driver, DriverIntent, DriverReports, DriverSettings, ReferenceClient};
use super::model::Plan;
use super::setup::HostileSetup;
use super::verdict::{DriverTime, IntentCheck};

/// The tenant of most sessions.
pub(super) const ACME: &str = "acme";

/// What the tests of a client share.
pub(super) struct ClientSetup {
    pub(super) client: ReferenceClient,
    pub(super) hostile: HostileSetup,
    /// All rows are sent at once, by the first of their tests.
    pub(super) alone: OnceLock<Result<AloneRun, String>>,
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
        let token = self.hostile.token(tenant)?;
        Ok(Session { setup: self, directory: tempfile::tempdir()?, token, settings })
    }
}

/// A store, and who uses it.
pub(super) struct Session<'a> {
    pub(super) setup: &'a ClientSetup,
    pub(super) directory: TempDir,
    pub(super) token: String,
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
        Driver::start(self.setup.client, self.directory.path(), &self.token, &self.settings, (resume, intents))
    }

    /// Sends intents, and waits for what is told of them.
    pub(super) fn send(&self, intents: &[DriverIntent]) -> Result<SessionRun> {
        let run = self.ended(self.start(false, intents)?, Driver::finish)?;
        for intent in intents {
            ensure!(run.reports.sent.contains_key(&intent.plan.name), "nothing was told of {:?}", intent.plan);
        }
        ensure!(run.reports.sent.len() == intents.len(), "intents were told that nobody sent");
        ensure!(run.reports.resumed.is_empty(), "it resumed what it was not asked for: {:?}", run.reports.resumed);
        Ok(run)
    }

    /// Sends what is in the store.
    pub(super) fn resume(&self) -> Result<SessionRun> {
        self.ended(self.start(true, &[])?, Driver::finish)
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
}

/// Checks an intent through these runs, the last of which told of it.
pub(super) fn check(setup: &ClientSetup, plan: &Plan, runs: &[&SessionRun]) -> Result<()> {
    let record = setup.record(plan);
    let mut check = IntentCheck::new(plan, &record)?;
    for run in runs {
        check.ran(&run.settings, run.time, run.report(plan, &record))?;
    }
    let last = runs.last().context("no run")?;
    ensure!(last.report(plan, &record).is_some(), "nothing was told of {plan:?} in the end");
    check.end()
}
