//! The response's callbacks.

use super::{Driver, FilterAction, SharedLookups, edit};
use crate::exchange::{Effect, HeaderMapKind, ResponseFlow};
use crate::headers::Headers;
use crate::host::{HeaderLines as _, Host, LocalReply};

/// How the response's body is handled.
#[derive(Default)]
pub(super) enum ResponseBody {
    /// It passes unchanged.
    #[default]
    Streamed,
    /// It waits for its end.
    Awaited {
        /// The longest body that is read, in bytes.
        limit: usize,
        /// How much of it has come, in bytes.
        size: usize,
    },
    /// It is replaced by this.
    Replaced(Vec<u8>),
}

/// Headers that tell how a body is transferred; a local reply has its own.
const FRAMING: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"connection", b"trailer"];

impl<H: Host> Driver<H> {
    /// Handles the response's headers; `end_of_stream`: neither a body nor trailers follow.
    pub fn on_response_headers(
        &mut self,
        host: &H,
        end_of_stream: bool,
        lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        if let Some(lookups) = lookups {
            self.cancel_lookup(lookups);
        }
        // A request that still waits gets no response of the backend, so this one is the gateway's own.
        self.ended_by_gateway |= self.pending.take().is_some();
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return FilterAction::Continue };
        let lines = host.header_lines(HeaderMapKind::Response);
        let Some(headers) = lines.headers() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        let flow = self.exchange.response_headers(&policy, &headers, &mut effects);
        if let ResponseFlow::AwaitBody { limit } = flow {
            if end_of_stream {
                self.exchange.response_body(&policy, &[], &mut effects);
            } else if headers.content_length().is_some_and(|length| length > limit) {
                self.exchange.response_body_too_large(&policy, &mut effects);
            } else {
                let _ = edit(host, &effects);
                self.response = ResponseBody::Awaited { limit: usize::try_from(limit).unwrap_or(usize::MAX), size: 0 };
                return FilterAction::Pause;
            }
        }
        if end_of_stream && effects.iter().any(|effect| matches!(effect, Effect::Body(_))) {
            return self.reply_instead(host, &headers, &effects);
        }
        // The backend has done the work, so the response goes to the client even if an edit failed.
        let _ = edit(host, &effects);
        if let Some(body) = body_of(effects) {
            self.response = ResponseBody::Replaced(body);
        }
        FilterAction::Continue
    }

    /// Handles a part of the response's body; `size` is the number of bytes so far, buffered ones included.
    ///
    /// A response that waits for its body goes on at the body's end and never before it. If its body becomes too long, a
    /// local reply takes its place.
    pub fn on_response_body(&mut self, host: &H, size: usize, end_of_stream: bool) -> FilterAction {
        match std::mem::take(&mut self.response) {
            ResponseBody::Streamed => {}
            ResponseBody::Replaced(body) => {
                let _ = host.set_response_body(&body);
                self.response = ResponseBody::Replaced(Vec::new());
            }
            ResponseBody::Awaited { limit, .. } => {
                self.body_wait.arrived();
                if end_of_stream {
                    self.evaluate_response_body(host, size, limit);
                } else if size > limit {
                    return self.replace_unfinished(host);
                } else {
                    self.response = ResponseBody::Awaited { limit, size };
                    return FilterAction::Pause;
                }
            }
        }
        FilterAction::Continue
    }

    /// Handles the response's trailers. If the body was awaited, it is complete now.
    pub fn on_response_trailers(&mut self, host: &H) -> FilterAction {
        if let ResponseBody::Awaited { limit, size } = std::mem::take(&mut self.response) {
            self.body_wait.arrived();
            self.evaluate_response_body(host, size, limit);
        }
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return FilterAction::Continue };
        let lines = host.header_lines(HeaderMapKind::ResponseTrailers);
        let Some(trailers) = lines.headers() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        self.exchange.response_trailers(&policy, &trailers, &mut effects);
        let _ = edit(host, &effects);
        FilterAction::Continue
    }

    /// Evaluates the response's body at its end; `size` is the number of bytes that have come.
    fn evaluate_response_body(&mut self, host: &H, size: usize, limit: usize) {
        let Some(policy) = self.policy.clone() else { return };
        let body = if size > limit { None } else { host.response_body(limit).ok() };
        let mut effects = Vec::new();
        match body.filter(|body| body.len() >= size) {
            Some(body) => self.exchange.response_body(&policy, &body, &mut effects),
            None => self.exchange.response_body_too_large(&policy, &mut effects),
        }
        let _ = edit(host, &effects);
        if let Some(body) = body_of(effects) {
            let _ = host.set_response_body(&body);
            self.response = ResponseBody::Replaced(Vec::new());
        }
    }

    /// Replaces a response that waits for a body whose end is not to be waited for. To let it go on would be wrong: a
    /// gateway whose other filters stream the body can lose the rest of it, and end the response as if it were whole.
    pub(super) fn replace_unfinished(&mut self, host: &H) -> FilterAction {
        self.response = ResponseBody::Streamed;
        let Some(policy) = self.policy.clone() else { return FilterAction::Pause };
        let mut effects = Vec::new();
        self.exchange.response_body_unfinished(&policy, &mut effects);
        let lines = host.header_lines(HeaderMapKind::Response);
        self.reply_instead(host, &lines.headers().unwrap_or_else(|| Headers::new(Vec::new())), &effects)
    }

    /// Sends a local reply in the place of the response, with its headers and what the effects change.
    fn reply_instead(&mut self, host: &H, response: &Headers<'_>, effects: &[Effect<'_>]) -> FilterAction {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let lines = response.iter().filter(|(name, _)| !FRAMING.contains(name));
        let mut headers: Vec<_> =
            lines.filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, text(value)))).collect();
        let mut body = &[][..];
        for effect in effects {
            match effect {
                Effect::Set { name, value, .. } => {
                    headers.retain(|(other, _)| other != name);
                    headers.push((*name, text(value)));
                }
                Effect::Remove { name, .. } => headers.retain(|(other, _)| other.as_bytes() != *name),
                Effect::Body(content) => body = content,
                Effect::Reply(_) => {}
            }
        }
        let status = headers.iter().find(|(name, _)| *name == ":status").and_then(|(_, status)| status.parse().ok());
        headers.retain(|(name, _)| !matches!(*name, ":status" | "content-length"));
        self.replied = true;
        let details = self.exchange.refusal().map_or("processing", |problem| problem.code.name());
        let _ = host.reply(&LocalReply { status: status.unwrap_or(502), details, headers: &headers, body });
        FilterAction::Pause
    }
}

/// The new body among the effects, if there is one.
fn body_of(effects: Vec<Effect<'_>>) -> Option<Vec<u8>> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Body(body) => Some(body),
        Effect::Set { .. } | Effect::Remove { .. } | Effect::Reply(_) => None,
    })
}
