//! The engine without a gateway, for tests. Nothing here is part of the module or of the command.
//!
//! - [`cases`]: behaviour cases through the engine, and [`trials`], every case as a test of its own, for whatever runs cases
//! - [`stores`]: what the registry and the secret store of a case answer
//! - [`requests`]: requests of property tests, and what the engine makes of them
//! - [`vectors`]: deliveries of webhook providers, received
//! - [`attributes`]: stand-ins for what a gateway knows about a request

pub mod attributes;
pub mod cases;
pub mod requests;
pub mod stores;
pub mod trials;
pub mod vectors;
