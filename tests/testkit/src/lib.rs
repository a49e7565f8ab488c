//! What several test suites of this repository share. Nothing here is part of the module or of the command, or calls them.
//!
//! - [`cases`]: behaviour cases as data
//! - [`stores`]: what the registry and the secret store of a case answer
//! - [`vectors`]: deliveries of webhook providers with what a receiver has to make of each
//! - [`signatures`]: signs as providers and callers sign, without the engine's cryptography

pub mod cases;

pub mod http;
pub mod records;
pub mod signatures;
pub mod stores;
pub mod vectors;
