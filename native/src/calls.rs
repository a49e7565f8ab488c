//! Envoy's functions as safe ones: text and bytes in the place of pointers. Everything that Envoy gives is copied before it is
//! handed on, because the next call may free it; only [`RequestHandle::filter_state`] borrows.
#![allow(unsafe_code)]

use crate::abi::{self, AttributeId, BodyType, Buffer, ConfigPtr, FilterPtr, HeaderLine, HeaderType, SchedulerPtr};
use edge_idempotency_engine::LocalReply;
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr::null;
use std::sync::OnceLock;

pub(crate) use crate::abi::AbiLogLevel;

/// Envoy did not do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

const fn done(succeeded: bool) -> Result<(), Refused> {
    if succeeded { Ok(()) } else { Err(Refused) }
}

/// The bytes as an argument of a call, during which they have to live.
const fn argument(bytes: &[u8]) -> Buffer {
    Buffer { ptr: bytes.as_ptr().cast(), length: bytes.len() }
}

const EMPTY: Buffer = Buffer { ptr: null(), length: 0 };

/// The bytes that Envoy has lent.
///
/// # Safety
/// They have to be valid for `'e`, or the buffer empty.
unsafe fn lent<'e>(ptr: *const c_char, length: usize) -> &'e [u8] {
    if ptr.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the pointer is not null, and the caller says that so many bytes are valid.
    unsafe { std::slice::from_raw_parts(ptr.cast(), length) }
}

/// A copy of the bytes of a hook's argument.
///
/// # Safety
/// The buffer has to be valid, as those of a hook are until it returns.
pub(crate) unsafe fn copied(buffer: Buffer) -> Vec<u8> {
    // SAFETY: as the caller says.
    unsafe { lent(buffer.ptr, buffer.length) }.to_vec()
}

/// Writes a line into Envoy's log, component `dynamic_modules`.
pub(crate) fn log(level: AbiLogLevel, line: &str) {
    // SAFETY: the line is valid during the call.
    unsafe { abi::envoy_dynamic_module_callback_log(level, argument(line.as_bytes())) }
}

/// Whether Envoy's log shows lines of this level.
pub(crate) fn log_shows(level: AbiLogLevel) -> bool {
    // SAFETY: no memory is involved.
    unsafe { abi::envoy_dynamic_module_callback_log_enabled(level) }
}

/// How many worker threads Envoy has. To be called on the main thread.
pub(crate) fn worker_count() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { abi::envoy_dynamic_module_callback_get_concurrency() }
}

/// A function of Envoy that older versions do not have.
struct Optional<F>(OnceLock<Option<F>>);

impl<F: Copy> Optional<F> {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// # Safety
    /// `F` has to be the type of the function with this name.
    unsafe fn get(&self, name: &CStr) -> Option<F> {
        *self.0.get_or_init(|| {
            // SAFETY: the name ends with NUL.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            // SAFETY: a function pointer is as long as `found`, which is one of the type `F`, as the caller says.
            (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
        })
    }
}

/// The stream that a hook is for. It must not outlive the hook.
#[derive(Clone, Copy)]
pub(crate) struct RequestHandle<'e> {
    filter: FilterPtr,
    hook: PhantomData<&'e ()>,
}

/// Lines of a header map, copied into one piece of memory.
#[derive(Default)]
pub(crate) struct CopiedLines {
    bytes: Vec<u8>,
    /// The lengths of name and value of each line
    lengths: Vec<(usize, usize)>,
}

impl CopiedLines {
    /// The lines, in order.
    pub(crate) fn lines(&self) -> Option<Vec<(&[u8], &[u8])>> {
        let mut rest = self.bytes.as_slice();
        let mut lines = Vec::with_capacity(self.lengths.len());
        for (name, value) in &self.lengths {
            let (line_name, after) = rest.split_at_checked(*name)?;
            let (line_value, after) = after.split_at_checked(*value)?;
            lines.push((line_name, line_value));
            rest = after;
        }
        Some(lines)
    }
}

impl<'e> RequestHandle<'e> {
    /// # Safety
    /// `filter` has to be the pointer that a hook was called with, and the handle must not be used after the hook has returned or
    /// Envoy has destroyed the filter.
    pub(crate) const unsafe fn new(filter: FilterPtr) -> Self {
        Self { filter, hook: PhantomData }
    }

    /// The number of the worker thread, from 0.
    pub(crate) fn worker_index(self) -> u32 {
        // SAFETY: the filter lives, as for all calls of this handle.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_get_worker_index(self.filter) }
    }

