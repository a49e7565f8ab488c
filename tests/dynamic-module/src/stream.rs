//! One request and its response: Envoy's filter manager with the module as the last filter before the router.

use crate::envoy::{Config, Envoy, HttpCall, Queue, within};
use crate::hooks::{self, ModulePtr};
use crate::lent::Lent;
use crate::side::{Chunk, Direction, Iteration, Side};
use edge_idempotency::abi::{BodyStatus, FilterPtr, HeadersStatus, TrailersStatus};
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ptr::null;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::http::{Headers, LocalReply, Message};

/// What Envoy knows about a request beside its messages.
#[derive(Clone, Debug, Default)]
pub struct StreamInfo {
    /// The filter state, by its keys
    pub filter_state: BTreeMap<String, Vec<u8>>,
    /// Metadata of the route, by namespace
    pub route_metadata: Map<String, Value>,
    /// What the router answers during the call that lets the request go on, as it does without a healthy host
    pub answered_at_once: Option<Message>,
    /// The longest body that Envoy holds back; none: any
    pub buffer_limit: Option<usize>,
}

/// A stream. It is destroyed with its last handle, as if its client had gone.
pub struct Stream(Rc<StreamState>);

/// What the module's pointer to a stream points to.
pub(crate) struct StreamState {
    id: u64,
    pub(crate) worker: usize,
    pub(crate) config: Arc<Config>,
    /// The module's stream; null once it is destroyed
    module: Cell<ModulePtr>,
    pub(crate) info: StreamInfo,
    answered_at_once: RefCell<Option<Message>>,
    pub(crate) parts: RefCell<Parts>,
}

/// What changes of a stream.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) request: Side,
    pub(crate) response: Side,
    /// What is lent until something is set
    pub(crate) lent: Lent,
    /// What is lent until the stream is destroyed
    pub(crate) kept: Lent,
    /// Envoy's `in_continue_`: the last hook has let its message go on
    in_continue: bool,
    reply: Option<LocalReply>,
    /// The client's connection is closed, because an answer had begun already.
    is_reset: bool,
    /// Dynamic metadata of the namespace `edge_idempotency`: typed, or its members
    pub(crate) record: Map<String, Value>,
    pub(crate) route_cleared: usize,
}

impl Parts {
    pub(crate) fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
    }
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The streams of this thread that are not destroyed, by their numbers
    static STREAMS: RefCell<HashMap<u64, Weak<StreamState>>> = RefCell::default();
}

impl Envoy {
    /// Handles what has been posted to a worker thread, and gives its number. The streams are those of the test's thread.
    pub fn run_worker(&self, worker: usize) -> usize {
        let mut handled = 0;
        while let Some((stream, event)) = self.0.workers.get(worker).and_then(Queue::take) {
            handled += usize::from(scheduled(stream, event));
        }
        handled
    }
}

/// Calls the hook of a stream for events of other threads. Whether there is still such a stream.
fn scheduled(id: u64, event: u64) -> bool {
    let stream = STREAMS.with_borrow(|streams| streams.get(&id).and_then(Weak::upgrade));
    // SAFETY: the module's stream lives.
    let hook = |filter, module| unsafe { hooks::envoy_dynamic_module_on_http_filter_scheduled(filter, module, event) };
    stream.is_some_and(|stream| stream.hook(hook).is_some())
}

impl Stream {
    /// A new stream on a worker.
    pub fn new(config: &Arc<Config>, worker: usize, info: StreamInfo) -> Self {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        let answered_at_once = RefCell::new(info.answered_at_once.clone());
        let (config, module, parts) = (config.clone(), Cell::new(null()), RefCell::default());
        let state = Rc::new(StreamState { id, worker, config, module, info, answered_at_once, parts });
        let pointer = state.pointer();
        let hook = || {
            // SAFETY: the module's configuration lives, and the state until the stream is destroyed.
            unsafe { hooks::envoy_dynamic_module_on_http_filter_new(state.config.module(), pointer) }
        };
        let module = within(&state.config.state().process, hook);
        state.module.set(module);
        STREAMS.with_borrow_mut(|streams| streams.insert(id, Rc::downgrade(&state)));
        Self(state)
    }

