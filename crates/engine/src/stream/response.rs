//! The response's way.

use super::observed_answer::ObservedAnswer;
use super::{FilterAction, Stream, edit};
use crate::configuration::Configuration;
use crate::events::{AwaitedBody, ResponseFlow, UnreadBody};
use crate::exchange::{Effect, HeaderMapKind};
use crate::headers::Headers;
use crate::host::{HeaderLines as _, Host, LocalReply};
use crate::json::set_true::SetTrue;
use crate::lookup::LookupAnswer;
use crate::policy::Policy;
use crate::questions::{OutputQuestion, PendingLookup};

/// How the response's body is handled.
#[derive(Default)]
pub(super) enum ResponseBody {
    /// It passes unchanged.
    #[default]
    Streamed,
    /// It passes unchanged, and is read.
    Observed(Box<ObservedAnswer>),
    /// It waits for its end.
    Awaited {
        /// Why, and how much of it is read
        awaited: AwaitedBody,
        /// How much of it has come, in bytes.
        size: usize,
    },
    /// It is too long, so each part of it is dropped. The response goes on at the body's end, with another body.
    Discarded(AwaitedBody),
    /// It has come, and the answer to this question is awaited.
    AwaitsAnswer(Box<OutputQuestion>),
    /// It passes, and gets a member that marks it as a replay.
    Marked(Box<SetTrue>),
    /// It is replaced by this.
    Replaced(Vec<u8>),
}

impl ResponseBody {
    /// What the response waits for the answer to.
    pub(super) fn question(&self) -> Option<PendingLookup<'_>> {
        if let Self::AwaitsAnswer(question) = self { Some(PendingLookup::Output(question)) } else { None }
    }
}

/// The longest body that is read, in bytes.
fn limit_of(awaited: AwaitedBody) -> usize {
    usize::try_from(awaited.limit).unwrap_or(usize::MAX)
}

/// Header lines that the gateway writes anew for a local reply.
const OF_A_MESSAGE: [&str; 4] = ["content-length", "content-type", "date", "transfer-encoding"];

