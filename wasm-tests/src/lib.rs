//! Tests for the built module: a proxy-wasm host ([`host`]) that keeps Envoy's rules, and an engine ([`engine`]) that
//! runs the behaviour cases of `testkit` in it.

pub mod engine;
pub mod host;
