//! API keys as credentials, in front of a stand-in for Unkey that follows its OpenAPI description: valid, revoked, limited, made up, and
//! while Unkey is slow, wrong, throttled and down.

mod bodies;
mod crowds;
mod failures;
mod holders;
pub(crate) mod setup;

use anyhow::Result;
use e2e::runner::{Group, sharing};

pub(crate) fn groups() -> Result<Vec<Group>> {
    let tests = [failures::tests(), bodies::tests(), crowds::tests()];
    Ok(vec![
        sharing(setup::KeysSetup::start, tests.into_iter().flatten().collect()),
        sharing(holders::start, holders::tests()),
    ])
}
