//! The `answers` object: what refusals and errors say to clients that this project's own conventions do not reach.

use super::header_names::{parse_retry_header, read_header_names};
use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::members::{Custom, Flag, OptionalFlag, members};

members! {
    /// This object adds members and headers to errors, for clients that were written for another API.
    answers = "answers", "Answers";

    /// Response headers that repeat the retry advice of an error: `true` if the same request with the same key may be sent again, else
    /// `false`. Every problem document has them, and every error that has `Idempotency-Retry`; a header of the backend with such a name is
    /// replaced there, and its `Retry-After` is at most 60. Existing SDKs obey `x-should-retry` or `stripe-should-retry`.
    RETRY_HEADERS: Custom {} = "retry_headers", "Retry headers",
        schema r##"{"type": "array", "maxItems": 8, "uniqueItems": true, "items": {"$ref": "#/$defs/retryHeader"}, "default": [], "examples": [["x-should-retry", "stripe-should-retry"]]}"##;

    /// Whether problem documents also have the member `error` with `code`, `message`, `type` and `doc_url`, as errors of Stripe's API have.
    /// stripe-node takes a 400 without it for a success.
    ERROR_MEMBER: Flag { default: false } = "error_member", "Member `error`";

    /// Whether errors in JSON tell nothing about the machine: a 5xx of a `generic` backend becomes the problem document `backend_error`,
    /// and others lose the members `stacktrace`, `stack`, `trace`, `backtrace` and `exception`. For that the filter waits for the body of
    /// an error, up to 64 KiB, and an error that it cannot read becomes `backend_error`, too. Left out: `true` for `restate`, and `false`
    /// for `generic`, whose errors then pass as they come. A route's value takes precedence over the document's.
    CLEAN_ERRORS: OptionalFlag {} = "clean_errors", "Clean errors", schema r#"{"examples": [true]}"#;
}

/// How problem documents are written, what errors say besides, and whether errors are cleaned (docs/contract.md sections 6 and 8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// The URL that problem documents link to
    pub docs_url: Option<String>,
    /// Response headers that repeat the retry advice as `true` or `false`; lower case
    pub retry_headers: Vec<String>,
    /// Whether problem documents have the member `error`
    pub error_member: bool,
    /// Whether errors in JSON are cleaned, if the document says it
    pub clean_errors: Option<bool>,
}

impl Answers {
    /// Reads an `answers` object. `docs_url` is a member of the document itself.
    #[inline(never)]
    pub(super) fn read(at: &JsonCursor<'_>, docs_url: Option<String>, issues: &mut Issues) -> Self {
        let Some(fields) = answers::OBJECT.read(at, issues) else { return Self::default() };
        let retry_headers = answers::RETRY_HEADERS.at(&fields, issues);
        let retry_headers = retry_headers.map(|at| read_header_names(&at, parse_retry_header, issues));
        Self {
            docs_url,
            retry_headers: retry_headers.unwrap_or_default(),
            error_member: answers::ERROR_MEMBER.read(&fields, issues),
            clean_errors: answers::CLEAN_ERRORS.read(&fields, issues),
        }
    }
}
