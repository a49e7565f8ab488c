//! Tests for the built module: a proxy-wasm host ([`host`]) that keeps Envoy's rules, an engine ([`engine`]) that runs the
//! behaviour cases of `testkit` in it, and one that runs them through the Go bridge ([`bridge`]).

pub mod bridge;
pub mod engine;
pub mod host;
