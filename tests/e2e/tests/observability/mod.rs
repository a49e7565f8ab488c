//! A real Prometheus scrapes the real Envoy, with two workers, while requests with known counts go through it. Every
//! expression of deploy/observability/ is asked there, and promtool checks and tests the rules.

mod documents;
mod expressions;
mod mix;
mod setup;

use anyhow::Result;
use e2e::prometheus::Programs;
use e2e::runner::{Group, Test, sharing};

use crate::observability::setup::ObservabilitySetup;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let Some(programs) = Programs::find() else {
        eprintln!(
            "SKIPPED: there is no Prometheus, so no expression of deploy/observability/ is tried and no rule is tested. On Debian \
             `crates/xtask/scripts/tools.sh prometheus` fetches it; elsewhere set EDGE_PROMETHEUS and EDGE_PROMTOOL."
        );
        let skipped = "everything (not here: there is no Prometheus)";
        return Ok(vec![Group::default().leaving_out(skipped)]);
    };
    let promtool = programs.clone();
    let with_prometheus: Vec<Test<ObservabilitySetup>> =
        [mix::tests(), expressions::tests()].into_iter().flatten().collect();
    Ok(vec![
        // Beside tests that flood a gateway, a run of promtool did not find the samples of the day before.
        sharing(move || Ok(promtool), documents::tests()).alone(),
        sharing(move || ObservabilitySetup::start(&programs), with_prometheus),
    ])
}
