//! The context of one request.

use super::abi::{self, MapType, Status};
use super::attributes::CurrentRequest;
use super::exports::Action;
use crate::exchange::{AnswerFlow, Effect, Exchange, Flow, Map};
use crate::headers::Headers;
use crate::policy::Policy;
use crate::problem::Problem;
use std::rc::Rc;

/// One request and its response.
pub(super) struct Stream {
    policy: Option<Rc<Policy>>,
    exchange: Exchange,
    /// Whether the answer is ours; it passes the response callback too.
    replied: bool,
    waiting: Option<Waiting>,
    answer: Answer,
}

/// What becomes of the response's body.
#[derive(Default)]
enum Answer {
    /// It goes on as it comes.
    #[default]
    Streamed,
    /// It waits until all of it is there, or more than so many bytes.
    Awaited(usize),
    /// This stands in its place.
    Replaced(Vec<u8>),
}

/// A request that goes on only with its whole body.
struct Waiting {
    /// The headers, as the host gave them.
    lines: Vec<u8>,
    /// The longest body that may come, in bytes.
    limit: usize,
}

impl Stream {
    pub(super) fn new(policy: Option<Rc<Policy>>) -> Self {
        Self { policy, exchange: Exchange::new(), replied: false, waiting: None, answer: Answer::default() }
    }

    /// Answers instead of the backend.
    fn reply(&mut self, problem: &Problem) -> Action {
        let docs_url = self.policy.as_ref().and_then(|policy| policy.docs_url.as_deref());
        let body = problem.document(docs_url);
        let details = match self.exchange.reason() {
            Some(reason) => format!("{}.{reason}", problem.code.name()),
            None => problem.code.name().to_owned(),
        };
        self.replied = true;
        // A host that cannot even reply has ended the stream; paused, nothing is forwarded in any case.
        let _ = abi::reply(problem.status(), &details, &problem.headers(docs_url), body.as_bytes());
        Action::Pause
    }

    /// Carries out the effects of an event of the request.
    fn carry_out(&mut self, effects: &[Effect<'_>]) -> Action {
        if let Some(Effect::Reply(problem)) = effects.first() {
            return self.reply(problem);
        }
        match edit(effects) {
            Ok(()) => Action::Continue,
            // A header that could not be set or removed must not reach the backend as it is (invariant I1).
            Err(_) => self.reply(&Problem::policy_invalid()),
        }
    }

    /// Ends the wait for a body: all of it is buffered.
    fn body_is_complete(&mut self) -> Action {
        let (Some(policy), Some(waiting)) = (self.policy.clone(), self.waiting.take()) else { return Action::Continue };
        let Some(headers) = abi::pairs(&waiting.lines).map(Headers::new) else {
            return self.reply(&Problem::policy_invalid());
        };
        // One byte more than may come tells a body that is too long.
        let Ok(body) = abi::request_body(waiting.limit.saturating_add(1)) else {
            return self.reply(&Problem::dependency_unavailable());
        };
        let mut effects = Vec::new();
        if body.len() > waiting.limit {
            self.exchange.body_too_large(waiting.limit as u64, &mut effects);
        } else {
            self.exchange.request_body(&policy, &headers, &body, abi::now_unix_ms(), &mut effects);
        }
        self.carry_out(&effects)
    }

    fn body_is_too_large(&mut self) -> Action {
        let Some(waiting) = self.waiting.take() else { return Action::Continue };
        let mut effects = Vec::new();
        self.exchange.body_too_large(waiting.limit as u64, &mut effects);
        self.carry_out(&effects)
    }

    /// The request's headers have come.
    pub(super) fn request_headers(&mut self, end_of_stream: bool) -> Action {
        let Some(policy) = self.policy.clone() else { return self.reply(&Problem::policy_invalid()) };
        let lines = abi::header_map(MapType::RequestHeaders).unwrap_or_default();
        let Some(headers) = abi::pairs(&lines).map(Headers::new) else {
            return self.reply(&Problem::policy_invalid());
        };
        let mut effects = Vec::new();
        match self.exchange.request_headers(&policy, &headers, &CurrentRequest, &mut effects) {
            Flow::AwaitBody { limit } => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                self.waiting = Some(Waiting { lines, limit });
                if end_of_stream { self.body_is_complete() } else { Action::Pause }
            }
            Flow::Continue | Flow::Replied => self.carry_out(&effects),
        }
    }

