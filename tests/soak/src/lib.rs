//! A soak: many clients, two Envoys with the filter, a cluster of Restate nodes, services and a secret store, each of which is
//! killed, paused and restarted while operations are under way; and a check of what happened (docs/operate.md).
//!
//! | module | what it holds |
//! |---|---|
//! | [`system`] | everything that runs |
//! | [`gateway`], [`policy`] | how the gateways are configured |
//! | [`service`] | the deterministic services that have the effects |
//! | [`operations`] | what clients do |
//! | [`client`] | how they retry |
//! | [`faults`] | what is killed, paused and restarted |
//! | [`checker`] | what clients saw against what happened |
//! | [`report`] | the summary |
//! | [`run`] | all of it together |

pub mod checker;
pub mod client;
pub mod faults;
pub mod gateway;
pub mod operations;
pub mod policy;
pub mod ports;
#[path = "../../../examples/promises/rust/src/promises.rs"]
mod promises;
pub mod report;
pub mod run;
pub mod service;
pub mod system;
