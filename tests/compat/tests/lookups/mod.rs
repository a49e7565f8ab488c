//! Webhooks that are looked up: whose they are in a stand-in for Unkey, what they are signed with in a real OpenBao. Each
//! store fails in the ways it can fail, is asked by many at once, and is replaced under the gateway.

mod command;
mod counted;
mod crowds;
mod failures;
mod outages;
mod reload;
mod setup;
mod stand_in;

use anyhow::Result;
use e2e::runner::{Group, sharing};

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [failures::tests(), crowds::tests(), counted::tests(), command::tests(), stand_in::tests()];
    Ok(vec![
        sharing(setup::LookupsSetup::start, tests.into_iter().flatten().collect()),
        sharing(outages::start, outages::tests()),
        sharing(reload::start, reload::tests()),
    ])
}
