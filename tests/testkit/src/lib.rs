//! What several test suites of this repository share. Nothing here is part of the module or of the command.
//!
//! - [`cases`]: behaviour cases as data, and [`direct`], which runs them through the engine without a gateway
//! - [`trials`]: every case as a test of its own, for whatever runs cases
//! - [`stores`]: what the registry and the secret store of a case answer
//! - [`requests`]: requests of property tests, and what the engine makes of them
//! - [`vectors`]: deliveries of webhook providers with what a receiver has to make of each
//! - [`signatures`]: signs as providers and callers sign, without the engine's cryptography
//! - [`attributes`]: stand-ins for what a gateway knows about a request

pub mod attributes;
pub mod cases;

pub mod direct;
pub mod http;
pub mod records;
pub mod requests;
pub mod signatures;
pub mod stores;
pub mod trials;
pub mod vectors;
