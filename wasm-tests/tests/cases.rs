//! Every behaviour case (`behaviour::file::case`) and every provider vector (`vectors::provider::vector`), through the built module
//! and, as `bridge::…`, through the Go bridge for KrakenD. Each run is compared with what the case says and, whole, with the
//! engine's own, whose own tests (`crates/engine/tests/cases.rs`) run the cases, too.

use std::process::ExitCode;

use direct::trials::{Engine, of_all_files, of_file};
use libtest_mimic::Arguments;
use wasm_tests::engine::Wasm;

mod bridge;
mod vectors;

fn main() -> ExitCode {
    let mut trials = of_all_files(|file| of_file("", file, module));
    trials.extend(vectors::trials("", module));
    trials.extend(bridge::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn module() -> Result<&'static dyn Engine, String> {
    Wasm::load().map(|module| module as &dyn Engine)
}
