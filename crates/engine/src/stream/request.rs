//! The request's way until it is decided.

use super::kept_lines::KeptLines;
use super::{FilterAction, Stream, edit};
use crate::collision::BodyReader;
use crate::configuration::Configuration;
use crate::exchange::{Awaits, Effect, HeaderMapKind, Pause, PauseEvent, RequestFlow, Resumed};
use crate::headers::Headers;
use crate::host::{HeaderLines as _, Host, HostError};
use crate::identity::Identity;
use crate::lookup::LookupAnswer;
use crate::memory::NoMemory;
use crate::metrics::call_time;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::questions::PendingLookup;

/// A request that waits.
pub(super) struct PendingRequest {
    /// What it waits for, and how it goes on
    pub(super) pause: Pause,
    pub(super) message: PausedMessage,
}

/// What the gateway holds of a request that waits.
pub(super) struct PausedMessage {
    /// The header lines that are read when the wait ends. While the request waits they count towards the limits of [`KeptLines`].
    lines: KeptLines,
    /// How many bytes of names and values the request's head has, without the headers that were removed before the wait: the
    /// gateway counts it so.
    pub(super) head: usize,
    /// Whether the whole body is buffered.
    pub(super) has_body: bool,
    /// What reads the body in parts, if only that is needed of it.
    reader: Option<BodyReader>,
    /// How much of the body it has read, in bytes.
    read: usize,
    /// How much of the body has come, in bytes.
    size: usize,
}

/// How much of a request has come.
#[derive(Clone, Copy)]
struct Arrived {
    /// Whether nothing follows
    ended: bool,
    /// The size of its buffered body, in bytes
    size: usize,
}

/// What becomes of a request that waited.
enum Resumption {
    /// It waits on, as [`Stream`] says.
    Waits,
    /// It is decided anew from its headers.
    Again(Arrived),
    /// It is decided.
    Decided(FilterAction),
}

impl PendingRequest {
    /// Whether a call is under way.
    pub(super) const fn awaits_call(&self) -> bool {
        self.pause.awaits().is_call()
    }

    /// The longest allowed body, in bytes.
    fn limit(&self) -> usize {
        usize::try_from(self.pause.awaits().limit()).unwrap_or(usize::MAX)
    }
}

impl PausedMessage {
    /// A message with these lines. `head`: how many bytes its head has.
    const fn new(lines: KeptLines, head: usize, has_body: bool) -> Self {
        Self { lines, head, has_body, reader: None, read: 0, size: 0 }
    }

