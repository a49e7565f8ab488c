//! Evaluates a response by its head: it reports the status of the key, renames the operation id, and hides everything
//! that names the backend, its services or its files (docs/contract.md section 6). `response_body` handles the bodies.

use super::answer_body::{AwaitedBody, BodyKind, ERROR_LIMIT, ONE_WAY_LIMIT, PROCESSING, respond, status_body};
use super::answer_mapping::{answer_mapping, map_answer};
use super::handler_hit::seeks_hit;
use super::replay_mark::can_be_marked;
use crate::backend::{Backend, ErrorSource, OPERATION_ID, Protocol, ResponseHead};
use crate::exchange::{
    AnswerAction, BackendAnswer, CallerKey, Decision, Effect, Exchange, HeaderMapKind, Outcome, TrailerEdit,
    bound_retry_after, set, set_body, set_retry_headers, set_status_of,
};
use crate::headers::{Headers, IDEMPOTENCY_KEY, REPLAYED, RETRY, STATUS, distinct};
use crate::json::set_true::SetTrue;
use crate::key::{is_forged, is_sent_key, raw_of};
use crate::operations::{operation_id, set_operation};
use crate::policy::answer::Unmapped;
use crate::policy::defaults::MAX_BODY_BYTES;
use crate::policy::{Policy, Route};
use crate::problem::{Problem, Retry};
use crate::recovery::evaluate_stored_result;

/// How the response continues after its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFlow {
    /// It passes as it comes; if there is an [`Effect::Body`], with that body.
    Stream,
    /// It passes as it comes, and the whole body goes to `Exchange::read_hit` when it has passed.
    Observe {
        /// The longest body that is read, in bytes
        limit: u64,
    },
    /// It waits for the whole body. The host keeps the headers until then.
    AwaitBody(AwaitedBody),
}

/// `Retry-After` of a result that is not ready yet, in seconds.
const PROCESSING_RETRY_AFTER: &[u8] = b"2";

impl Exchange {
    /// Handles the response's headers. Local replies of the filter come here too and pass unchanged.
    pub fn response_headers<'a>(
        &mut self,
        policy: &'a Policy,
        headers: &Headers<'a>,
        effects: &mut Vec<Effect<'a>>,
    ) -> ResponseFlow {
        let Some(decision) = self.begin_response() else { return ResponseFlow::Stream };
        let is_keyed = decision.sends_key();
        if is_keyed {
            effects.reserve(6);
        }
        let route = self.route(policy);
        let backend = self.backend(policy);
        let head = read(backend, headers, effects);
        if head.names_key {
            return_key(&decision, headers, effects);
        }
        self.handler_hit = head.handler_hit && self.leaves_keys_to_handler();
        let stored_result = decision.stored_result();
        let action = match stored_result {
            Some(wait) => evaluate_stored_result(&head, wait, decision.is_operation()),
            None => match backend.protocol() {
                Protocol::Restate => evaluate_restate_response(self, route, is_keyed, &head),
                Protocol::Generic { .. } => evaluate_generic_response(self, is_keyed, &head),
            },
        };
        let retry = match action {
            AnswerAction::Replace(problem) => {
                set_status_of(&problem, effects);
                bound_retry_after(policy, head.retry_after, effects);
                respond(self, decision, Some(problem), TrailerEdit::Remove, policy, effects);
                return ResponseFlow::Stream;
            }
            AnswerAction::Processing => {
                self.facts.answer = Some(BackendAnswer { outcome: PROCESSING, error: false });
                set(STATUS, PROCESSING.as_bytes(), effects);
                set(":status", b"202".as_slice(), effects);
                set("retry-after", PROCESSING_RETRY_AFTER, effects);
                set("cache-control", b"no-store".as_slice(), effects);
                set_operation(self, policy, &decision, effects);
                set_body(status_body(self.operation.as_deref(), PROCESSING), effects);
                self.responded(decision, None, TrailerEdit::Remove);
                return ResponseFlow::Stream;
            }
            AnswerAction::Pass { replayed, status, retry: advice } => {
                if is_keyed || stored_result.is_some() {
                    let outcome = if stored_result.is_some() { "recovered" } else { status.unwrap_or("passed") };
                    self.facts.answer = Some(BackendAnswer { outcome, error: head.is_error() });
                }
                if let Some(value) = head.operation {
                    self.invocation = Some(text(value));
                    if let Some(operation) = operation_id(self, policy, &decision, value, head.status) {
                        let tagged = self.operations(policy).is_some();
                        if tagged {
                            self.operation = Some(text(&operation));
                        }
                        // The body of a one-way target's answer tells whose invocation it is.
                        if !tagged || !accepts(route, &decision, &head) {
                            set(OPERATION_ID, operation, effects);
                        }
                    }
                }
                let marks = [
                    (REPLAYED, replayed.then_some("true")),
                    (STATUS, status),
                    (RETRY, advice.map(Retry::name)),
                    ("cache-control", stored_result.map(|_| "no-store")),
                ];
                for (name, value) in marks {
                    if let Some(value) = value {
                        set(name, value.as_bytes(), effects);
                    }
                }
                if replayed
                    && let Some(member) = policy.replay_member(route)
                    && can_be_marked(&head, headers)
                {
                    self.replay_mark = Some(SetTrue::new(member));
                }
                if let Some(advice) = advice {
                    set_retry_headers(policy, advice, effects);
                    bound_retry_after(policy, head.retry_after, effects);
                }
                advice
            }
        };
        // Restate's ingress and the gateway answer for a target, too, and their answers stay as they are.
        let by_target = head.status == 200 && head.by_handler;
        if let Some(mapping) = answer_mapping(self, policy).filter(|_| by_target) {
            if !mapping.reads_body() {
                map_answer(self, mapping, &[], effects);
            } else if head.is_encoded {
                self.facts.unmapped = Some(Unmapped::Encoded);
            } else if !head.is_json {
                self.facts.unmapped = Some(Unmapped::NotJson);
            } else {
                self.response_waits(decision, TrailerEdit::Clean);
                return ResponseFlow::AwaitBody(AwaitedBody { kind: BodyKind::Mapped, limit: MAX_BODY_BYTES });
            }
        }
        if let Some(awaited) = awaited_body(policy, backend, route, &decision, &head, retry) {
            let of_restate = backend.is_restates(&head, route.is_some_and(|route| route.target.is_some()));
            self.response_waits(decision, if of_restate { TrailerEdit::Remove } else { TrailerEdit::Clean });
            return ResponseFlow::AwaitBody(awaited);
        }
        self.responded(decision, None, TrailerEdit::Clean);
        if seeks_hit(self, route, &head) {
            ResponseFlow::Observe { limit: MAX_BODY_BYTES }
        } else {
            ResponseFlow::Stream
        }
    }
}

