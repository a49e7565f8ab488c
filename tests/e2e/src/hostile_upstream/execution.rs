//! What the upstream remembers of an operation that ran.

/// One run of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The key under which its result is kept.
    pub key: String,
    /// The status of its result.
    pub status: u16,
    /// The body of its result, which no other run has.
    pub body: String,
}
