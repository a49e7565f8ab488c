//! One request and its response in a gateway: reads headers and bodies from the [`Host`], gives them to the [`Exchange`],
//! carries out the effects, and pauses a message until its body and its lookups are complete.
//!
//! | module | subject |
//! |---|---|
//! | `request` | the request's way until it is decided |
//! | `response` | the response's way |
//! | `kept_lines` | the header lines of requests that wait, bounded in bytes |
//! | `observed` | the body and the claim of a request that is checked beside its way |
//! | `observed_answer` | the body of a response that is read as it passes |
//! | `stalled` | a message whose body the gateway keeps back |

mod kept_lines;
mod observed;
mod observed_answer;
mod request;
mod response;
mod stalled;

use crate::collision::Observation;
use crate::configuration::{Configuration, Wake};
use crate::exchange::{Effect, Exchange, Outcome, Stage};
use crate::host::{Host, HostError, LocalReply};
use crate::json::to_text;
use crate::metrics::{SeriesTable, count_request, count_response};
use crate::policy::{Answers, Policy};
use crate::problem::{Problem, Reason};
use crate::telemetry::GivenRecord;
use request::PendingRequest;
use response::ResponseBody;
use serde::Serialize;
use std::sync::Arc;

/// What an event of a stream returns to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterAction {
    /// The message goes to the next filter
    Continue,
    /// The message waits, or the filter has replied. The gateway buffers what comes of its body.
    Pause,
    /// As [`FilterAction::Pause`], for headers: the gateway shows nothing of the body before the message goes on, and then the body
    /// passes as it comes, whatever its length.
    PauseReading,
}

/// One request and its response.
///
/// Each event takes the host of this stream and the configuration that the stream was made for. After each event the host
/// wakes the streams that [`Configuration::next_to_wake`] names.
pub struct Stream {
    /// The number that [`Configuration::next_to_wake`] gives
    id: u32,
    policy: Option<Arc<Policy>>,
    exchange: Exchange,
    /// Whether the response is a local reply. A local reply passes the response's events too.
    replied: bool,
    /// Whether the gateway has ended the request's wait with a response of its own; the request never goes on.
    ended_by_gateway: bool,
    pending: Option<PendingRequest>,
    /// A forwarded request whose body is read as it passes.
    observation: Option<Box<Observation>>,
    response: ResponseBody,
    /// Whether the configuration may name the stream.
    has_waited: bool,
    /// How far the exchange was when it was last counted and recorded.
    noted: Stage,
    record: GivenRecord,
}

impl Stream {
    /// A new stream. No stream that has not ended has the same number, of all configurations that share caches.
    pub fn new(id: u32, configuration: &Configuration) -> Self {
        Self {
            id,
            policy: configuration.policy(),
            exchange: Exchange::sharing(configuration.waits()),
            replied: false,
            ended_by_gateway: false,
            pending: None,
            observation: None,
            response: ResponseBody::default(),
            has_waited: false,
            noted: Stage::default(),
            record: GivenRecord::default(),
        }
    }

    /// As [`Stream::new`], with a trace of what is looked at and found.
    #[doc(hidden)]
    #[cfg(feature = "trace")]
    pub fn traced(id: u32, configuration: &Configuration) -> Self {
        let mut stream = Self::new(id, configuration);
        stream.exchange.begin_trace();
        stream
    }

