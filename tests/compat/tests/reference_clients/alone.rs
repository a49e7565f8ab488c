//! Each fault alone: what a client tells, and after how many attempts. The table is written by hand, from docs/callers.md, and the model
//! of the random schedules has to say the same.

use std::slice;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::runner::Test;

use super::driver::DriverSettings;
use super::model::{Plan, ShownBody, predict};
use super::sessions::{ACME, ClientSetup, SessionRun, as_planned};
use super::setup::Channel;

/// An intent, and what a client has to tell of it.
#[derive(Clone, Debug)]
struct FaultRow {
    channel: Channel,
    /// The faults of the first attempts, with spaces between them.
    faults: String,
    result: u16,
    status: u16,
    replayed: bool,
    attempts: usize,
    code: Option<&'static str>,
}

fn row(channel: Channel, faults: &str, status: u16, replayed: bool, attempts: usize) -> FaultRow {
    FaultRow { channel, faults: faults.to_owned(), result: 200, status, replayed, attempts, code: None }
}

impl FaultRow {
    /// The operation's own answer has this status.
    fn result(self, result: u16) -> Self {
        Self { result, ..self }
    }

    /// The answer is a problem document with this code.
    fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    fn name(&self) -> String {
        let faults = if self.faults.is_empty() { "no fault" } else { &self.faults };
        let result = if self.result == 200 { String::new() } else { format!(", the result is {}", self.result) };
        format!("{:?}: {faults}{result}", self.channel)
    }

    fn plan(&self) -> Plan {
        let name = self.name().replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let faults: Vec<&str> = self.faults.split_whitespace().collect();
        Plan { result: self.result, ..Plan::new(name, self.channel, &faults) }
    }
}

const FIRST: bool = false;
const REPLAY: bool = true;
use Channel::{Brief, Conflict, Direct, Generic, OneWay, Restate, Unfiltered};

/// Failures with the three times of an effect: never, before, and after.
const WITH_EFFECTS: [(Channel, &str); 15] = [
    (Generic, "hang"),
    (Generic, "reset"),
    (Generic, "reset_after_headers"),
    (Generic, "cut"),
    (Generic, "cut_chunked"),
    (Generic, "drip"),
    // 502 of the gateway.
    (Generic, "garbage"),
    // 504 of the gateway.
    (Brief, "hang"),
    (Generic, "500"),
    (Generic, "503"),
    (Generic, "429"),
    (Direct, "reset"),
    (Direct, "cut"),
    (Direct, "cut_chunked"),
    (Direct, "garbage"),
];

