//! Every behaviour case and every provider vector through the Go bridge, as tests of their own: `file::case` and
//! `provider::vector`. Each is compared with what the case says and, whole, with the native engine.
//!
//! `make krakend` builds the runner (`krakend/internal/caserunner`) and runs these tests.

mod vector_cases;

use std::process::ExitCode;
use std::sync::LazyLock;

use libtest_mimic::Trial;
use testkit::cases::CaseFile;
use wasm_tests::bridge::Bridge;
use wasm_tests::trials::{self, Engine};

/// Cases that the bridge cannot run: file, case, and why. They are reported as ignored.
const SKIPPED: [(&str, &str, &str); 0] = [];

static BRIDGE: LazyLock<Result<Bridge, String>> = LazyLock::new(Bridge::load);

fn main() -> ExitCode {
    trials::run(|files| {
        let mut trials: Vec<Trial> = files.into_iter().flat_map(of_file).collect();
        trials.extend(vector_cases::trials(bridge));
        trials
    })
}

fn bridge() -> Result<&'static dyn Engine, String> {
    BRIDGE.as_ref().map(|bridge| bridge as &dyn Engine).map_err(Clone::clone)
}

fn of_file(mut file: CaseFile) -> Vec<Trial> {
    let mut skipped = Vec::new();
    for (_, case, why) in SKIPPED.iter().filter(|(name, _, _)| *name == file.name) {
        let before = file.cases.len() + file.start_errors.len();
        file.cases.retain(|known| known.name != *case);
        file.start_errors.retain(|known| known.name != *case);
        let is_known = before > file.cases.len() + file.start_errors.len();
        let name = format!("{}::{case} (not here: {why})", file.name);
        let fails = format!("{}::{case} is in the table of skipped cases, and is no case", file.name);
        let trial = Trial::test(name, move || if is_known { Ok(()) } else { Err(fails.into()) });
        skipped.push(trial.with_ignored_flag(is_known));
    }
    let mut trials = trials::of_file(file, bridge);
    trials.extend(skipped);
    trials
}
