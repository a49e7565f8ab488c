//! Tests for the built module: a proxy-wasm host ([`host`]) that keeps Envoy's rules, and behaviour cases ([`cases`])
//! written as data, which run natively and in that host.
//!
//! Without the feature `engines` only the case format is left, for runners that bring an engine of their own.

pub mod cases;
#[cfg(feature = "engines")]
pub mod engine;
#[cfg(feature = "engines")]
pub mod host;
pub mod http;
