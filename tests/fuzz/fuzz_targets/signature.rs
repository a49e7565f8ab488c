//! Fuzzes the headers with signatures. Built without the fuzzer it runs the files that it is given.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| edge_idempotency_fuzz::signature(input));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    edge_idempotency_fuzz::run_files(edge_idempotency_fuzz::signature)
}