    /// The state of the exchange.
    #[doc(hidden)]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Handles the request's headers; `end_of_stream`: neither a body nor trailers follow.
    pub fn on_request_headers<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        end_of_stream: bool,
    ) -> FilterAction {
        let action = self.request_headers(host, configuration, end_of_stream);
        self.note(host, configuration);
        action
    }

    /// Handles a part of the request's body; `size` is the number of bytes buffered so far, or the size of the part if the
    /// request is not paused.
    pub fn on_request_body<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        size: usize,
        end_of_stream: bool,
    ) -> FilterAction {
        let action = self.request_body(host, configuration, size, end_of_stream);
        self.note(host, configuration);
        action
    }

    /// Handles the request's trailers.
    pub fn on_request_trailers<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        let action = self.request_trailers(host, configuration);
        self.note(host, configuration);
        action
    }

    /// Handles the response's headers; `end_of_stream`: neither a body nor trailers follow.
    pub fn on_response_headers<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        end_of_stream: bool,
    ) -> FilterAction {
        let action = self.response_headers(host, configuration, end_of_stream);
        self.note(host, configuration);
        action
    }

    /// Handles a part of the response's body; `size` is the number of bytes so far, buffered ones included.
    ///
    /// A response that waits for its body goes on at the body's end and never before it.
    pub fn on_response_body<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        size: usize,
        end_of_stream: bool,
    ) -> FilterAction {
        let action = self.response_body(host, configuration, size, end_of_stream);
        self.note(host, configuration);
        action
    }

    /// Handles the response's trailers.
    pub fn on_response_trailers<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        let action = self.response_trailers(host, configuration);
        self.note(host, configuration);
        action
    }

    /// Goes on after [`Configuration::next_to_wake`] has named the stream: the answer that it waits for is there, or the
    /// gateway keeps back the body that it waits for. If the message goes to the next filter, the host is told so
    /// ([`Host::resume_request`], [`Host::resume_response`]).
    pub fn on_wake<H: Host>(&mut self, host: &H, configuration: &mut Configuration) {
        match configuration.wake(self.id) {
            Some(Wake::Answer(answer)) if self.response.question().is_some() => self.response_answer(host, &answer),
            Some(Wake::Answer(answer)) => self.lookup_answer(host, configuration, answer),
            Some(Wake::BodyStalled) => self.stalled_wait(host, configuration),
            None => {}
        }
        self.note(host, configuration);
    }

    /// Whether a call has to be answered before the request or its response goes on, so that [`Configuration::next_to_wake`] will name the stream.
    pub fn awaits_call(&self) -> bool {
        self.response.question().is_some() || self.pending.as_ref().is_some_and(PendingRequest::awaits_call)
    }

    /// Replies with 503 `internal_error` after the host or the engine has failed in an event of this stream. What was decided
    /// before is dropped.
    pub fn on_failure<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        let can_repeat = self.noted == Stage::default() || self.exchange.sends_key();
        self.fail(host, configuration, &Problem::internal_error_of(can_repeat))
    }

    /// Replies with 503 `policy_invalid`, because the gateway around the filter lacks something that the policy needs.
    pub fn on_misconfigured<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        self.fail(host, configuration, &Problem::policy_invalid())
    }

    fn fail<H: Host>(&mut self, host: &H, configuration: &mut Configuration, problem: &Problem) -> FilterAction {
        self.cancel_lookup(configuration);
        self.exchange = Exchange::sharing(configuration.waits());
        (self.pending, self.observation) = (None, None);
        (self.response, self.noted) = (ResponseBody::default(), Stage::default());
        let action = self.reply(host, problem);
        self.note(host, configuration);
        action
    }

    /// Ends the stream. It is the last event of each stream, also if the client went away; what the stream holds is free when it is
    /// dropped.
    pub fn on_end(&mut self, configuration: &mut Configuration) {
        self.cancel_lookup(configuration);
        if self.has_waited {
            configuration.forget(self.id);
        }
    }

    /// Whether parts of the request's body pass without being looked at: [`Stream::on_request_body`] would do nothing.
    pub const fn ignores_request_body(&self) -> bool {
        self.pending.is_none() && self.observation.is_none() && !self.replied && !self.ended_by_gateway
    }

    /// Whether parts of the response's body pass without being looked at: [`Stream::on_response_body`] would do nothing.
    pub const fn ignores_response_body(&self) -> bool {
        matches!(self.response, ResponseBody::Streamed)
    }

    /// Counts and records what the exchange has decided since the last event.
    fn note<H: Host>(&mut self, host: &H, configuration: &mut Configuration) {
        let (stage, before) = (self.exchange.stage(), self.noted);
        let Some(policy) = self.policy.as_deref().filter(|_| stage != before) else { return };
        configuration.metrics().with(|series| self.count(stage, policy, host, series));
        configuration.recorder().record(host, &self.exchange, policy, before, &mut self.record);
        self.noted = stage;
    }

    fn count<H: Host>(&self, stage: Stage, policy: &Policy, host: &H, series: &mut SeriesTable) {
        // A request that the gateway has ended during its wait is not decided.
        if self.noted < Stage::RequestDecided && !self.ended_by_gateway {
            count_request(&self.exchange, policy, host, series);
        }
        if stage == Stage::ResponseDecided {
            count_response(&self.exchange, policy, series);
        }
    }

    /// Carries out the effects of an event of the request.
    fn apply<H: Host>(&mut self, host: &H, effects: &[Effect<'_>]) -> FilterAction {
        match effects.first() {
            Some(Effect::Reply(problem)) => return self.reply(host, problem),
            Some(Effect::Acknowledge(detail)) => return self.acknowledge(host, detail),
            _ => {}
        }
        match edit(host, effects) {
            Ok(()) => FilterAction::Continue,
            // A header that could not be set or removed must not reach the backend as it is (invariant I1).
            Err(HostError) => self.reply(host, &Problem::internal_error()),
        }
    }

    /// Sends a problem document as a local reply.
    fn reply<H: Host>(&mut self, host: &H, problem: &Problem) -> FilterAction {
        if let Some(pending) = self.pending.take() {
            self.exchange.end_pause(pending.pause);
        }
        let problem = self.exchange.refuse(problem.clone());
        let default = Answers::default();
        let answers = self.policy.as_ref().map_or(&default, |policy| &policy.answers);
        let answer = problem.answer(answers, self.exchange.protocol());
        let details = match self.exchange.reason() {
            Some(reason) => format!("{}.{}", problem.code.name(), reason.name()),
            None => problem.code.name().to_owned(),
        };
        self.replied = true;
        // If the host cannot send the reply, it has ended the stream. Pausing makes sure that nothing is forwarded.
        let _ = host.reply(&LocalReply {
            status: answer.status,
            details: &details,
            headers: &answer.headers,
            body: &answer.body,
            grpc_status: answer.grpc_status,
        });
        FilterAction::Pause
    }

    /// Acknowledges a delivery without a call.
    fn acknowledge<H: Host>(&mut self, host: &H, detail: &str) -> FilterAction {
        let outcome = Outcome::Acknowledged.name();
        let details = format!("{outcome}.{}", self.exchange.reason().map_or("", Reason::name));
        let body = to_text(&Acknowledgement { outcome, detail });
        let headers = [("content-type", "application/json".to_owned()), ("cache-control", "no-store".to_owned())];
        self.replied = true;
        self.pending = None;
        // As for a problem document.
        let body = body.as_bytes();
        let _ = host.reply(&LocalReply { status: 200, details: &details, headers: &headers, body, grpc_status: None });
        FilterAction::Pause
    }
}

/// The body of the answer to a delivery that is acknowledged.
#[derive(Serialize)]
struct Acknowledgement<'a> {
    outcome: &'a str,
    detail: &'a str,
}

/// Carries out edits, up to the first one that fails.
fn edit<H: Host>(host: &H, effects: &[Effect<'_>]) -> Result<(), HostError> {
    effects.iter().try_for_each(|effect| match effect {
        Effect::Set { map, name, value } => host.set_header(*map, name, value),
        Effect::Remove { map, name } => host.remove_header(*map, name),
        Effect::Body(_) | Effect::Reply(_) | Effect::Acknowledge(_) => Ok(()),
    })
}
