//! Envoy's functions as safe ones: text and bytes in the place of pointers. Everything that Envoy gives is copied before it is
//! handed on, because the next call may free it; only [`RequestHandle::filter_state`] borrows.
//!
//! | module | subject |
//! |---|---|
//! | `stream` | functions for a stream |
//! | `config` | functions for a configuration |
#![allow(unsafe_code)]

mod config;
mod stream;

pub(crate) use crate::abi::AbiLogLevel;
pub(crate) use config::{ConfigHandle, ConfigScheduler, InstrumentId, pieces, status};
pub(crate) use stream::{CopiedLines, RequestHandle, StreamScheduler};

use crate::abi::{self, Buffer, HeaderLine};
use std::ffi::{CStr, c_char};
use std::ptr::null;
use std::sync::OnceLock;

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

/// The items that Envoy has lent.
///
/// # Safety
/// They have to be valid for `'e`, unless the pointer is null or there are none.
unsafe fn items<'e, T>(first: *const T, count: usize) -> &'e [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the pointer is not null, and the caller says that so many items are valid.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// The bytes that Envoy has lent.
///
/// # Safety
/// As for [`items`].
unsafe fn lent<'e>(ptr: *const c_char, length: usize) -> &'e [u8] {
    // SAFETY: as the caller says.
    unsafe { items(ptr.cast(), length) }
}

/// A copy of the bytes of a hook's argument.
///
/// # Safety
/// The buffer has to be valid, as those of a hook are until it returns.
pub(crate) unsafe fn copied(buffer: Buffer) -> Vec<u8> {
    // SAFETY: as the caller says.
    unsafe { lent(buffer.ptr, buffer.length) }.to_vec()
}

/// Writes a line into Envoy's log, component `dynamic_modules`. The function that Envoy 1.39 has is deprecated, and may go.
pub(crate) fn log(level: AbiLogLevel, line: &str) {
    static LOG: Optional<abi::Log> = Optional::new();
    static DEPRECATED: Optional<abi::DeprecatedLog> = Optional::new();
    let line = argument(line.as_bytes());
    // SAFETY: the types are those of these functions, and the line is valid during the call.
    unsafe {
        if let Some(log) = LOG.get(c"envoy_dynamic_module_callback_log_v2") {
            log(level, line, EMPTY, 0);
        } else if let Some(log) = DEPRECATED.get(c"envoy_dynamic_module_callback_log") {
            log(level, line);
        }
    }
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

/// A header line as an argument of a call, during which its texts have to live.
const fn line(name: &str, value: &str) -> HeaderLine {
    HeaderLine {
        key_ptr: name.as_ptr().cast(),
        key_length: name.len(),
        value_ptr: value.as_ptr().cast(),
        value_length: value.len(),
    }
}