    /// The lines of a header map; none if it does not exist.
    pub(crate) fn header_lines(self, map: HeaderType) -> CopiedLines {
        // SAFETY: the filter lives.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_headers_size(self.filter, map) };
        let mut found = Vec::<HeaderLine>::with_capacity(count);
        // SAFETY: the filter lives, and there is room for `count` lines, which is how many Envoy writes.
        if count == 0
            || !unsafe { abi::envoy_dynamic_module_callback_http_get_headers(self.filter, map, found.as_mut_ptr()) }
        {
            return CopiedLines::default();
        }
        // SAFETY: Envoy has written that many lines.
        unsafe { found.set_len(count) };
        let size = found.iter().map(|line| line.key_length + line.value_length).sum();
        let (mut bytes, mut lengths) = (Vec::with_capacity(size), Vec::with_capacity(count));
        for line in &found {
            // SAFETY: Envoy's names and values are valid until the map is changed, which does not happen here.
            unsafe {
                bytes.extend_from_slice(lent(line.key_ptr, line.key_length));
                bytes.extend_from_slice(lent(line.value_ptr, line.value_length));
            }
            lengths.push((line.key_length, line.value_length));
        }
        CopiedLines { bytes, lengths }
    }

    /// Replaces all lines with this name by one line.
    pub(crate) fn set_header(self, map: HeaderType, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        // SAFETY: the filter lives, and name and value are valid during the call. The value's pointer is never null, not even if
        // the value is empty: null would remove the header.
        done(unsafe {
            abi::envoy_dynamic_module_callback_http_set_header(self.filter, map, argument(name), argument(value))
        })
    }

    /// Removes every line with this name.
    pub(crate) fn remove_header(self, map: HeaderType, name: &[u8]) -> Result<(), Refused> {
        // SAFETY: the filter lives, and the name is valid during the call.
        done(unsafe { abi::envoy_dynamic_module_callback_http_set_header(self.filter, map, argument(name), EMPTY) })
    }

