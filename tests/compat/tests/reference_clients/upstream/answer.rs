//! The answers of the upstream: those of a generic backend, which marks its replays, and those of Restate.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::execution::Execution;
use super::fault::{Location, NO_ROUTE, RetryAfter, Said};

/// How the answers of the backend look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// As a generic backend's
    Generic,
    /// As those of Restate to a call
    RestateCall,
    /// As those of Restate to a call that is not waited for
    RestateSend,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(super) struct UpstreamAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// The beginning of the next second.
pub(super) fn next_second() -> SystemTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() + 1)
}

impl RetryAfter {
    fn line(self) -> Option<(&'static str, String)> {
        let value = match self {
            Self::Missing => return None,
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Date => httpdate::fmt_http_date(next_second()),
        };
        Some(("retry-after", value))
    }
}

impl UpstreamAnswer {
    fn json(status: u16, body: String) -> Self {
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The result of an operation. `is_new`: it was not there before the request.
    pub(super) fn result(form: AnswerForm, execution: &Execution, is_new: bool, invocation: &str) -> Self {
        let answer = Self::json(execution.status, execution.body.clone());
        if form == AnswerForm::Generic {
            return if is_new { answer } else { answer.with("idempotent-replayed", "true") };
        }
        let mut answer = answer.with("x-restate-id", invocation);
        if execution.status >= 400 {
            answer = answer.with("x-restate-error-source", "invocation");
        }
        if is_new { answer } else { answer.with("idempotency-expires", "Wed, 21 Oct 2099 07:28:00 GMT") }
    }

    /// The answer of a generic backend to a duplicate of a request that is under way.
    pub(super) fn in_flight() -> Self {
        Self::json(409, json!({"fault": "in flight"}).to_string()).with("retry-after", "0")
    }

    /// The answer of Restate to a call that is not waited for.
    pub(super) fn accepted(invocation: &str, is_new: bool) -> Self {
        let status = if is_new { "Accepted" } else { "PreviouslyAccepted" };
        let body = json!({"invocationId": invocation, "status": status}).to_string();
        Self::json(202, body).with("x-restate-id", invocation)
    }

    /// The answer of Restate to a question whether a request is under way.
    pub(super) fn about_flight(is_in_flight: bool) -> Self {
        let (status, message) = if is_in_flight { (470, "not completed yet") } else { (404, "not found") };
        let body = json!({"code": status, "message": message, "source": "ingress"}).to_string();
        Self::json(status, body).with("x-restate-error-source", "ingress")
    }

    /// An answer that is not that of the operation.
    pub(super) fn said(form: AnswerForm, said: &Said, location: Option<String>) -> Self {
        let mut answer = Self::json(said.status, json!({"fault": said.name}).to_string());
        if form != AnswerForm::Generic && said.name != NO_ROUTE {
            answer = answer.with("x-restate-error-source", "ingress");
        }
        answer.headers.extend(said.retry_after.line());
        if said.processing {
            answer = answer.with("idempotency-status", "processing");
        }
        answer.headers.extend(location.map(|location| ("location", location)));
        answer
    }

    /// The `Location` of such an answer. `results` is the path of all results.
    pub(super) fn location(said: &Said, intent: &str, results: &str, other_origin: &str) -> Option<String> {
        match said.location {
            Location::Missing => None,
            Location::SameOrigin => Some(format!("{results}/{intent}")),
            Location::OtherOrigin => Some(format!("{other_origin}{results}/{intent}")),
        }
    }
}
