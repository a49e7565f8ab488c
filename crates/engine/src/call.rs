//! HTTP calls to clusters of the gateway: requests, replies and the list of calls under way.
//!
//! This layer does not know the purpose of a call. Who makes a call keeps an id of its own type `I` for it, and gets the id back
//! with the reply.

use crate::policy::document::{Secret, Service};

/// The maximum size of a reply's body, in bytes.
pub const MAX_REPLY_BYTES: usize = 65_536;

/// An HTTP request to make. It contains credentials, so it has no `Debug`.
#[derive(Clone)]
pub struct Call {
    /// The gateway's cluster
    pub cluster: String,
    /// Pseudo headers first; names in lower case
    pub headers: Vec<(&'static str, String)>,
    /// The body
    pub body: Vec<u8>,
    /// The call fails after this many milliseconds without a reply
    pub timeout_ms: u32,
}

/// The reply to a call.
#[derive(Debug, Clone, Copy)]
pub struct CallReply<'r> {
    /// The HTTP status; `None` if there was no HTTP response
    pub status: Option<u16>,
    /// The body; `None` if it is longer than [`MAX_REPLY_BYTES`]
    pub body: Option<&'r [u8]>,
}

impl CallReply<'_> {
    /// The reply to a call that could not be made.
    pub const NONE: Self = Self { status: None, body: None };
}

/// The calls that wait for their replies, by the token that the host gave each of them.
#[derive(Debug)]
pub(crate) struct CallsUnderWay<I>(Vec<(u32, I)>);

impl<I> CallsUnderWay<I> {
    /// No calls.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a call.
    pub(crate) fn begin(&mut self, token: u32, id: I) {
        self.0.push((token, id));
    }

    /// What the calls are for.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.0.iter_mut().map(|(_, id)| id)
    }

    /// Removes the call with this token and gives its id; `None` for an unknown token.
    pub(crate) fn end(&mut self, token: u32) -> Option<I> {
        let index = self.0.iter().position(|(known, _)| *known == token)?;
        Some(self.0.swap_remove(index).1)
    }
}

impl<I> Default for CallsUnderWay<I> {
    fn default() -> Self {
        Self::new()
    }
}

/// The header lines that every call to a service has.
pub(crate) fn request_lines(service: &Service, method: &str, path: String) -> Vec<(&'static str, String)> {
    vec![
        (":method", method.to_owned()),
        (":path", path),
        (":authority", service.authority.clone()),
        ("accept", "application/json".to_owned()),
    ]
}

/// The credential of a service as a header value; `None` if the gateway adds it.
pub(crate) fn credential(service: &Service) -> Option<String> {
    match &service.credential {
        Some(Secret::Value(value)) => String::from_utf8(value.clone()).ok(),
        Some(Secret::Env(_) | Secret::Sds(_)) | None => None,
    }
}
