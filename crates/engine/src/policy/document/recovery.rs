//! The `recovery` object: how requests for results wait.

use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::defaults;
use crate::policy::members::{Integer, members};

members! {
    /// This object is about requests for the result of an earlier request.
    recovery = "recovery", "Recovery";

    /// How long a client that asks for a result waits for it before it is told 202, in milliseconds; 0 never waits.
    WAIT_MS: Integer { least: 0, most: 600_000, default: defaults::WAIT_MS } = "wait_ms", "Waiting";
}

/// The `recovery` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoverySettings {
    /// How long a request for a result waits for it at most, in milliseconds
    pub wait_ms: u64,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        Self { wait_ms: defaults::WAIT_MS }
    }
}

impl RecoverySettings {
    /// Reads a `recovery` object.
    pub(super) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Self {
        let fields = recovery::OBJECT.read(at, issues);
        fields.map_or_else(Self::default, |fields| Self { wait_ms: recovery::WAIT_MS.read(&fields, issues) })
    }
}