    /// How much of it has come.
    const fn arrived(&self) -> Arrived {
        Arrived { ended: self.has_body, size: self.size }
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
        let Arrived { ended, size } = arrived;
        if let RequestFlow::Paused(pause) = flow {
            if let Awaits::Caller { limit } = pause.awaits() {
                if !self.has_waited {
                    // An event that failed may have left an answer for this number.
                    configuration.forget(self.id);
                }
                let Some(found) = self.look_up(host, configuration, &policy, pause.lookup(), None) else {
                    return self.reply(host, &Problem::internal_error());
                };
                let Some(answer) = found else {
                    let head = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
                    let lines = KeptLines::keep(&Headers::default(), pause.carried_bytes());
                    self.pending = Some(PendingRequest { pause, message: PausedMessage::new(lines, head, ended) });
                    return match self.wait(host, configuration, &policy) {
                        FilterAction::Pause if limit.is_none() && self.pending.is_some() => FilterAction::PauseReading,
                        action => action,
                    };
                };
                let resumed = Resumed { policy: &policy, headers: &headers, event: PauseEvent::Answer(answer) };
                flow = pause.resume(&mut self.exchange, resumed, &mut effects);
                if matches!(flow, RequestFlow::Again) {
                    flow = self.exchange.request_headers(&policy, &headers, host, &mut effects);
                }
            } else {
                flow = RequestFlow::Paused(pause);
            }
        }
        match flow {
            RequestFlow::Paused(pause) if matches!(pause.awaits(), Awaits::Key { .. }) => {
                let head = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
                let lines = KeptLines::keep(&Headers::default(), pause.carried_bytes());
                let mut message = PausedMessage::new(lines, head, ended);
                message.size = size;
                let pending = self.pending.insert(PendingRequest { pause, message });
                if size > pending.limit() {
                    return self.refuse_body(host, configuration);
                }
                self.drive(host, configuration, &policy)
            }
            RequestFlow::Paused(pause) if pause.keeps_lines() => {
                let kept = pause.kept_lines(&self.exchange, &policy, &headers);
                let lines = KeptLines::keep(&kept, pause.carried_bytes());
                let head = headers.iter().filter(|(name, _)| !is_removed(&effects, name));
                let head = head.map(|(name, value)| name.len() + value.len()).sum();
                let mut message = PausedMessage::new(lines, head, ended);
                message.reader = pause.body_reader();
                let read = message.read_part(host, size);
                let pending = self.pending.insert(PendingRequest { pause, message });
                let is_too_long = size > pending.limit();
                // The edits before the wait.
                if edit(host, &effects).is_err() {
                    return self.reply(host, &Problem::internal_error());
                }
                if is_too_long {
                    return self.refuse_body(host, configuration);
                }
                if read.is_err() {
                    return self.reply(host, &Problem::dependency_unavailable());
                }
                self.drive(host, configuration, &policy)
            }
            RequestFlow::Continue | RequestFlow::Replied => {
                let action = self.apply(host, &effects);
                self.begin_observation(host, configuration, action, ended && size == 0);
                if size > 0 {
                    self.observe_part(host, configuration, size, ended);
                }
                action
            }
            // Once its caller is known, a request does not wait for it again.
            RequestFlow::Paused(_) | RequestFlow::Again => self.reply(host, &Problem::internal_error()),
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
            Some(pending) if size > pending.limit() => self.refuse_body(host, configuration),
            Some(pending) => match pending.message.read_part(host, size) {
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
        let (Some(policy), Some(pending)) = (self.policy.clone(), self.pending.take()) else { return };
        let resumption = self.answered(host, &policy, pending, answer);
        if self.go_on(host, configuration, &policy, resumption) == FilterAction::Continue {
            // If the request has ended meanwhile, there is nothing to resume.
            let _ = host.resume_request();
        }
    }

    /// Ends the wait for a lookup, if there is one.
    pub(super) fn cancel_lookup(&self, configuration: &mut Configuration) {
        let own = self.pending.as_ref().filter(|pending| pending.awaits_call());
        let lookup = self.response.question().or_else(|| own?.pause.lookup());
        if let Some((mut dependencies, lookup)) = configuration.dependencies().zip(lookup) {
            dependencies.cancel(self.id, lookup);
        }
    }

    /// Continues until the request is decided, or has to wait for its body or a call.
    fn drive<H: Host>(&mut self, host: &H, configuration: &mut Configuration, policy: &Policy) -> FilterAction {
        loop {
            let Some(mut pending) = self.pending.take() else { return FilterAction::Pause };
            let resumption = match pending.pause.awaits() {
                Awaits::Call { .. } => {
                    let PendingRequest { pause, message } = &mut pending;
                    // The cache of a store may have the answer, and then nothing waits. Other calls are made for each request, so
                    // one for which there is no memory must not cause any.
                    if pause.lookup().is_some_and(|lookup| !matches!(lookup, PendingLookup::Store(_)))
                        && let Err(why) = message.lines.count_for(pause.waiter(policy))
                    {
                        return self.refuse_to_wait(host, pending.pause, why);
                    }
                    match self.look_up(host, configuration, policy, pause.lookup(), pause.caller()) {
                        Some(Some(answer)) => self.answered(host, policy, pending, answer),
                        found => {
                            self.pending = Some(pending);
                            return match found {
                                Some(_) => self.wait(host, configuration, policy),
                                None => self.reply(host, &Problem::internal_error()),
                            };
                        }
                    }
                }
                Awaits::Body { .. } | Awaits::End { .. } | Awaits::Key { .. } if pending.message.has_body => {
                    self.ended(host, policy, pending)
                }
                Awaits::Body { .. } | Awaits::End { .. } | Awaits::Key { .. } | Awaits::Caller { .. } => {
                    self.pending = Some(pending);
                    return self.wait(host, configuration, policy);
                }
            };
            if !matches!(resumption, Resumption::Waits) {
                return self.go_on(host, configuration, policy, resumption);
            }
        }
    }

    /// Goes on with a request that waited.
    fn go_on<H: Host>(
        &mut self,
        host: &H,
        configuration: &mut Configuration,
        policy: &Policy,
        resumption: Resumption,
    ) -> FilterAction {
        match resumption {
            Resumption::Waits => self.drive(host, configuration, policy),
            Resumption::Again(arrived) => self.decide(host, configuration, arrived),
            Resumption::Decided(action) => {
                self.begin_observation(host, configuration, action, true);
                action
            }
        }
    }

    /// Looks up what a message waits for. `None` if it waits for no lookup; inside, the answer, if it is there at once. `caller`: the
    /// verified caller of the request.
    pub(super) fn look_up<H: Host>(
        &self,
        host: &H,
        configuration: &Configuration,
        policy: &Policy,
        lookup: Option<PendingLookup<'_>>,
        caller: Option<&Identity>,
    ) -> Option<Option<LookupAnswer>> {
        let (lookup, mut dependencies) = lookup.zip(configuration.dependencies())?;
        let metrics = configuration.metrics();
        let endpoint = self.exchange.endpoint(policy);
        let mut time = |store| metrics.with(|series| call_time(policy, endpoint, caller, store, series));
        Some(dependencies.look_up(host, self.id, lookup, &mut time))
    }

    /// Waits, if there is memory for the request.
    fn wait<H: Host>(&mut self, host: &H, configuration: &mut Configuration, policy: &Policy) -> FilterAction {
        self.has_waited = true;
        let Some(PendingRequest { pause, message }) = &mut self.pending else { return FilterAction::Pause };
        let counted = message.lines.count_for(pause.waiter(policy));
        if let Err(why) = counted {
            self.cancel_lookup(configuration);
            return match self.pending.take() {
                Some(pending) if pending.pause.may_go_on() => {
                    self.exchange.leaves_body = true;
                    self.decide(host, configuration, pending.message.arrived())
                }
                Some(pending) => self.refuse_to_wait(host, pending.pause, why),
                None => FilterAction::Pause,
            };
        }
        if !message.has_body && !pause.awaits().is_call() {
            configuration.body_watch().begin(self.id);
        }
        FilterAction::Pause
    }

    /// Hands the answer to a lookup to a request that waits for it.
    fn answered<H: Host>(
        &mut self,
        host: &H,
        policy: &Policy,
        pending: PendingRequest,
        answer: LookupAnswer,
    ) -> Resumption {
        let PendingRequest { pause, message } = pending;
        let (awaited, sender) = (pause.awaits(), pause.sender(policy));
        let (headers, mut effects) = (Headers::default(), Vec::new());
        let resumed = Resumed { policy, headers: &headers, event: PauseEvent::Answer(answer) };
        match pause.resume(&mut self.exchange, resumed, &mut effects) {
            RequestFlow::Paused(pause) => {
                self.pending = Some(PendingRequest { pause, message });
                Resumption::Waits
            }
            // A gateway lets the whole body go on, or what comes of it: a request whose body is awaited goes on with its end.
            RequestFlow::Again => match awaited {
                Awaits::Caller { limit: Some(limit) } if !message.has_body => {
                    self.pending = Some(PendingRequest { pause: Pause::before_another_look(limit, sender), message });
                    Resumption::Waits
                }
                _ => Resumption::Again(message.arrived()),
            },
            RequestFlow::Continue | RequestFlow::Replied => Resumption::Decided(self.apply(host, &effects)),
        }
    }

    /// Hands its end to a request that waits for it, or for its whole body, which is buffered.
    fn ended<H: Host>(&mut self, host: &H, policy: &Policy, pending: PendingRequest) -> Resumption {
        let PendingRequest { pause, mut message } = pending;
        let headers = message.lines.headers();
        let mut effects = Vec::new();
        let limit = pause.awaits().limit();
        let flow = if let Awaits::End { .. } = pause.awaits() {
            // The host has given less than has come. The fingerprint would be that of another body.
            if message.reader.is_some() && message.read != message.size {
                return self.lost_body(host, pause);
            }
            let resumed = Resumed { policy, headers: &headers, event: PauseEvent::End(message.reader.take()) };
            pause.resume(&mut self.exchange, resumed, &mut effects)
        } else {
            let (exchange, effects, size) = (&mut self.exchange, &mut effects, message.size);
            let mut pause = Some(pause);
            // One byte above the limit is enough to recognise a body that is too long.
            let most = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
            let flow = host.with_request_body(0, most, |body| {
                let pause = pause.take_if(|_| body.len() >= size)?;
                if body.len() as u64 > limit {
                    return Some(pause.refuse_body(exchange, effects));
                }
                let event = PauseEvent::Body { body, now_unix_ms: host.now_unix_ms() };
                Some(pause.resume(exchange, Resumed { policy, headers: &headers, event }, effects))
            });
            match (flow, pause) {
                (Ok(Some(flow)), _) => flow,
                (_, Some(pause)) => return self.lost_body(host, pause),
                (_, None) => return Resumption::Decided(self.reply(host, &Problem::dependency_unavailable())),
            }
        };
        match flow {
            RequestFlow::Paused(pause) => {
                // A signed request that is verified waits for less.
                let kept = pause.kept_lines(&self.exchange, policy, &headers);
                message.lines = KeptLines::keep(&kept, pause.carried_bytes());
                self.pending = Some(PendingRequest { pause, message });
                Resumption::Waits
            }
            RequestFlow::Again => Resumption::Again(message.arrived()),
            RequestFlow::Continue | RequestFlow::Replied => Resumption::Decided(self.apply(host, &effects)),
        }
    }

    /// Refuses a request of whose body the gateway has given less than has come.
    fn lost_body<H: Host>(&mut self, host: &H, pause: Pause) -> Resumption {
        self.exchange.end_pause(pause);
        Resumption::Decided(self.reply(host, &Problem::dependency_unavailable()))
    }

    /// Refuses a request that has to wait, and for which there is no memory.
    fn refuse_to_wait<H: Host>(&mut self, host: &H, pause: Pause, why: NoMemory) -> FilterAction {
        let mut effects = Vec::new();
        pause.refuse_memory(&mut self.exchange, why.reason(), &mut effects);
        self.apply(host, &effects)
    }

    /// Handles the end of the body.
    fn complete_body<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        let (Some(policy), Some(pending)) = (self.policy.clone(), &mut self.pending) else {
            return FilterAction::Continue;
        };
        pending.message.has_body = true;
        if pending.awaits_call() {
            return FilterAction::Pause;
        }
        self.drive(host, configuration, &policy)
    }

    /// Refuses a body that is too long.
    fn refuse_body<H: Host>(&mut self, host: &H, configuration: &mut Configuration) -> FilterAction {
        self.cancel_lookup(configuration);
        let Some(pending) = self.pending.take() else { return FilterAction::Continue };
        let mut effects = Vec::new();
        pending.pause.refuse_body(&mut self.exchange, &mut effects);
        self.apply(host, &effects)
    }
}

/// Whether the effects remove the request's headers with this name.
fn is_removed(effects: &[Effect<'_>], name: &[u8]) -> bool {
    let is_it = |effect: &Effect<'_>| matches!(effect, Effect::Remove { map: HeaderMapKind::Request, name: removed } if *removed == name);
    effects.iter().any(is_it)
}
