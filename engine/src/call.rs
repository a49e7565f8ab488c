//! HTTP calls to clusters of the gateway: what is called, what comes back, and which calls are under way.
//!
//! This layer knows nothing of what a call is for. Whoever makes one gives it an id of its own (`I`) and gets that back with
//! the reply.

use crate::policy::document::{Secret, Service};

/// The longest body of a reply that is read, in bytes.
pub const MAX_REPLY_BYTES: usize = 65_536;

/// An HTTP request to make. It holds credentials and is never shown.
pub struct Call<I> {
    /// Whose reply it will be
    pub id: I,
    /// The gateway's cluster
    pub cluster: String,
    /// Pseudo headers first; names in lower case
    pub headers: Vec<(&'static str, String)>,
    /// The body
    pub body: Vec<u8>,
    /// After how many milliseconds without a reply it has failed
    pub timeout_ms: u32,
}

/// What a call brought.
#[derive(Debug, Clone, Copy)]
pub struct CallReply<'r> {
    /// The status; none if there was no HTTP answer
    pub status: Option<u16>,
    /// The body; none if it is longer than [`MAX_REPLY_BYTES`]
    pub body: Option<&'r [u8]>,
}

impl CallReply<'_> {
    /// What a call brought that could not be made.
    pub const NONE: Self = Self { status: None, body: None };
}

/// The calls that wait for their replies, by the token that the host gave each of them.
#[derive(Debug)]
pub struct CallsUnderWay<I>(Vec<(u32, I)>);

impl<I> CallsUnderWay<I> {
    /// No calls.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// A call has been made.
    pub fn begin(&mut self, token: u32, id: I) {
        self.0.push((token, id));
    }

    /// The host has told the end of a call; `None` for a token that is not known.
    pub fn end(&mut self, token: u32) -> Option<I> {
        let index = self.0.iter().position(|(known, _)| *known == token)?;
        Some(self.0.swap_remove(index).1)
    }
}

impl<I> Default for CallsUnderWay<I> {
    fn default() -> Self {
        Self::new()
    }
}

/// The header lines that every call to a service begins with.
pub(crate) fn request_lines(service: &Service, method: &str, path: String) -> Vec<(&'static str, String)> {
    vec![
        (":method", method.to_owned()),
        (":path", path),
        (":authority", service.authority.clone()),
        ("accept", "application/json".to_owned()),
    ]
}

/// The credential of a service as the value of a header; none if the gateway adds it.
pub(crate) fn credential(service: &Service) -> Option<String> {
    match &service.credential {
        Some(Secret::Value(value)) => String::from_utf8(value.clone()).ok(),
        Some(Secret::Env(_)) | None => None,
    }
}
