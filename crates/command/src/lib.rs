//! The companion of the filter: the same engine on the command line. [`explain`] and [`lints`] do no I/O, so that the playground runs them,
//! too; everything else is the program.

// `output` alone prints.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod explain;
pub mod lints;

#[cfg(feature = "program")]
mod commands;
#[cfg(feature = "program")]
mod diagnostics;
#[cfg(feature = "program")]
mod http;
#[cfg(feature = "program")]
mod init_policy;
#[cfg(feature = "program")]
mod input;
#[cfg(feature = "program")]
mod lines;
#[cfg(feature = "program")]
mod lint;
#[cfg(feature = "program")]
mod live;
#[cfg(feature = "program")]
mod log_line;
#[cfg(feature = "program")]
mod material;
#[cfg(feature = "program")]
mod openapi;
#[cfg(feature = "program")]
mod output;
#[cfg(feature = "program")]
mod profile;
#[cfg(feature = "program")]
mod record;
#[cfg(feature = "program")]
mod render;
#[cfg(feature = "program")]
mod restate_admin;
#[cfg(feature = "program")]
mod shadow_report;
#[cfg(feature = "program")]
mod webhook;

#[cfg(feature = "program")]
pub use commands::run;
