//! Whether the first request with a key is still in flight, for routes with `"in_flight": "conflict"` (docs/contract.md
//! section 6). Restate is asked for the output under the key: while there is none, its answer is 470 and comes from its
//! ingress. A handler's own error can have this status, too.

use super::invocation::{self, InvocationQuestion};
use crate::backend::InvocationStore;
use crate::backend::restate;
use crate::call::{Call, CallReply};
use crate::codes::Reason;
use crate::identity::Identity;
use crate::json::Json;
use crate::policy::Target;
use std::sync::Arc;

/// What Restate is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlightQuestion(InvocationQuestion);

impl InFlightQuestion {
    /// The question about a handler and a namespaced key. `values` are the path parameters' values, decoded. `None` if the
    /// target has no object key for them.
    pub(crate) fn new(
        store: &Arc<InvocationStore>,
        target: &Target,
        values: &[Vec<u8>],
        caller: &Identity,
        key: &str,
    ) -> Option<Self> {
        InvocationQuestion::new(store, &target.handler_address(values, caller)?, key).map(Self)
    }
}

/// The call that asks.
pub(crate) fn call(question: &InFlightQuestion) -> Call {
    question.0.call_at(restate::OUTPUT)
}

/// Reads the reply to [`call`]: whether the first request is in flight.
///
/// # Errors
/// The reason why nobody knows.
pub(crate) fn read(reply: &CallReply<'_>) -> Result<bool, Reason> {
    let is_ingress =
        |body: &[u8]| Json::parse(body).is_ok_and(|body| body.at(&["source"]).and_then(Json::text) == Some("ingress"));
    match reply.status {
        Some(restate::NOT_COMPLETED) => Ok(reply.body.is_some_and(is_ingress)),
        None | Some(429 | 500..) => Err(invocation::FAILED),
        Some(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ingress_says_that_a_request_is_in_flight() {
        let read = |status, body: &str| read(&CallReply { status, body: Some(body.as_bytes()) });
        let ingress = r#"{"code":470,"message":"the invocation exists but has not completed yet","source":"ingress"}"#;
        assert_eq!(read(Some(470), ingress), Ok(true));
        for body in ["", "{}", "[", r#"{"code":470,"source":"invocation"}"#] {
            assert_eq!(read(Some(470), body), Ok(false), "{body}");
        }
        for status in [200, 400, 404, 409, 422] {
            assert_eq!(read(Some(status), ingress), Ok(false), "{status}");
        }
        for status in [None, Some(429), Some(500), Some(503), Some(504)] {
            assert_eq!(read(status, ingress), Err(invocation::FAILED), "{status:?}");
        }
    }
}