    /// More of the request's body has come; `size` bytes are buffered by now.
    pub(super) fn request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        match &self.waiting {
            None if self.replied => Action::Pause,
            None => Action::Continue,
            Some(waiting) if size > waiting.limit => self.body_is_too_large(),
            Some(_) if end_of_stream => self.body_is_complete(),
            Some(_) => Action::Pause,
        }
    }

    /// The request's trailers have come.
    pub(super) fn request_trailers(&mut self) -> Action {
        let Some(policy) = self.policy.clone() else { return self.reply(&Problem::policy_invalid()) };
        // Where trailers follow, the body's own end was not told.
        if self.waiting.is_some() && self.body_is_complete() == Action::Pause {
            return Action::Pause;
        }
        if self.replied {
            return Action::Continue;
        }
        let lines = abi::header_map(MapType::RequestTrailers).unwrap_or_default();
        let Some(trailers) = abi::pairs(&lines).map(Headers::new) else {
            return self.reply(&Problem::policy_invalid());
        };
        let mut effects = Vec::new();
        self.exchange.request_trailers(&policy, &trailers, &mut effects);
        self.carry_out(&effects)
    }

    /// The response's headers have come.
    pub(super) fn response_headers(&mut self, end_of_stream: bool) -> Action {
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return Action::Continue };
        let lines = abi::header_map(MapType::ResponseHeaders).unwrap_or_default();
        let Some(headers) = abi::pairs(&lines).map(Headers::new) else { return Action::Continue };
        let mut effects = Vec::new();
        let flow = self.exchange.response_headers(&policy, &headers, &mut effects);
        if let AnswerFlow::AwaitBody { limit } = flow {
            if !end_of_stream {
                let _ = edit(&effects);
                self.answer = Answer::Awaited(usize::try_from(limit).unwrap_or(usize::MAX));
                return Action::Pause;
            }
            self.exchange.response_body(&policy, &[], &mut effects);
        }
        if end_of_stream && effects.iter().any(|effect| matches!(effect, Effect::Body(_))) {
            return self.answer_instead(&headers, &effects);
        }
        // The work is done: an answer with a header too many is better than none.
        let _ = edit(&effects);
        if let Some(body) = body_of(effects) {
            self.answer = Answer::Replaced(body);
        }
        Action::Continue
    }

    /// More of the response's body has come; `size` bytes are there by now, with what is buffered.
    pub(super) fn response_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        match std::mem::take(&mut self.answer) {
            Answer::Streamed => {}
            Answer::Replaced(body) => {
                let _ = abi::set_response_body(&body);
                self.answer = Answer::Replaced(Vec::new());
            }
            Answer::Awaited(limit) if size <= limit && !end_of_stream => {
                self.answer = Answer::Awaited(limit);
                return Action::Pause;
            }
            Answer::Awaited(limit) => self.answer_is_there(size, limit),
        }
        Action::Continue
    }

    /// The response's trailers have come: what is awaited of its body is there.
    pub(super) fn response_trailers(&mut self) -> Action {
        if let Answer::Awaited(limit) = std::mem::take(&mut self.answer) {
            self.answer_is_there(0, limit);
        }
        Action::Continue
    }

    /// Ends the wait for the response's body: all of it is buffered, or too much.
    fn answer_is_there(&mut self, size: usize, limit: usize) {
        let Some(policy) = self.policy.clone() else { return };
        let body = if size > limit { None } else { abi::response_body(limit).ok() };
        let mut effects = Vec::new();
        match body {
            Some(body) => self.exchange.response_body(&policy, &body, &mut effects),
            None => self.exchange.response_body_too_large(&mut effects),
        }
        let _ = edit(&effects);
        if let Some(body) = body_of(effects) {
            let _ = abi::set_response_body(&body);
            self.answer = Answer::Replaced(Vec::new());
        }
    }

    /// Gives a response without a body one: no host lets a filter add it.
    fn answer_instead(&mut self, response: &Headers<'_>, effects: &[Effect<'_>]) -> Action {
        let number = |value: &[u8]| std::str::from_utf8(value).ok().and_then(|status| status.parse().ok());
        let own = response.iter().find(|(name, _)| *name == b":status");
        let mut status = own.and_then(|(_, value)| number(value)).unwrap_or(502);
        let (mut headers, mut content) = (Vec::new(), &[][..]);
        for effect in effects {
            match effect {
                Effect::Set { name: "content-length", .. } => {}
                Effect::Set { name: ":status", value, .. } => {
                    status = number(value).unwrap_or(status);
                }
                Effect::Set { name, value, .. } => headers.push((*name, String::from_utf8_lossy(value).into_owned())),
                Effect::Body(body) => content = body,
                Effect::Remove { .. } | Effect::Reply(_) => {}
            }
        }
        self.replied = true;
        let details = self.exchange.refusal().map_or("processing", |problem| problem.code.name());
        let _ = abi::reply(status, details, &headers, content);
        Action::Pause
    }
}

/// The body that an event puts in the place of the response's.
fn body_of(effects: Vec<Effect<'_>>) -> Option<Vec<u8>> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Body(body) => Some(body),
        Effect::Set { .. } | Effect::Remove { .. } | Effect::Reply(_) => None,
    })
}

/// Carries out edits, up to the first that fails.
fn edit(effects: &[Effect<'_>]) -> Result<(), Status> {
    let map_type = |map: Map| match map {
        Map::Request => MapType::RequestHeaders,
        Map::RequestTrailers => MapType::RequestTrailers,
        Map::Response => MapType::ResponseHeaders,
    };
    effects.iter().try_for_each(|effect| match effect {
        Effect::Set { map, name, value } => abi::set_header(map_type(*map), name.as_bytes(), value),
        Effect::Remove { map, name } => abi::remove_header(map_type(*map), name),
        Effect::Body(_) | Effect::Reply(_) => Ok(()),
    })
}
