//! What refusals and errors say to clients that this project's own conventions do not reach.

use super::document;
use super::header_names::{parse_retry_header, read_header_names};
use crate::json::cursor::{Issues, ObjectCursor};

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
    /// The member that replays in JSON get, if the document names one
    pub replay_member: Option<String>,
}

impl Answers {
    /// Reads the members of a document.
    #[inline(never)]
    pub(super) fn read(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Self {
        let retry_headers = document::RETRY_HEADERS.at(fields, issues);
        let retry_headers = retry_headers.map(|at| read_header_names(&at, parse_retry_header, issues));
        Self {
            docs_url: document::DOCS_URL.read(fields, issues),
            retry_headers: retry_headers.unwrap_or_default(),
            error_member: document::ERROR_MEMBER.read(fields, issues),
            clean_errors: document::CLEAN_ERRORS.read(fields, issues),
            replay_member: document::REPLAY_MEMBER.read(fields, issues),
        }
    }
}
