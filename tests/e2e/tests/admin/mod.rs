//! `edge-idempotency retention` and `keys` against a real Restate; `crates/command/tests/restate_admin` has what is none, or a broken one.

use anyhow::Result;
use e2e::runner::{Group, sharing};

mod forgetting;
mod keys;
mod live;
mod retention;
mod setup;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let mut tests = retention::tests();
    tests.extend(forgetting::tests());
    tests.extend(keys::tests());
    Ok(vec![
        sharing(setup::AdminSetup::start, tests),
        // Other tests change what Restate keeps.
        sharing(setup::AdminSetup::start, live::tests()),
        sharing(setup::Clamped::start, retention::clamped_tests()),
    ])
}
