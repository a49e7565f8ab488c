//! Collision detection of a route (docs/contract.md section 6).

use super::Target;
use crate::backend::GuardService;
use std::sync::Arc;

/// How a route detects that a key comes again with another request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollisionRules {
    /// The target, also where the path is not rewritten
    pub(crate) target: Arc<Target>,
    /// The guard that is asked
    pub(crate) guard: Arc<GuardService>,
    /// Whether a request waits for the guard, and is refused (`enforce`). Otherwise its claim is counted (`observe`, and
    /// `enforce` in shadow mode).
    pub(crate) waits: bool,
    /// Whether a key is for all operations of a caller
    pub(crate) caller_scope: bool,
    /// Whether a request is refused if the guard gives no answer
    pub(crate) needs_guard: bool,
    /// Whether bodies are compared as canonical JSON
    pub(crate) json: bool,
}
