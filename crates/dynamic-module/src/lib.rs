//! The filter as an Envoy dynamic module: it passes Envoy's hooks to the engine, and implements the engine's `Gateway` and `Host`
//! (docs/gateways.md).
//!
//! | module | subject |
//! |---|---|
//! | `abi` | declarations of Envoy's ABI |
//! | `calls` | Envoy's functions, as safe ones |
//! | `hooks` | the functions that Envoy calls |
//! | `filter` | a configuration, shared by all workers |
//! | `stream` | one request and its response |
//! | `host` | the engine's `Gateway` and `Host` |
//! | `outside` | HTTP calls, which the main thread makes |
//! | `ticker` | a tick every second |
//! | `metrics` | series as instruments with labels |
//! | `record` | the record of a request as metadata |
//! | `process` | what belongs to the process: locks, the clock |
//! | `panics` | panics that tests plant |
//!
//! `abi`, `calls` and `hooks` alone have `unsafe` code; it turns pointers into references and bytes.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod abi;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod process;

mod calls;
mod filter;
mod hooks;
mod host;
mod outside;
mod panics;
mod record;
mod stream;
mod ticker;
