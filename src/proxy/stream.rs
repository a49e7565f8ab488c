//! The context of one request.

use super::abi::{self, MapType, Status};
use super::attributes::CurrentRequest;
use crate::exchange::{Effect, Exchange, Flow, Map};
use crate::headers::Headers;
use crate::policy::Policy;
use crate::problem::Problem;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::rc::Rc;

/// One request and its response.
pub(super) struct Stream {
    policy: Option<Rc<Policy>>,
    exchange: Exchange,
    /// Whether the answer is ours; it passes the response callback too.
    replied: bool,
}

impl Stream {
    pub(super) fn new(policy: Option<Rc<Policy>>) -> Self {
        Self { policy, exchange: Exchange::new(), replied: false }
    }

    /// Answers instead of the backend.
    fn reply(&mut self, problem: &Problem) -> Action {
        let docs_url = self.policy.as_ref().and_then(|policy| policy.docs_url.as_deref());
        let body = problem.document(docs_url).to_string();
        let details = match problem.reason {
            Some(reason) => format!("{}.{reason}", problem.code.name()),
            None => problem.code.name().to_owned(),
        };
        self.replied = true;
        // A host that cannot even reply has ended the stream; paused, nothing is forwarded in any case.
        let _ = abi::reply(problem.status(), &details, &problem.headers(docs_url), body.as_bytes());
        Action::Pause
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(policy) = self.policy.clone() else { return self.reply(&Problem::policy_invalid()) };
        let lines = abi::header_map(MapType::RequestHeaders).unwrap_or_default();
        let Some(headers) = abi::pairs(&lines).map(Headers::new) else {
            return self.reply(&Problem::policy_invalid());
        };
        let mut effects = Vec::new();
        let flow = self.exchange.request_headers(&policy, &headers, &CurrentRequest, &mut effects);
        if let Some(Effect::Reply(problem)) = effects.first() {
            return self.reply(problem);
        }
        match (flow, edit(&effects)) {
            (Flow::Continue, Ok(())) => Action::Continue,
            // A header that could not be set or removed must not reach the backend as it is (invariant I1).
            _ => self.reply(&Problem::policy_invalid()),
        }
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
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
        if edit(&effects).is_ok() { Action::Continue } else { self.reply(&Problem::policy_invalid()) }
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return Action::Continue };
        let lines = abi::header_map(MapType::ResponseHeaders).unwrap_or_default();
        if let Some(headers) = abi::pairs(&lines).map(Headers::new) {
            let mut effects = Vec::new();
            self.exchange.response_headers(&policy, &headers, &mut effects);
            // The work is done: an answer with a header too many is better than none.
            let _ = edit(&effects);
        }
        Action::Continue
    }
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
        Effect::Reply(_) => Ok(()),
    })
}
