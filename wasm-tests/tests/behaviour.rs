//! Every behaviour case through the built module, as tests of their own: `file::case`. Each run is also compared, whole, with
//! the native engine's, whose own tests (`engine/tests/cases.rs`) run the cases, too.

use std::process::ExitCode;
use std::sync::LazyLock;

use wasm_tests::engine::Wasm;
use wasm_tests::trials::{self, Engine};

/// Compiling the module takes a second or two: once for all cases, and only if one of them runs.
static MODULE: LazyLock<Result<Wasm, String>> = LazyLock::new(Wasm::load);

fn main() -> ExitCode {
    trials::run(|files| files.into_iter().flat_map(|file| trials::of_file(file, module)).collect())
}

fn module() -> Result<&'static dyn Engine, String> {
    MODULE.as_ref().map(|module| module as &dyn Engine).map_err(Clone::clone)
}
