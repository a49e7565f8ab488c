//! The proxy-wasm test host.
