//! A real Prometheus scrapes the real Envoy, with two workers, while requests with known counts go through it. Every
//! expression of observability/ is asked there, and promtool checks and tests the rules.

mod documents;
mod expressions;
mod mix;
mod picture;
mod world;

use std::process::ExitCode;

use e2e::harness::{Test, run, sharing};
use e2e::prometheus::Programs;
use libtest_mimic::Trial;

use crate::world::World;

fn main() -> ExitCode {
    let Some(programs) = Programs::find() else {
        eprintln!(
            "SKIPPED: there is no Prometheus, so no expression of observability/ is tried and no rule is tested. On Debian \
             `scripts/tools.sh prometheus` fetches it; elsewhere set EDGE_PROMETHEUS and EDGE_PROMTOOL."
        );
        let skipped = "everything (not here: there is no Prometheus)";
        return run(Ok(vec![Trial::test(skipped, || Ok(())).with_ignored_flag(true)]));
    };
    let promtool = programs.clone();
    let mut trials = sharing(move || Ok(promtool), documents::tests());
    let with_prometheus: Vec<Test<World>> = [mix::tests(), expressions::tests()].into_iter().flatten().collect();
    trials.extend(sharing(move || World::start(&programs), with_prometheus));
    run(Ok(trials))
}
