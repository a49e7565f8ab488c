//! The answer's way back: what became of the key, the operation id under its public name, and nothing that names the
//! backend, its services or its files (docs/contract.md section 6). What is decided here is decided by the head; `answer` does
//! what needs the body.

use super::edits::{REPLAYED, RETRY, STATUS, is_hidden, is_replay_header, set, set_body, set_problem};
use super::response_body::{AwaitedBody, ERROR_LIMIT, ONE_WAY_LIMIT, processing};
use super::{Decision, Effect, Exchange, HeaderMapKind, ResponseFlow, State, TrailerRule};
use crate::headers::{Headers, distinct};
use crate::policy::Policy;
use crate::policy::recovery::Wait;
use crate::problem::{Problem, Retry};
use crate::telemetry::Outcome;

/// When the stored answer goes: Restate's one sign that an answer comes from its store, and the public name too.
const EXPIRES: &[u8] = b"idempotency-expires";
/// The invocation's id, whatever name clients get it by.
const INVOCATION: &[u8] = b"x-restate-id";
/// Who made an error, the ingress or the handler.
const ERROR_SOURCE: &[u8] = b"x-restate-error-source";
/// "The invocation exists but has not completed yet", a status of Restate's own.
const NOT_COMPLETED: u16 = 470;
/// After how many seconds work under way is worth asking for again.
const PROCESSING_RETRY_AFTER: &[u8] = b"2";

/// Who made an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorSource {
    Ingress,
    Invocation,
}

/// What an answer's headers say.
#[derive(Default)]
struct ResponseHead<'a> {
    status: u16,
    operation: Option<&'a [u8]>,
    /// There is an invocation.
    invoked: bool,
    source: Option<ErrorSource>,
    expires: bool,
    /// One of a generic backend's own replay headers is there.
    replay: bool,
    /// Every line that names the content's type says JSON, and there is one.
    is_json: bool,
    is_typed: bool,
    is_encoded: bool,
}

impl ResponseHead<'_> {
    /// Whether a handler had the request; else the ingress or the gateway made the answer.
    fn by_handler(&self) -> bool {
        self.invoked && self.source != Some(ErrorSource::Ingress)
    }

    const fn is_error(&self) -> bool {
        self.status >= 400
    }
}

/// What becomes of an answer.
enum ResponseVerdict {
    /// It goes on, with these values of `Idempotent-Replayed`, `Idempotency-Status` and `Idempotency-Retry`.
    Pass(bool, Option<&'static str>, Option<Retry>),
    /// The result is not there yet.
    Processing,
    /// A problem document takes its place.
    Replace(Problem),
}

impl Exchange {
    /// The answer's headers have come. The filter's own replies pass here too, and pass unchanged.
    pub fn response_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> ResponseFlow {
        let decision = match std::mem::take(&mut self.state) {
            State::Forwarded(decision) => decision,
            // The gateway has ended the wait with a response of its own.
            State::Begun | State::AwaitsSignedBody(_) | State::AwaitsDelivery(_) => Decision::default(),
            over @ (State::Refused(..) | State::AwaitsResponseBody(..) | State::Responded(..)) => {
                self.state = over;
                return ResponseFlow::Stream;
            }
        };
        let head = read(policy, headers, effects);
        let verdict = match decision.recovery {
            Some(wait) => recovered(&head, wait),
            None if policy.restate() => self.called(policy, decision.keyed, &head),
            None => self.called_elsewhere(decision.keyed, &head),
        };
        let retry = match verdict {
            ResponseVerdict::Replace(problem) => {
                set(":status", problem.status().to_string().into_bytes(), effects);
                set(RETRY, problem.retry().name().as_bytes(), effects);
                set_problem(policy, &problem, effects);
                self.state = State::Responded(decision, Some(problem), TrailerRule::Remove);
                return ResponseFlow::Stream;
            }
            ResponseVerdict::Processing => {
                set(STATUS, b"processing".as_slice(), effects);
                set(":status", b"202".as_slice(), effects);
                set("retry-after", PROCESSING_RETRY_AFTER, effects);
                set("cache-control", b"no-store".as_slice(), effects);
                set_body(processing(None), effects);
                self.state = State::Responded(decision, None, TrailerRule::Remove);
                return ResponseFlow::Stream;
            }
            ResponseVerdict::Pass(replayed, status, advice) => {
                if let (Some(value), Some(id)) = (head.operation, policy.operation_id()) {
                    self.facts.invocation = Some(String::from_utf8_lossy(value).into_owned());
                    set(&id.to, value, effects);
                }
                let marks = [
                    (REPLAYED, replayed.then_some("true")),
                    (STATUS, status),
                    (RETRY, advice.map(Retry::name)),
                    ("cache-control", decision.recovery.map(|_| "no-store")),
                ];
                for (name, value) in marks {
                    if let Some(value) = value {
                        set(name, value.as_bytes(), effects);
                    }
                }
                advice
            }
        };
        match self.awaited_body(policy, &decision, &head, retry) {
            Some((body, limit, trailers)) => {
                self.state = State::AwaitsResponseBody(decision, body, trailers);
                ResponseFlow::AwaitBody { limit }
            }
            None => {
                self.state = State::Responded(decision, None, TrailerRule::Clean);
                ResponseFlow::Stream
            }
        }
    }

