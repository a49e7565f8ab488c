//! `edge-idempotency retention` and `keys` against a real Restate, and against what is no Restate or a broken one.

use anyhow::Result;
use e2e::runner::{Group, sharing};

mod asking;
mod failures;
mod forgetting;
mod keys;
mod live;
mod partial;
mod retention;
mod setup;
mod standin;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests = retention::tests();
    tests.extend(forgetting::tests());
    tests.extend(keys::tests());
    let mut without_restate = failures::tests();
    without_restate.extend(partial::tests());
    without_restate.extend(asking::tests());
    Ok(vec![
        sharing(setup::AdminSetup::start, tests),
        // Other tests change what Restate keeps.
        sharing(setup::AdminSetup::start, live::tests()),
        sharing(setup::Clamped::start, retention::clamped_tests()),
        sharing(setup::command, without_restate),
    ])
}
