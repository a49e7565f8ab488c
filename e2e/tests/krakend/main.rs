//! The bridge for KrakenD, in front of a recording upstream and of a real Restate. The gateway is a stand-in
//! (`krakend/internal/standin`), because CI cannot build KrakenD: it follows KrakenD's source, opens the real plugin as KrakenD
//! does, or has the package `executor` built in, as a custom build of KrakenD has.
//!
//! `make krakend` builds the stand-in and the plugin, and runs these tests.

mod backend;
mod broken;
mod captured;
mod claims;
mod config;
mod load;
mod standin;

use std::process::ExitCode;

use e2e::harness::{run, sharing};
use libtest_mimic::Trial;
use standin::{Way, without_c_compiler};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for way in [Way::Plugin, Way::Executor] {
        let mut of_way: Vec<Trial> = Vec::new();
        of_way.extend(sharing(move || captured::World::start(way, false), tests(way)));
        of_way.extend(sharing(move || backend::World::start(way), backend::tests(way)));
        of_way.extend(sharing(|| Ok(()), broken::tests(way)));
        of_way.extend(sharing(move || captured::World::start(way, false), load::tests(way)));
        let with_race = sharing(move || captured::World::start(way, true), load::race_tests(way));
        let left_out = way == Way::Plugin && without_c_compiler();
        trials.extend(of_way.into_iter().map(|trial| trial.with_ignored_flag(left_out)));
        trials.extend(with_race.into_iter().map(|trial| trial.with_ignored_flag(without_c_compiler())));
    }
    run(Ok(trials))
}

fn tests(way: Way) -> Vec<e2e::harness::Test<captured::World>> {
    captured::tests(way).into_iter().chain(claims::tests(way)).collect()
}
