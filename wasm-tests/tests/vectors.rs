//! Every provider vector through a whole exchange, in the native engine and in the built module, as tests of their own:
//! `provider::vector::native` and `provider::vector::wasm`.

mod vector_cases;

use std::process::ExitCode;
use std::sync::LazyLock;

use libtest_mimic::Arguments;
use wasm_tests::engine::Wasm;
use wasm_tests::trials::{Engine, Source};

static MODULE: LazyLock<Result<Wasm, String>> = LazyLock::new(Wasm::load);

const ENGINES: [(&str, Source); 2] = [("native", || Ok(&testkit::native::Native)), ("wasm", module)];

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), vector_cases::trials(&ENGINES)).exit_code()
}

fn module() -> Result<&'static dyn Engine, String> {
    MODULE.as_ref().map(|module| module as &dyn Engine).map_err(Clone::clone)
}
