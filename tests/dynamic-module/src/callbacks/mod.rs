//! The functions that the module calls, under the names by which the linker finds them.
//!
//! Those that Envoy 1.40 has and 1.39 has not are in [`newer`]. A test program has them if it expands
//! [`envoy_1_40!`](crate::envoy_1_40), and the module finds them by their names, as in Envoy.

mod config;
mod stream;

use crate::envoy::{Process, current};
use edge_idempotency::abi::{AbiLogLevel, Buffer, HeaderLine};
use testkit::http::Headers;

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

/// What the functions do that Envoy has since 1.40.
pub mod newer {
    use super::config::config;
    use super::stream::{RECORD, stream};
    use super::{bytes, text};
    use edge_idempotency::abi::{Buffer, ConfigPtr, FilterPtr};
    use edge_idempotency_envoy::protobuf::field;
    use testkit::records;

    /// `http_set_dynamic_typed_metadata`: keeps a serialized `google.protobuf.Any`, whose message has to be a `Struct` here.
    ///
    /// # Safety
    /// The stream's hook has to run, and namespace and message have to be valid during the call.
    pub unsafe fn set_dynamic_typed_metadata(filter: FilterPtr, namespace: Buffer, message: Buffer) -> bool {
        // SAFETY: as the caller says.
        let (stream, namespace, message) = unsafe { (stream(filter), bytes(namespace), bytes(message)) };
        let [kind, record] = [1, 2].map(|number| field(message, number).map(|field| field.bytes));
        let is_struct = kind == Some(b"type.googleapis.com/google.protobuf.Struct");
        match record.filter(|_| is_struct && namespace == RECORD).and_then(records::read) {
            Some(members) => stream.parts.borrow_mut().record = members,
            None => stream.config.state().process.fail("the record cannot be read"),
        }
        true
    }

    /// `http_filter_config_generic_secret_subscribe`: the number of a secret with this name.
    ///
    /// # Safety
    /// The configuration has to live, and the name has to be valid during the call.
    pub unsafe fn subscribe(at: ConfigPtr, name: Buffer) -> usize {
        // SAFETY: as the caller says.
        unsafe { config(at).subscribe(text(name)) }
    }

    /// `http_filter_config_get_generic_secret`: the value is empty if there is none.
    ///
    /// # Safety
    /// The configuration has to live, and the value to be writable.
    pub unsafe fn secret(at: ConfigPtr, id: usize, value: *mut Buffer) -> bool {
        // SAFETY: as the caller says.
        unsafe { config(at).secret(id).map(|found| value.write(found)).is_some() }
    }
}

/// Defines the functions that Envoy has since 1.40. A program without them is an Envoy 1.39.
#[macro_export]
macro_rules! envoy_1_40 {
    () => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_typed_metadata(
            filter: *mut std::ffi::c_void,
            namespace: edge_idempotency::abi::Buffer,
            message: edge_idempotency::abi::Buffer,
        ) -> bool {
            // SAFETY: the stream's hook runs, and both are valid during the call.
            unsafe { $crate::newer::set_dynamic_typed_metadata(filter, namespace, message) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(
            config: *mut std::ffi::c_void,
            name: edge_idempotency::abi::Buffer,
            _source: edge_idempotency::abi::Buffer,
        ) -> usize {
            // SAFETY: the configuration lives, and the name is valid during the call.
            unsafe { $crate::newer::subscribe(config, name) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_get_generic_secret(
            config: *mut std::ffi::c_void,
            id: usize,
            value: *mut edge_idempotency::abi::Buffer,
        ) -> bool {
            // SAFETY: the configuration lives, and the value can be written.
            unsafe { $crate::newer::secret(config, id, value) }
        }
    };
}