    /// The client or the upstream sends a whole message: its body in parts of this size, and its end by itself, as HTTP/1.1 has it.
    pub fn send(&self, direction: Direction, message: &Message, part: usize) {
        let bare = message.body.is_empty() && message.trailers.is_none();
        self.headers(direction, message.headers.clone(), bare);
        for part in message.body.chunks(part.max(1)) {
            self.body(direction, part, false);
        }
        match &message.trailers {
            Some(trailers) => self.trailers(direction, trailers.clone()),
            None if !bare => self.body(direction, b"", true),
            None => {}
        }
    }

    /// Headers come.
    pub fn headers(&self, direction: Direction, headers: impl Into<Headers>, end: bool) {
        self.0.headers(direction, headers.into(), end);
    }

    /// A part of a body comes.
    pub fn body(&self, direction: Direction, part: &[u8], end: bool) {
        if self.0.takes(direction) {
            self.0.parts.borrow_mut().side(direction).has_ended |= end;
            self.0.body(direction, Chunk::Own(part.to_vec()), end);
        }
    }

    /// A part of a body comes that a filter in front has buffered: what comes is Envoy's buffer itself.
    pub fn buffered_body(&self, direction: Direction, part: &[u8], end: bool) {
        if self.0.takes(direction) {
            let mut parts = self.0.parts.borrow_mut();
            let side = parts.side(direction);
            side.has_ended |= end;
            side.buffered.get_or_insert_default().extend(part);
            drop(parts);
            self.0.body(direction, Chunk::Buffered, end);
        }
    }

    /// Trailers come.
    pub fn trailers(&self, direction: Direction, trailers: impl Into<Headers>) {
        if self.0.takes(direction) {
            let mut parts = self.0.parts.borrow_mut();
            let side = parts.side(direction);
            (side.trailers, side.has_ended) = (Some(trailers.into()), true);
            drop(parts);
            self.0.trailers(direction);
        }
    }

    /// What the upstream has got; `None` if nothing.
    pub fn upstream(&self) -> Option<Message> {
        self.0.parts.borrow().request.passed.clone()
    }

    /// Whether a request has gone on to its end.
    pub fn awaits_upstream(&self) -> bool {
        self.0.takes(Direction::Response) && self.upstream().is_some_and(|request| request.complete)
    }

    /// What the client has got; `None` if nothing.
    pub fn client(&self) -> Option<Message> {
        let parts = self.0.parts.borrow();
        if parts.is_reset {
            return parts.response.passed.clone().map(|message| Message { complete: false, ..message });
        }
        let reply = || parts.reply.clone().map(LocalReply::into_message);
        let mut message = reply().or_else(|| parts.response.passed.clone())?;
        if parts.request.headers.get(":method") == Some(b"HEAD") {
            message.body.clear();
        }
        Some(message)
    }

    /// The details of the module's own reply.
    pub fn reply_details(&self) -> Option<String> {
        self.0.parts.borrow().reply.as_ref().map(|reply| reply.details.clone())
    }

    /// The record that access logs would have, without its empty members: with Envoy 1.39 a member cannot be removed.
    pub fn record(&self) -> Map<String, Value> {
        let mut record = self.0.parts.borrow().record.clone();
        record.retain(|_, value| value != "");
        record
    }

    /// How often the route was chosen anew.
    pub fn route_cleared(&self) -> usize {
        self.0.parts.borrow().route_cleared
    }

    /// Whether Envoy has destroyed the module's stream.
    pub fn is_destroyed(&self) -> bool {
        self.0.module.get().is_null()
    }

    /// The exchange is over, or the client goes.
    pub fn close(&self) {
        self.0.destroy();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}

impl StreamState {
    fn pointer(self: &Rc<Self>) -> FilterPtr {
        Rc::as_ptr(self).cast_mut().cast()
    }

