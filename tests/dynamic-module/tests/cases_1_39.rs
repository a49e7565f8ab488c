//! Behaviour cases through the dynamic module as in Envoy 1.39, which lacks functions that 1.40 has: there the module writes each member of a
//! record by itself. Only the files whose cases tell records apart are run; nothing else differs.

use std::process::ExitCode;

use direct::trials::{of_all_files, of_file};
use dynamic_module_tests::engine::Module;
use libtest_mimic::Arguments;

/// Among the cases of the second one is the only one that takes a member of a record back.
const FILES: [&str; 2] = ["records", "in_flight"];

fn main() -> ExitCode {
    // The whole body at once.
    static MODULE: Module = Module { part: usize::MAX };
    let trials =
        of_all_files(
            |file| {
                if FILES.contains(&file.name.as_str()) { of_file("", file, || Ok(&MODULE)) } else { Vec::new() }
            },
        );
    assert!(trials.len() > 50, "only {} cases", trials.len());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
