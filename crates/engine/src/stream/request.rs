//! The request's way until it is decided.

use super::kept_lines::KeptLines;
use super::{FilterAction, Stream, edit};
use crate::collision::BodyReader;
use crate::configuration::Configuration;
use crate::exchange::{Effect, HeaderMapKind, RequestFlow};
use crate::headers::Headers;
use crate::host::{HeaderLines as _, Host, HostError};
use crate::lookup::{LookupAnswer, PendingLookup};
use crate::memory::NoMemory;
use crate::metrics::call_time;
use crate::policy::Policy;
use crate::problem::Problem;

/// A request that waits for its whole body, and maybe for lookups.
pub(super) struct PendingRequest {
    /// The header lines that are read when the wait ends. While the request waits they count towards the limits of [`KeptLines`].
    lines: KeptLines,
    /// How many bytes of names and values the request's head has, without the headers that were removed before the wait: the
    /// gateway counts it so.
    pub(super) head: usize,
    /// The body limit of the route, in bytes.
    limit: usize,
    /// Whether the whole body is buffered.
    pub(super) has_body: bool,
    /// What it waits for.
    awaited: RequestFlow,
    /// What reads the body in parts, if only that is needed of it.
    reader: Option<BodyReader>,
    /// How much of the body it has read, in bytes.
    read: usize,
    /// How much of the body has come, in bytes.
    size: usize,
    /// Whether it goes on with its whole body only.
    needs_body: bool,
}

/// How much of a request has come.
#[derive(Clone, Copy)]
struct Arrived {
    /// Whether nothing follows
    ended: bool,
    /// The size of its buffered body, in bytes
    size: usize,
}

impl PendingRequest {
    /// A request whose caller is looked up. `limit`: the body limit of the route, if the request waits for its body, too. `head`:
    /// how many bytes its head has; `carried`: how many bytes the exchange keeps.
    fn of_caller(limit: Option<u64>, has_body: bool, (head, carried): (usize, usize)) -> Self {
        Self {
            lines: KeptLines::keep(&Headers::default(), carried),
            head,
            limit: usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX),
            has_body,
            awaited: RequestFlow::AwaitCaller { limit },
            reader: None,
            read: 0,
            size: 0,
            needs_body: limit.is_some(),
        }
    }

    /// Whether a call is under way.
    pub(super) const fn awaits_call(&self) -> bool {
        matches!(self.awaited, RequestFlow::AwaitCall { .. } | RequestFlow::AwaitCaller { .. })
    }

    /// Reads the part of the body that has come since the last call; `size` is the number of bytes buffered so far.
    fn read_part<H: Host>(&mut self, host: &H, size: usize) -> Result<(), HostError> {
        self.size = size;
        if let (Some(reader), Some(new @ 1..)) = (&mut self.reader, size.checked_sub(self.read)) {
            self.read += host.with_request_body(self.read, new, |part| {
                part.pieces().iter().for_each(|piece| reader.push(piece));
                part.len()
            })?;
        }
        Ok(())
    }
}

