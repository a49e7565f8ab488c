//! A policy as lints see it: what the engine says of it, and the provider files in its document, whose notes for people the engine does not
//! keep.

use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::Route;
use edge_idempotency_engine::policy::needs::{BackendNeeds, PolicyNeeds, RouteNeeds};
use serde_json::Value;

/// A policy, and its document.
#[derive(Clone, Copy)]
pub(super) struct PolicyView<'p> {
    pub(super) policy: &'p Policy,
    pub(super) document: &'p Value,
}

impl<'p> PolicyView<'p> {
    pub(super) fn needs(self) -> &'p PolicyNeeds {
        self.policy.needs()
    }

    /// The routes with their indices: as they are compiled, and what they need.
    pub(super) fn routes(self) -> impl Iterator<Item = (usize, &'p Route, &'p RouteNeeds)> {
        let needs = &self.needs().routes;
        self.policy.routes().zip(needs).enumerate().map(|(index, (route, needs))| (index, route, needs))
    }

    /// The backend of a route.
    pub(super) fn backend_of(self, route: &RouteNeeds) -> Option<&'p BackendNeeds> {
        self.needs().backend_of(route)
    }

    /// The file of a provider that the document describes itself.
    pub(super) fn own_provider(self, name: &str) -> Option<&'p Value> {
        self.document.pointer("/webhooks/providers")?.get(name)
    }
}

/// A token of a JSON pointer (RFC 6901).
pub fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Writes seconds as a duration of the policy document, in the greatest unit that fits. One day is `24h`.
pub fn duration(seconds: u64) -> String {
    for (unit, factor, least) in [("d", 86_400, 2), ("h", 3_600, 1), ("m", 60, 1)] {
        if seconds >= least * factor && seconds.is_multiple_of(factor) {
            return format!("{}{unit}", seconds / factor);
        }
    }
    format!("{seconds}s")
}