fn rows() -> Vec<FaultRow> {
    let with_effects = WITH_EFFECTS.iter().flat_map(|&(channel, failure)| {
        [
            row(channel, failure, 200, FIRST, 2),
            row(channel, &format!("{failure}_before"), 200, REPLAY, 2),
            // One attempt more is told that the first one is in flight.
            row(channel, &format!("{failure}_after"), 200, REPLAY, 3),
        ]
    });
    let others = [
        row(Generic, "", 200, FIRST, 1),
        row(Generic, "409", 200, FIRST, 2),
        row(Generic, "425_before", 200, REPLAY, 2),
        row(Generic, "429_second", 200, FIRST, 2),
        row(Generic, "429_date", 200, FIRST, 2),
        row(Generic, "503_long", 200, FIRST, 2),
        // The operation's own errors. The first time nobody knows that a 503 is kept.
        row(Generic, "", 422, FIRST, 1).result(422),
        row(Generic, "cut_before", 422, REPLAY, 2).result(422),
        row(Generic, "reset_before", 409, REPLAY, 2).result(409),
        row(Generic, "", 503, REPLAY, 2).result(503),
        row(Generic, "409_without_time", 409, FIRST, 1),
        row(Generic, "400", 400, FIRST, 1),
        row(Generic, "404", 404, FIRST, 1),
        // Accepted operations.
        row(Generic, "202", 200, FIRST, 2),
        row(Generic, "202 202", 200, FIRST, 3),
        row(Generic, "202_elsewhere", 200, FIRST, 2),
        row(Generic, "202_location", 200, REPLAY, 2),
        row(Generic, "202_location", 422, REPLAY, 2).result(422),
        row(Generic, "202_location 202", 200, REPLAY, 3),
        row(Generic, "202_location 202_location", 200, REPLAY, 3),
        row(Generic, "202_location 503 cut hang", 200, REPLAY, 5),
        row(Generic, "202_location 404", 200, FIRST, 3),
        row(Generic, "202_location 404 202_location reset", 200, REPLAY, 5),
        row(Generic, "202_location 500", 500, FIRST, 2),
        // Errors without advice do not pass the filter.
        row(Unfiltered, "500", 500, FIRST, 1),
        row(Unfiltered, "500_before", 500, FIRST, 1),
        row(Unfiltered, "503", 200, FIRST, 2),
        row(Unfiltered, "429", 200, FIRST, 2),
        row(Unfiltered, "reset garbage", 200, FIRST, 3),
        row(Unfiltered, "reset_before", 503, REPLAY, 2).result(503),
        // Advice that comes with Restate only.
        row(Restate, "", 200, FIRST, 1),
        row(Restate, "cut_before", 200, REPLAY, 2),
        row(Restate, "hang_after", 200, FIRST, 2),
        row(Restate, "reset_before", 200, REPLAY, 2),
        row(Restate, "503", 200, FIRST, 2),
        row(Restate, "404", 200, FIRST, 2),
        row(Restate, "404_no_route", 503, FIRST, 1).code("policy_invalid"),
        row(Restate, "400", 400, FIRST, 1).code("request_invalid"),
        row(Restate, "", 409, FIRST, 1).result(409),
        row(Restate, "", 500, FIRST, 1).result(500),
        row(Restate, "cut_before", 503, REPLAY, 2).result(503),
        row(Conflict, "hang_after", 200, REPLAY, 3),
        // The answer to a duplicate is processing, and marked as a replay as well.
        row(OneWay, "", 200, REPLAY, 2),
        row(OneWay, "hang_before", 200, REPLAY, 3),
        row(OneWay, "none cut", 200, REPLAY, 3),
        row(OneWay, "none 404", 200, REPLAY, 4),
        row(OneWay, "", 422, REPLAY, 2).result(422),
        // A 404 that is kept is the operation's own.
        row(OneWay, "", 404, REPLAY, 2).result(404),
    ];
    with_effects.chain(others).collect()
}

/// The rows that a client can be asked for.
fn rows_of(is_browser: bool) -> Vec<FaultRow> {
    // The upstream does not answer a browser's question whether another origin may send requests.
    rows().into_iter().filter(|row| !is_browser || row.channel != Direct).collect()
}

pub(super) fn tests(is_browser: bool) -> Vec<Test<ClientSetup>> {
    let test = |row: FaultRow| Test::new(row.name(), move |setup: &ClientSetup| tells(setup, &row));
    rows_of(is_browser).into_iter().map(test).collect()
}

/// The model agrees with the table.
pub(super) fn model_agrees() -> Result<()> {
    for row in rows() {
        let predicted = predict(&row.plan(), DriverSettings::default().attempts)?;
        let told = predicted.told.with_context(|| format!("{}: no answer", row.name()))?;
        let code = if let ShownBody::Problem(code) = told.body { Some(code) } else { None };
        let seen = (told.status, told.replayed, predicted.polls.len(), code);
        let expected = (row.status, row.replayed, row.attempts, row.code);
        ensure!(seen == expected, "{}: the model says {seen:?}, and the table {expected:?}", row.name());
    }
    Ok(())
}

fn send_all(setup: &ClientSetup) -> Result<SessionRun> {
    let plans: Vec<Plan> = rows_of(setup.client.is_browser).iter().map(FaultRow::plan).collect();
    setup.session(ACME, DriverSettings::default())?.send(&setup.intents(&plans)?)
}

fn tells(setup: &ClientSetup, row: &FaultRow) -> Result<()> {
    let run = setup.alone.get_or_init(|| send_all(setup).map_err(|error| format!("{error:#}")));
    let run = run.as_ref().map_err(|error| anyhow!("{error}"))?;
    let plan = row.plan();
    // The model tells what the table tells.
    as_planned(setup, slice::from_ref(&plan), run)
}