    fn takes(&self, direction: Direction) -> bool {
        let parts = self.parts.borrow();
        let is_answered = parts.reply.is_some() || parts.is_reset;
        !self.module.get().is_null() && !is_answered && (direction == Direction::Response || !parts.response.has_begun)
    }

    /// Runs a hook; `None` if the stream is destroyed, also if that happens meanwhile.
    fn hook<T>(self: &Rc<Self>, hook: impl FnOnce(FilterPtr, ModulePtr) -> T) -> Option<T> {
        let module = self.module.get();
        if module.is_null() {
            return None;
        }
        let result = within(&self.config.state().process, || hook(self.pointer(), module));
        self.parts.borrow_mut().lent.end();
        (!self.module.get().is_null()).then_some(result)
    }

    fn headers(self: &Rc<Self>, direction: Direction, headers: Headers, end: bool) {
        if !self.takes(direction) {
            return;
        }
        let mut parts = self.parts.borrow_mut();
        let side = parts.side(direction);
        (side.has_begun, side.has_ended, side.headers) = (true, end, headers);
        drop(parts);
        // SAFETY: the module's stream lives.
        let status = self.hook(|filter, module| unsafe {
            match direction {
                Direction::Request => hooks::envoy_dynamic_module_on_http_filter_request_headers(filter, module, end),
                Direction::Response => hooks::envoy_dynamic_module_on_http_filter_response_headers(filter, module, end),
            }
        });
        let Some(status) = status else { return };
        self.parts.borrow_mut().in_continue = status == HeadersStatus::Continue;
        match status {
            HeadersStatus::Continue => self.pass_headers(direction, end),
            HeadersStatus::StopIteration => self.stop(direction, Iteration::StopSingle),
            HeadersStatus::StopAllIterationAndWatermark => self.stop(direction, Iteration::StopAll),
        }
    }

    /// `decodeData` and `encodeData` of the filter manager.
    fn body(self: &Rc<Self>, direction: Direction, chunk: Chunk, end: bool) {
        let mut parts = self.parts.borrow_mut();
        let side = parts.side(direction);
        side.chunk = chunk;
        if side.iteration == Iteration::StopAll {
            side.buffer_chunk();
            side.chunk = Chunk::None;
            return;
        }
        // Where the module holds the body back, its last hook shows the whole of it in the buffer: `addDecodedData` in
        // `DynamicModuleHttpFilter::decodeData`. A buffer of another filter's, or of the router's for retries, does not matter: Envoy
        // 1.40.0 showed the last part as it came.
        if end && side.iteration == Iteration::StopSingle && side.buffered.is_some() {
            side.buffer_chunk();
        }
        drop(parts);
        // SAFETY: the module's stream lives.
        let status = self.hook(|filter, module| unsafe {
            match direction {
                Direction::Request => hooks::envoy_dynamic_module_on_http_filter_request_body(filter, module, end),
                Direction::Response => hooks::envoy_dynamic_module_on_http_filter_response_body(filter, module, end),
            }
        });
        let Some(status) = status else { return };
        let mut parts = self.parts.borrow_mut();
        parts.in_continue = status == BodyStatus::Continue;
        let side = parts.side(direction);
        match status {
            BodyStatus::Continue if side.iteration == Iteration::StopSingle => {
                side.buffer_chunk();
                side.chunk = Chunk::None;
                drop(parts);
                self.resume(direction);
            }
            BodyStatus::Continue => {
                let part = side.take_chunk();
                side.pass_body(part, end);
                drop(parts);
                self.passed(direction);
            }
            BodyStatus::StopIterationAndBuffer => {
                side.buffer_chunk();
                (side.chunk, side.iteration) = (Chunk::None, Iteration::StopSingle);
                let size = side.buffered.as_ref().map_or(0, Vec::len);
                drop(parts);
                if self.info.buffer_limit.is_some_and(|limit| size > limit) {
                    self.too_large(direction);
                }
            }
            BodyStatus::StopIterationNoBuffer => {
                if end && side.trailers.is_none() {
                    side.buffered.get_or_insert_default();
                }
                (side.chunk, side.iteration) = (Chunk::None, Iteration::StopSingle);
            }
        }
    }

