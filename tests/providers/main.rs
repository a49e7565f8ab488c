//! Webhook providers: every vector by name, and properties that hold for all deliveries.

// Tests say what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

mod expected;
mod vector;
mod vectors;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let mut trials = Vec::new();
    for vector in vector::all(env!("CARGO_MANIFEST_DIR")) {
        let name = format!("vector::{}", vector.id);
        trials.push(Trial::test(name, move || vectors::check(&vector).map_err(Failed::from)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
