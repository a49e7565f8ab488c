//! Property tests of the invariants of docs/contract.md section 1 on the core: I1, I2, I3, I5, I6 and I7.
//!
//! `model` says once more, in the simplest way, what the code does with care for speed; `generate` makes policies and
//! requests out of near misses. `PROPTEST_TIMES=100 cargo test --test engine properties::` runs a hundred times as many cases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

mod any_bytes;
mod closed;
mod collision;
mod errors;
mod exchange;
mod generate;
mod golden;
mod keys;
mod model;
mod operations;
mod paths;
mod recovery;
mod secrecy;
mod targets;

use proptest::test_runner::{Config, FileFailurePersistence};

/// `cases` times `PROPTEST_TIMES`; what fails is remembered beside the test, and comes first from then on.
fn cases(cases: u32) -> Config {
    let times = std::env::var("PROPTEST_TIMES").map_or(1, |times| times.parse().expect("PROPTEST_TIMES is a number"));
    let cases = cases.saturating_mul(times);
    Config {
        cases,
        // Generators throw values away, the more of them the more cases there are.
        max_local_rejects: cases.saturating_mul(4).max(65_536),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        max_shrink_iters: 1000,
        ..Config::default()
    }
}
