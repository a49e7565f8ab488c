//! The stores of a case: what a registry, a secret store, the guard and Restate answer to the calls of the filter.

use simulated_stores::{SimulatedStores, StoreReply, StoreRequest};

use crate::cases::Case;

/// The stores of a case, or what is wrong with its `lookups`.
///
/// # Errors
/// `lookups` is not in the form that `explain` takes.
pub fn stores_of(case: &Case) -> Result<SimulatedStores, String> {
    let Some(lookups) = &case.lookups else { return Ok(SimulatedStores::default()) };
    SimulatedStores::read(lookups).map_err(|error| format!("`lookups`: {error}"))
}

/// What Restate answers to a call of the filter at this path, in a case that says nothing else: the status and the body.
pub fn restate_reply(path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let request = StoreRequest { method: b"POST", path: path.as_bytes(), body };
    let StoreReply { status, body } = SimulatedStores::default().reply_to(&request);
    (status.unwrap_or(503), body)
}
