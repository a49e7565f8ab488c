//! The dynamic module in a stand-in for Envoy: Rust code that calls the module's hooks and has the functions that the module calls,
//! as `abi.h` describes both. It runs on the thread of the test, or on as many as a test begins, so that orders of threads can be
//! chosen, and under Miri and AddressSanitizer.
//!
//! It is a stand-in. What is written here about Envoy was read in its sources (`filter_manager.cc`, `abi_impl.cc`); that the real one
//! does the same is for `tests/e2e/`, which runs the module in it (`EDGE_HOST=dynamic-module`).
//!
//! | module | subject |
//! |---|---|
//! | [`envoy`] | a configuration, Envoy's main thread and its worker threads |
//! | [`stream`] | one request and its response: Envoy's filter manager, with the module as the last filter |
//! | [`side`] | one of its messages: what is held back, and what has gone on |
//! | `callbacks` | the functions that the module calls |
//! | `hooks` | declarations of the functions that the module has |
//! | `lent` | bytes that Envoy lends, which are overwritten and freed as soon as it may do so |
//! | [`engine`] | behaviour cases |
#![allow(unsafe_code, reason = "it stands on the other side of a C interface")]

mod callbacks;
pub mod engine;
pub mod envoy;
mod hooks;
mod lent;
pub mod side;
pub mod stream;

pub use callbacks::newer;