    /// An answer of Restate's to a call.
    fn called(&mut self, policy: &Policy, keyed: bool, head: &ResponseHead<'_>) -> ResponseVerdict {
        let route = self.route(policy);
        let to_target = route.is_some_and(|route| route.target.is_some());
        if head.is_error()
            && !head.by_handler()
            && let Some(problem) = refused(head, to_target, to_target && keyed)
        {
            return ResponseVerdict::Replace(problem);
        }
        if !keyed {
            return ResponseVerdict::Pass(false, None, None);
        }
        // What is stored is given again, an error too, to the same key.
        let retry = (head.is_error() && head.by_handler()).then_some(Retry::NewKey);
        if head.expires {
            self.facts.outcome = Outcome::Replayed;
            ResponseVerdict::Pass(true, Some("replayed"), retry)
        } else if !head.by_handler() {
            // Nothing says who made it. With its key the request can be sent again whatever became of it.
            let open = to_target && matches!(head.status, 429 | 500..);
            ResponseVerdict::Pass(false, None, open.then_some(Retry::SameKey))
        } else if route.is_some_and(|route| route.one_way) {
            ResponseVerdict::Pass(false, Some("processing"), retry)
        } else {
            self.facts.outcome = Outcome::Stored;
            ResponseVerdict::Pass(false, Some("stored"), retry)
        }
    }

    /// An answer of a backend that is not Restate: all that is known of it is what it marks as a replay.
    fn called_elsewhere(&mut self, keyed: bool, head: &ResponseHead<'_>) -> ResponseVerdict {
        if !keyed {
            return ResponseVerdict::Pass(false, None, None);
        }
        let retry = match head.status {
            400.. if head.replay => Some(Retry::NewKey),
            429 | 500.. => Some(Retry::SameKey),
            _ => None,
        };
        if head.replay {
            self.facts.outcome = Outcome::Replayed;
        }
        ResponseVerdict::Pass(head.replay, head.replay.then_some("replayed"), retry)
    }

