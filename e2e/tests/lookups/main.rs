//! Webhooks that are looked up: whose they are in a stand-in for Unkey, what they are signed with in a real OpenBao. Each
//! store fails in the ways it can fail, is asked by many at once, and is replaced under the gateway.

mod command;
mod counted;
mod crowds;
mod failures;
mod outages;
mod reload;
mod world;

use std::process::ExitCode;

use e2e::harness::{run, sharing};

fn main() -> ExitCode {
    let mut trials = sharing(
        world::World::start,
        [failures::tests(), crowds::tests(), counted::tests(), command::tests()].into_iter().flatten().collect(),
    );
    trials.extend(sharing(outages::start, outages::tests()));
    trials.extend(sharing(reload::start, reload::tests()));
    run(Ok(trials))
}
