//! The host calls, which return results and never panic (docs/decisions/0002-host-calls.md). Statuses, maps and
//! encodings are those of the proxy-wasm ABI 0.2.1.
#![allow(unsafe_code)]

use edge_idempotency_engine::{FilterAction, LocalReply};
use std::ptr::null_mut;

/// A host's status other than `OK` (`proxy_status_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u32);

impl Status {
    /// The requested object does not exist.
    pub(crate) const NOT_FOUND: Self = Self(1);
}

/// A header map (`proxy_header_map_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapType {
    RequestHeaders = 0,
    RequestTrailers = 1,
    ResponseHeaders = 2,
    ResponseTrailers = 3,
    CallResponseHeaders = 6,
}

/// `proxy_log_level_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbiLogLevel {
    Debug = 1,
    Info = 2,
    Warn = 3,
    Error = 4,
    Critical = 5,
}

/// What a callback returns to the host (`proxy_action_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Action {
    /// The message goes to the next filter
    Continue = 0,
    /// The message waits, or the filter has replied
    Pause = 1,
    /// The message waits, and the host shows nothing of its body before it goes on. The ABI has no such number; it is
    /// `StopAllIterationAndWatermark` of `FilterHeadersStatus` of the C++ SDK, which hosts take for headers.
    PauseReading = 4,
}

impl From<FilterAction> for Action {
    fn from(action: FilterAction) -> Self {
        match action {
            FilterAction::Continue => Self::Continue,
            FilterAction::Pause => Self::Pause,
            FilterAction::PauseReading => Self::PauseReading,
        }
    }
}

/// `proxy_buffer_type_t`
const REQUEST_BODY: u32 = 0;
const RESPONSE_BODY: u32 = 1;
const CALL_RESPONSE_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, message: *const u8, size: usize) -> u32;
    fn proxy_get_log_level(level: *mut u32) -> u32;
    fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_size: usize) -> u32;
    fn proxy_get_property(path: *const u8, path_size: usize, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_set_property(path: *const u8, path_size: usize, value: *const u8, value_size: usize) -> u32;
    fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        argument: *const u8,
        argument_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_buffer_bytes(buffer: u32, start: usize, max: usize, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_set_buffer_bytes(buffer: u32, start: usize, size: usize, data: *const u8, data_size: usize) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_size: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, offset: i64) -> u32;
    fn proxy_record_metric(id: u32, value: u64) -> u32;
    fn proxy_set_effective_context(id: u32) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_http_call(
        cluster: *const u8,
        cluster_size: usize,
        headers: *const u8,
        headers_size: usize,
        body: *const u8,
        body_size: usize,
        trailers: *const u8,
        trailers_size: usize,
        timeout_ms: u32,
        token: *mut u32,
    ) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
}

// Envoy gives a VM the variables that its configuration lists, through these two of WASI's calls.
#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn environ_sizes_get(count: *mut usize, size: *mut usize) -> u32;
    fn environ_get(variables: *mut *mut u8, buffer: *mut u8) -> u32;
}

const fn done(status: u32) -> Result<(), Status> {
    if status == 0 { Ok(()) } else { Err(Status(status)) }
}

/// Takes ownership of the bytes that a call returned in guest memory; a null pointer means no bytes.
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>, Status> {
    let (mut data, mut size) = (null_mut(), 0);
    done(call(&raw mut data, &raw mut size))?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the host has our `proxy_on_memory_allocate` allocate what it returns, and has filled it.
    Ok(unsafe { allocated(data, size) })
}

/// Takes ownership of bytes that a host has put into guest memory.
///
/// # Safety
/// `data` is what our `proxy_on_memory_allocate` has returned for this `size`, and nobody else owns it: that is a boxed slice of exactly
/// `size` bytes from the global allocator. The host has filled it.
pub(crate) unsafe fn allocated(data: *mut u8, size: usize) -> Vec<u8> {
    // SAFETY: as above.
    unsafe { Vec::from_raw_parts(data, size, size) }
}

/// Leaves a text in guest memory for a host, which ends the instance once it has copied the text: its address, then its length in the
/// lower half.
pub(crate) fn left(text: String) -> u64 {
    let text = text.leak();
    (text.as_ptr() as u64) << 32 | text.len() as u64
}

/// Writes a line to the host's log.
pub(crate) fn log(level: AbiLogLevel, message: &str) {
    // SAFETY: the message is valid for reads of its length during the call.
    let _ = unsafe { proxy_log(level as u32, message.as_ptr(), message.len()) };
}

/// The lowest level that the host's log shows, as a `proxy_log_level_t`.
pub(crate) fn log_level() -> Result<u32, Status> {
    let mut level = 0;
    // SAFETY: the pointer is valid for writes during the call.
    done(unsafe { proxy_get_log_level(&raw mut level) })?;
    Ok(level)
}

