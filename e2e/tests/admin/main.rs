//! `edge-idempotency retention` and `keys` against a real Restate, and against what is no Restate or a broken one.

use std::process::ExitCode;

use e2e::harness::{run, sharing};

mod asking;
mod failures;
mod forgetting;
mod keys;
mod partial;
mod retention;
mod standin;
mod world;

fn main() -> ExitCode {
    let mut tests = retention::tests();
    tests.extend(forgetting::tests());
    tests.extend(keys::tests());
    let mut trials = sharing(world::World::start, tests);
    trials.extend(sharing(world::Clamped::start, retention::clamped_tests()));
    let mut without_restate = failures::tests();
    without_restate.extend(partial::tests());
    without_restate.extend(asking::tests());
    trials.extend(sharing(world::command, without_restate));
    run(Ok(trials))
}
