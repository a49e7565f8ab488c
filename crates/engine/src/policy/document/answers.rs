//! The `answers` object: what refusals and errors say to clients that this project's own conventions do not reach, and how
//! much of an answer is waited for.

use super::{parse_header_name, read_header_names};
use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::defaults::MAX_BODY_BYTES;

/// How problem documents are written, what errors say besides, and which bodies are read (docs/contract.md sections 6 and 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// The URL that problem documents link to
    pub docs_url: Option<String>,
    /// Response headers that repeat the retry advice as `true` or `false`; lower case
    pub retry_headers: Vec<String>,
    /// Whether problem documents have the member `error`
    pub error_member: bool,
    /// The longest body of an answer that a `Location` is made from, in bytes
    pub max_body_bytes: u64,
    /// Whether errors in JSON are cleaned, if the document says it
    pub clean_errors: Option<bool>,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            docs_url: None,
            retry_headers: Vec::new(),
            error_member: false,
            max_body_bytes: MAX_BODY_BYTES,
            clean_errors: None,
        }
    }
}

impl Answers {
    /// Reads an `answers` object. `docs_url` is a member of the document itself.
    #[inline(never)]
    pub(super) fn read(at: &JsonCursor<'_>, docs_url: Option<String>, issues: &mut Issues) -> Self {
        let known = ["retry_headers", "error_member", "max_body_bytes", "clean_errors"];
        let Some(fields) = at.fields(&known, issues) else { return Self::default() };
        let retry_headers = fields.get("retry_headers").map(|at| read_header_names(&at, parse_retry_header, issues));
        Self {
            docs_url,
            retry_headers: retry_headers.unwrap_or_default(),
            error_member: fields.boolean("error_member", issues).unwrap_or_default(),
            max_body_bytes: fields.integer("max_body_bytes", 1..=1 << 30, issues).unwrap_or(MAX_BODY_BYTES),
            clean_errors: fields.boolean("clean_errors", issues),
        }
    }
}

/// Parses the name of a response header that nothing else uses.
fn parse_retry_header(text: &str) -> Result<String, String> {
    let name = parse_header_name(text)?;
    let families = ["idempotency-", "idempotent-", "content-", "access-control-"];
    let taken = [
        "allow",
        "cache-control",
        "connection",
        "date",
        "link",
        "location",
        "retry-after",
        "set-cookie",
        "transfer-encoding",
        "upgrade",
        "vary",
        "www-authenticate",
        super::super::REWRITE_MARK,
    ];
    if name.contains('_') {
        Err("write the header with - instead of _: `_` counts as `-`, and many proxies drop such names".to_owned())
    } else if families.iter().any(|family| name.starts_with(family)) || taken.contains(&name.as_str()) {
        Err(format!("`{name}` already has a meaning: choose another header, such as `x-should-retry`"))
    } else {
        Ok(name)
    }
}
