//! Every behaviour case, once through the native engine and once through the built module, as tests of their own:
//! `file::case::native` and `file::case::wasm`. The second also compares the two runs, whole.

use std::process::ExitCode;
use std::sync::LazyLock;

use wasm_tests::engine::Wasm;
use wasm_tests::trials::{self, Engine, Source};

/// Compiling the module takes a second or two: once for all cases, and only if one of them runs.
static MODULE: LazyLock<Result<Wasm, String>> = LazyLock::new(Wasm::load);

const ENGINES: [(&str, Source); 2] = [("native", || Ok(&testkit::native::Native)), ("wasm", module)];

fn main() -> ExitCode {
    trials::run(|files| files.into_iter().flat_map(|file| trials::of_file(file, &ENGINES)).collect())
}

fn module() -> Result<&'static dyn Engine, String> {
    MODULE.as_ref().map(|module| module as &dyn Engine).map_err(Clone::clone)
}
