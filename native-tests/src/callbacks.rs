//! The functions that the module calls, under the names by which the linker finds them.
//!
//! Those that Envoy 1.40 has and 1.39 has not are in [`newer`]. A test program has them if it expands
//! [`envoy_1_40!`](crate::envoy_1_40), and the module finds them by their names, as in Envoy.

use crate::envoy::{ConfigScheduler, ConfigState, Kind, Process, current, line, locked};
use crate::side::{Chunk, Direction};
use crate::stream::StreamState;
use edge_idempotency::abi::{
    AbiLogLevel, AttributeId, BodyType, Buffer, ConfigPtr, FilterPtr, HeaderLine, HeaderType, MetadataSource,
    SchedulerPtr,
};
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;
use testkit::http::Headers;

/// What the route and the record are named by
const RECORD: &[u8] = b"edge_idempotency";

/// The bytes that the module gives.
///
/// # Safety
/// They have to be valid during the call.
unsafe fn bytes<'b>(buffer: Buffer) -> &'b [u8] {
    if buffer.ptr.is_null() {
        return &[];
    }
    // SAFETY: the pointer is not null, and the caller says that so many bytes are valid.
    unsafe { std::slice::from_raw_parts(buffer.ptr.cast(), buffer.length) }
}

/// A text that the module gives.
///
/// # Safety
/// As for [`bytes`].
unsafe fn text(buffer: Buffer) -> String {
    // SAFETY: as the caller says.
    String::from_utf8_lossy(unsafe { bytes(buffer) }).into_owned()
}

