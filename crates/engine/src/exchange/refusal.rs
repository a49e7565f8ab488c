//! The refusals that several files of the exchange make.

use super::Exchange;
use crate::headers::{FieldValue, Headers};
use crate::policy::path::PathError;
use crate::policy::{Policy, Route};
use crate::problem::{Problem, Reason};
use crate::provider::VerifyError;

impl Exchange {
    /// The problem of a request whose signature was not verified. `refused` makes the one for a request that is at fault itself.
    pub(crate) fn unverified(&mut self, error: VerifyError, refused: fn() -> Problem) -> Problem {
        let problem = if error.is_receivers_fault() { Problem::dependency_unavailable() } else { refused() };
        self.with_reason(error.reason(), problem)
    }

    /// The problem, with a reason that only logs and metrics show.
    pub(crate) fn with_reason(&mut self, reason: Reason, problem: Problem) -> Problem {
        self.facts.reason = Some(reason);
        problem
    }

    /// The route of a request that was found to have one.
    pub(crate) fn known_route<'p>(&self, policy: &'p Policy) -> Result<&'p Route, Problem> {
        self.route(policy).ok_or_else(Problem::internal_error)
    }
}

/// Refuses a method other than `GET`, where stored results are read.
pub(crate) fn only_get(method: &[u8]) -> Result<(), Problem> {
    if method == b"GET" { Ok(()) } else { Err(Problem::method_not_allowed(&["GET"])) }
}

/// Refuses an upgraded connection (RFC 9110 section 7.8), since its body never ends.
pub(crate) fn only_finite(headers: &Headers<'_>) -> Result<(), Problem> {
    if headers.field("upgrade") == FieldValue::Absent { Ok(()) } else { Err(Problem::upgrade_refused()) }
}

/// Refuses a request whose body cannot be waited for: its `content-length` is above `limit`, or the body never ends.
pub(crate) fn body_can_be_awaited(headers: &Headers<'_>, limit: u64) -> Result<(), Problem> {
    only_finite(headers)?;
    let is_too_long = headers.content_length().is_some_and(|length| length > limit);
    if is_too_long { Err(Problem::body_too_large(limit)) } else { Ok(()) }
}

/// The problem of a path whose values make no segment of an upstream path: they are empty, `.` or `..`.
pub(crate) fn no_segment() -> Problem {
    Problem::path_ambiguous(PathError::DotSegment)
}

/// The problem of a path with an escaped slash where none may stand.
pub(crate) fn misplaced_slash() -> Problem {
    Problem::path_ambiguous(PathError::EncodedSlash)
}