    fn trailers(self: &Rc<Self>, direction: Direction) {
        if self.parts.borrow_mut().side(direction).iteration == Iteration::StopAll {
            return;
        }
        // SAFETY: the module's stream lives.
        let status = self.hook(|filter, module| unsafe {
            match direction {
                Direction::Request => hooks::envoy_dynamic_module_on_http_filter_request_trailers(filter, module),
                Direction::Response => hooks::envoy_dynamic_module_on_http_filter_response_trailers(filter, module),
            }
        });
        let Some(status) = status else { return };
        let mut parts = self.parts.borrow_mut();
        parts.in_continue = status == TrailersStatus::Continue;
        let side = parts.side(direction);
        match status {
            TrailersStatus::Continue if side.iteration == Iteration::StopSingle => {
                drop(parts);
                self.resume(direction);
            }
            TrailersStatus::Continue => {
                side.pass_trailers();
                drop(parts);
                self.passed(direction);
            }
            TrailersStatus::StopIteration => side.iteration = Iteration::StopSingle,
        }
    }

    fn stop(&self, direction: Direction, iteration: Iteration) {
        self.parts.borrow_mut().side(direction).iteration = iteration;
    }

    /// `continueDecoding` and `continueEncoding` of the module's filter.
    pub(crate) fn go_on(self: &Rc<Self>, direction: Direction) {
        if !self.module.get().is_null() && !self.parts.borrow().in_continue {
            self.resume(direction);
            self.parts.borrow_mut().in_continue = true;
        }
    }

    /// `commonContinue`: lets go on what is held back.
    fn resume(self: &Rc<Self>, direction: Direction) {
        let mut parts = self.parts.borrow_mut();
        if parts.reply.is_some() || parts.is_reset {
            return;
        }
        let side = parts.side(direction);
        let from_module = match std::mem::take(&mut side.iteration) {
            Iteration::Continue => {
                self.config.state().process.fail("a message goes on that does not wait");
                return;
            }
            Iteration::StopSingle => false,
            Iteration::StopAll => true,
        };
        let (has_ended, has_trailers) = (side.has_ended, side.trailers.is_some());
        let (has_buffer, headers_wait) = (side.buffered.is_some(), !side.has_passed_headers());
        drop(parts);
        if headers_wait {
            self.pass_headers(direction, has_ended && !has_buffer && !has_trailers);
        }
        if has_buffer && self.takes(direction) {
            let end = has_ended && !has_trailers;
            if from_module {
                self.body(direction, Chunk::Buffered, end);
            } else {
                let mut parts = self.parts.borrow_mut();
                let side = parts.side(direction);
                let held = side.buffered.as_mut().map(std::mem::take).unwrap_or_default();
                side.pass_body(held, end);
                drop(parts);
                self.passed(direction);
            }
        }
        if has_trailers && self.takes(direction) {
            if from_module {
                self.trailers(direction);
            } else {
                self.parts.borrow_mut().side(direction).pass_trailers();
                self.passed(direction);
            }
        }
    }

    fn pass_headers(self: &Rc<Self>, direction: Direction, end: bool) {
        self.parts.borrow_mut().side(direction).pass_headers(end);
        self.passed(direction);
    }

    /// Something has gone to the router, or to the client.
    fn passed(self: &Rc<Self>, direction: Direction) {
        if direction == Direction::Request
            && let Some(answer) = self.answered_at_once.take()
        {
            let stream = Stream(self.clone());
            stream.send(Direction::Response, &answer, usize::MAX);
        }
        let is_complete = |side: &Side| side.passed.as_ref().is_some_and(|message| message.complete);
        // With the end of its answer a stream ends.
        if direction == Direction::Response && is_complete(&self.parts.borrow().response) {
            self.destroy();
        }
    }

