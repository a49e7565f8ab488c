//! The `recovery` object: how requests for results wait.

use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::defaults::WAIT_MS;

/// The longest wait that a document can ask for.
const MAX_WAIT_MS: u64 = 600_000;

/// The `recovery` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoverySettings {
    /// How long a request for a result waits for it at most, in milliseconds
    pub wait_ms: u64,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        Self { wait_ms: WAIT_MS }
    }
}

impl RecoverySettings {
    /// Reads a `recovery` object.
    pub(super) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Self {
        let wait_ms = at.fields(&["wait_ms"], issues).and_then(|at| at.integer("wait_ms", 0..=MAX_WAIT_MS, issues));
        wait_ms.map_or_else(Self::default, |wait_ms| Self { wait_ms })
    }
}
