//! The header with which the filter marks requests.

/// Its name.
pub(super) const MARK: &str = edge_idempotency_engine::policy::REWRITE_MARK;
/// Its value where a document has one backend. With several it is the name of a backend.
pub(super) const ONLY_MARK: &str = "1";
