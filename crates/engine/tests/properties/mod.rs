//! Property tests of the invariants of docs/contract.md section 1 on the core: I1, I2, I3, I5, I6 and I7.
//!
//! `model` says once more, in the simplest way, what the code does with care for speed; `generate` makes policies and
//! requests out of near misses. `EDGE_CASES_PERCENT=10000 cargo test --test engine properties::` runs a hundred times as many cases as
//! `make test-all`.
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

use super::extent::{cases, part_of, some};
