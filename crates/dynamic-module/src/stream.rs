//! One request and its response in Envoy: hands events to the engine's `Stream`, and carries out what must wait until the event is
//! over. A panic in an event is answered 503.

use crate::abi::{BodyStatus, HeadersStatus, TrailersStatus};
use crate::calls::RequestHandle;
use crate::filter::Filter;
use crate::host::{Afterwards, Held, Phase, StreamHost};
use crate::record::TypedRecord;
use edge_idempotency_engine::{Configuration, FilterAction, LocalReply, Stream};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A stream of Envoy. All of its events come on one thread.
pub(crate) struct EnvoyStream {
    filter: Arc<Filter>,
    /// The index of its worker thread
    worker: usize,
    /// The number that the engine knows it by
    number: u32,
    /// Whether its request has come as far as this filter. If not, the response is that of another filter, and nothing to this one.
    has_begun: Cell<bool>,
    state: RefCell<State>,
    /// Whether there is a response
    is_answered: Cell<bool>,
    /// The record that the gateway does not have yet. It gets it with a reply or the response, since to set it takes microseconds.
    record: RefCell<TypedRecord>,
    /// The record that the gateway has
    handed_over: Cell<TypedRecord>,
}

struct State {
    stream: Option<Stream>,
    held: Held,
    /// Whether the filter knows how to wake it
    can_wake: bool,
}

impl EnvoyStream {
    /// A new stream. If this fails, its request is refused.
    pub(crate) fn new(filter: Arc<Filter>, request: RequestHandle<'_>) -> Box<Self> {
        let worker = usize::try_from(request.worker_index()).unwrap_or_default();
        let mut new = Self::failed(filter);
        new.worker = worker;
        if let Some((mut part, _)) = new.filter.worker(worker) {
            let workers = new.filter.worker_count();
            new.number = part.next_stream(worker.checked_rem(workers).unwrap_or(0), workers);
            new.state.get_mut().stream = Some(Stream::new(new.number, &part.configuration));
        }
        new
    }

