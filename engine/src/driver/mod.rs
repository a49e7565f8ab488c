//! Drives one exchange over a [`Host`]: reads headers and bodies from the host, gives them to the [`Exchange`], carries
//! out the effects, and pauses a request until its body and its lookups are complete.
//!
//! | module | subject |
//! |---|---|
//! | `response` | the response's callbacks |
//! | `lookups` | caches and calls that all requests of a configuration share |
//! | `held` | the header lines of requests that wait, bounded in bytes |
//! | `observed` | the body and the claim of a request that is checked beside its way |
//! | `stall` | a gateway that keeps back the body that a message waits for |

mod held;
mod lookups;
mod observed;
mod response;
mod stall;

pub use lookups::SharedLookups;
pub use stall::STALL_TICK_MS;

use crate::collision::{BodyReader, Observation};
use crate::exchange::{Effect, Exchange, HeaderMapKind, RequestFlow, Stage};
use crate::host::{HeaderLines as _, Host, HostError, LocalReply};
use crate::lookup::{LookupAnswer, PendingLookup};
use crate::metrics::{SeriesTable, count_request, count_response};
use crate::policy::{Answers, Policy};
use crate::problem::Problem;
use crate::room::NoRoom;
use crate::telemetry::{GivenRecord, Recorder};
use crate::waits::Waits;
use held::HeldLines;
use response::ResponseBody;
use stall::BodyWait;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a callback returns to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterAction {
    /// The message goes to the next filter
    Continue,
    /// The message waits, or the filter has replied
    Pause,
}

/// One request and its response in a gateway.
pub struct Driver<H: Host> {
    /// The number of the request in [`SharedLookups`]
    stream: u32,
    policy: Option<Arc<Policy>>,
    exchange: Exchange,
    /// Whether the response is a local reply. A local reply passes the response callbacks too.
    replied: bool,
    /// Whether the gateway has ended the request's wait with a response of its own; the request never goes on.
    ended_by_gateway: bool,
    pending: Option<PendingRequest>,
    /// A forwarded request whose body is read as it passes.
    observation: Option<Box<Observation>>,
    response: ResponseBody,
    body_wait: BodyWait,
    /// How far the exchange was when it was last counted.
    counted: Stage,
    record: GivenRecord,
    gateway: PhantomData<fn(&H)>,
}

/// A request that waits for its whole body, and maybe for lookups.
struct PendingRequest {
    /// The header lines that are read when the wait ends. While the request waits they count towards the limits of [`HeldLines`].
    lines: HeldLines,
    /// How many bytes of names and values the request's head has, without the headers that were removed before the wait: the
    /// gateway counts it so.
    head: usize,
    /// The body limit of the route, in bytes.
    limit: usize,
    /// Whether the whole body is buffered.
    has_body: bool,
    /// What it waits for.
    awaited: RequestFlow,
    /// What reads the body in parts, if only that is needed of it.
    reader: Option<BodyReader>,
    /// How much of the body it has read, in bytes.
    read: usize,
    /// How much of the body has come, in bytes.
    size: usize,
}

impl PendingRequest {
    /// Whether a call is under way.
    const fn awaits_call(&self) -> bool {
        matches!(self.awaited, RequestFlow::AwaitCall { .. })
    }

    /// Reads the part of the body that has come since the last call; `size` is the number of bytes buffered so far.
    fn read_part<H: Host>(&mut self, host: &H, size: usize) -> Result<(), HostError> {
        self.size = size;
        if let (Some(reader), Some(new @ 1..)) = (&mut self.reader, size.checked_sub(self.read)) {
            let part = host.request_body(self.read, new)?;
            reader.push(&part);
            self.read += part.len();
        }
        Ok(())
    }
}

impl<H: Host> Driver<H> {
    /// The driver of a new request. `stream` is a number that is unique among the requests of the configuration.
    /// `waits` are those of the configuration.
    pub fn new(stream: u32, policy: Option<Arc<Policy>>, waits: Waits) -> Self {
        Self {
            stream,
            policy,
            exchange: Exchange::sharing(waits),
            replied: false,
            ended_by_gateway: false,
            pending: None,
            observation: None,
            response: ResponseBody::default(),
            body_wait: BodyWait::default(),
            counted: Stage::default(),
            record: GivenRecord::default(),
            gateway: PhantomData,
        }
    }

