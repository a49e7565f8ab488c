//! How an exchange is classified: by the way of its key, and by what came of it.

/// The case of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// The caller's key, namespaced.
    A,
    /// A third party's webhook.
    B,
    /// The handler deduplicates.
    C,
}

impl Case {
    /// The case as logs and metrics write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

/// The outcome of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The request went to the backend.
    #[default]
    Forwarded,
    /// The backend did the work and stored the response.
    Stored,
    /// The backend replayed a stored response.
    Replayed,
    /// The filter refused the request.
    Rejected,
    /// The filter refused the request, because the first one with its key is in flight.
    Conflict,
    /// The filter acknowledged a delivery that names no object of the backend.
    Acknowledged,
}

impl Outcome {
    /// The outcome as logs and metrics write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Stored => "stored",
            Self::Replayed => "replayed",
            Self::Rejected => "rejected",
            Self::Conflict => "conflict",
            Self::Acknowledged => "acknowledged",
        }
    }
}
