//! Random schedules, made from a seed, and many at once: nobody has thought of them.

use std::env;

use anyhow::{Context as _, Result, ensure};
use e2e::runner::{Test, long};
use fastrand::Rng;

use super::driver::{ClientReport, DriverSettings};
use super::model::Plan;
use super::sessions::{ACME, ClientSetup, as_planned, check_safe};
use super::setup::Channel;

pub(super) fn tests() -> Vec<Test<ClientSetup>> {
    vec![Test::new("random schedules, many at once", schedules)]
}

/// The seed without `EDGE_SEED`.
const SEED: u64 = 1;

/// Failures that cost no time, all of which end in another attempt.
const QUICK: [&str; 8] = ["reset", "reset_after_headers", "cut", "cut_chunked", "garbage", "500", "503", "429"];
/// Those that last until the client gives up.
const SLOW: [&str; 2] = ["hang", "drip"];
/// Answers without a choice of effects. The other origin is that of the upstream itself.
const SAID: [&str; 6] = ["409", "425", "202", "202_location", "404", "202_elsewhere"];
const SAID_DIRECTLY: [&str; 5] = ["409", "425", "202", "202_location", "404"];
/// Answers that end an intent.
const FINAL: [&str; 2] = ["400", "409_without_time"];
/// Failures of Restate, with the three times of the effect. Others make the filter say `Retry-After`, which costs time.
const OF_RESTATE: [&str; 3] = ["cut", "cut_chunked", "reset_after_headers"];
const EFFECTS: [&str; 3] = ["", "_before", "_after"];

fn one<'n>(rng: &mut Rng, names: &[&'n str]) -> &'n str {
    rng.choice(names).copied().unwrap_or_default()
}

fn fault(rng: &mut Rng, channel: Channel) -> String {
    let of_restate = matches!(channel, Channel::Restate | Channel::OneWay);
    let name = match rng.u8(..100) {
        0..5 => one(rng, &SLOW),
        _ if of_restate && rng.u8(..100) < 90 => one(rng, &OF_RESTATE),
        _ if of_restate => one(rng, &["503", "reset"]),
        5..75 => one(rng, &QUICK),
        75..76 => return one(rng, &["429_second", "429_date"]).to_owned(),
        76..97 => return one(rng, if channel == Channel::Direct { &SAID_DIRECTLY } else { &SAID }).to_owned(),
        _ => return one(rng, &FINAL).to_owned(),
    };
    // Without the filter a 500 ends an intent, whatever its effect.
    let effect = if channel == Channel::Unfiltered && name == "500" { "" } else { one(rng, &EFFECTS) };
    format!("{name}{effect}")
}

fn plan(rng: &mut Rng, number: usize, is_browser: bool) -> Plan {
    let channel = match rng.u8(..100) {
        0..10 => Channel::Unfiltered,
        10..15 if !is_browser => Channel::Direct,
        15..25 => Channel::Restate,
        25..27 => Channel::OneWay,
        _ => Channel::Generic,
    };
    // Some have more faults than the budget has attempts.
    let count = if rng.u8(..100) < 2 { rng.usize(8..12) } else { rng.usize(..4) };
    let faults = (0..count).map(|_| fault(rng, channel));
    // Chromium itself repeats a GET after 425, which is about TLS to it.
    let faults = faults.map(|fault| if is_browser && fault == "425" { "409".to_owned() } else { fault }).collect();
    let result = if rng.u8(..100) < 80 { 200 } else { rng.choice([409, 422, 503]).unwrap_or(422) };
    Plan { name: format!("random-{number}"), channel, faults, result }
}

fn schedules(setup: &ClientSetup) -> Result<()> {
    let seed = match env::var("EDGE_SEED") {
        Ok(seed) => seed.parse().context("EDGE_SEED is a number")?,
        Err(_) => SEED,
    };
    send(setup, seed).with_context(|| format!("EDGE_SEED={seed}"))
}

fn send(setup: &ClientSetup, seed: u64) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    let count = if long() { 1_000 } else { 250 };
    let plans: Vec<Plan> = (0..count).map(|number| plan(&mut rng, number, setup.client.is_browser)).collect();
    let session = setup.session(ACME, DriverSettings::default())?;
    let first = session.send(&setup.intents(&plans)?)?;
    as_planned(setup, &plans, &first)?;
    let resumed = session.resume()?;
    let mut pending = 0;
    for plan in &plans {
        let record = setup.record(plan);
        let report = first.report(plan, &record).context("nothing was told")?;
        if let ClientReport::Failed(_) = report {
            pending += 1;
            check_safe(setup, plan, &[&first, &resumed])?;
            let report = resumed.reports.resumed.get(report.key());
            ensure!(matches!(report, Some(ClientReport::Answer(_))), "{plan:?}: the second time {report:?} was told");
        }
    }
    ensure!(
        resumed.reports.resumed.len() == pending,
        "{} were resumed, and not {pending}",
        resumed.reports.resumed.len()
    );
    let rest = session.resume()?;
    ensure!(rest.reports.resumed.is_empty(), "something is pending in the end: {:?}", rest.reports.resumed);
    Ok(())
}
