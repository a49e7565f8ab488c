//! What the upstream remembers of an operation that ran.

/// One run of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    /// The key under which its result is kept.
    pub(crate) key: String,
    /// The status of its result.
    pub(crate) status: u16,
    /// The body of its result, which no other run has.
    pub(crate) body: String,
}
