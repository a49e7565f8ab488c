//! Every behaviour case (`behaviour::file::case`) through the dynamic module as in Envoy 1.40. Each run is compared with what the case
//! says and, whole, with the engine's without a gateway.

use std::process::ExitCode;

use direct::trials::{of_all_files, of_file};
use dynamic_module_tests::engine::Module;
use libtest_mimic::Arguments;

dynamic_module_tests::envoy_1_40!();

fn main() -> ExitCode {
    // Bodies come in parts of an odd size.
    static MODULE: Module = Module { part: 37 };
    let trials = of_all_files(|file| of_file("", file, || Ok(&MODULE)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
