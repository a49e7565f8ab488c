//! What the engine asks of a gateway. One implementation for each kind of gateway is all that knows it: the proxy-wasm
//! filter has one, the tests have one, a native module of Envoy's would have one.
//!
//! A host never has to panic: where it cannot do what it is asked, it says so.

use crate::call::Call;
use crate::exchange::HeaderMapKind;
use crate::headers::Headers;
use crate::identity::Attributes;

pub use crate::headers::RouterHints;

/// The gateway could not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostError;

/// How important a line of the gateway's log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Something has started or works again
    Info,
    /// Something does not work, and the filter goes on
    Warn,
}

/// A copy of a header map that can be kept while a request waits.
pub trait HeaderLines {
    /// The lines; `None` if the host's encoding of them is broken.
    fn headers(&self) -> Option<Headers<'_>>;

    /// How many bytes the copy takes.
    fn size(&self) -> usize;
}

/// A response of the filter's own.
#[derive(Debug, Clone, Copy)]
pub struct LocalReply<'r> {
    /// The HTTP status
    pub status: u16,
    /// What the access log tells as the response's details
    pub details: &'r str,
    /// Header lines beside the status
    pub headers: &'r [(&'r str, String)],
    /// The body
    pub body: &'r [u8],
}

/// One request and its response in a gateway, as far as the engine needs them; [`Attributes`] are what the gateway knows
/// about the request beside its headers. Every method is about the callback that the gateway makes just now.
pub trait Host: Attributes {
    /// A copy of a header map.
    type Lines: HeaderLines;

    /// A header map as it is now; without lines if it is not there.
    fn header_lines(&self, map: HeaderMapKind) -> Self::Lines;

    /// Leaves one line with this name (lower case) and value, whatever was there.
    ///
    /// # Errors
    /// The gateway did not change the map.
    fn set_header(&self, map: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError>;

    /// Removes every line with this name.
    ///
    /// # Errors
    /// The gateway did not change the map.
    fn remove_header(&self, map: HeaderMapKind, name: &[u8]) -> Result<(), HostError>;

    /// The buffered body of the request, at most `max` bytes of it.
    ///
    /// # Errors
    /// The gateway has no such buffer.
    fn request_body(&self, max: usize) -> Result<Vec<u8>, HostError>;

    /// The buffered body of the response, at most `max` bytes of it.
    ///
    /// # Errors
    /// The gateway has no such buffer.
    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError>;

    /// Puts `body` in the place of the part of the response's body that is buffered or passing.
    ///
    /// # Errors
    /// The gateway did not change the body.
    fn set_response_body(&self, body: &[u8]) -> Result<(), HostError>;

    /// Answers the client and forwards nothing.
    ///
    /// # Errors
    /// The gateway has ended the stream already.
    fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError>;

    /// Lets a request go on that waited, in a callback that is not its own.
    ///
    /// # Errors
    /// There is no such request any more.
    fn resume_request(&self) -> Result<(), HostError>;

    /// Unix time in milliseconds.
    fn now_unix_ms(&self) -> u64;

    /// Begins an HTTP call and returns the token that its reply will come with. The call outlives the request.
    ///
    /// # Errors
    /// The call was not made, and no reply will come.
    fn call<I>(&self, call: &Call<I>) -> Result<u32, HostError>;

    /// Writes a line into the gateway's log.
    fn log(&self, level: LogLevel, line: &str);
}
