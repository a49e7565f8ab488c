//! The dynamic module in the stand-in for Envoy, which has the functions of Envoy 1.40 here: bodies, secrets and threads.
//! Behaviour cases are in `cases.rs`, panics in `panics.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod bodies;
mod common;
mod secrets;
mod threads;

dynamic_module_tests::envoy_1_40!();
