//! The status codes of ABI 0.2.1.

/// What a host call answers.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    Ok = 0,
    NotFound = 1,
    BadArgument = 2,
    SerializationFailure = 3,
    ParseFailure = 4,
    BadExpression = 5,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    ResultMismatch = 9,
    InternalFailure = 10,
    BrokenConnection = 11,
    Unimplemented = 12,
}

/// Why a host call did not succeed.
pub(super) enum HostError {
    /// The guest is told.
    Status(Status),
    /// The guest trapped while the host called back into it.
    Trap(wasmi::Error),
}

impl From<Status> for HostError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<wasmi::Error> for HostError {
    fn from(error: wasmi::Error) -> Self {
        Self::Trap(error)
    }
}