    /// A reply of the module's own. The response's hooks do not see it.
    pub(crate) fn reply(self: &Rc<Self>, status: u32, headers: Headers, body: Vec<u8>, details: String) {
        let mut parts = self.parts.borrow_mut();
        if self.module.get().is_null() || parts.reply.is_some() {
            self.config.state().process.fail("a stream that is over, or has a reply, gets one");
            return;
        }
        if parts.response.passed.is_some() {
            parts.is_reset = true;
        } else {
            // Envoy joins several lines by commas.
            let kinds: Vec<&[u8]> = parts.request.headers.all("content-type").collect();
            let is_grpc =
                matches!(kinds[..], [kind] if kind == b"application/grpc" || kind.starts_with(b"application/grpc+"));
            let code = || std::str::from_utf8(headers.get("grpc-status")?).ok()?.parse().ok();
            let grpc_status = is_grpc.then(|| code().unwrap_or(2));
            parts.reply = Some(LocalReply { status, headers, body, details, grpc_status });
        }
        drop(parts);
        self.destroy();
    }

    fn too_large(self: &Rc<Self>, direction: Direction) {
        let (status, body) = match direction {
            Direction::Request => (413, "Payload Too Large"),
            Direction::Response => (500, "Internal Server Error"),
        };
        let headers = Headers::from([(":status", status.to_string())]);
        if direction == Direction::Request {
            // Envoy's own reply passes the response's hooks.
            self.headers(Direction::Response, headers, false);
            if self.takes(Direction::Response) {
                self.parts.borrow_mut().response.has_ended = true;
                self.body(Direction::Response, Chunk::Own(body.into()), true);
            }
        } else {
            self.parts.borrow_mut().response.passed = Some(Message::new(headers, body));
            self.destroy();
        }
    }

    /// Ends the module's stream.
    fn destroy(self: &Rc<Self>) {
        let module = self.module.get();
        if module.is_null() {
            return;
        }
        let pointer = self.pointer();
        // SAFETY: the module's stream lives, and its destruction is its last use.
        let hook = || unsafe {
            hooks::envoy_dynamic_module_on_http_filter_stream_complete(pointer, module);
            self.module.set(null());
            hooks::envoy_dynamic_module_on_http_filter_destroy(module);
        };
        within(&self.config.state().process, hook);
        STREAMS.with_borrow_mut(|streams| streams.remove(&self.id));
        let mut parts = self.parts.borrow_mut();
        parts.lent.end();
        parts.kept.end();
    }

    /// The stream that the module's pointer points to.
    ///
    /// # Safety
    /// Its handle must not have been dropped.
    pub(crate) unsafe fn of(pointer: FilterPtr) -> Rc<Self> {
        let state: *const Self = pointer.cast_const().cast();
        // SAFETY: the pointer is of an `Rc` that lives, as the caller says.
        unsafe {
            Rc::increment_strong_count(state);
            Rc::from_raw(state)
        }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn is_destroyed(&self) -> bool {
        self.module.get().is_null()
    }
}

/// A stream's request goes all its way: its lookups are answered by `answer`, and it gets the response if it goes on.
pub fn exchange(
    (envoy, config): (&Envoy, &Config),
    stream: &Stream,
    (request, response): (&Message, &Message),
    part: usize,
    answer: &dyn Fn(&HttpCall) -> Option<Message>,
) {
    stream.send(Direction::Request, request, part);
    settle(envoy, config, stream.0.worker, answer);
    if stream.awaits_upstream() {
        stream.send(Direction::Response, response, part);
        settle(envoy, config, stream.0.worker, answer);
    }
}

/// Answers calls, and lets threads go on, until there is nothing left to do.
pub fn settle(envoy: &Envoy, config: &Config, worker: usize, answer: &dyn Fn(&HttpCall) -> Option<Message>) {
    loop {
        let mut handled = envoy.run_main();
        for call in config.calls() {
            config.answer(call.id, answer(&call).as_ref());
            handled += 1;
        }
        if handled + envoy.run_worker(worker) == 0 {
            return;
        }
    }
}
