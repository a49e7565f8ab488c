//! The `recovery` object: how requests for results wait.

use crate::json::cursor::{Issues, JsonCursor};
use crate::waits::WaitLimits;

/// The longest wait and the most waits that a document can ask for.
const MAX_WAIT_MS: u64 = 600_000;
const MAX_WAITS: u64 = 100_000;

/// The `recovery` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoverySettings {
    /// How long a request for a result waits for it at most, in milliseconds
    pub wait_ms: u64,
    /// How many requests may wait at once
    pub limits: WaitLimits,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        Self { wait_ms: 30_000, limits: WaitLimits { per_caller: 16, per_tenant: 64 } }
    }
}

impl RecoverySettings {
    /// Reads a `recovery` object.
    #[inline(never)]
    pub(super) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Self {
        let default = Self::default();
        let Some(fields) = at.fields(&["wait_ms", "max_waits_per_caller", "max_waits_per_tenant"], issues) else {
            return default;
        };
        let mut waits = |name, default| fields.integer(name, 1..=MAX_WAITS, issues).unwrap_or(default);
        let limits = WaitLimits {
            per_caller: waits("max_waits_per_caller", default.limits.per_caller),
            per_tenant: waits("max_waits_per_tenant", default.limits.per_tenant),
        };
        Self { wait_ms: fields.integer("wait_ms", 0..=MAX_WAIT_MS, issues).unwrap_or(default.wait_ms), limits }
    }
}
