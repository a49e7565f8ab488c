//! What decisions need of a response's headers, and which of them are hidden from clients.

use super::restate::{CORS_VARY, ERROR_SOURCE, EXPIRES, INVOCATION};
use super::{Backend, Protocol};
use crate::codes::Retry;
use crate::headers::{Headers, IDEMPOTENCY_KEY, REPLAYED, RETRY, STATUS};

/// A handler that deduplicates by itself (Case C) sets this header to `true` on an answer that it had given before.
const HANDLER_HIT: &[u8] = b"x-idempotency-internal-hit";

/// The origin of an error of Restate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorSource {
    /// The ingress, so no handler ran
    Ingress,
    /// The invocation of a handler
    Invocation,
}

/// The parts of a response's head that decisions need.
#[derive(Default)]
pub(crate) struct ResponseHead<'a> {
    pub(crate) status: u16,
    /// The operation id of the backend
    pub(crate) operation: Option<&'a [u8]>,
    /// The response names an invocation of Restate.
    pub(crate) invoked: bool,
    /// Where Restate says that an error comes from
    pub(crate) source: Option<ErrorSource>,
    /// A handler, or the API behind a generic backend, made the response; if not, Restate's ingress or the gateway did.
    pub(crate) by_handler: bool,
    /// Restate has stored the response.
    pub(crate) expires: bool,
    /// A generic backend has marked the response as a replay.
    pub(crate) replay: bool,
    /// There is a `content-type`, and every line of it says JSON.
    pub(crate) is_json: bool,
    is_typed: bool,
    /// The body has a content encoding.
    pub(crate) is_encoded: bool,
    /// A handler reports that it has deduplicated the request.
    pub(crate) handler_hit: bool,
    /// The value of `retry-after`; empty if there are several lines.
    pub(crate) retry_after: Option<&'a [u8]>,
    /// What the backend itself advises.
    pub(crate) advice: Option<Retry>,
    /// A line has the name of the header of keys.
    pub(crate) names_key: bool,
}

impl ResponseHead<'_> {
    /// Whether the status is that of an error.
    pub(crate) const fn is_error(&self) -> bool {
        self.status >= 400
    }
}

impl Backend {
    /// Reads a response's head. `hide` gets the name of each line that clients do not see.
    pub(crate) fn read_head<'a>(&self, headers: &Headers<'a>, mut hide: impl FnMut(&'a [u8])) -> ResponseHead<'a> {
        let mut head = ResponseHead::default();
        let restate = self.is_restate();
        for (name, value) in headers.iter().filter(|(name, _)| self.names.may_match(name)) {
            let mut hidden = self.hides(name);
            match name {
                b":status" => head.status = number(value).unwrap_or_default(),
                _ if name == INVOCATION.as_bytes() => head.invoked = restate,
                EXPIRES => head.expires = restate,
                ERROR_SOURCE if restate && value == b"ingress" => head.source = Some(ErrorSource::Ingress),
                ERROR_SOURCE if restate && value == b"invocation" => head.source = Some(ErrorSource::Invocation),
                b"content-type" => {
                    head.is_json = is_json(value) && (head.is_json || !head.is_typed);
                    head.is_typed = true;
                }
                HANDLER_HIT => {
                    head.handler_hit |= value == b"true";
                    hidden = true;
                }
                // Of several lines nobody can tell which one counts, so they are like a line that cannot be read.
                b"retry-after" => head.retry_after = Some(if head.retry_after.is_some() { b"" } else { value }),
                b"content-encoding" => head.is_encoded |= !value.eq_ignore_ascii_case(b"identity"),
                _ if name == IDEMPOTENCY_KEY.as_bytes() => head.names_key = true,
                _ if name == RETRY.as_bytes() => head.advice = Retry::of(value),
                b"vary" => hidden |= restate && value.starts_with(CORS_VARY),
                _ => {}
            }
            if self.names_operation(name) {
                head.operation = Some(value);
            }
            if let Protocol::Generic { replay_headers } = &self.protocol
                && replay_headers.iter().any(|known| known.as_bytes() == name)
            {
                head.replay |= !matches!(value, b"" | b"0" | b"false");
            }
            if hidden {
                hide(name);
            }
        }
        head.by_handler = !restate || head.invoked && head.source != Some(ErrorSource::Ingress);
        head
    }

    /// Whether header lines of the backend with this name are hidden from clients.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        // With Restate the filter sets these headers itself, so the backend's own are hidden.
        let marks = [REPLAYED, STATUS, RETRY];
        self.hide.contains(name)
            || self.names_operation(name)
            || self.is_restate() && marks.iter().any(|mark| mark.as_bytes() == name)
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// Whether a media type is `application/json` or ends in `+json`.
fn is_json(content_type: &[u8]) -> bool {
    if content_type == b"application/json" {
        return true;
    }
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(b"application/json")
        || kind.len().checked_sub(5).and_then(|at| kind.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(b"+json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::RESPONSE_NAMES;

    /// [`Backend::read_head`] sees no other names than those of the policy and these.
    #[test]
    fn the_gate_knows_every_name_that_is_read() {
        let read = [
            b":status",
            INVOCATION.as_bytes(),
            EXPIRES,
            ERROR_SOURCE,
            HANDLER_HIT,
            b"content-type",
            b"retry-after",
            b"content-encoding",
            b"vary",
            IDEMPOTENCY_KEY.as_bytes(),
            REPLAYED.as_bytes(),
            STATUS.as_bytes(),
            RETRY.as_bytes(),
        ];
        assert!(read.iter().all(|name| RESPONSE_NAMES.iter().any(|known| known.as_bytes() == *name)));
    }

    #[test]
    fn json_is_told_by_its_type_or_its_suffix() {
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", "a/b+Json ;x"] {
            assert!(is_json(kind.as_bytes()), "{kind}");
        }
        for kind in ["", "json", "text/html", "application/jsonp", "application/json5", "+jso"] {
            assert!(!is_json(kind.as_bytes()), "{kind}");
        }
    }
}
