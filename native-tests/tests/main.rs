//! The native module in the stand-in for Envoy, which has the functions of Envoy 1.39 here: bodies and threads. Behaviour cases are
//! in `cases.rs`, panics in `panics.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod bodies;
mod common;
mod threads;
