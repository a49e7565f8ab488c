//! What is data, as a test each: behaviour cases (`behaviour::file::case`), the vectors of webhook providers
//! (`providers::vector::id`) and what holds for all providers.

use std::process::ExitCode;

use libtest_mimic::Arguments;

mod behaviour;
mod extent;
mod providers;

fn main() -> ExitCode {
    let trials = behaviour::trials().into_iter().chain(providers::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