    /// Lets Envoy choose the route again.
    pub(crate) fn clear_route_cache(self) {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_clear_route_cache(self.filter) }
    }

    /// How many bytes of a body there are.
    pub(crate) fn body_size(self, body: BodyType) -> usize {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_get_body_size(self.filter, body) }
    }

    /// Appends the bytes of a body from `skip` on to `found`, until it has `max` bytes.
    pub(crate) fn copy_body(self, body: BodyType, skip: usize, max: usize, found: &mut Vec<u8>) {
        let chunks = self.chunks(body);
        let mut skip = skip;
        for chunk in &chunks {
            // SAFETY: Envoy's chunks are valid until the body is changed, which does not happen here.
            let bytes = unsafe { lent(chunk.ptr, chunk.length) };
            let part = bytes.get(skip.min(bytes.len())..).unwrap_or_default();
            skip = skip.saturating_sub(bytes.len());
            let room = max.saturating_sub(found.len()).min(part.len());
            found.extend_from_slice(part.get(..room).unwrap_or_default());
        }
    }

    /// Whether two bodies are one and the same: where another filter goes on after trailers, Envoy gives this
    /// one what it has kept as if it had just come.
    pub(crate) fn is_one_body(self, kept: BodyType, received: BodyType) -> bool {
        let size = self.body_size(kept);
        let start = |body| self.chunks(body).first().map(|chunk| chunk.ptr);
        size > 0 && size == self.body_size(received) && start(kept) == start(received)
    }

    /// The parts of a body. They are valid until the body changes.
    fn chunks(self, body: BodyType) -> Vec<Buffer> {
        // SAFETY: the filter lives.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_body_chunks_size(self.filter, body) };
        let mut chunks = Vec::<Buffer>::with_capacity(count);
        // SAFETY: the filter lives, and there is room for `count` chunks, which is how many Envoy writes.
        let are_there = count > 0
            && unsafe {
                abi::envoy_dynamic_module_callback_http_get_body_chunks(self.filter, body, chunks.as_mut_ptr())
            };
        if are_there {
            // SAFETY: Envoy has written that many chunks.
            unsafe { chunks.set_len(count) };
        }
        chunks
    }

    /// Removes all bytes of a body.
    pub(crate) fn drain_body(self, body: BodyType) {
        // SAFETY: the filter lives. Without a body there is nothing to remove.
        unsafe { abi::envoy_dynamic_module_callback_http_drain_body(self.filter, body, usize::MAX) };
    }

    /// Adds bytes to the end of a body.
    pub(crate) fn append_body(self, body: BodyType, data: &[u8]) -> Result<(), Refused> {
        // SAFETY: the filter lives, and the bytes are valid during the call.
        done(unsafe { abi::envoy_dynamic_module_callback_http_append_body(self.filter, body, argument(data)) })
    }

    /// Whether the part of the request's body that Envoy shows is all that it has kept, so that both are the same bytes.
    pub(crate) fn shows_kept_request(self) -> bool {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_received_buffered_request_body(self.filter) }
    }

    /// The same for the response.
    pub(crate) fn shows_kept_response(self) -> bool {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_received_buffered_response_body(self.filter) }
    }

    /// Sends a local reply. Envoy may destroy the filter during the call.
    pub(crate) fn reply(self, reply: &LocalReply<'_>) {
        let mut lines: Vec<HeaderLine> = reply.headers.iter().map(|(name, value)| line(name, value)).collect();
        // SAFETY: the filter lives until the call, and headers, body and details are valid during it.
        unsafe {
            abi::envoy_dynamic_module_callback_http_send_response(
                self.filter,
                u32::from(reply.status),
                lines.as_mut_ptr(),
                lines.len(),
                argument(reply.body),
                argument(reply.details.as_bytes()),
            );
        }
    }

    /// Lets the paused request go on. Envoy may destroy the filter during the call.
    pub(crate) fn resume_request(self) {
        // SAFETY: the filter lives until the call.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_decoding(self.filter) }
    }

    /// Lets the paused response go on. Envoy may destroy the filter during the call.
    pub(crate) fn resume_response(self) {
        // SAFETY: the filter lives until the call.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_encoding(self.filter) }
    }

    /// A text of the metadata of the gateway's route.
    pub(crate) fn route_metadata(self, namespace: &str, key: &str) -> Option<Vec<u8>> {
        let mut result = EMPTY;
        // SAFETY: the filter lives, the names are valid, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_metadata_string(
                self.filter,
                abi::MetadataSource::Route,
                argument(namespace.as_bytes()),
                argument(key.as_bytes()),
                &raw mut result,
            )
        };
        // SAFETY: Envoy's bytes are valid until something is set.
        found.then(|| unsafe { copied(result) })
    }

    /// The bytes of a string in the filter state. They are valid until the hook returns: only filters change them, and no other
    /// filter runs meanwhile.
    pub(crate) fn filter_state(self, key: &str) -> Option<&'e [u8]> {
        let mut result = EMPTY;
        // SAFETY: the filter lives, the key is valid, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_filter_state_bytes(
                self.filter,
                argument(key.as_bytes()),
                &raw mut result,
            )
        };
        // SAFETY: Envoy keeps the object until the stream ends.
        found.then(|| unsafe { lent(result.ptr, result.length) })
    }

    /// How many bytes of the request have been received.
    pub(crate) fn request_size(self) -> Option<u64> {
        let mut result = 0;
        // SAFETY: the filter lives, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_get_attribute_int(
                self.filter,
                AttributeId::RequestTotalSize,
                &raw mut result,
            )
        };
        found.then_some(result)
    }

    /// Address and port of the client.
    pub(crate) fn sender_address(self) -> Option<Vec<u8>> {
        let mut result = EMPTY;
        // SAFETY: the filter lives, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_get_attribute_string(
                self.filter,
                AttributeId::SourceAddress,
                &raw mut result,
            )
        };
        // SAFETY: Envoy's bytes are valid until the hook returns.
        found.then(|| unsafe { copied(result) })
    }

    /// Sets members of the dynamic metadata from a serialized `google.protobuf.Struct`.
    pub(crate) fn set_metadata(self, namespace: &str, members: &[u8]) -> Result<(), Refused> {
        static SET: Optional<abi::SetMetadataStruct> = Optional::new();
        // SAFETY: the type is that of this function.
        let set =
            unsafe { SET.get(c"envoy_dynamic_module_callback_http_set_dynamic_metadata_struct") }.ok_or(Refused)?;
        // SAFETY: the filter lives, and namespace and members are valid during the call.
        unsafe { set(self.filter, argument(namespace.as_bytes()), argument(members)) };
        Ok(())
    }

    /// Sets a text in the dynamic metadata.
    pub(crate) fn set_metadata_text(self, namespace: &str, key: &[u8], value: &[u8]) {
        // SAFETY: the filter lives, and all three are valid during the call.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
                self.filter,
                argument(namespace.as_bytes()),
                argument(key),
                argument(value),
            );
        }
    }

    /// Sets a number in the dynamic metadata.
    pub(crate) fn set_metadata_number(self, namespace: &str, key: &[u8], value: f64) {
        // SAFETY: the filter lives, and the names are valid during the call.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_number(
                self.filter,
                argument(namespace.as_bytes()),
                argument(key),
                value,
            );
        }
    }

    /// Sets a boolean in the dynamic metadata.
    pub(crate) fn set_metadata_flag(self, namespace: &str, key: &[u8], value: bool) {
        // SAFETY: the filter lives, and the names are valid during the call.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(
                self.filter,
                argument(namespace.as_bytes()),
                argument(key),
                value,
            );
        }
    }

    /// What calls this stream's hook for events of other threads.
    pub(crate) fn scheduler(self) -> StreamScheduler {
        // SAFETY: the filter lives. The scheduler belongs to this module until it is dropped.
        StreamScheduler(unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_new(self.filter) })
    }
}