impl Stream {
    /// Handles the response's headers; `end_of_stream`: neither a body nor trailers follow.
    pub(super) fn response_headers<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        end_of_stream: bool,
    ) -> FilterAction {
        self.cancel_lookup(configuration);
        // A request that still waits gets no response of the backend, so this one is the gateway's own.
        self.ended_by_gateway |= self.pending.take().is_some();
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return FilterAction::Continue };
        let lines = host.header_lines(HeaderMapKind::Response);
        let Some(headers) = lines.headers() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        let flow = self.exchange.response_headers(&policy, &headers, &mut effects);
        if let ResponseFlow::AwaitBody(awaited) = flow {
            if end_of_stream {
                self.exchange.response_body(awaited, &policy, &[], &mut effects);
            } else if headers.content_length().is_some_and(|length| length > awaited.limit) {
                self.exchange.response_body_unread(awaited, UnreadBody::Passes, &policy, &mut effects);
            } else {
                let _ = edit(host, &effects);
                self.response = ResponseBody::Awaited { awaited, size: 0 };
                self.has_waited = true;
                configuration.body_watch().begin(self.id);
                return FilterAction::Pause;
            }
        }
        if let ResponseFlow::Observe { limit } = flow
            && !end_of_stream
            && headers.content_length().is_none_or(|length| length <= limit)
        {
            self.response = ResponseBody::Observed(ObservedAnswer::new(limit));
        }
        let is_replaced = effects.iter().any(|effect| matches!(effect, Effect::Body(_)));
        if end_of_stream && is_replaced {
            return self.reply_instead(host, &headers, &effects);
        }
        if !end_of_stream
            && !is_replaced
            && let Some(mark) = self.exchange.replay_mark.take()
        {
            effects.push(Effect::Remove { map: HeaderMapKind::Response, name: b"content-length" });
            self.response = ResponseBody::Marked(mark);
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
    /// A response that waits for its body goes on at the body's end and never before it.
    pub(super) fn response_body<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        size: usize,
        end_of_stream: bool,
    ) -> FilterAction {
        match std::mem::take(&mut self.response) {
            ResponseBody::Streamed => {}
            ResponseBody::Observed(answer) => match answer.push(host, size) {
                Some(answer) if end_of_stream => self.end_observed_answer(&answer, configuration),
                Some(answer) => self.response = ResponseBody::Observed(answer),
                None => {}
            },
            ResponseBody::Marked(mut mark) => {
                if let Some(part) = host.response_body(size).ok().filter(|part| part.len() == size) {
                    let _ = host.set_response_body(&mark.pass(&part));
                    if !mark.ended {
                        self.response = ResponseBody::Marked(mark);
                    }
                }
            }
            ResponseBody::Replaced(body) => {
                let _ = host.set_response_body(&body);
                self.response = ResponseBody::Replaced(Vec::new());
            }
            ResponseBody::Awaited { awaited, .. } if size <= limit_of(awaited) && !end_of_stream => {
                configuration.body_watch().arrived();
                self.response = ResponseBody::Awaited { awaited, size };
                return FilterAction::Pause;
            }
            ResponseBody::Awaited { awaited, .. } if end_of_stream => {
                configuration.body_watch().arrived();
                return self.evaluate_response_body(host, configuration, size, awaited);
            }
            waits @ ResponseBody::AwaitsAnswer(_) => {
                self.response = waits;
                return FilterAction::Pause;
            }
            ResponseBody::Discarded(awaited) if end_of_stream => self.replace_discarded(host, awaited),
            ResponseBody::Awaited { awaited, .. } | ResponseBody::Discarded(awaited) => {
                configuration.body_watch().arrived();
                let _ = host.set_response_body(&[]);
                self.response = ResponseBody::Discarded(awaited);
                return FilterAction::Pause;
            }
        }
        FilterAction::Continue
    }

    /// Handles the response's trailers. If the body was awaited, it is complete now.
    pub(super) fn response_trailers<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        let mut action = FilterAction::Continue;
        match std::mem::take(&mut self.response) {
            ResponseBody::Awaited { awaited, size: 0 } => {
                configuration.body_watch().arrived();
                if let Some(action) = self.end_without_body(host, awaited) {
                    return action;
                }
            }
            ResponseBody::Awaited { awaited, size } => {
                configuration.body_watch().arrived();
                action = self.evaluate_response_body(host, configuration, size, awaited);
            }
            waits @ ResponseBody::AwaitsAnswer(_) => {
                self.response = waits;
                action = FilterAction::Pause;
            }
            ResponseBody::Discarded(awaited) => self.replace_discarded(host, awaited),
            ResponseBody::Observed(answer) => self.end_observed_answer(&answer, configuration),
            ResponseBody::Streamed | ResponseBody::Marked(_) | ResponseBody::Replaced(_) => {}
        }
        let Some(policy) = self.policy.clone().filter(|_| !self.replied) else { return action };
        let lines = host.header_lines(HeaderMapKind::ResponseTrailers);
        let Some(trailers) = lines.headers() else { return action };
        let mut effects = Vec::new();
        self.exchange.response_trailers(&policy, &trailers, &mut effects);
        let _ = edit(host, &effects);
        action
    }

    /// Evaluates the response's body at its end; `size` is the number of bytes that have come. The response may have to wait for
    /// an answer then.
    fn evaluate_response_body<H: Host>(
        &mut self,
        host: &H,
        configuration: &Configuration,
        size: usize,
        awaited: AwaitedBody,
    ) -> FilterAction {
        let Some(policy) = self.policy.clone() else { return FilterAction::Continue };
        let limit = limit_of(awaited);
        let body = if size > limit { None } else { host.response_body(limit).ok() };
        let mut effects = Vec::new();
        let question = match body.filter(|body| body.len() >= size) {
            Some(body) => self.exchange.response_body(awaited, &policy, &body, &mut effects),
            None => {
                self.exchange.response_body_unread(awaited, UnreadBody::Passes, &policy, &mut effects);
                None
            }
        };
        self.finish_body(host, effects);
        let Some(question) = question else { return FilterAction::Continue };
        let caller = self.exchange.identity();
        let lookup = Some(PendingLookup::Output(&question));
        let answer = match self.look_up(host, configuration, &policy, lookup, caller) {
            Some(None) => {
                self.response = ResponseBody::AwaitsAnswer(Box::new(question));
                return FilterAction::Pause;
            }
            Some(Some(answer)) => Some(answer),
            None => None,
        };
        self.end_with_answer(host, &policy, answer.as_ref());
        FilterAction::Continue
    }

    /// Handles the answer that the response waits for.
    pub(super) fn response_answer<H: Host>(&mut self, host: &H, answer: &LookupAnswer) {
        let Some(policy) = self.policy.clone() else { return };
        self.response = ResponseBody::Streamed;
        self.end_with_answer(host, &policy, Some(answer));
        // If the response has ended meanwhile, there is nothing to resume.
        let _ = host.resume_response();
    }

    fn end_with_answer<H: Host>(&mut self, host: &H, policy: &Policy, answer: Option<&LookupAnswer>) {
        let mut effects = Vec::new();
        self.exchange.on_progress(policy, answer, &mut effects);
        self.finish_body(host, effects);
    }

    /// Evaluates a response that ends in trailers and has no body. The action, if it got a body and was replied to instead.
    fn end_without_body<H: Host>(&mut self, host: &H, awaited: AwaitedBody) -> Option<FilterAction> {
        let policy = self.policy.clone()?;
        let mut effects = Vec::new();
        self.exchange.response_body(awaited, &policy, &[], &mut effects);
        if effects.iter().any(|effect| matches!(effect, Effect::Body(_))) {
            let lines = host.header_lines(HeaderMapKind::Response);
            let headers = lines.headers()?;
            // The headers were edited before, so what they say has to be in the reply.
            let is_set = |name: &str| {
                effects.iter().any(|effect| matches!(effect, Effect::Set { name: set, .. } if *set == name))
            };
            let is_kept = |name: &str| !name.starts_with(':') && !OF_A_MESSAGE.contains(&name) && !is_set(name);
            let kept = headers.iter().filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)));
            let mut all: Vec<_> = kept
                .filter(|(name, _)| is_kept(name))
                .map(|(name, value)| Effect::Set { map: HeaderMapKind::Response, name, value: value.into() })
                .collect();
            all.extend(effects);
            return Some(self.reply_instead(host, &headers, &all));
        }
        let _ = edit(host, &effects);
        None
    }

    /// Replaces a response whose body was discarded, at the body's end.
    fn replace_discarded<H: Host>(&mut self, host: &H, awaited: AwaitedBody) {
        let Some(policy) = self.policy.clone() else { return };
        let mut effects = Vec::new();
        self.exchange.response_body_unread(awaited, UnreadBody::IsLost, &policy, &mut effects);
        self.finish_body(host, effects);
    }

    /// Carries out what was decided at the body's end.
    fn finish_body<H: Host>(&mut self, host: &H, effects: Vec<Effect<'_>>) {
        let _ = edit(host, &effects);
        if let Some(body) = body_of(effects) {
            let _ = host.set_response_body(&body);
        }
    }

    /// Sends a local reply in the place of the response. A host does not let a filter add a body to one that has none.
    fn reply_instead<H: Host>(&mut self, host: &H, response: &Headers<'_>, effects: &[Effect<'_>]) -> FilterAction {
        let number = |value: &[u8]| std::str::from_utf8(value).ok().and_then(|status| status.parse().ok());
        let status_line = response.iter().find(|(name, _)| *name == b":status");
        let mut status = status_line.and_then(|(_, value)| number(value)).unwrap_or(502);
        let (mut headers, mut body) = (Vec::new(), &[][..]);
        for effect in effects {
            match effect {
                Effect::Set { name: "content-length", .. } => {}
                Effect::Set { name: ":status", value, .. } => {
                    status = number(value).unwrap_or(status);
                }
                Effect::Set { name, value, .. } => headers.push((*name, String::from_utf8_lossy(value).into_owned())),
                Effect::Body(content) => body = content,
                Effect::Remove { .. } | Effect::Reply(_) | Effect::Acknowledge(_) => {}
            }
        }
        self.replied = true;
        let details = self.exchange.refusal().map_or("processing", |problem| problem.code.name());
        let _ = host.reply(&LocalReply { status, details, headers: &headers, body, grpc_status: None });
        FilterAction::Pause
    }
}

/// The new body among the effects, if there is one.
pub(super) fn body_of(effects: Vec<Effect<'_>>) -> Option<Vec<u8>> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Body(body) => Some(body),
        Effect::Set { .. } | Effect::Remove { .. } | Effect::Reply(_) | Effect::Acknowledge(_) => None,
    })
}