    /// The body that has to be looked at, if any: which, the most bytes of it that are looked at, and what becomes of the
    /// trailers behind it.
    fn awaited_body(
        &self,
        policy: &Policy,
        decision: &Decision,
        head: &ResponseHead<'_>,
        retry: Option<Retry>,
    ) -> Option<(AwaitedBody, u64, TrailerRule)> {
        let route = self.route(policy).filter(|route| policy.restate() && route.target.is_some());
        let one_way = decision.recovery.is_none() && route.is_some_and(|route| route.one_way);
        // Only Restate has the first two; what else comes from a target is Restate's or the gateway's own.
        let of_restate = policy.restate() && (head.invoked || head.source.is_some()) || route.is_some();
        let error = AwaitedBody::Error(head.status, retry);
        let (body, limit) = match head.is_error() {
            false if one_way => (AwaitedBody::OneWay, ONE_WAY_LIMIT),
            false => return None,
            true if head.is_json && !head.is_encoded => (error, ERROR_LIMIT),
            // What cannot be read is replaced, unless there is nothing in it.
            true if of_restate => (error, 0),
            true => return None,
        };
        Some((body, limit, if of_restate { TrailerRule::Remove } else { TrailerRule::Clean }))
    }
}

/// Reads an answer's head, and removes from it what no client sees.
fn read<'a>(policy: &Policy, headers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) -> ResponseHead<'a> {
    let mut head = ResponseHead::default();
    let mut removed = Vec::new();
    for (name, value) in headers.iter() {
        let mut hidden = is_hidden(policy, name);
        match name {
            b":status" => head.status = number(value).and_then(|status| status.try_into().ok()).unwrap_or_default(),
            INVOCATION => head.invoked = true,
            EXPIRES => head.expires = policy.restate(),
            ERROR_SOURCE if value == b"ingress" => head.source = Some(ErrorSource::Ingress),
            ERROR_SOURCE if value == b"invocation" => head.source = Some(ErrorSource::Invocation),
            b"content-type" => {
                head.is_json = is_json(value) && (head.is_json || !head.is_typed);
                head.is_typed = true;
            }
            b"content-encoding" => head.is_encoded |= !value.eq_ignore_ascii_case(b"identity"),
            // Restate's own, for the CORS that it does by itself.
            b"vary" => hidden |= policy.restate() && value.starts_with(b"origin, access-control-request-"),
            _ => {}
        }
        if policy.operation_id().as_ref().is_some_and(|id| id.from.as_bytes() == name) {
            head.operation = Some(value);
        }
        if is_replay_header(policy, name) {
            head.replay |= !matches!(value, b"" | b"0" | b"false");
        }
        if hidden {
            removed.push(name);
        }
    }
    effects.extend(distinct(removed).into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Response, name }));
    head
}

/// An answer to a request for a stored result.
fn recovered(head: &ResponseHead<'_>, wait: Wait) -> ResponseVerdict {
    match head.status {
        // A handler's own error may have any status.
        NOT_COMPLETED if !head.by_handler() => ResponseVerdict::Processing,
        // The gateway has ended the wait.
        504 if wait == Wait::Attach && !head.invoked && head.source.is_none() => ResponseVerdict::Processing,
        // A handler's own 404 that is stored expires; that of a key which nothing is stored for does not.
        404 if !head.expires && head.source.is_some() => ResponseVerdict::Replace(Problem::key_unknown()),
        _ if head.by_handler() => {
            let (status, retry) = if head.is_error() { ("failed", Some(Retry::NewKey)) } else { ("completed", None) };
            ResponseVerdict::Pass(true, Some(status), retry)
        }
        429 | 500.. => ResponseVerdict::Replace(Problem::backend_unavailable()),
        // The gateway has refused the request itself, for a malformed body for example.
        400 | 408 if head.source.is_none() => ResponseVerdict::Replace(Problem::request_invalid(head.status)),
        413 if head.source.is_none() => ResponseVerdict::Replace(Problem::body_refused()),
        431 if head.source.is_none() => ResponseVerdict::Replace(Problem::headers_too_large()),
        _ => ResponseVerdict::Replace(Problem::policy_invalid()),
    }
}

/// What a caller is told of an error that no handler made: `to_target` if the request went to Restate for certain,
/// `keyed` if it went there with a key.
fn refused(head: &ResponseHead<'_>, to_target: bool, keyed: bool) -> Option<Problem> {
    let ingress = head.source == Some(ErrorSource::Ingress);
    Some(match head.status {
        413 if ingress || to_target => Problem::body_refused(),
        431 if ingress || to_target => Problem::headers_too_large(),
        429 | 500.. if ingress => Problem::backend_unavailable(),
        // To a target the gateway's own 404 is a route that is not there.
        404 if ingress || to_target => Problem::policy_invalid(),
        // Only a HEAD gets there with a method that Restate does not take.
        405 if ingress => Problem::method_not_allowed(&["GET"]),
        status if ingress => Problem::request_invalid(status),
        504 if keyed => Problem::gateway_timeout(),
        502 | 503 if keyed => Problem::backend_unavailable(),
        _ => return None,
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// `application/json`, `application/problem+json` and their like.
fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(b"application/json")
        || kind.len().checked_sub(5).and_then(|at| kind.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(b"+json"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
