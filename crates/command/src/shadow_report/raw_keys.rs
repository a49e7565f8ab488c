//! Raw keys that several callers sent to one endpoint. Without namespaces the backend takes their requests for one, so one of the
//! callers gets the answer to another's.

use super::groups::Groups;
use crate::record::ShadowFacts;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

/// The greatest number of raw keys that are compared: some 50 MB.
const MOST: usize = 1_000_000;

/// The raw keys of requests in shadow mode.
#[derive(Debug, Default)]
pub(super) struct RawKeys {
    hasher: RandomState,
    /// By the hash of endpoint and raw key
    seen: HashMap<u64, SeenKey>,
    /// The number of shared keys of each endpoint
    endpoints: Groups<1, u64>,
    /// Requests whose key came when there was no room for more keys
    not_compared: u64,
}

/// A raw key.
#[derive(Debug)]
struct SeenKey {
    /// The hash of the namespaced key of the first request
    namespaced: u64,
    is_shared: bool,
}

impl RawKeys {
    /// Counts the request's keys, if its record has both.
    pub(super) fn count(&mut self, facts: &ShadowFacts<'_>) {
        let (Some(raw), Some(namespaced)) = (&facts.raw_key, &facts.namespaced_key) else { return };
        let key = self.hasher.hash_one((facts.endpoint.as_deref(), raw));
        let namespaced = self.hasher.hash_one(namespaced);
        let room = self.seen.len() < MOST;
        match self.seen.get_mut(&key) {
            Some(seen) if seen.namespaced != namespaced && !seen.is_shared => {
                seen.is_shared = true;
                self.endpoints.at([facts.endpoint.as_deref()], |shared| *shared += 1);
            }
            Some(_) => {}
            None if room => _ = self.seen.insert(key, SeenKey { namespaced, is_shared: false }),
            None => self.not_compared += 1,
        }
    }

    /// How many raw keys were compared.
    pub(super) fn compared(&self) -> usize {
        self.seen.len()
    }

    /// How many of them several callers sent.
    pub(super) fn shared(&self) -> u64 {
        self.endpoints().iter().map(|(_, shared)| shared).sum()
    }

    /// The endpoints with shared keys, those with the most first.
    pub(super) fn endpoints(&self) -> Vec<&([Option<String>; 1], u64)> {
        self.endpoints.sorted(|shared| *shared)
    }

    /// How many requests were not compared, because there were too many keys.
    pub(super) const fn not_compared(&self) -> u64 {
        self.not_compared
    }
}
