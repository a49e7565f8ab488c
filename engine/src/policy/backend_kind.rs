//! The kinds of backend: they decide about paths, and about the headers of answers.

/// The kind of backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendKind {
    /// Restate's HTTP ingress.
    Restate,
    /// Another service that deduplicates by `Idempotency-Key`.
    Generic,
}