impl Stream {
    /// Handles the request's headers; `end_of_stream`: neither a body nor trailers follow.
    pub(super) fn request_headers<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        end_of_stream: bool,
    ) -> FilterAction {
        self.decide(host, configuration, Arrived { ended: end_of_stream, size: 0 })
    }

    /// Decides about a request from its headers. A request whose caller had to be looked up comes here again.
    fn decide<H: Host>(&mut self, host: &H, configuration: &mut Configuration, arrived: Arrived) -> FilterAction {
        let Some(policy) = self.policy.clone() else { return self.reply(host, &Problem::policy_invalid()) };
        let lines = host.header_lines(HeaderMapKind::Request);
        let Some(headers) = lines.headers() else { return self.reply(host, &Problem::internal_error()) };
        let mut effects = Vec::new();
        let mut flow = self.exchange.request_headers(&policy, &headers, host, &mut effects);
        if let RequestFlow::AwaitCaller { limit } = flow {
            if !self.has_waited {
                // An event that failed may have left an answer for this number.
                configuration.forget(self.id);
            }
            let Some(found) = self.look_up(host, configuration, &policy) else {
                return self.reply(host, &Problem::internal_error());
            };
            let Some(answer) = found else {
                let head = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
                let carried = self.exchange.carried_bytes();
                self.pending = Some(PendingRequest::of_caller(limit, arrived.ended, (head, carried)));
                return match self.wait(host, configuration, &policy) {
                    FilterAction::Pause if limit.is_none() && self.pending.is_some() => FilterAction::PauseReading,
                    action => action,
                };
            };
            if self.give_answer(host, &policy, answer) == RequestFlow::Replied {
                return FilterAction::Pause;
            }
            flow = self.exchange.request_headers(&policy, &headers, host, &mut effects);
        }
        match flow {
            RequestFlow::AwaitBody { limit } | RequestFlow::AwaitEnd { limit } | RequestFlow::AwaitCall { limit } => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let kept = self.exchange.kept_lines(&policy, &headers);
                let lines = KeptLines::keep(&kept, self.exchange.carried_bytes());
                // The edits before the wait.
                if self.apply(host, &effects) == FilterAction::Pause {
                    return FilterAction::Pause;
                }
                let head = headers.iter().filter(|(name, _)| !is_removed(&effects, name));
                let head = head.map(|(name, value)| name.len() + value.len()).sum();
                let reader = self.exchange.body_reader().filter(|_| matches!(flow, RequestFlow::AwaitEnd { .. }));
                let Arrived { ended: has_body, size } = arrived;
                let mut pending = PendingRequest {
                    lines,
                    head,
                    limit,
                    has_body,
                    awaited: flow,
                    reader,
                    read: 0,
                    size: 0,
                    needs_body: true,
                };
                let read = pending.read_part(host, size);
                self.pending = Some(pending);
                if size > limit {
                    return self.refuse_body(host, configuration);
                }
                if read.is_err() {
                    return self.reply(host, &Problem::dependency_unavailable());
                }
                self.drive(host, configuration, &policy, flow)
            }
            RequestFlow::Continue | RequestFlow::Replied => {
                let action = self.apply(host, &effects);
                let Arrived { ended, size } = arrived;
                self.begin_observation(host, configuration, action, ended && size == 0);
                if size > 0 {
                    self.observe_part(host, configuration, size, ended);
                }
                action
            }
            // Once its caller is known, a request does not wait for it again.
            RequestFlow::AwaitCaller { .. } | RequestFlow::Again => self.reply(host, &Problem::internal_error()),
        }
    }

    /// Handles a part of the request's body; `size` is the number of bytes buffered so far, or the size of the part if the
    /// request is not paused.
    pub(super) fn request_body<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        size: usize,
        end_of_stream: bool,
    ) -> FilterAction {
        if self.pending.is_some() {
            configuration.body_watch().arrived();
        }
        match &mut self.pending {
            None if self.replied || self.ended_by_gateway => FilterAction::Pause,
            None => {
                self.observe_part(host, configuration, size, end_of_stream);
                FilterAction::Continue
            }
            Some(pending) if size > pending.limit => self.refuse_body(host, configuration),
            Some(pending) => match pending.read_part(host, size) {
                Err(HostError) => self.reply(host, &Problem::dependency_unavailable()),
                Ok(()) if end_of_stream => self.complete_body(host, configuration),
                Ok(()) => FilterAction::Pause,
            },
        }
    }

    /// Handles the request's trailers.
    pub(super) fn request_trailers<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        if self.replied {
            return FilterAction::Continue;
        }
        if self.ended_by_gateway {
            return FilterAction::Pause;
        }
        let Some(policy) = self.policy.clone() else { return self.reply(host, &Problem::policy_invalid()) };
        let lines = host.header_lines(HeaderMapKind::RequestTrailers);
        // The backend may have a request that does not wait.
        let can_repeat = self.pending.is_some() || self.exchange.sends_key();
        let fault = |_| Problem::internal_error_of(can_repeat);
        let Some(trailers) = lines.headers() else { return self.reply(host, &fault(HostError)) };
        let mut effects = Vec::new();
        self.exchange.request_trailers(&policy, &trailers, &mut effects);
        let action = match edit(host, &effects).map_err(fault) {
            Ok(()) => FilterAction::Continue,
            Err(problem) => self.reply(host, &problem),
        };
        match action {
            // If trailers follow, no body callback has `end_of_stream` set.
            FilterAction::Continue if self.pending.is_some() => {
                configuration.body_watch().arrived();
                self.complete_body(host, configuration)
            }
            FilterAction::Continue => {
                self.end_observation(host, configuration);
                FilterAction::Continue
            }
            FilterAction::Pause | FilterAction::PauseReading => FilterAction::Pause,
        }
    }

    /// Handles the answer to a lookup.
    pub(super) fn lookup_answer<H: Host>(&mut self, host: &H, configuration: &mut Configuration, answer: LookupAnswer) {
        let Some(policy) = self.policy.clone().filter(|_| self.pending.is_some()) else { return };
        let flow = self.give_answer(host, &policy, answer);
        if self.drive(host, configuration, &policy, flow) == FilterAction::Continue {
            // If the request has ended meanwhile, there is nothing to resume.
            let _ = host.resume_request();
        }
    }

    /// Ends the wait for a lookup, if there is one.
    pub(super) fn cancel_lookup(&self, configuration: &mut Configuration) {
        let pending = self.exchange.pending_lookup().filter(|_| self.awaits_call());
        if let Some((mut dependencies, request)) = configuration.dependencies().zip(pending) {
            dependencies.cancel(self.id, request);
        }
    }

    /// Continues until the request is decided, or has to wait for its body or a call.
    fn drive<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        policy: &Policy,
        mut flow: RequestFlow,
    ) -> FilterAction {
        loop {
            if let Some(pending) = &mut self.pending {
                pending.awaited = flow;
            }
            let has_body = self.pending.as_ref().is_some_and(|pending| pending.has_body);
            flow = match flow {
                RequestFlow::AwaitCall { .. } => {
                    // The cache of a store may have the answer, and then nothing waits. Other calls are made for each request, so
                    // one for which there is no memory must not cause any.
                    if self.exchange.pending_lookup().is_some_and(|lookup| !matches!(lookup, PendingLookup::Store(_)))
                        && let Some(pending) = &mut self.pending
                        && let Err(why) = pending.lines.count_for(self.exchange.waiter(policy))
                    {
                        return self.refuse_to_wait(host, why);
                    }
                    match self.look_up(host, configuration, policy) {
                        Some(Some(answer)) => self.give_answer(host, policy, answer),
                        Some(None) => return self.wait(host, configuration, policy),
                        None => return self.reply(host, &Problem::internal_error()),
                    }
                }
                RequestFlow::AwaitBody { .. } | RequestFlow::AwaitEnd { .. } if has_body => {
                    match self.evaluate_end(host, policy, flow) {
                        Ok(flow) => flow,
                        Err(action) => {
                            self.begin_observation(host, configuration, action, true);
                            return action;
                        }
                    }
                }
                RequestFlow::AwaitBody { .. } | RequestFlow::AwaitEnd { .. } => {
                    return self.wait(host, configuration, policy);
                }
                RequestFlow::Replied => return FilterAction::Pause,
                RequestFlow::Continue => return FilterAction::Continue,
                // A gateway lets the whole body go on, or what comes of it: a request whose body is awaited goes on with its
                // end.
                RequestFlow::Again if !has_body && self.awaits_body() => return self.wait(host, configuration, policy),
                RequestFlow::Again => {
                    let Some(pending) = self.pending.take() else { return FilterAction::Pause };
                    return self.decide(host, configuration, Arrived { ended: has_body, size: pending.size });
                }
                // Only [`Stream::decide`] gets this.
                RequestFlow::AwaitCaller { .. } => return self.reply(host, &Problem::internal_error()),
            };
        }
    }

    /// Looks up what the exchange waits for. `None` if it waits for no lookup; inside, the answer, if it is there at once.
    pub(super) fn look_up<H: Host>(
        &self,
        host: &H,
        configuration: &Configuration,
        policy: &Policy,
    ) -> Option<Option<LookupAnswer>> {
        let (request, mut dependencies) = self.exchange.pending_lookup().zip(configuration.dependencies())?;
        let metrics = configuration.metrics();
        let mut time = |store| metrics.with(|series| call_time(&self.exchange, policy, store, series));
        Some(dependencies.look_up(host, self.id, request, &mut time))
    }

    /// Whether the request waits for its whole body.
    const fn awaits_body(&self) -> bool {
        matches!(&self.pending, Some(pending) if pending.needs_body)
    }

    /// Waits, if there is memory for the request.
    fn wait<H: Host>(&mut self, host: &H, configuration: &mut Configuration, policy: &Policy) -> FilterAction {
        self.has_waited = true;
        let Some(pending) = &mut self.pending else { return FilterAction::Pause };
        match pending.lines.count_for(self.exchange.waiter(policy)) {
            Ok(()) => {
                if !pending.has_body && !pending.awaits_call() {
                    configuration.body_watch().begin(self.id);
                }
                FilterAction::Pause
            }
            Err(why) => {
                self.cancel_lookup(configuration);
                self.refuse_to_wait(host, why)
            }
        }
    }

    /// Hands the answer to a lookup to the exchange.
    fn give_answer<H: Host>(&mut self, host: &H, policy: &Policy, answer: LookupAnswer) -> RequestFlow {
        let mut effects = Vec::new();
        let flow = self.exchange.on_lookup_answer(policy, answer, &mut effects);
        if flow == RequestFlow::Replied {
            self.pending = None;
            self.apply(host, &effects);
        }
        flow
    }

    /// Decides the request, whose whole body is buffered. `Ok` if it needs something else first.
    fn evaluate_end<H: Host>(
        &mut self,
        host: &H,
        policy: &Policy,
        flow: RequestFlow,
    ) -> Result<RequestFlow, FilterAction> {
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
            let (exchange, effects) = (&mut self.exchange, &mut effects);
            let flow = host.with_request_body(0, pending.limit.saturating_add(1), |body| {
                let size = body.len();
                if size < pending.size {
                    None
                } else if size > pending.limit {
                    Some(exchange.body_too_large(pending.limit as u64, effects))
                } else {
                    Some(exchange.request_body(policy, &headers, body, host.now_unix_ms(), effects))
                }
            });
            match flow {
                Ok(Some(flow)) => flow,
                _ => return Err(self.reply(host, &Problem::dependency_unavailable())),
            }
        };
        if flow.waits() {
            // A signed request that is verified waits for less.
            let kept = self.exchange.kept_lines(policy, &headers);
            pending.lines = KeptLines::keep(&kept, self.exchange.carried_bytes());
            self.pending = Some(pending);
            return Ok(flow);
        }
        Err(self.apply(host, &effects))
    }

    /// Refuses a request that has to wait, and for which there is no memory.
    #[inline(never)]
    fn refuse_to_wait<H: Host>(&mut self, host: &H, why: NoMemory) -> FilterAction {
        let mut effects = Vec::new();
        self.exchange.no_memory_to_wait(why.reason(), &mut effects);
        self.apply(host, &effects)
    }

    /// Handles the end of the body.
    fn complete_body<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        let (Some(policy), Some(pending)) = (self.policy.clone(), &mut self.pending) else {
            return FilterAction::Continue;
        };
        pending.has_body = true;
        if pending.awaits_call() {
            return FilterAction::Pause;
        }
        let flow = pending.awaited;
        self.drive(host, configuration, &policy, flow)
    }

    /// Refuses a body that is too long.
    fn refuse_body<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        self.cancel_lookup(configuration);
        let Some(pending) = self.pending.take() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        self.exchange.body_too_large(pending.limit as u64, &mut effects);
        self.apply(host, &effects)
    }
}

/// Whether the effects remove the request's headers with this name.
fn is_removed(effects: &[Effect<'_>], name: &[u8]) -> bool {
    let is_it = |effect: &Effect<'_>| matches!(effect, Effect::Remove { map: HeaderMapKind::Request, name: removed } if *removed == name);
    effects.iter().any(is_it)
}
