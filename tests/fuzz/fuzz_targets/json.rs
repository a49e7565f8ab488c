//! Fuzzes JSON bodies and the identifiers in them. Built without the fuzzer it runs the files that it is given.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| edge_idempotency_fuzz::json(input));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    edge_idempotency_fuzz::run_files(edge_idempotency_fuzz::json)
}
