//! The guard's claims that belong to keys (docs/contract.md section 6, "Collision"). A claim is stored under a digest of the
//! namespaced key and the operation. So the claims of a result that is still stored are found, and those of a key that is
//! given whole; a digest alone tells nobody whose claim it is.

use super::connection::Admin;
use super::invocations::{BATCH, Invocation, ResultState};
use super::names::InvocationId;
use super::sql::{literal, one_of};
use edge_idempotency_engine::collision::claim_key;
use edge_idempotency_engine::policy::HandlerAddress;
use std::collections::{BTreeMap, BTreeSet};

/// A claim that is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredClaim {
    /// The invocation of the guard
    pub(crate) invocation: Invocation,
    /// The namespaced key that it is about
    pub(crate) about: String,
    /// Whether it holds for all operations of its caller (`collision_scope: caller`)
    pub(crate) is_shared: bool,
}

impl StoredClaim {
    /// Whether the guard has not answered yet, so that Restate does not purge it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.invocation.state() == ResultState::InFlight
    }
}

/// Claims that may be stored, by their key at the guard.
#[derive(Debug, Default)]
pub(crate) struct ClaimKeys(BTreeMap<String, (String, bool)>);

impl ClaimKeys {
    /// Those of a stored result: the one of its operation, and the one that all operations of the caller share.
    pub(crate) fn add(&mut self, invocation: &Invocation) {
        let Some(stored) = &invocation.idempotency_key else { return };
        self.add_operation(
            stored,
            &HandlerAddress {
                service: &invocation.target_service_name,
                object_key: invocation.target_service_key.as_ref().map(|key| key.as_bytes().to_vec()),
                handler: &invocation.target_handler_name,
            },
        );
        self.add_shared(stored);
    }

    /// The claim of a namespaced key for one operation.
    pub(crate) fn add_operation(&mut self, stored: &str, address: &HandlerAddress<'_>) {
        self.0.insert(claim_key(stored, Some(address)), (stored.to_owned(), false));
    }

    /// The keys at the guard.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = String> {
        self.0.into_keys()
    }

    /// The claim of a namespaced key that all operations of the caller share.
    pub(crate) fn add_shared(&mut self, stored: &str) {
        self.0.insert(claim_key(stored, None), (stored.to_owned(), true));
    }
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
                if let Some((about, is_shared)) = about.cloned() {
                    found.push(StoredClaim { invocation, about, is_shared });
                }
            }
        }
        Ok(found)
    }

    /// Those of the namespaced keys under which any result is stored, or is being made, besides the invocations `purged`: Restate
    /// answers a purge before its tables show it.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn keys_in_use(
        &self,
        keys: &BTreeSet<String>,
        purged: &BTreeSet<InvocationId>,
    ) -> Result<BTreeSet<String>, String> {
        let mut used = BTreeSet::new();
        let list: Vec<&str> = keys.iter().map(String::as_str).collect();
        for batch in list.chunks(BATCH) {
            let condition = one_of("idempotency_key", batch.iter().copied());
            let rows = self.all_invocations(&condition, |_| true)?;
            let others = rows.into_iter().filter(|row| !purged.contains(&row.id));
            used.extend(others.filter_map(|row| row.idempotency_key));
        }
        Ok(used)
    }
}
