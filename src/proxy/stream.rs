//! The context of one request.

use super::abi::{self, MapType, Status};
use super::attributes::CurrentRequest;
use super::exports::Action;
use super::held::HeldLines;
use super::stores::Stores;
use crate::exchange::{AnswerFlow, Effect, Exchange, Flow, Map};
use crate::headers::Headers;
use crate::lookup;
use crate::policy::Policy;
use crate::problem::Problem;
use std::rc::Rc;

/// One request and its response.
pub(super) struct Stream {
    id: u32,
    root: u32,
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

/// A request that goes on only with its whole body, and what it looks up.
struct Waiting {
    /// The headers. However the wait ends, this is dropped, and makes room for others.
    lines: HeldLines,
    /// The longest body that may come, in bytes.
    limit: usize,
    /// Whether all of the body is buffered.
    complete: bool,
    /// Whether a lookup is under way.
    asks: bool,
}

impl Stream {
    pub(super) fn new(id: u32, root: u32, policy: Option<Rc<Policy>>) -> Self {
        let (exchange, answer) = (Exchange::new(), Answer::default());
        Self { id, root, policy, exchange, replied: false, waiting: None, answer }
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
        self.waiting = None;
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

    /// The context of the configuration.
    pub(super) const fn root(&self) -> u32 {
        self.root
    }

    /// Waits for no store any more.
    pub(super) fn leave(&self, stores: &mut Stores) {
        if let Some(ask) =
            self.exchange.question().filter(|_| self.waiting.as_ref().is_some_and(|waiting| waiting.asks))
        {
            stores.left(self.id, ask);
        }
    }

    /// Goes on as far as body and lookups let it.
    fn go_on(&mut self, policy: &Policy, mut flow: Flow, mut stores: Option<&mut Stores>) -> Action {
        loop {
            let complete = self.waiting.as_ref().is_some_and(|waiting| waiting.complete);
            flow = match flow {
                Flow::AwaitLookup { .. } => {
                    let stores = stores.as_deref_mut();
                    let Some((stores, ask)) = stores.zip(self.exchange.question()) else {
                        return self.reply(&Problem::policy_invalid());
                    };
                    let answer = stores.ask(self.id, ask);
                    if let Some(waiting) = &mut self.waiting {
                        waiting.asks = answer.is_none();
                    }
                    let Some(answer) = answer else { return Action::Pause };
                    self.take(policy, answer)
                }
                Flow::AwaitBody { .. } if complete => match self.judge_body(policy) {
                    Ok(flow) => flow,
                    Err(action) => return action,
                },
                Flow::AwaitBody { .. } | Flow::Replied => return Action::Pause,
                Flow::Continue => return Action::Continue,
            };
        }
    }

    /// Takes the answer of a store.
    fn take(&mut self, policy: &Policy, answer: lookup::Answer) -> Flow {
        let mut effects = Vec::new();
        let flow = self.exchange.answered(policy, answer, &mut effects);
        if flow == Flow::Replied {
            self.waiting = None;
            self.carry_out(&effects);
        }
        flow
    }

    /// All of the body is buffered: what becomes of the request, unless there is something left to look up.
    fn judge_body(&mut self, policy: &Policy) -> Result<Flow, Action> {
        let Some(waiting) = self.waiting.take() else { return Err(Action::Continue) };
        let Some(headers) = abi::pairs(waiting.lines.as_slice()).map(Headers::new) else {
            return Err(self.reply(&Problem::policy_invalid()));
        };
        // One byte more than may come tells a body that is too long.
        let Ok(body) = abi::request_body(waiting.limit.saturating_add(1)) else {
            return Err(self.reply(&Problem::dependency_unavailable()));
        };
        let mut effects = Vec::new();
        let flow = if body.len() > waiting.limit {
            self.exchange.body_too_large(waiting.limit as u64, &mut effects)
        } else {
            self.exchange.request_body(policy, &headers, &body, abi::now_unix_ms(), &mut effects)
        };
        if matches!(flow, Flow::AwaitLookup { .. }) {
            drop(effects);
            self.waiting = Some(waiting);
            return Ok(flow);
        }
        Err(self.carry_out(&effects))
    }

    /// A store has answered, in a callback that is not the request's own.
    pub(super) fn answered(&mut self, answer: lookup::Answer, stores: &mut Stores) {
        let (Some(policy), Some(waiting)) = (self.policy.clone(), &mut self.waiting) else { return };
        waiting.asks = false;
        let flow = self.take(&policy, answer);
        if self.go_on(&policy, flow, Some(stores)) == Action::Continue {
            // A host that has no such request any more has nothing to let go.
            let _ = abi::continue_request();
        }
    }

    /// All of the body has come.
    fn body_is_complete(&mut self, stores: Option<&mut Stores>) -> Action {
        let (Some(policy), Some(waiting)) = (self.policy.clone(), &mut self.waiting) else { return Action::Continue };
        waiting.complete = true;
        if waiting.asks {
            return Action::Pause;
        }
        let limit = waiting.limit as u64;
        self.go_on(&policy, Flow::AwaitBody { limit }, stores)
    }

    fn body_is_too_large(&mut self, stores: Option<&mut Stores>) -> Action {
        if let Some(stores) = stores {
            self.leave(stores);
        }
        let Some(waiting) = self.waiting.take() else { return Action::Continue };
        let mut effects = Vec::new();
        self.exchange.body_too_large(waiting.limit as u64, &mut effects);
        self.carry_out(&effects)
    }

    /// The request's headers have come.
    pub(super) fn request_headers(&mut self, end_of_stream: bool, stores: Option<&mut Stores>) -> Action {
        let Some(policy) = self.policy.clone() else { return self.reply(&Problem::policy_invalid()) };
        let lines = abi::header_map(MapType::RequestHeaders).unwrap_or_default();
        let Some(headers) = abi::pairs(&lines).map(Headers::new) else {
            return self.reply(&Problem::policy_invalid());
        };
        let mut effects = Vec::new();
        let flow = self.exchange.request_headers(&policy, &headers, &CurrentRequest, &mut effects);
        match flow {
            Flow::AwaitBody { limit } | Flow::AwaitLookup { limit } => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                drop(effects);
                let Some(lines) = HeldLines::keep(lines) else {
                    let mut effects = Vec::new();
                    self.exchange.no_room_to_wait(&mut effects);
                    return self.carry_out(&effects);
                };
                self.waiting = Some(Waiting { lines, limit, complete: end_of_stream, asks: false });
                self.go_on(&policy, flow, stores)
            }
            Flow::Continue | Flow::Replied => self.carry_out(&effects),
        }
    }

