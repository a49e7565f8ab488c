//! Webhooks that are looked up: whose they are in a stand-in for Unkey, what they are signed with in a real OpenBao. Each
//! store fails as HTTP and the store itself can fail. What their replies mean, and for how long, is in `tests/cases/lookups.json` and in
//! `crates/engine/tests/lookups/`.

mod command;
mod crowds;
mod failures;
mod outages;
mod setup;
mod stand_in;

use anyhow::Result;
use e2e::runner::{Group, sharing};

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [failures::tests(), crowds::tests(), command::tests(), stand_in::tests()];
    Ok(vec![
        sharing(setup::LookupsSetup::start, tests.into_iter().flatten().collect()),
        sharing(outages::start, outages::tests()),
    ])
}
