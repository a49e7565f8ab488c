//! The same cases and vectors through the Go bridge for KrakenD. `make build` builds the runner
//! (`krakend/internal/caserunner`); where Go is missing they are left out.

use std::sync::LazyLock;

use direct::trials::{Engine, of_all_files, of_file};
use libtest_mimic::Trial;
use wasm_tests::bridge::Bridge;

static BRIDGE: LazyLock<Result<Bridge, String>> = LazyLock::new(Bridge::load);

/// A trial for each case and each vector.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = of_all_files(|file| of_file("bridge::", file, bridge));
    trials.extend(super::vectors::trials("bridge::", bridge));
    let left_out = Bridge::left_out();
    trials.into_iter().map(|trial| trial.with_ignored_flag(left_out)).collect()
}

fn bridge() -> Result<&'static dyn Engine, String> {
    BRIDGE.as_ref().map(|bridge| bridge as &dyn Engine).map_err(Clone::clone)
}
