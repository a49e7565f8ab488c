//! The functions for a stream.

use super::{bytes, checked, headers, text};
use crate::envoy::{Process, line, locked};
use crate::side::{Chunk, Direction};
use crate::stream::StreamState;
use edge_idempotency::abi::{
    AttributeId, BodyType, Buffer, FilterPtr, HeaderLine, HeaderType, MetadataSource, SchedulerPtr,
};
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;
use testkit::http::Headers;

/// The namespace of the record
pub(super) const RECORD: &[u8] = b"edge_idempotency";

/// The stream that the module names.
///
/// # Safety
/// The hook of the stream has to run.
pub(super) unsafe fn stream(filter: FilterPtr) -> Rc<StreamState> {
    // SAFETY: as the caller says.
    let stream = unsafe { StreamState::of(filter) };
    if stream.is_destroyed() {
        stream.config.state().process.fail("the module uses a stream that is destroyed");
    }
    stream
}

/// Runs `edit` on a header map; `None` if it does not exist.
fn with_map<T>(stream: &StreamState, map: HeaderType, edit: impl FnOnce(&mut Headers) -> T) -> Option<T> {
    let mut parts = stream.parts.borrow_mut();
    match map {
        HeaderType::RequestHeader => Some(edit(&mut parts.request.headers)),
        HeaderType::RequestTrailer => parts.request.trailers.as_mut().map(edit),
        HeaderType::ResponseHeader if !parts.response.has_begun => None,
        HeaderType::ResponseHeader => Some(edit(&mut parts.response.headers)),
        HeaderType::ResponseTrailer => parts.response.trailers.as_mut().map(edit),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_headers_size(filter: FilterPtr, map: HeaderType) -> usize {
    // SAFETY: the stream's hook runs.
    let stream = unsafe { stream(filter) };
    with_map(&stream, map, |headers| headers.len()).unwrap_or(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_headers(
    filter: FilterPtr,
    map: HeaderType,
    lines: *mut HeaderLine,
) -> bool {
    // SAFETY: the stream's hook runs.
    let stream = unsafe { stream(filter) };
    let Some(headers) = with_map(&stream, map, |headers| headers.clone()) else { return false };
    let mut parts = stream.parts.borrow_mut();
    for (index, (name, value)) in headers.iter().enumerate() {
        // SAFETY: the module has room for as many lines as there are.
        unsafe { lines.add(index).write(line(&mut parts.lent, name.as_bytes(), value)) };
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_header(
    filter: FilterPtr,
    map: HeaderType,
    name: Buffer,
    value: Buffer,
) -> bool {
    // SAFETY: the stream's hook runs, and name and value are valid during the call. They are copied before what is lent ends, so
    // that the module may take them from there.
    let (stream, name, is_null, value) =
        unsafe { (stream(filter), bytes(name).to_vec(), value.ptr.is_null(), bytes(value).to_vec()) };
    stream.parts.borrow_mut().lent.end();
    let process = &stream.config.state().process;
    let name = checked(&name, &value, process);
    let set = |headers: &mut Headers| if is_null { headers.remove(&name) } else { headers.set(&name, value) };
    with_map(&stream, map, set).is_some()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_send_response(
    filter: FilterPtr,
    status: u32,
    lines: *mut HeaderLine,
    lines_size: usize,
    body: Buffer,
    details: Buffer,
) {
    // SAFETY: the stream's hook runs, and lines, body and details are valid during the call.
    unsafe {
        let stream = stream(filter);
        let headers = headers(lines, lines_size, &stream.config.state().process);
        stream.reply(status, headers, bytes(body).to_vec(), text(details));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_clear_route_cache(filter: FilterPtr) {
    // SAFETY: the stream's hook runs.
    let stream = unsafe { stream(filter) };
    stream.parts.borrow_mut().route_cleared += 1;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
    filter: FilterPtr,
    attribute: AttributeId,
    result: *mut Buffer,
) -> bool {
    if !matches!(attribute, AttributeId::SourceAddress) {
        return false;
    }
    // SAFETY: the stream's hook runs, and the result can be written.
    unsafe {
        let stream = stream(filter);
        let address = stream.parts.borrow_mut().lent.lend(format!("192.0.2.7:{}", 40_000 + stream.id()).as_bytes());
        result.write(address);
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
    filter: FilterPtr,
    attribute: AttributeId,
    result: *mut u64,
) -> bool {
    if !matches!(attribute, AttributeId::RequestTotalSize) {
        return false;
    }
    // SAFETY: the stream's hook runs, and the result can be written.
    unsafe {
        let stream = stream(filter);
        let parts = stream.parts.borrow();
        let body = parts.request.body(true).map_or(0, Vec::len) + parts.request.body(false).map_or(0, Vec::len);
        result.write((parts.request.headers.byte_size() + body) as u64);
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_metadata_string(
    filter: FilterPtr,
    source: MetadataSource,
    namespace: Buffer,
    key: Buffer,
    result: *mut Buffer,
) -> bool {
    let MetadataSource::Route = source;
    // SAFETY: the stream's hook runs, the names are valid, and the result can be written.
    unsafe {
        let stream = stream(filter);
        let value = stream.info.route_metadata.get(&text(namespace)).and_then(|members| members.get(text(key)));
        let Some(Value::String(value)) = value else { return false };
        result.write(stream.parts.borrow_mut().lent.lend(value.as_bytes()));
    }
    true
}

/// Sets a member of the dynamic metadata.
///
/// # Safety
/// The stream's hook has to run, and the names have to be valid during the call.
unsafe fn set_member(filter: FilterPtr, namespace: Buffer, key: Buffer, value: Value) {
    // SAFETY: as the caller says.
    let (stream, namespace, key) = unsafe { (stream(filter), bytes(namespace), text(key)) };
    if namespace != RECORD {
        stream.config.state().process.fail("dynamic metadata of another namespace is set");
    }
    stream.parts.borrow_mut().record.insert(key, value);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
    filter: FilterPtr,
    namespace: Buffer,
    key: Buffer,
    value: Buffer,
) {
    // SAFETY: the stream's hook runs, and all three are valid during the call.
    unsafe { set_member(filter, namespace, key, text(value).into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_metadata_number(
    filter: FilterPtr,
    namespace: Buffer,
    key: Buffer,
    value: f64,
) {
    let whole = (0..=u8::MAX).find(|whole| f64::from(*whole) == value);
    // SAFETY: the stream's hook runs, and the names are valid during the call.
    unsafe { set_member(filter, namespace, key, whole.map_or_else(|| value.into(), Value::from)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(
    filter: FilterPtr,
    namespace: Buffer,
    key: Buffer,
    value: bool,
) {
    // SAFETY: the stream's hook runs, and the names are valid during the call.
    unsafe { set_member(filter, namespace, key, value.into()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
    filter: FilterPtr,
    key: Buffer,
    result: *mut Buffer,
) -> bool {
    // SAFETY: the stream's hook runs, the key is valid, and the result can be written.
    unsafe {
        let stream = stream(filter);
        let Some(value) = stream.info.filter_state.get(&text(key)) else { return false };
        result.write(stream.parts.borrow_mut().kept.lend(value));
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: FilterPtr) {
    // SAFETY: the stream's hook runs.
    unsafe { stream(filter) }.go_on(Direction::Request);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_continue_encoding(filter: FilterPtr) {
    // SAFETY: the stream's hook runs.
    unsafe { stream(filter) }.go_on(Direction::Response);
}

/// A scheduler of a stream: the process, the worker and the stream's number.
struct StreamScheduler(Arc<Process>, usize, u64);

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: FilterPtr) -> SchedulerPtr {
    // SAFETY: the stream's hook runs.
    let stream = unsafe { stream(filter) };
    let meanwhile = locked(&stream.config.state().process.before_scheduler).take();
    if let Some(meanwhile) = meanwhile {
        meanwhile();
    }
    let scheduler = StreamScheduler(stream.config.state().process.clone(), stream.worker, stream.id());
    Box::into_raw(Box::new(scheduler)).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: SchedulerPtr, event: u64) {
    // SAFETY: the scheduler was made above, and is not deleted.
    let StreamScheduler(process, worker, stream) = unsafe { &*scheduler.cast_const().cast() };
    if let Some(queue) = process.workers.get(*worker) {
        queue.post((*stream, event));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: SchedulerPtr) {
    // SAFETY: the scheduler was made above, and this is its last use.
    drop(unsafe { Box::from_raw(scheduler.cast::<StreamScheduler>()) });
}

/// Which side of a stream, and whether its buffer is meant.
const fn body_place(body: BodyType) -> (Direction, bool) {
    match body {
        BodyType::ReceivedRequest => (Direction::Request, false),
        BodyType::BufferedRequest => (Direction::Request, true),
        BodyType::ReceivedResponse => (Direction::Response, false),
        BodyType::BufferedResponse => (Direction::Response, true),
    }
}

/// Reads a body; `None` if there is none.
///
/// # Safety
/// The stream's hook has to run.
unsafe fn read_body<T>(filter: FilterPtr, body: BodyType, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
    // SAFETY: as the caller says.
    let stream = unsafe { stream(filter) };
    let (direction, buffered) = body_place(body);
    let mut parts = stream.parts.borrow_mut();
    parts.side(direction).body(buffered).map(|bytes| read(bytes))
}

/// Changes a body; `false` if there is none.
///
/// # Safety
/// The stream's hook has to run.
unsafe fn edit_body(filter: FilterPtr, body: BodyType, edit: impl FnOnce(&mut Vec<u8>)) -> bool {
    // SAFETY: as the caller says.
    let stream = unsafe { stream(filter) };
    let (direction, buffered) = body_place(body);
    let mut parts = stream.parts.borrow_mut();
    let found = parts.side(direction).body_mut(buffered).map(edit).is_some();
    parts.lent.end();
    found
}

/// Envoy has bodies in slices of its own choice; these are odd ones.
fn slices(bytes: &[u8]) -> impl ExactSizeIterator<Item = &[u8]> {
    bytes.chunks((bytes.len() / 3).max(5))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_body_size(filter: FilterPtr, body: BodyType) -> usize {
    // SAFETY: the stream's hook runs.
    unsafe { read_body(filter, body, <[u8]>::len) }.unwrap_or(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_body_chunks_size(
    filter: FilterPtr,
    body: BodyType,
) -> usize {
    // SAFETY: the stream's hook runs.
    unsafe { read_body(filter, body, |bytes| slices(bytes).len()) }.unwrap_or(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_get_body_chunks(
    filter: FilterPtr,
    body: BodyType,
    chunks: *mut Buffer,
) -> bool {
    // SAFETY: the stream's hook runs, and the module has room for as many chunks as there are.
    unsafe {
        let Some(bytes) = read_body(filter, body, <[u8]>::to_vec) else { return false };
        let stream = stream(filter);
        let mut parts = stream.parts.borrow_mut();
        for (index, slice) in slices(&bytes).enumerate() {
            chunks.add(index).write(parts.lent.lend(slice));
        }
    }
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_append_body(
    filter: FilterPtr,
    body: BodyType,
    data: Buffer,
) -> bool {
    // SAFETY: the stream's hook runs, and the data is valid during the call.
    unsafe {
        let data = bytes(data).to_vec();
        edit_body(filter, body, |bytes| bytes.extend(data))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_drain_body(
    filter: FilterPtr,
    body: BodyType,
    size: usize,
) -> bool {
    // SAFETY: the stream's hook runs.
    unsafe { edit_body(filter, body, |bytes| drop(bytes.drain(..size.min(bytes.len())))) }
}

/// Whether what the hook shows of a message is the buffer itself.
///
/// # Safety
/// The stream's hook has to run.
unsafe fn shows_buffer(filter: FilterPtr, direction: Direction) -> bool {
    // SAFETY: as the caller says.
    let stream = unsafe { stream(filter) };
    matches!(stream.parts.borrow_mut().side(direction).chunk, Chunk::Buffered)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_received_buffered_request_body(filter: FilterPtr) -> bool {
    // SAFETY: the stream's hook runs.
    unsafe { shows_buffer(filter, Direction::Request) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_received_buffered_response_body(filter: FilterPtr) -> bool {
    // SAFETY: the stream's hook runs.
    unsafe { shows_buffer(filter, Direction::Response) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_get_worker_index(filter: FilterPtr) -> u32 {
    // The module asks in the hook that makes its stream, so there is none yet.
    // SAFETY: the stream's hook runs.
    u32::try_from(unsafe { StreamState::of(filter) }.worker).unwrap_or(u32::MAX)
}
