//! The recorder's own answers: problem documents (RFC 9457) with the codes of docs/callers.md.

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::reply::{Body, full};

/// Why the recorder does not answer as the API did.
#[derive(Clone, Copy, Debug)]
pub(super) enum Problem {
    /// The policy's backend has no upstream of its name.
    NoUpstream,
    /// The request asks for an upgraded connection, or is one of gRPC with a key.
    Upgrade,
    /// The key cannot be read.
    Key,
    /// The body is longer than this.
    TooLarge(usize),
    /// The client's body ended early.
    Interrupted,
    /// As many calls as may be are under way.
    Busy,
    /// Restate does not answer.
    Store,
    /// The key belongs to another request.
    Reused,
    /// The API cannot be reached.
    Unreachable,
    /// The API answered with this status, and with too long a body.
    TooLong(u16),
    /// Nobody knows what the API did.
    Unknown,
    /// The API did nothing, too often.
    Exhausted,
}

impl Problem {
    /// Status, code, detail, advice, and the seconds of `Retry-After`.
    fn text(self) -> (u16, &'static str, String, &'static str, Option<u8>) {
        let text = |status, code, detail: &str, retry, after| (status, code, detail.to_owned(), retry, after);
        match self {
            Self::NoUpstream => text(
                503,
                "policy_invalid",
                "The recorder has no upstream with the name of this backend.",
                "same_key",
                Some(5),
            ),
            Self::Upgrade => text(
                400,
                "request_invalid",
                "Answers of upgraded connections and of gRPC cannot be kept. Send no key, or route them to the API.",
                "new_request",
                None,
            ),
            Self::Key => text(
                400,
                "idempotency_key_invalid",
                "Idempotency-Key and Idempotency-Fingerprint are one header each.",
                "new_key",
                None,
            ),
            Self::TooLarge(most) => {
                (413, "body_too_large", format!("The body may have {most} bytes."), "new_request", None)
            }
            Self::Interrupted => text(400, "request_invalid", "The body is not complete.", "same_key", None),
            Self::Busy => text(
                503,
                "dependency_unavailable",
                "The API has as many calls under way as it may have. Nothing was done.",
                "same_key",
                Some(1),
            ),
            Self::Store => text(
                503,
                "dependency_unavailable",
                "The store of answers does not answer. A retry with the same key finds out what was done.",
                "same_key",
                Some(5),
            ),
            Self::Reused => {
                text(422, "idempotency_key_reused", "The key belongs to a request with other content.", "new_key", None)
            }
            Self::Unreachable => {
                text(503, "dependency_unavailable", "The API cannot be reached. Nothing was done.", "same_key", Some(5))
            }
            Self::TooLong(status) => (
                502,
                "answer_unavailable",
                format!("The work was done with status {status}, and its answer is too long to keep."),
                "never",
                None,
            ),
            Self::Unknown => text(
                500,
                "outcome_unknown",
                "The call was interrupted, and nobody knows whether its work was done. Find out before you send a new key.",
                "never",
                None,
            ),
            Self::Exhausted => {
                text(503, "dependency_unavailable", "The API has refused this key too often.", "new_key", None)
            }
        }
    }

    pub(super) fn answer(self) -> Response<Body> {
        let (status, code, detail, retry, after) = self.text();
        let mut title = code.replace('_', " ");
        title.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
        let document = json!({
            "type": "about:blank", "title": title, "status": status, "detail": detail, "code": code, "retry": retry,
        });
        let mut response = Response::new(full(Bytes::from(document.to_string())));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("idempotency-retry", HeaderValue::from_static(retry));
        if let Some(after) = after {
            headers.insert(RETRY_AFTER, HeaderValue::from(u16::from(after)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::Problem;
    use edge_idempotency_engine::problem::Code;

    #[test]
    fn codes_are_those_of_the_filter() {
        use Problem::*;
        for problem in [
            NoUpstream,
            Upgrade,
            Key,
            TooLarge(1),
            Interrupted,
            Busy,
            Store,
            Reused,
            Unreachable,
            TooLong(200),
            Exhausted,
        ] {
            let (status, name, ..) = problem.text();
            let code = Code::ALL.into_iter().find(|code| code.name() == name);
            assert_eq!(code.map(Code::status), Some(status), "{problem:?}");
        }
    }
}
