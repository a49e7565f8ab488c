//! The backend's answer to the request for a stored result.

use super::path::Wait;
use crate::backend::{ErrorSource, ResponseHead, restate};
use crate::exchange::AnswerAction;
use crate::problem::{Problem, Retry};

/// Decides about the response to a request for a stored result.
pub(crate) fn evaluate_stored_result(head: &ResponseHead<'_>, wait: Wait, is_operation: bool) -> AnswerAction {
    match head.status {
        // A handler's error can have status 470 too.
        restate::NOT_COMPLETED if !head.by_handler => AnswerAction::Processing,
        // The router's timeout has ended the wait.
        504 if wait == Wait::Attach && !head.invoked && head.source.is_none() => AnswerAction::Processing,
        // Another version of Restate may not even take the form of the id.
        400 if is_operation && head.source == Some(ErrorSource::Ingress) => {
            AnswerAction::Replace(Problem::operation_unknown())
        }
        // A stored 404 of the handler has an expiry, the 404 for what is unknown has none.
        404 if !head.expires && head.source.is_some() => {
            AnswerAction::Replace(if is_operation { Problem::operation_unknown() } else { Problem::key_unknown() })
        }
        _ if head.by_handler => {
            let (status, retry) = if head.is_error() { ("failed", Some(Retry::NewKey)) } else { ("completed", None) };
            AnswerAction::Pass { replayed: true, status: Some(status), retry }
        }
        429 | 500.. => AnswerAction::Replace(Problem::backend_unavailable()),
        // The gateway itself has refused the request, for example because of a malformed body.
        400 | 408 if head.source.is_none() => AnswerAction::Replace(Problem::request_invalid(head.status)),
        413 if head.source.is_none() => AnswerAction::Replace(Problem::body_refused()),
        431 if head.source.is_none() => AnswerAction::Replace(Problem::headers_too_large()),
        _ => AnswerAction::Replace(Problem::policy_invalid()),
    }
}
