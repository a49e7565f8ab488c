//! HTTP calls the filter makes: recorded, and answered by the test when it sees fit.

use std::collections::BTreeMap;

use testkit::http::{Headers, Message};

/// A call that the filter dispatched and that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCall {
    /// What the answer is delivered under; unique in the VM.
    pub token: u32,
    /// The context that it was made for, and ends with.
    pub context: u32,
    /// The cluster it goes to.
    pub cluster: String,
    /// Header lines with the pseudo headers.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
    /// Trailers, if any.
    pub trailers: Headers,
    /// Zero is no timeout.
    pub timeout_ms: u32,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallReply {
    /// A response, from the cluster or made by Envoy (a timeout is a 504, a refused connection a 503).
    Response(Message),
    /// No response at all: the callback comes with no headers.
    Failed,
}

/// The calls of one VM.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last_token: u32,
    pending: BTreeMap<u32, HttpCall>,
    /// What the guest can read while the callback runs.
    pub(super) delivering: Option<Message>,
}

impl Calls {
    pub(super) fn dispatch(&mut self, call: HttpCall) -> u32 {
        self.last_token += 1;
        let token = self.last_token;
        self.pending.insert(token, HttpCall { token, ..call });
        token
    }

    pub(super) fn take(&mut self, token: u32) -> Option<HttpCall> {
        self.pending.remove(&token)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &HttpCall> {
        self.pending.values()
    }
}