/// Gives a caller the key back that its request brought, if the backend's answer has it as the backend got it. Any other value of
/// the header, the filter's namespaced key included, stays hidden.
fn return_key<'a>(decision: &Decision, headers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) {
    let mut lines = headers.iter().filter(|(name, _)| *name == IDEMPOTENCY_KEY.as_bytes()).map(|(_, value)| value);
    match decision {
        Decision::Keyed(CallerKey { text, syntax: Some(syntax), .. }) if lines.any(|line| is_sent_key(line, text)) => {
            set(IDEMPOTENCY_KEY, syntax.write(raw_of(text)).into_bytes(), effects);
        }
        // The backend got the client's own line. It knows the namespaced key if `shadow_key_header` shows it.
        Decision::Shadow { sends_key: true, .. } => {
            if let (Some(line), None) = (lines.next(), lines.next())
                && !is_forged(line)
            {
                set(IDEMPOTENCY_KEY, line, effects);
            }
        }
        _ => {}
    }
}

/// Decides about a response of Restate.
fn evaluate_restate_response(
    exchange: &mut Exchange,
    route: Option<&Route>,
    keyed: bool,
    head: &ResponseHead<'_>,
) -> AnswerAction {
    let to_target = route.is_some_and(|route| route.target.is_some());
    if head.is_error()
        && !head.by_handler
        && let Some(problem) = gateway_problem(head, to_target, to_target && keyed)
    {
        return AnswerAction::Replace(problem);
    }
    if !keyed {
        return AnswerAction::PASS;
    }
    // Restate stores a handler's error too, and replays it for the same key.
    let retry = (head.is_error() && head.by_handler).then_some(Retry::NewKey);
    if head.expires {
        exchange.outcome = Outcome::Replayed;
        AnswerAction::Pass { replayed: true, status: Some("replayed"), retry }
    } else if !head.by_handler {
        // The origin of the response is unknown. A retry with the same key is safe in any case.
        let can_retry = to_target && matches!(head.status, 429 | 500..);
        AnswerAction::Pass { replayed: false, status: None, retry: can_retry.then_some(Retry::SameKey) }
    } else if route.is_some_and(|route| route.one_way) {
        AnswerAction::Pass { replayed: false, status: Some(PROCESSING), retry }
    } else {
        exchange.outcome = Outcome::Stored;
        AnswerAction::Pass { replayed: false, status: Some("stored"), retry }
    }
}