/// The items of an array that the module gives.
///
/// # Safety
/// They have to be valid during the call.
unsafe fn items<'i, T>(first: *const T, count: usize) -> &'i [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the pointer is not null, and the caller says that so many items are valid.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// Header lines that the module gives.
///
/// # Safety
/// As for [`items`], and so for the bytes of each.
unsafe fn headers(lines: *const HeaderLine, count: usize, process: &Process) -> Headers {
    let mut headers = Headers::new();
    // SAFETY: as the caller says.
    for line in unsafe { items(lines, count) } {
        let name = Buffer { ptr: line.key_ptr, length: line.key_length };
        let value = Buffer { ptr: line.value_ptr, length: line.value_length };
        // SAFETY: as the caller says.
        let (name, value) = unsafe { (bytes(name), bytes(value)) };
        headers.add(&checked(name, value, process), value);
    }
    headers
}

/// Notes a line that would break a message. Envoy takes such lines, and its codec or the router fails later.
fn checked(name: &[u8], value: &[u8], process: &Process) -> String {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let bare = name.strip_prefix(b":").unwrap_or(name);
    if bare.is_empty() || !bare.iter().all(token) || value.iter().any(|byte| [0, b'\r', b'\n'].contains(byte)) {
        process.fail(format!("the module wrote the line {}: {}", name.escape_ascii(), value.escape_ascii()));
    }
    String::from_utf8_lossy(name).into_owned()
}

/// The stream that the module names.
///
/// # Safety
/// The hook of the stream has to run.
unsafe fn stream(filter: FilterPtr) -> Rc<StreamState> {
    // SAFETY: as the caller says.
    let stream = unsafe { StreamState::of(filter) };
    if stream.is_destroyed() {
        stream.config.state().process.fail("the module uses a stream that is destroyed");
    }
    stream
}

/// The configuration that the module names.
///
/// # Safety
/// It has to live.
unsafe fn config<'c>(config: ConfigPtr) -> &'c ConfigState {
    // SAFETY: as the caller says.
    unsafe { &*config.cast_const().cast() }
}

const fn level(level: AbiLogLevel) -> &'static str {
    match level {
        AbiLogLevel::Debug => "Debug",
        AbiLogLevel::Info => "Info",
        AbiLogLevel::Warn => "Warn",
        AbiLogLevel::Error => "Error",
        AbiLogLevel::Critical => "Critical",
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_log(at: AbiLogLevel, message: Buffer) {
    if let Some(process) = current() {
        // SAFETY: the message is valid during the call.
        process.log(level(at), &unsafe { text(message) });
    }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_log_enabled(level: AbiLogLevel) -> bool {
    !matches!(level, AbiLogLevel::Debug)
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_get_concurrency() -> u32 {
    current().map_or(0, |process| u32::try_from(process.workers.len()).unwrap_or(u32::MAX))
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
        let value = stream.info.metadata.as_ref().filter(|_| bytes(key) == b"edge_idempotency.metadata");
        let Some(value) = value else { return false };
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

/// Defines an instrument.
///
/// # Safety
/// The configuration has to live, name and labels to be valid, and the number to be writable.
unsafe fn define(kind: Kind, at: ConfigPtr, name: Buffer, labels: &[Buffer], id: *mut usize) -> u32 {
    // SAFETY: as the caller says.
    unsafe {
        let labels = labels.iter().map(|label| text(*label)).collect();
        let Some(found) = config(at).define(kind, text(name), labels) else { return 1 };
        id.write(found);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_define_counter(
    config: ConfigPtr,
    name: Buffer,
    labels: *mut Buffer,
    labels_size: usize,
    id: *mut usize,
) -> u32 {
    // SAFETY: the configuration lives, name and labels are valid, and the number can be written.
    unsafe { define(Kind::Counter, config, name, items(labels, labels_size), id) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_define_histogram(
    config: ConfigPtr,
    name: Buffer,
    labels: *mut Buffer,
    labels_size: usize,
    id: *mut usize,
) -> u32 {
    // SAFETY: as for a counter.
    unsafe { define(Kind::Histogram, config, name, items(labels, labels_size), id) }
}

/// Gives an instrument a value.
///
/// # Safety
/// The configuration has to live, and the labels to be valid.
unsafe fn measure(kind: Kind, at: ConfigPtr, id: usize, labels: &[Buffer], value: u64) -> u32 {
    // SAFETY: as the caller says.
    let measured = unsafe {
        let labels: Vec<String> = labels.iter().map(|label| text(*label)).collect();
        config(at).measure(kind, id, &labels, value)
    };
    u32::from(!measured)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
    config: ConfigPtr,
    id: usize,
    labels: *mut Buffer,
    labels_size: usize,
    value: u64,
) -> u32 {
    // SAFETY: the configuration lives, and the labels are valid.
    unsafe { measure(Kind::Counter, config, id, items(labels, labels_size), value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
    config: ConfigPtr,
    id: usize,
    labels: *mut Buffer,
    labels_size: usize,
    value: u64,
) -> u32 {
    // SAFETY: as for a counter.
    unsafe { measure(Kind::Histogram, config, id, items(labels, labels_size), value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(at: ConfigPtr) -> SchedulerPtr {
    // SAFETY: the configuration lives.
    let config = unsafe { config(at) };
    Box::into_raw(Box::new(ConfigScheduler(config.process.clone(), config.weak()))).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(
    scheduler: SchedulerPtr,
    event: u64,
) {
    // SAFETY: the scheduler was made above, and is not deleted.
    unsafe { &*scheduler.cast_const().cast::<ConfigScheduler>() }.commit(event);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: SchedulerPtr) {
    // SAFETY: the scheduler was made above, and this is its last use.
    drop(unsafe { Box::from_raw(scheduler.cast::<ConfigScheduler>()) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_http_callout(
    at: ConfigPtr,
    callout: *mut u64,
    cluster: Buffer,
    lines: *mut HeaderLine,
    lines_size: usize,
    body: Buffer,
    _timeout_ms: u64,
) -> u32 {
    // SAFETY: the configuration lives, everything is valid, and the number can be written.
    unsafe {
        let config = config(at);
        let headers = headers(lines, lines_size, &config.process);
        if [":method", ":path", ":authority"].iter().any(|name| headers.get(name).is_none()) {
            // `http_callout_init_result::MissingRequiredHeaders`
            return 1;
        }
        callout.write(config.call(text(cluster), headers, bytes(body).to_vec()));
    }
    0
}

/// What the functions do that Envoy has since 1.40.
pub mod newer {
    use super::{Buffer, FilterPtr, bytes, stream};
    use testkit::records;

    /// `http_set_dynamic_metadata_struct`: merges the members of a serialized `google.protobuf.Struct`.
    ///
    /// # Safety
    /// The stream's hook has to run, and namespace and members have to be valid during the call.
    pub unsafe fn set_dynamic_metadata_struct(filter: FilterPtr, namespace: Buffer, members: Buffer) {
        // SAFETY: as the caller says.
        let (stream, namespace, members) = unsafe { (stream(filter), bytes(namespace), bytes(members)) };
        match records::read(members) {
            Some(members) if namespace == super::RECORD => stream.parts.borrow_mut().record.extend(members),
            _ => stream.config.state().process.fail("the record cannot be read"),
        }
    }
}

/// Defines the functions that Envoy has since 1.40. A program without them is an Envoy 1.39.
#[macro_export]
macro_rules! envoy_1_40 {
    () => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_metadata_struct(
            filter: *mut std::ffi::c_void,
            namespace: edge_idempotency::abi::Buffer,
            members: edge_idempotency::abi::Buffer,
        ) {
            // SAFETY: the stream's hook runs, and both are valid during the call.
            unsafe { $crate::newer::set_dynamic_metadata_struct(filter, namespace, members) }
        }
    };
}
