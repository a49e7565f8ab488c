//! What the response of an operation says of refusals and of headers.

use super::interface::AnswerHeader;
use super::references::References;
use crate::lints::diagnostics::tree::SpannedNode;

/// The media type of problem documents (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// Whether a response can be a problem document.
pub(crate) fn has_problem<'t>(references: &References<'t>, response: &'t SpannedNode) -> bool {
    let kinds = references.get(response, "content").map(SpannedNode::members).unwrap_or_default();
    kinds.iter().any(|kind| kind.name.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(PROBLEM)))
}

/// The headers that a response does not have.
pub(crate) fn lacking<'t, 'h>(
    references: &References<'t>,
    response: &'t SpannedNode,
    headers: impl IntoIterator<Item = &'h AnswerHeader>,
) -> impl Iterator<Item = &'h AnswerHeader> {
    let written = references.get(response, "headers").map(SpannedNode::members).unwrap_or_default();
    let is_written = move |header: &AnswerHeader| written.iter().any(|one| one.name.eq_ignore_ascii_case(&header.name));
    headers.into_iter().filter(move |header| !is_written(header))
}