    /// The state of the exchange.
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Counts what the exchange has decided since the last call. It has to be called after each other method that takes
    /// an event.
    pub fn count(&mut self, host: &H, series: &mut SeriesTable) {
        let stage = self.exchange.stage();
        let Some(policy) = self.policy.as_deref().filter(|_| stage != self.counted) else { return };
        // A request that the gateway has ended during its wait is not decided.
        if self.counted < Stage::RequestDecided && !self.ended_by_gateway {
            count_request(&self.exchange, policy, host, series);
        }
        if stage == Stage::ResponseDecided {
            count_response(&self.exchange, policy, series);
        }
        self.counted = stage;
    }

    /// Gives the exchange's record to the gateway and writes its log lines. It has to be called after each other method
    /// that takes an event.
    pub fn record(&mut self, host: &H, recorder: &mut Recorder) {
        if let Some(policy) = self.policy.as_deref() {
            recorder.record(host, &self.exchange, policy, &mut self.record);
        }
    }

    /// Handles the request's headers; `end_of_stream`: neither a body nor trailers follow.
    pub fn on_request_headers(
        &mut self,
        host: &H,
        end_of_stream: bool,
        lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        let Some(policy) = self.policy.clone() else { return self.reply(host, &Problem::policy_invalid()) };
        let lines = host.header_lines(HeaderMapKind::Request);
        let Some(headers) = lines.headers() else { return self.reply(host, &Problem::policy_invalid()) };
        let mut effects = Vec::new();
        let flow = self.exchange.request_headers(&policy, &headers, host, &mut effects);
        match flow {
            RequestFlow::AwaitBody { limit } | RequestFlow::AwaitEnd { limit } | RequestFlow::AwaitCall { limit } => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let kept = self.exchange.kept_lines(&policy, &headers);
                let lines = HeldLines::keep(&kept, self.exchange.carried_bytes());
                // The edits before the wait.
                if self.apply(host, &effects) == FilterAction::Pause {
                    return FilterAction::Pause;
                }
                let head = headers.iter().filter(|(name, _)| !is_removed(&effects, name));
                let head = head.map(|(name, value)| name.len() + value.len()).sum();
                let reader = self.exchange.body_reader().filter(|_| matches!(flow, RequestFlow::AwaitEnd { .. }));
                let has_body = end_of_stream;
                self.pending =
                    Some(PendingRequest { lines, head, limit, has_body, awaited: flow, reader, read: 0, size: 0 });
                self.drive(host, &policy, flow, lookups)
            }
            RequestFlow::Continue | RequestFlow::Replied => {
                let action = self.apply(host, &effects);
                self.begin_observation(host, action, end_of_stream, lookups);
                action
            }
        }
    }

    /// Handles a part of the request's body; `size` is the number of bytes buffered so far, or the size of the part if the
    /// request is not paused.
    pub fn on_request_body(
        &mut self,
        host: &H,
        size: usize,
        end_of_stream: bool,
        lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        if self.pending.is_some() {
            self.body_wait.arrived();
        }
        match &mut self.pending {
            None if self.replied || self.ended_by_gateway => FilterAction::Pause,
            None => {
                self.observe_part(host, size, end_of_stream, lookups);
                FilterAction::Continue
            }
            Some(pending) if size > pending.limit => self.refuse_body(host, lookups),
            Some(pending) => match pending.read_part(host, size) {
                Err(HostError) => self.reply(host, &Problem::dependency_unavailable()),
                Ok(()) if end_of_stream => self.complete_body(host, lookups),
                Ok(()) => FilterAction::Pause,
            },
        }
    }

    /// Handles the request's trailers.
    pub fn on_request_trailers(&mut self, host: &H, lookups: Option<&mut SharedLookups>) -> FilterAction {
        let Some(policy) = self.policy.clone() else { return self.reply(host, &Problem::policy_invalid()) };
        if self.replied {
            return FilterAction::Continue;
        }
        if self.ended_by_gateway {
            return FilterAction::Pause;
        }
        let lines = host.header_lines(HeaderMapKind::RequestTrailers);
        let Some(trailers) = lines.headers() else { return self.reply(host, &Problem::policy_invalid()) };
        let mut effects = Vec::new();
        self.exchange.request_trailers(&policy, &trailers, &mut effects);
        match self.apply(host, &effects) {
            // If trailers follow, no body callback has `end_of_stream` set.
            FilterAction::Continue if self.pending.is_some() => {
                self.body_wait.arrived();
                self.complete_body(host, lookups)
            }
            FilterAction::Continue => {
                self.end_observation(host, lookups);
                FilterAction::Continue
            }
            FilterAction::Pause => FilterAction::Pause,
        }
    }

    /// Handles the answer to a lookup, in a callback that belongs to another context.
    pub fn on_lookup_answer(&mut self, host: &H, answer: LookupAnswer, lookups: &mut SharedLookups) {
        let Some(policy) = self.policy.clone().filter(|_| self.pending.is_some()) else { return };
        let flow = self.take_answer(host, &policy, answer);
        if self.drive(host, &policy, flow, Some(lookups)) == FilterAction::Continue {
            // If the request has ended meanwhile, there is nothing to resume.
            let _ = host.resume_request();
        }
    }

    /// Ends the wait for a lookup, if there is one.
    pub fn cancel_lookup(&self, lookups: &mut SharedLookups) {
        let awaits_call = self.pending.as_ref().is_some_and(PendingRequest::awaits_call);
        if let Some(request) = self.exchange.pending_lookup().filter(|_| awaits_call) {
            lookups.cancel(self.stream, request);
        }
    }

    /// Continues until the request is decided, or has to wait for its body or a call.
    fn drive(
        &mut self,
        host: &H,
        policy: &Policy,
        mut flow: RequestFlow,
        mut lookups: Option<&mut SharedLookups>,
    ) -> FilterAction {
        loop {
            if let Some(pending) = &mut self.pending {
                pending.awaited = flow;
            }
            let has_body = self.pending.as_ref().is_some_and(|pending| pending.has_body);
            flow = match flow {
                RequestFlow::AwaitCall { .. } => {
                    let lookups = lookups.as_deref_mut();
                    let Some((lookups, request)) = lookups.zip(self.exchange.pending_lookup()) else {
                        return self.reply(host, &Problem::policy_invalid());
                    };
                    // The cache of a store may have the answer, and then nothing waits. Other calls are made for each request, so
                    // one for which there is no room must not cause any.
                    if !matches!(request, PendingLookup::Store(_))
                        && let Some(pending) = &mut self.pending
                        && let Err(why) = pending.lines.count_for(self.exchange.waiter(policy))
                    {
                        return self.refuse_to_wait(host, why);
                    }
                    match lookups.look_up(host, self.stream, request) {
                        Some(answer) => self.take_answer(host, policy, answer),
                        None => return self.wait(host, policy, Some(lookups)),
                    }
                }
                RequestFlow::AwaitBody { .. } | RequestFlow::AwaitEnd { .. } if has_body => {
                    match self.evaluate_end(host, policy, flow) {
                        Ok(flow) => flow,
                        Err(action) => {
                            self.begin_observation(host, action, true, lookups);
                            return action;
                        }
                    }
                }
                RequestFlow::AwaitBody { .. } | RequestFlow::AwaitEnd { .. } => {
                    return self.wait(host, policy, lookups);
                }
                RequestFlow::Replied => return FilterAction::Pause,
                RequestFlow::Continue => return FilterAction::Continue,
            };
        }
    }

    /// Waits, if there is room for the request.
    fn wait(&mut self, host: &H, policy: &Policy, lookups: Option<&mut SharedLookups>) -> FilterAction {
        let Some(pending) = &mut self.pending else { return FilterAction::Pause };
        match pending.lines.count_for(self.exchange.waiter(policy)) {
            Ok(()) => FilterAction::Pause,
            Err(why) => {
                if let Some(lookups) = lookups {
                    self.cancel_lookup(lookups);
                }
                self.refuse_to_wait(host, why)
            }
        }
    }

    /// Hands the answer to a lookup to the exchange.
    fn take_answer(&mut self, host: &H, policy: &Policy, answer: LookupAnswer) -> RequestFlow {
        let mut effects = Vec::new();
        let flow = self.exchange.on_lookup_answer(policy, answer, &mut effects);
        if flow == RequestFlow::Replied {
            self.pending = None;
            self.apply(host, &effects);
        }
        flow
    }

    /// Decides the request, whose whole body is buffered. `Ok` if it needs something else first.
    fn evaluate_end(&mut self, host: &H, policy: &Policy, flow: RequestFlow) -> Result<RequestFlow, FilterAction> {
        let Some(mut pending) = self.pending.take() else { return Err(FilterAction::Continue) };
        let headers = pending.lines.headers();
        let mut effects = Vec::new();
        let flow = if let RequestFlow::AwaitEnd { .. } = flow {
            // The host has given less than has come. The fingerprint would be that of another body.
            if pending.reader.is_some() && pending.read != pending.size {
                return Err(self.reply(host, &Problem::dependency_unavailable()));
            }
            self.exchange.request_ended(policy, &headers, pending.reader.take(), &mut effects)
        } else {
            // One byte above the limit is enough to recognise a body that is too long.
            let body = host.request_body(0, pending.limit.saturating_add(1));
            let Some(body) = body.ok().filter(|body| body.len() >= pending.size) else {
                return Err(self.reply(host, &Problem::dependency_unavailable()));
            };
            if body.len() > pending.limit {
                self.exchange.body_too_large(pending.limit as u64, &mut effects)
            } else {
                self.exchange.request_body(policy, &headers, &body, host.now_unix_ms(), &mut effects)
            }
        };
        if flow.waits() {
            // A signed request that is verified waits for less.
            let kept = self.exchange.kept_lines(policy, &headers);
            pending.lines = HeldLines::keep(&kept, self.exchange.carried_bytes());
            self.pending = Some(pending);
            return Ok(flow);
        }
        Err(self.apply(host, &effects))
    }

    /// Refuses a request that has to wait, and for which there is no room.
    #[inline(never)]
    fn refuse_to_wait(&mut self, host: &H, why: NoRoom) -> FilterAction {
        let mut effects = Vec::new();
        self.exchange.no_room_to_wait(why.reason(), &mut effects);
        self.apply(host, &effects)
    }

    /// Handles the end of the body.
    fn complete_body(&mut self, host: &H, lookups: Option<&mut SharedLookups>) -> FilterAction {
        let (Some(policy), Some(pending)) = (self.policy.clone(), &mut self.pending) else {
            return FilterAction::Continue;
        };
        pending.has_body = true;
        if pending.awaits_call() {
            return FilterAction::Pause;
        }
        let flow = pending.awaited;
        self.drive(host, &policy, flow, lookups)
    }

    /// Refuses a body that is too long.
    fn refuse_body(&mut self, host: &H, lookups: Option<&mut SharedLookups>) -> FilterAction {
        if let Some(lookups) = lookups {
            self.cancel_lookup(lookups);
        }
        let Some(pending) = self.pending.take() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        self.exchange.body_too_large(pending.limit as u64, &mut effects);
        self.apply(host, &effects)
    }

    /// Carries out the effects of an event of the request.
    fn apply(&mut self, host: &H, effects: &[Effect<'_>]) -> FilterAction {
        if let Some(Effect::Reply(problem)) = effects.first() {
            return self.reply(host, problem);
        }
        match edit(host, effects) {
            Ok(()) => FilterAction::Continue,
            // A header that could not be set or removed must not reach the backend as it is (invariant I1).
            Err(HostError) => self.reply(host, &Problem::policy_invalid()),
        }
    }

    /// Sends a problem document as a local reply.
    fn reply(&mut self, host: &H, problem: &Problem) -> FilterAction {
        let problem = self.exchange.refuse(problem.clone());
        let default = Answers::default();
        let answers = self.policy.as_ref().map_or(&default, |policy| policy.answers());
        let document = problem.document(answers);
        let details = match self.exchange.reason() {
            Some(reason) => format!("{}.{reason}", problem.code.name()),
            None => problem.code.name().to_owned(),
        };
        self.replied = true;
        self.pending = None;
        let headers = problem.headers(answers);
        let (status, body) = (problem.status(), document.as_bytes());
        // If the host cannot send the reply, it has ended the stream. Pausing makes sure that nothing is forwarded.
        let _ = host.reply(&LocalReply { status, details: &details, headers: &headers, body });
        FilterAction::Pause
    }
}

/// Whether the effects remove the request's headers with this name.
fn is_removed(effects: &[Effect<'_>], name: &[u8]) -> bool {
    let is_it = |effect: &Effect<'_>| matches!(effect, Effect::Remove { map: HeaderMapKind::Request, name: removed } if *removed == name);
    effects.iter().any(is_it)
}

/// Carries out edits, up to the first one that fails.
fn edit<H: Host>(host: &H, effects: &[Effect<'_>]) -> Result<(), HostError> {
    effects.iter().try_for_each(|effect| match effect {
        Effect::Set { map, name, value } => host.set_header(*map, name, value),
        Effect::Remove { map, name } => host.remove_header(*map, name),
        Effect::Body(_) | Effect::Reply(_) => Ok(()),
    })
}