    /// A stream whose request is refused, because the filter failed when it began.
    pub(crate) fn failed(filter: Arc<Filter>) -> Box<Self> {
        let state = RefCell::new(State { stream: None, held: Held::default(), can_wake: false });
        let (has_begun, is_answered, record, handed_over) = Default::default();
        Box::new(Self { filter, worker: 0, number: 0, has_begun, state, is_answered, record, handed_over })
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    pub(crate) fn on_request_headers(&self, request: RequestHandle<'_>, end_of_stream: bool) -> Done<HeadersStatus> {
        crate::panics::plant(request);
        self.has_begun.set(true);
        let done = self.event(request, "request_headers", Phase::Other, |stream, host, shared| {
            if !host.has_metadata() {
                self.filter.tell_of_metadata();
                return stream.on_misconfigured(host, shared);
            }
            stream.on_request_headers(host, shared, end_of_stream)
        });
        done.map(headers_status)
    }

    pub(crate) fn on_request_body(&self, request: RequestHandle<'_>, end_of_stream: bool) -> Done<BodyStatus> {
        if self.ignores(Stream::ignores_request_body) {
            return Done::at_once(BodyStatus::Continue);
        }
        let done = self.event(request, "request_body", Phase::Request, |stream, host, shared| {
            stream.on_request_body(host, shared, host.body_size(), end_of_stream)
        });
        done.map(|action| self.hold(action, |held| &mut held.request))
    }

    pub(crate) fn on_request_trailers(&self, request: RequestHandle<'_>) -> Done<TrailersStatus> {
        let done = self.event(request, "request_trailers", Phase::Other, |stream, host, shared| {
            stream.on_request_trailers(host, shared)
        });
        done.map(trailers_status)
    }

    pub(crate) fn on_response_headers(&self, request: RequestHandle<'_>, end_of_stream: bool) -> Done<HeadersStatus> {
        if !self.has_begun.get() {
            return Done::at_once(HeadersStatus::Continue);
        }
        self.is_answered.set(true);
        let done = self.event(request, "response_headers", Phase::Other, |stream, host, shared| {
            stream.on_response_headers(host, shared, end_of_stream)
        });
        done.map(headers_status)
    }

    pub(crate) fn on_response_body(&self, request: RequestHandle<'_>, end_of_stream: bool) -> Done<BodyStatus> {
        if !self.has_begun.get() || self.ignores(Stream::ignores_response_body) {
            return Done::at_once(BodyStatus::Continue);
        }
        let done = self.event(request, "response_body", Phase::Response, |stream, host, shared| {
            stream.on_response_body(host, shared, host.body_size(), end_of_stream)
        });
        done.map(|action| self.hold(action, |held| &mut held.response))
    }

    pub(crate) fn on_response_trailers(&self, request: RequestHandle<'_>) -> Done<TrailersStatus> {
        if !self.has_begun.get() {
            return Done::at_once(TrailersStatus::Continue);
        }
        let done = self.event(request, "response_trailers", Phase::Other, |stream, host, shared| {
            stream.on_response_trailers(host, shared)
        });
        done.map(trailers_status)
    }

    /// Goes on after the main thread has found that it can.
    pub(crate) fn on_wake(&self, request: RequestHandle<'_>) -> Done<()> {
        let done = self.event(request, "scheduled", Phase::Other, |stream, host, shared| {
            stream.on_wake(host, shared);
            FilterAction::Continue
        });
        done.map(drop)
    }

    /// Hands the record over if there was no response: access logs are written next.
    pub(crate) fn on_complete(&self, request: RequestHandle<'_>) {
        self.hand_over(request);
    }

    fn hand_over(&self, request: RequestHandle<'_>) {
        let record = self.record.take();
        if !record.is_empty() {
            record.set(request, &self.handed_over.take());
            self.handed_over.set(record);
        }
    }

    /// Ends the stream.
    pub(crate) fn end(&self) {
        let Ok(mut state) = self.state.try_borrow_mut() else { return };
        if state.can_wake {
            self.filter.forget(self.number);
        }
        if let (Some(stream), Some((mut worker, _))) = (&mut state.stream, self.filter.worker(self.worker)) {
            stream.on_end(&mut worker.configuration);
        }
        state.stream = None;
    }

    /// Whether nobody looks at a part of a body.
    fn ignores(&self, ignores: impl FnOnce(&Stream) -> bool) -> bool {
        self.state.try_borrow().is_ok_and(|state| state.stream.as_ref().is_some_and(ignores))
    }

    /// Notes whether Envoy keeps what has come of a body.
    fn hold(&self, action: EventAction, held: impl FnOnce(&mut Held) -> &mut bool) -> BodyStatus {
        let status = match action {
            EventAction::Filter(FilterAction::Continue) => BodyStatus::Continue,
            EventAction::Filter(_) => BodyStatus::StopIterationAndBuffer,
            EventAction::Replied => BodyStatus::StopIterationNoBuffer,
        };
        if let Ok(mut state) = self.state.try_borrow_mut() {
            *held(&mut state.held) = status == BodyStatus::StopIterationAndBuffer;
        }
        status
    }

    /// Runs `event` of a hook.
    fn event(
        &self,
        request: RequestHandle<'_>,
        hook: &'static str,
        phase: Phase,
        event: impl FnOnce(&mut Stream, &StreamHost<'_>, &mut Configuration) -> FilterAction,
    ) -> Done<EventAction> {
        let run = || {
            crate::panics::point(hook);
            self.run(request, phase, event)
        };
        let (action, afterwards) = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| self.fail(request));
        if afterwards.replies() || self.is_answered.get() {
            let _ = catch_unwind(AssertUnwindSafe(|| self.hand_over(request)));
        }
        let result = if afterwards.replies() { EventAction::Replied } else { EventAction::Filter(action) };
        if afterwards.resumes()
            && let Ok(mut state) = self.state.try_borrow_mut()
        {
            state.held = Held::default();
        }
        Done { result, afterwards }
    }

    fn run(
        &self,
        request: RequestHandle<'_>,
        phase: Phase,
        event: impl FnOnce(&mut Stream, &StreamHost<'_>, &mut Configuration) -> FilterAction,
    ) -> (FilterAction, Afterwards) {
        // Envoy calls no hook during an event, since what could make it do so comes afterwards.
        let Ok(mut state) = self.state.try_borrow_mut() else { return bare_refusal() };
        let State { stream: Some(stream), held, can_wake } = &mut *state else { return bare_refusal() };
        let Some((mut worker, thread)) = self.filter.worker(self.worker) else { return bare_refusal() };
        let host =
            StreamHost::new(request, self.filter.calls(), self.filter.metadata(), thread, phase, *held, &self.record);
        let action = event(stream, &host, &mut worker.configuration);
        if stream.awaits_call() && !*can_wake {
            *can_wake = true;
            self.filter.await_wake(self.number, request.scheduler());
            // The answer may have come before the main thread knew how to wake the stream.
            if worker.configuration.goes_on(self.number) {
                self.filter.wake(self.number);
            }
        }
        drop(worker);
        self.filter.instruments().measure(self.filter.config(), &host.samples);
        (action, host.finish())
    }

    /// What becomes of a stream in which an event has failed.
    fn fail(&self, request: RequestHandle<'_>) -> (FilterAction, Afterwards) {
        let refuse = || self.run(request, Phase::Other, |stream, host, shared| stream.on_failure(host, shared));
        catch_unwind(AssertUnwindSafe(refuse)).unwrap_or_else(|_| bare_refusal())
    }
}

/// What a hook returns, and what has to be done before it returns. Then the stream may not exist any more.
pub(crate) struct Done<S> {
    result: S,
    afterwards: Afterwards,
}

impl<S> Done<S> {
    fn at_once(result: S) -> Self {
        Self { result, afterwards: Afterwards::default() }
    }

    fn map<T>(self, map: impl FnOnce(S) -> T) -> Done<T> {
        Done { result: map(self.result), afterwards: self.afterwards }
    }

    /// Does what is left, and gives what the hook returns.
    pub(crate) fn finish(self, request: RequestHandle<'_>) -> S {
        self.afterwards.carry_out(request);
        self.result
    }
}

/// What an event has done.
#[derive(Clone, Copy)]
enum EventAction {
    /// What the engine says
    Filter(FilterAction),
    /// A local reply
    Replied,
}

/// A reply that needs nothing of the engine.
fn bare_refusal() -> (FilterAction, Afterwards) {
    let reply = LocalReply { status: 503, details: "internal_error", headers: &[], body: b"", grpc_status: None };
    (FilterAction::Pause, Afterwards::reply(&reply))
}

const fn headers_status(action: EventAction) -> HeadersStatus {
    match action {
        EventAction::Filter(FilterAction::Continue) => HeadersStatus::Continue,
        EventAction::Filter(FilterAction::Pause) | EventAction::Replied => HeadersStatus::StopIteration,
        EventAction::Filter(FilterAction::PauseReading) => HeadersStatus::StopAllIterationAndWatermark,
    }
}

const fn trailers_status(action: EventAction) -> TrailersStatus {
    match action {
        EventAction::Filter(FilterAction::Continue) => TrailersStatus::Continue,
        EventAction::Filter(_) | EventAction::Replied => TrailersStatus::StopIteration,
    }
}
