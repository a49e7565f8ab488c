//! Every provider vector through a whole exchange in the built module, as tests of their own: `provider::vector`. Each run is
//! also compared, whole, with the native engine's.

mod vector_cases;

use std::process::ExitCode;
use std::sync::LazyLock;

use libtest_mimic::Arguments;
use wasm_tests::engine::Wasm;
use wasm_tests::trials::Engine;

static MODULE: LazyLock<Result<Wasm, String>> = LazyLock::new(Wasm::load);

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), vector_cases::trials(module)).exit_code()
}

fn module() -> Result<&'static dyn Engine, String> {
    MODULE.as_ref().map(|module| module as &dyn Engine).map_err(Clone::clone)
}