/// Decides about a response of a generic backend, which only marks replays.
fn evaluate_generic_response(exchange: &mut Exchange, keyed: bool, head: &ResponseHead<'_>) -> AnswerAction {
    if !keyed {
        return AnswerAction::PASS;
    }
    let retry = match head.status {
        // The backend knows more than its status says.
        400.. if head.advice.is_some() => head.advice,
        400.. if head.replay => Some(Retry::NewKey),
        429 | 500.. => Some(Retry::SameKey),
        _ => None,
    };
    if head.replay {
        exchange.outcome = Outcome::Replayed;
    }
    AnswerAction::Pass { replayed: head.replay, status: head.replay.then_some("replayed"), retry }
}

/// Whether a one-way target has accepted the request.
fn accepts(route: Option<&Route>, decision: &Decision, head: &ResponseHead<'_>) -> bool {
    let one_way = route.is_some_and(|route| route.one_way && route.target.is_some());
    one_way && decision.stored_result().is_none() && !head.is_error()
}

/// The body that the response has to wait for.
fn awaited_body(
    policy: &Policy,
    backend: &Backend,
    route: Option<&Route>,
    decision: &Decision,
    head: &ResponseHead<'_>,
    retry: Option<Retry>,
) -> Option<AwaitedBody> {
    let to_target = route.is_some_and(|route| route.target.is_some());
    let of_restate = backend.is_restates(head, to_target);
    let is_readable = head.is_json && !head.is_encoded;
    let error = BodyKind::Error { status: head.status, retry };
    let (kind, limit) = match head.is_error() {
        false if accepts(route, decision, head) => (BodyKind::OneWay, ONE_WAY_LIMIT),
        false => return None,
        true if !policy.cleans_errors(route, backend) => return None,
        // A handler's failure in Restate is its result, whatever the status: 500 is that of a terminal error without one.
        true if is_readable && (of_restate || head.status < 500) => (error, ERROR_LIMIT),
        // Another backend's fault is replaced, since what it says is for its operators, and so is an error that is not readable JSON,
        // unless their bodies are empty.
        true if of_restate || is_readable => (error, 0),
        true => return None,
    };
    Some(AwaitedBody { kind, limit })
}

/// Reads a response's head and removes hidden headers.
fn read<'a>(backend: &Backend, headers: &Headers<'a>, effects: &mut Vec<Effect<'a>>) -> ResponseHead<'a> {
    let begin = effects.len();
    let head = backend.read_head(headers, |name| {
        effects.push(Effect::Remove { map: HeaderMapKind::Response, name });
    });
    remove_once(effects, begin);
    head
}

/// Leaves one of several removals of the same name, of those that begin at this index.
fn remove_once(effects: &mut Vec<Effect<'_>>, begin: usize) {
    if let Some([_, _, ..]) = effects.get(begin..) {
        let removals = effects.split_off(begin);
        let names = removals.into_iter().filter_map(|effect| match effect {
            Effect::Remove { name, .. } => Some(name),
            _ => None,
        });
        let names = distinct(names.collect());
        effects.extend(names.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Response, name }));
    }
}

/// The problem that replaces an error which no handler made; `None` if the error passes. `to_target`: the request went
/// to a target in Restate. `keyed`: it had a key there.
fn gateway_problem(head: &ResponseHead<'_>, to_target: bool, keyed: bool) -> Option<Problem> {
    let ingress = head.source == Some(ErrorSource::Ingress);
    Some(match head.status {
        413 if ingress || to_target => Problem::body_refused(),
        431 if ingress || to_target => Problem::headers_too_large(),
        429 | 500.. if ingress => Problem::backend_unavailable(),
        // The service or handler does not exist, or a node of a cluster has just started and does not know it yet.
        404 if ingress => Problem::target_unknown(),
        // The gateway has no route to the target.
        404 if to_target => Problem::policy_invalid(),
        // The only method that arrives here and that Restate does not support is HEAD.
        405 if ingress => Problem::method_not_allowed(&["GET"]),
        status if ingress => Problem::request_invalid(status),
        504 if keyed => Problem::gateway_timeout(),
        502 | 503 if keyed => Problem::backend_unavailable(),
        _ => return None,
    })
}

/// The text of an id. Ids are ASCII, which this reads faster than a lossy conversion.
fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(value).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_name_is_removed_once_however_many_lines_it_has() {
        let policy = Policy::from_json(br#"{"version": 1, "backend": {"kind": "restate"}, "routes": []}"#).unwrap();
        const HANDLER_HIT: &[u8] = b"x-idempotency-internal-hit";
        let line = (HANDLER_HIT, b"true".as_slice());
        for lines in 1..4 {
            let mut effects = vec![];
            read(policy.backend_of(None), &Headers::new(vec![line; lines]), &mut effects);
            assert_eq!(effects, [Effect::Remove { map: HeaderMapKind::Response, name: HANDLER_HIT }], "{lines}");
        }
    }
}