const fn line(name: &str, value: &str) -> HeaderLine {
    HeaderLine {
        key_ptr: name.as_ptr().cast(),
        key_length: name.len(),
        value_ptr: value.as_ptr().cast(),
        value_length: value.len(),
    }
}

/// Calls the hook `scheduled` of a stream on its worker thread.
pub(crate) struct StreamScheduler(SchedulerPtr);

// SAFETY: Envoy says that a scheduler may be used on every thread, also after the stream has ended.
unsafe impl Send for StreamScheduler {}

impl StreamScheduler {
    /// Calls the hook soon; never, if the stream has ended.
    pub(crate) fn commit(&self) {
        // SAFETY: the scheduler lives until it is dropped.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, 0) }
    }
}

impl Drop for StreamScheduler {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}

/// The configuration of a filter in Envoy.
#[derive(Clone, Copy)]
pub(crate) struct ConfigHandle(ConfigPtr);

// SAFETY: Envoy's functions for metrics and secrets of a configuration may be called on every thread of Envoy. The others are
// called by hooks of the main thread alone, as their descriptions here say.
unsafe impl Send for ConfigHandle {}
// SAFETY: as above.
unsafe impl Sync for ConfigHandle {}

/// The kind of an instrument, and its number in one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InstrumentId {
    Counter(usize),
    Histogram(usize),
}

impl ConfigHandle {
    /// # Safety
    /// `config` has to be the pointer that a hook of a configuration was called with. The handle must not be used after Envoy has
    /// destroyed the configuration, which it does after the last of its streams.
    pub(crate) const unsafe fn new(config: ConfigPtr) -> Self {
        Self(config)
    }

    /// Defines a counter. Only while the configuration is made.
    pub(crate) fn define_counter(self, name: &str, labels: &[&str]) -> Result<InstrumentId, Refused> {
        let (mut labels, mut id) = (arguments(labels.iter().map(|label| label.as_bytes())), 0);
        // SAFETY: the configuration lives, name and labels are valid, and the id can be written, during the call.
        let result = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_define_counter(
                self.0,
                argument(name.as_bytes()),
                labels.as_mut_ptr(),
                labels.len(),
                &raw mut id,
            )
        };
        done(result == abi::METRIC_SUCCESS).map(|()| InstrumentId::Counter(id))
    }

    /// Defines a histogram. Only while the configuration is made.
    pub(crate) fn define_histogram(self, name: &str, labels: &[&str]) -> Result<InstrumentId, Refused> {
        let (mut labels, mut id) = (arguments(labels.iter().map(|label| label.as_bytes())), 0);
        // SAFETY: as for a counter.
        let result = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_define_histogram(
                self.0,
                argument(name.as_bytes()),
                labels.as_mut_ptr(),
                labels.len(),
                &raw mut id,
            )
        };
        done(result == abi::METRIC_SUCCESS).map(|()| InstrumentId::Histogram(id))
    }

    /// Adds to a counter, or gives a value to a histogram; `labels`: the values of its labels.
    pub(crate) fn measure(self, instrument: InstrumentId, labels: &[String], value: u64) -> Result<(), Refused> {
        let mut labels = arguments(labels.iter().map(String::as_bytes));
        // SAFETY: the configuration lives, and the values are valid during the call.
        let result = unsafe {
            match instrument {
                InstrumentId::Counter(id) => abi::envoy_dynamic_module_callback_http_filter_config_increment_counter(
                    self.0,
                    id,
                    labels.as_mut_ptr(),
                    labels.len(),
                    value,
                ),
                InstrumentId::Histogram(id) => {
                    abi::envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
                        self.0,
                        id,
                        labels.as_mut_ptr(),
                        labels.len(),
                        value,
                    )
                }
            }
        };
        done(result == abi::METRIC_SUCCESS)
    }

    /// Makes an HTTP call, and gives its number. On the main thread alone.
    pub(crate) fn call(
        self,
        cluster: &str,
        headers: &[(&str, String)],
        body: &[u8],
        timeout_ms: u32,
    ) -> Result<u64, Refused> {
        let mut lines: Vec<HeaderLine> = headers.iter().map(|(name, value)| line(name, value)).collect();
        let mut callout = 0;
        // SAFETY: the configuration lives, everything is valid, and the number can be written, during the call.
        let result = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_http_callout(
                self.0,
                &raw mut callout,
                argument(cluster.as_bytes()),
                lines.as_mut_ptr(),
                lines.len(),
                argument(body),
                u64::from(timeout_ms),
            )
        };
        done(result == abi::CALLOUT_SUCCESS).map(|()| callout)
    }

    /// Asks for a secret, and gives its number; `source`: a `ConfigSource` as JSON, empty for a secret of the bootstrap. Only while
    /// the configuration is made.
    pub(crate) fn subscribe_secret(self, name: &str, source: &str) -> Result<usize, Refused> {
        static SUBSCRIBE: Optional<abi::SecretSubscribe> = Optional::new();
        let function = c"envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe";
        // SAFETY: the type is that of this function.
        let subscribe = unsafe { SUBSCRIBE.get(function) }.ok_or(Refused)?;
        // SAFETY: the configuration lives, and both texts are valid during the call.
        let id = unsafe { subscribe(self.0, argument(name.as_bytes()), argument(source.as_bytes())) };
        done(id != 0).map(|()| id)
    }

    /// The value of a secret as it is now; `None` if there is none yet. On a thread of Envoy.
    pub(crate) fn secret(self, id: usize) -> Option<Vec<u8>> {
        static GET: Optional<abi::SecretGet> = Optional::new();
        // SAFETY: the type is that of this function.
        let get = unsafe { GET.get(c"envoy_dynamic_module_callback_http_filter_config_get_generic_secret") }?;
        let mut result = EMPTY;
        // SAFETY: the configuration lives, and the result can be written, during the call.
        let found = unsafe { get(self.0, id, &raw mut result) };
        // SAFETY: Envoy's bytes are valid until its thread goes on to another event.
        found.then(|| unsafe { copied(result) }).filter(|value| !value.is_empty())
    }

    /// What calls this configuration's hook on the main thread.
    pub(crate) fn scheduler(self) -> ConfigScheduler {
        // SAFETY: the configuration lives. The scheduler belongs to this module until it is dropped.
        ConfigScheduler(unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_new(self.0) })
    }
}

