//! The guard's claims that belong to keys (docs/contract.md section 6, "Collision"). A claim is stored under a digest of the
//! namespaced key and the operation. So the claims of a result that is still stored are found, and those of a key that is
//! given whole; a digest alone tells nobody whose claim it is.

use super::connection::Admin;
use super::invocations::{BATCH, Invocation, ResultState};
use super::sql::{literal, one_of};
use edge_idempotency_engine::collision::claim_key;
use edge_idempotency_engine::policy::HandlerAddress;
use std::collections::BTreeMap;

/// A claim that is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredClaim {
    /// The invocation of the guard
    pub(crate) invocation: Invocation,
    /// The namespaced key that it is about
    pub(crate) about: String,
}

impl StoredClaim {
    /// Whether the guard has not answered yet, so that Restate does not purge it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.invocation.state() == ResultState::InFlight
    }
}

/// Claims that may be stored, by their key at the guard.
#[derive(Debug, Default)]
pub(crate) struct ClaimKeys(BTreeMap<String, String>);

impl ClaimKeys {
    /// That of a stored result.
    pub(crate) fn add(&mut self, invocation: &Invocation) {
        let (Some(stored), Some(key)) = (&invocation.idempotency_key, key_of(invocation)) else { return };
        self.0.insert(key, stored.clone());
    }

    /// The claim of a namespaced key for an operation.
    pub(crate) fn add_operation(&mut self, stored: &str, address: &HandlerAddress<'_>) {
        self.0.insert(claim_key(stored, address), stored.to_owned());
    }
}

/// The key at the guard of the claim of a stored result.
pub(crate) fn key_of(invocation: &Invocation) -> Option<String> {
    let address = HandlerAddress {
        service: &invocation.target_service_name,
        object_key: invocation.target_service_key.as_ref().map(|key| key.as_bytes().to_vec()),
        handler: &invocation.target_handler_name,
    };
    Some(claim_key(invocation.idempotency_key.as_deref()?, &address))
}

impl Admin {
    /// Those of the claims that are stored.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn claims(&self, guard: &str, keys: &ClaimKeys) -> Result<Vec<StoredClaim>, String> {
        let mut found = Vec::new();
        let list: Vec<&str> = keys.0.keys().map(String::as_str).collect();
        for batch in list.chunks(BATCH) {
            let condition = format!(
                "target_service_name = {} and {}",
                literal(guard),
                one_of("idempotency_key", batch.iter().copied())
            );
            for invocation in self.all_invocations(&condition, |_| true)? {
                let about = invocation.idempotency_key.as_ref().and_then(|key| keys.0.get(key));
                if let Some(about) = about.cloned() {
                    found.push(StoredClaim { invocation, about });
                }
            }
        }
        Ok(found)
    }
}