/// A header map in the host's encoding; see [`pairs`].
pub(crate) fn header_map(map: MapType) -> Result<Vec<u8>, Status> {
    // SAFETY: both pointers are valid for writes during the call.
    returned(|data, size| unsafe { proxy_get_header_map_pairs(map as u32, data, size) })
}

/// Replaces all lines with this name by one line.
pub(crate) fn set_header(map: MapType, name: &[u8], value: &[u8]) -> Result<(), Status> {
    // SAFETY: name and value are valid for reads of their lengths during the call.
    done(unsafe { proxy_replace_header_map_value(map as u32, name.as_ptr(), name.len(), value.as_ptr(), value.len()) })
}

/// Removes every line with this name.
pub(crate) fn remove_header(map: MapType, name: &[u8]) -> Result<(), Status> {
    // SAFETY: the name is valid for reads of its length during the call.
    done(unsafe { proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) })
}

/// A property; `path` is its segments joined by NUL.
pub(crate) fn property(path: &[u8]) -> Result<Vec<u8>, Status> {
    // SAFETY: the path is valid for reads, the pointers for writes, during the call.
    returned(|data, size| unsafe { proxy_get_property(path.as_ptr(), path.len(), data, size) })
}

/// Sets a property of the current request.
pub(crate) fn set_property(path: &[u8], value: &[u8]) -> Result<(), Status> {
    // SAFETY: path and value are valid for reads of their lengths during the call.
    done(unsafe { proxy_set_property(path.as_ptr(), path.len(), value.as_ptr(), value.len()) })
}

/// Calls a function that is the host's own, and gives what it returns.
pub(crate) fn foreign_function(name: &str, argument: &[u8]) -> Result<Vec<u8>, Status> {
    // SAFETY: name and argument are valid for reads of their lengths, the pointers for writes, during the call.
    returned(|data, size| unsafe {
        proxy_call_foreign_function(name.as_ptr(), name.len(), argument.as_ptr(), argument.len(), data, size)
    })
}

/// The bytes of the plugin's configuration.
pub(crate) fn configuration() -> Result<Vec<u8>, Status> {
    buffer(PLUGIN_CONFIGURATION, 0, usize::MAX)
}

/// The buffered part of the request's body from the byte `start` on, up to `max` bytes.
pub(crate) fn request_body(start: usize, max: usize) -> Result<Vec<u8>, Status> {
    buffer(REQUEST_BODY, start, max)
}

/// The buffered part of the response's body, up to `max` bytes.
pub(crate) fn response_body(max: usize) -> Result<Vec<u8>, Status> {
    buffer(RESPONSE_BODY, 0, max)
}

/// Replaces the current part of the response's body by `body`.
pub(crate) fn set_response_body(body: &[u8]) -> Result<(), Status> {
    // SAFETY: the body is valid for reads of its length during the call.
    done(unsafe { proxy_set_buffer_bytes(RESPONSE_BODY, 0, usize::MAX, body.as_ptr(), body.len()) })
}

/// The body of the reply to a call, up to `max` bytes.
pub(crate) fn call_response_body(max: usize) -> Result<Vec<u8>, Status> {
    buffer(CALL_RESPONSE_BODY, 0, max)
}

fn buffer(buffer: u32, start: usize, max: usize) -> Result<Vec<u8>, Status> {
    // SAFETY: both pointers are valid for writes during the call.
    match returned(|data, size| unsafe { proxy_get_buffer_bytes(buffer, start, max, data, size) }) {
        Err(Status::NOT_FOUND) => Ok(Vec::new()),
        bytes => bytes,
    }
}

/// Milliseconds since 1970-01-01 UTC; 0 if the host has no clock.
pub(crate) fn now_unix_ms() -> u64 {
    let mut nanoseconds = 0;
    // SAFETY: the pointer is valid for writes during the call.
    match done(unsafe { proxy_get_current_time_nanoseconds(&raw mut nanoseconds) }) {
        Ok(()) => nanoseconds / 1_000_000,
        Err(_) => 0,
    }
}

/// Asks the host for a tick every `milliseconds`.
pub(crate) fn set_tick_period(milliseconds: u32) -> Result<(), Status> {
    // SAFETY: no memory is involved.
    done(unsafe { proxy_set_tick_period_milliseconds(milliseconds) })
}

