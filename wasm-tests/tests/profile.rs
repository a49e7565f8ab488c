//! Records which code of the module a request runs. `make wasm-profile` runs it, with a module that counts.
#![allow(clippy::panic, reason = "tests")]

use std::path::PathBuf;

use wasm_tests::engine::Wasm;

use crate::cost;

/// How often each exchange is made.
const EXCHANGES: usize = 100;

#[test]
#[ignore = "it is no test: it needs a module that counts, and writes EDGE_PROFILE"]
fn record() {
    let file = std::env::var_os("EDGE_PROFILE").map(PathBuf::from).unwrap_or_else(|| panic!("EDGE_PROFILE is not set"));
    let module = Wasm::load().unwrap_or_else(|error| panic!("{error}"));
    let profiles = cost::cases().into_iter().map(|case| {
        let mut vm = cost::start(module, &case);
        vm.forget_counts()?;
        for _ in 0..EXCHANGES {
            cost::exchange(&mut vm, &case);
        }
        vm.tick();
        vm.profile()
    });
    let sum = profiles.reduce(|sum, profile| {
        let mut sum = sum?;
        sum.add(&profile?);
        Ok(sum)
    });
    let sum = sum.unwrap_or_else(|| Err("there is no exchange".to_owned())).unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(&file, sum.to_raw()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