fn arguments<'b>(texts: impl Iterator<Item = &'b [u8]>) -> Vec<Buffer> {
    texts.map(argument).collect()
}

/// Calls the hook `config_scheduled` of a configuration on Envoy's main thread.
pub(crate) struct ConfigScheduler(SchedulerPtr);

// SAFETY: Envoy says that a scheduler may be used on every thread.
unsafe impl Send for ConfigScheduler {}
// SAFETY: its only operation, `commit`, posts to the main thread, which needs no exclusive access.
unsafe impl Sync for ConfigScheduler {}

impl ConfigScheduler {
    /// Calls the hook soon, with this event; never, if the configuration has ended.
    pub(crate) fn commit(&self, event: u64) {
        // SAFETY: the scheduler lives until it is dropped.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, event) }
    }
}

impl Drop for ConfigScheduler {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}

/// The status and the body of the reply to a call: of the header lines `:status` alone is read.
///
/// # Safety
/// Lines and chunks have to be valid, as those of a hook are until it returns.
pub(crate) unsafe fn reply_to_call(
    lines: (*const HeaderLine, usize),
    chunks: (*const Buffer, usize),
    max: usize,
) -> (Option<u16>, Option<Vec<u8>>) {
    let (lines, chunks) = if lines.0.is_null() {
        (&[][..], &[][..])
    } else {
        // SAFETY: the pointer is not null, and the caller says that so many lines and chunks are valid.
        let lines = unsafe { std::slice::from_raw_parts(lines.0, lines.1) };
        let chunks = if chunks.0.is_null() {
            &[][..]
        } else {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts(chunks.0, chunks.1) }
        };
        (lines, chunks)
    };
    let status = lines.iter().find_map(|line| {
        // SAFETY: Envoy's names and values are valid until the hook returns.
        let (name, value) = unsafe { (lent(line.key_ptr, line.key_length), lent(line.value_ptr, line.value_length)) };
        (name == b":status").then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
    });
    let size: usize = chunks.iter().map(|chunk| chunk.length).sum();
    let mut body = Vec::new();
    if size <= max {
        for chunk in chunks {
            // SAFETY: as above.
            body.extend_from_slice(unsafe { lent(chunk.ptr, chunk.length) });
        }
    }
    (status, (size <= max).then_some(body))
}
