//! Every behaviour case (`behaviour::file::case`) through the native module as in Envoy 1.39, which lacks functions that 1.40 has.

use std::process::ExitCode;

use libtest_mimic::Arguments;
use native_tests::engine::Module;
use testkit::trials::{of_all_files, of_file};

fn main() -> ExitCode {
    // The whole body at once.
    static MODULE: Module = Module { part: usize::MAX };
    let trials = of_all_files(|file| of_file("", file, || Ok(&MODULE)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
