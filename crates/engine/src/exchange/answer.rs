//! What becomes of a response, and its edits: headers and bodies that are set.

use super::{Effect, HeaderMapKind};
use crate::headers::RETRY;
use crate::policy::Policy;
use crate::problem::{CallerProtocol, Problem, Retry};
use std::borrow::Cow;

/// The longest `Retry-After` beside `/retry_headers`, in seconds.
const MAX_RETRY_AFTER: u32 = 60;

/// What happens to a response.
pub(crate) enum AnswerAction {
    /// It passes.
    Pass {
        /// `Idempotent-Replayed`
        replayed: bool,
        /// `Idempotency-Status`
        status: Option<&'static str>,
        /// `Idempotency-Retry`
        retry: Option<Retry>,
    },
    /// The result is not ready yet: 202.
    Processing,
    /// A problem document replaces it.
    Replace(Problem),
}

impl AnswerAction {
    /// It passes as it is.
    pub(crate) const PASS: Self = Self::Pass { replayed: false, status: None, retry: None };
}

/// Sets a header of the response.
pub(crate) fn set<'a>(name: &'a str, value: impl Into<Cow<'a, [u8]>>, effects: &mut Vec<Effect<'a>>) {
    effects.push(Effect::Set { map: HeaderMapKind::Response, name, value: value.into() });
}

/// Replaces the body by JSON.
pub(crate) fn set_body(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    set("content-type", b"application/json".as_slice(), effects);
    set_content(body, effects);
}

/// Replaces the body by a problem. A client of a unary call of Connect reads it as an error of Connect. Clients of gRPC and of streams
/// get a problem document: the answer that it replaces is none of their protocol, so all that they read of it is its HTTP status.
pub(crate) fn set_problem<'a>(
    policy: &'a Policy,
    problem: &Problem,
    protocol: CallerProtocol,
    effects: &mut Vec<Effect<'a>>,
) {
    let protocol = if protocol == CallerProtocol::Connect { protocol } else { CallerProtocol::Http };
    let answer = problem.answer(&policy.answers, protocol);
    if protocol == CallerProtocol::Connect {
        set(":status", answer.status.to_string().into_bytes(), effects);
    }
    for (name, value) in answer.headers {
        set(name, value.into_bytes(), effects);
    }
    set_content(answer.body, effects);
}

/// Gives a response the status and the retry advice of the problem that takes its place.
pub(crate) fn set_status_of(problem: &Problem, effects: &mut Vec<Effect<'_>>) {
    set(":status", problem.status().to_string().into_bytes(), effects);
    set(RETRY, problem.retry().name().as_bytes(), effects);
}

/// Repeats the retry advice of an error in the headers that existing clients obey.
pub(crate) fn set_retry_headers<'a>(policy: &'a Policy, advice: Retry, effects: &mut Vec<Effect<'a>>) {
    for name in &policy.answers.retry_headers {
        set(name, advice.should_retry().as_bytes(), effects);
    }
}

/// Shortens the backend's `Retry-After` where clients read `/retry_headers`: Stripe's SDKs, for example, ignore a
/// longer wait and a date (RFC 9110 section 10.2.3 allows both), and then come back after half a second.
pub(crate) fn bound_retry_after(policy: &Policy, retry_after: Option<&[u8]>, effects: &mut Vec<Effect<'_>>) {
    let Some(value) = retry_after.filter(|_| !policy.answers.retry_headers.is_empty()) else { return };
    let digits = Some(value).filter(|value| value.iter().all(u8::is_ascii_digit));
    let seconds = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    if seconds.is_none_or(|seconds| seconds > MAX_RETRY_AFTER) {
        set("retry-after", MAX_RETRY_AFTER.to_string().into_bytes(), effects);
    }
}

/// Replaces the body by one of the same content type, without content encoding.
pub(crate) fn set_content(body: Vec<u8>, effects: &mut Vec<Effect<'_>>) {
    effects.push(Effect::Remove { map: HeaderMapKind::Response, name: b"content-encoding" });
    set("content-length", body.len().to_string().into_bytes(), effects);
    effects.push(Effect::Body(body));
}