    /// More of the request's body has come; `size` bytes are buffered by now.
    pub(super) fn request_body(&mut self, size: usize, end_of_stream: bool, stores: Option<&mut Stores>) -> Action {
        match &self.waiting {
            None if self.replied => Action::Pause,
            None => Action::Continue,
            Some(waiting) if size > waiting.limit => self.body_is_too_large(stores),
            Some(_) if end_of_stream => self.body_is_complete(stores),
            Some(_) => Action::Pause,
        }
    }

    /// The request's trailers have come.
    pub(super) fn request_trailers(&mut self, stores: Option<&mut Stores>) -> Action {
        let Some(policy) = self.policy.clone() else { return self.reply(&Problem::policy_invalid()) };
        if self.replied {
            return Action::Continue;
        }
        let lines = abi::header_map(MapType::RequestTrailers).unwrap_or_default();
        let Some(trailers) = abi::pairs(&lines).map(Headers::new) else {
            return self.reply(&Problem::policy_invalid());
        };
        let mut effects = Vec::new();
        self.exchange.request_trailers(&policy, &trailers, &mut effects);
        match self.carry_out(&effects) {
            // Where trailers follow, the body's own end was not told.
            Action::Continue if self.waiting.is_some() => self.body_is_complete(stores),
            action => action,
        }
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
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return Action::Continue };
        let lines = abi::header_map(MapType::ResponseTrailers).unwrap_or_default();
        let Some(trailers) = abi::pairs(&lines).map(Headers::new) else { return Action::Continue };
        let mut effects = Vec::new();
        self.exchange.response_trailers(&policy, &trailers, &mut effects);
        let _ = edit(&effects);
        Action::Continue
    }

    /// Ends the wait for the response's body: all of it is buffered, or too much.
    fn answer_is_there(&mut self, size: usize, limit: usize) {
        let Some(policy) = self.policy.clone() else { return };
        let body = if size > limit { None } else { abi::response_body(limit).ok() };
        let mut effects = Vec::new();
        match body {
            Some(body) => self.exchange.response_body(&policy, &body, &mut effects),
            None => self.exchange.response_body_too_large(&policy, &mut effects),
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
        Map::ResponseTrailers => MapType::ResponseTrailers,
    };
    effects.iter().try_for_each(|effect| match effect {
        Effect::Set { map, name, value } => abi::set_header(map_type(*map), name.as_bytes(), value),
        Effect::Remove { map, name } => abi::remove_header(map_type(*map), name),
        Effect::Body(_) | Effect::Reply(_) => Ok(()),
    })
}