/// Defines a metric, and gives its id; `kind` is a `proxy_metric_type_t`.
pub(crate) fn define_metric(kind: u32, name: &str) -> Result<u32, Status> {
    let mut id = 0;
    // SAFETY: the name is valid for reads of its length, the id for writes, during the call.
    done(unsafe { proxy_define_metric(kind, name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Adds to a counter.
pub(crate) fn increment_metric(id: u32, count: u64) -> Result<(), Status> {
    // SAFETY: no memory is involved.
    done(unsafe { proxy_increment_metric(id, i64::try_from(count).unwrap_or(i64::MAX)) })
}

/// Records a value of a histogram.
pub(crate) fn record_metric(id: u32, value: u64) -> Result<(), Status> {
    // SAFETY: no memory is involved.
    done(unsafe { proxy_record_metric(id, value) })
}

/// Makes `context` the one that the following host calls act on, until the callback returns.
pub(crate) fn act_for(context: u32) -> Result<(), Status> {
    // SAFETY: no memory is involved.
    done(unsafe { proxy_set_effective_context(context) })
}

/// Resumes a paused request.
pub(crate) fn continue_request() -> Result<(), Status> {
    const REQUEST: u32 = 0;
    // SAFETY: no memory is involved.
    done(unsafe { proxy_continue_stream(REQUEST) })
}

/// Resumes a paused response.
pub(crate) fn continue_response() -> Result<(), Status> {
    const RESPONSE: u32 = 1;
    // SAFETY: no memory is involved.
    done(unsafe { proxy_continue_stream(RESPONSE) })
}

/// Makes an HTTP request to a cluster; the token comes back with the reply.
pub(crate) fn http_call(
    cluster: &str,
    headers: &[(&str, String)],
    body: &[u8],
    timeout_ms: u32,
) -> Result<u32, Status> {
    let headers = serialise(headers);
    let trailers = serialise(&[]);
    let mut token = 0;
    // SAFETY: all slices are valid for reads of their lengths, the token for writes, during the call.
    done(unsafe {
        proxy_http_call(
            cluster.as_ptr(),
            cluster.len(),
            headers.as_ptr(),
            headers.len(),
            body.as_ptr(),
            body.len(),
            trailers.as_ptr(),
            trailers.len(),
            timeout_ms,
            &raw mut token,
        )
    })?;
    Ok(token)
}

/// The VM's environment, each variable as `NAME=value`.
pub(crate) fn environment() -> Result<Vec<Vec<u8>>, Status> {
    let (mut count, mut size) = (0, 0);
    // SAFETY: both pointers are valid for writes during the call.
    done(unsafe { environ_sizes_get(&raw mut count, &raw mut size) })?;
    let mut pointers = vec![null_mut(); count];
    let mut buffer = vec![0; size];
    // SAFETY: the host writes `count` pointers and `size` bytes, as it has just said.
    done(unsafe { environ_get(pointers.as_mut_ptr(), buffer.as_mut_ptr()) })?;
    Ok(buffer.split(|byte| *byte == 0).filter(|variable| !variable.is_empty()).map(<[u8]>::to_vec).collect())
}

/// Sends a local reply. Its `details` are `%RESPONSE_CODE_DETAILS%` in access logs.
pub(crate) fn reply(reply: &LocalReply<'_>) -> Result<(), Status> {
    let LocalReply { status, details, body, grpc_status, .. } = *reply;
    let headers = serialise(reply.headers);
    // SAFETY: all four slices are valid for reads of their lengths during the call.
    done(unsafe {
        proxy_send_local_response(
            u32::from(status),
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            grpc_status.map_or(-1, i32::from),
        )
    })
}

/// Serialises pairs in the ABI's encoding: their number, the lengths of each name and value, then all names and values
/// with a NUL after each.
fn serialise(pairs: &[(&str, String)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    let number = |bytes: &mut Vec<u8>, size: usize| {
        bytes.extend(u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
    };
    number(&mut bytes, pairs.len());
    for (name, value) in pairs {
        number(&mut bytes, name.len());
        number(&mut bytes, value.len());
    }
    for text in pairs.iter().flat_map(|(name, value)| [*name, value.as_str()]) {
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// The lines of a serialised header map, borrowed from it; `None` if it is truncated.
pub(crate) fn pairs(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let Some((count, rest)) = number(bytes) else { return bytes.is_empty().then(Vec::new) };
    let (lengths, mut texts) = rest.split_at_checked(count.checked_mul(8)?)?;
    let mut pairs = vec![(&[][..], &[][..]); count];
    for (pair, sizes) in pairs.iter_mut().zip(lengths.as_chunks::<8>().0) {
        // Both sizes in one load: the name's is the lower half.
        let sizes = u64::from_le_bytes(*sizes);
        let (name_size, value_size) = ((sizes & 0xffff_ffff) as usize, (sizes >> 32) as usize);
        let (name, rest) = texts.split_at_checked(name_size)?;
        let (value, rest) = rest.get(1..)?.split_at_checked(value_size)?;
        texts = rest.get(1..)?;
        *pair = (name, value);
    }
    Some(pairs)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}
