//! How far the work of an invocation is: Restate is asked for its output (docs/contract.md section 6). Routes with
//! `"in_flight": "conflict"` ask before a request, by its key; a repeated request of a one-way route asks for its answer, by
//! the invocation's id.

use super::invocation::{self, InvocationQuestion};
use crate::backend::InvocationStore;
use crate::backend::restate::{self, Progress};
use crate::call::{Call, CallReply};
use crate::codes::Reason;
use crate::identity::Identity;
use crate::json::Json;
use crate::policy::Target;
use std::sync::Arc;

/// What Restate is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputQuestion(InvocationQuestion);

impl OutputQuestion {
    /// The question about a handler and a namespaced key. `values` are the path parameters' values, decoded. `None` if the
    /// target has no object key for them.
    pub(crate) fn of_key(
        store: &Arc<InvocationStore>,
        target: &Target,
        values: &[Vec<u8>],
        caller: &Identity,
        key: &str,
    ) -> Option<Self> {
        InvocationQuestion::new(store, &target.handler_address(values, caller)?, key).map(Self)
    }

    /// The question about an invocation.
    pub(crate) fn of_invocation(store: &Arc<InvocationStore>, id: &str) -> Self {
        Self(InvocationQuestion::of_id(store, id))
    }
}

/// The call that asks.
pub(crate) fn call(question: &OutputQuestion) -> Call {
    question.0.call_at(restate::OUTPUT)
}

/// Reads the reply to [`call`]. An error that has the member `source` with the value `invocation` is the handler's, whatever
/// its status; the ingress writes `ingress` there.
///
/// # Errors
/// The reason why nobody knows.
pub(crate) fn read(reply: &CallReply<'_>) -> Result<Progress, Reason> {
    let body = reply.body.and_then(|body| Json::parse(body).ok());
    let source = body.as_ref().and_then(|body| body.at(&["source"])).and_then(Json::text);
    Ok(match (reply.status, source) {
        (Some(200..=299), _) => Progress::Completed,
        (Some(400..), Some("invocation")) => Progress::Failed,
        (Some(restate::NOT_COMPLETED), Some("ingress")) => Progress::Processing,
        (None | Some(429 | 500..), _) => return Err(invocation::FAILED),
        (Some(_), _) => Progress::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_handlers_only_if_it_says_so() {
        let read = |status, body: &str| read(&CallReply { status, body: Some(body.as_bytes()) });
        let ingress = r#"{"code":470,"message":"the invocation exists but has not completed yet","source":"ingress"}"#;
        let handler = r#"{"code":470,"message":"no","source":"invocation"}"#;
        assert_eq!(read(Some(470), ingress), Ok(Progress::Processing));
        for status in [200, 204] {
            assert_eq!(read(Some(status), handler), Ok(Progress::Completed), "{status}");
        }
        for status in [400, 404, 409, 429, 470, 500, 503] {
            assert_eq!(read(Some(status), handler), Ok(Progress::Failed), "{status}");
        }
        for (status, body) in [(470, ""), (470, "{}"), (470, "["), (301, ""), (400, ingress), (404, ingress), (422, "")]
        {
            assert_eq!(read(Some(status), body), Ok(Progress::Unknown), "{status} {body}");
        }
        for status in [None, Some(429), Some(500), Some(503), Some(504)] {
            assert_eq!(read(status, ingress), Err(invocation::FAILED), "{status:?}");
        }
        let long = |status| super::read(&CallReply { status: Some(status), body: None });
        assert_eq!((long(200), long(409)), (Ok(Progress::Completed), Ok(Progress::Unknown)));
    }
}
