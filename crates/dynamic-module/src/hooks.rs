//! The functions that Envoy calls. Each turns pointers into references, and catches unwinding: a panic that reached Envoy would end
//! the process.
#![allow(unsafe_code, clippy::too_many_arguments)]

use crate::abi::{self, BodyStatus, Buffer, ConfigPtr, FilterPtr, HeaderLine, HeadersStatus, TrailersStatus};
use crate::calls::{ConfigHandle, RequestHandle, copied, pieces, status};
use crate::filter::{Filter, present};
use crate::host::log;
use crate::stream::EnvoyStream;
use edge_idempotency_engine::LogLevel;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::Arc;

/// The configuration that a hook is about.
///
/// # Safety
/// The pointer has to be one that [`envoy_dynamic_module_on_http_filter_config_new`] returned, before Envoy destroys it.
unsafe fn filter<'e>(pointer: *const c_void) -> &'e Arc<Filter> {
    // SAFETY: it was made of a box of this type, as the caller says.
    unsafe { &*pointer.cast::<Arc<Filter>>() }
}

/// The stream that a hook is about.
///
/// # Safety
/// The pointer has to be one that [`envoy_dynamic_module_on_http_filter_new`] returned, before Envoy destroys it.
unsafe fn stream<'e>(pointer: *const c_void) -> &'e EnvoyStream {
    // SAFETY: it was made of a box of this type, as the caller says.
    unsafe { &*pointer.cast::<EnvoyStream>() }
}

/// Runs an event of a configuration. A panic is counted; `false` if there was one.
fn guarded(filter: &Filter, hook: &'static str, event: impl FnOnce()) -> bool {
    let event = || {
        crate::panics::point(hook);
        event();
    };
    let has_run = catch_unwind(AssertUnwindSafe(event)).is_ok();
    if !has_run {
        let _ = catch_unwind(AssertUnwindSafe(|| filter.count_failure()));
    }
    has_run
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    std::panic::set_hook(Box::new(|panic| log(LogLevel::Critical, &format!("edge-idempotency: {panic}"))));
    abi::ABI_VERSION.as_ptr()
}

/// Null makes Envoy refuse the configuration; all errors are in its log.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    config: ConfigPtr,
    _name: Buffer,
    document: Buffer,
) -> *const c_void {
    let load = || {
        crate::panics::point("config_new");
        // SAFETY: Envoy's configuration is the one that the module's is for, and the document is valid during the hook.
        let (config, document) = unsafe { (ConfigHandle::new(config), copied(document)) };
        Filter::load(config, &document)
    };
    match catch_unwind(AssertUnwindSafe(load)) {
        Ok(Some(filter)) => {
            let pointer = Box::into_raw(Box::new(filter.clone())).cast();
            filter.register(pointer);
            pointer.cast_const()
        }
        Ok(None) | Err(_) => null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(pointer: *const c_void) {
    // SAFETY: the pointer was made of a box, and this is its last use.
    let filter = unsafe { Box::from_raw(pointer.cast_mut().cast::<Arc<Filter>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| filter.close_calls()));
    guarded(&filter, "config_destroy", || filter.end());
}

/// An event on the main thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    _: ConfigPtr,
    pointer: *const c_void,
    event: u64,
) {
    let Some(filter) = present(pointer) else { return };
    guarded(&filter, "config_scheduled", || filter.on_event(event));
}

/// The headers of the reply to a call, on the main thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_headers(
    _: ConfigPtr,
    pointer: *const c_void,
    call: u64,
    lines: *const HeaderLine,
    lines_size: usize,
    _end_of_stream: bool,
) {
    let Some(filter) = present(pointer) else { return };
    guarded(&filter, "config_http_stream_headers", || {
        // SAFETY: the lines are valid during the hook.
        filter.calls().on_status(call, unsafe { status((lines, lines_size)) });
    });
}

/// A part of the body of the reply to a call, on the main thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_data(
    _: ConfigPtr,
    pointer: *const c_void,
    call: u64,
    chunks: *const Buffer,
    chunks_size: usize,
    _end_of_stream: bool,
) {
    let Some(filter) = present(pointer) else { return };
    guarded(&filter, "config_http_stream_data", || {
        // SAFETY: the chunks are valid during the hook.
        filter.calls().on_body(call, unsafe { pieces((chunks, chunks_size)) });
    });
}

/// The reply to a call is whole, on the main thread.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_complete(
    _: ConfigPtr,
    pointer: *const c_void,
    call: u64,
) {
    let Some(filter) = present(pointer) else { return };
    if !guarded(&filter, "config_http_stream_complete", || filter.on_reply(call, true)) {
        // Whoever waits for the reply must not wait for ever.
        let _ = catch_unwind(AssertUnwindSafe(|| filter.on_reply(call, false)));
    }
}

/// A call has failed, on the main thread.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_reset(
    _: ConfigPtr,
    pointer: *const c_void,
    call: u64,
    _reason: u32,
) {
    let Some(filter) = present(pointer) else { return };
    if !guarded(&filter, "config_http_stream_reset", || filter.on_reply(call, false)) {
        let _ = catch_unwind(AssertUnwindSafe(|| filter.on_reply(call, false)));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    pointer: *const c_void,
    request: FilterPtr,
) -> *const c_void {
    // SAFETY: Envoy has not destroyed the configuration.
    let filter = unsafe { filter(pointer) };
    let new = || {
        crate::panics::point("new");
        // SAFETY: the handle is used in this hook alone.
        EnvoyStream::new(filter.clone(), unsafe { RequestHandle::new(request) })
    };
    let stream = catch_unwind(AssertUnwindSafe(new)).unwrap_or_else(|_| {
        let _ = catch_unwind(AssertUnwindSafe(|| filter.count_failure()));
        EnvoyStream::failed(filter.clone())
    });
    Box::into_raw(stream).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    request: FilterPtr,
    pointer: *const c_void,
    end_of_stream: bool,
) -> HeadersStatus {
    // SAFETY: Envoy has not destroyed the stream, and the handle is used in this hook alone.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_request_headers(request, end_of_stream).finish(request)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
    request: FilterPtr,
    pointer: *const c_void,
    end_of_stream: bool,
) -> BodyStatus {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_request_body(request, end_of_stream).finish(request)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(
    request: FilterPtr,
    pointer: *const c_void,
) -> TrailersStatus {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_request_trailers(request).finish(request)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    request: FilterPtr,
    pointer: *const c_void,
    end_of_stream: bool,
) -> HeadersStatus {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_response_headers(request, end_of_stream).finish(request)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_body(
    request: FilterPtr,
    pointer: *const c_void,
    end_of_stream: bool,
) -> BodyStatus {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_response_body(request, end_of_stream).finish(request)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(
    request: FilterPtr,
    pointer: *const c_void,
) -> TrailersStatus {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_response_trailers(request).finish(request)
}

/// The stream goes on.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    request: FilterPtr,
    pointer: *const c_void,
    _event: u64,
) {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    stream.on_wake(request).finish(request);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(request: FilterPtr, pointer: *const c_void) {
    // SAFETY: as for the request's headers.
    let (stream, request) = unsafe { (stream(pointer), RequestHandle::new(request)) };
    guarded(stream.filter(), "stream_complete", || stream.on_complete(request));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(pointer: *const c_void) {
    // SAFETY: the pointer was made of a box, and this is its last use.
    let stream = unsafe { Box::from_raw(pointer.cast_mut().cast::<EnvoyStream>()) };
    if !guarded(stream.filter(), "destroy", || stream.end()) {
        // What others share must not keep a stream that does not exist.
        let _ = catch_unwind(AssertUnwindSafe(|| stream.end()));
    }
}

/// Hooks that Envoy asks for and that have nothing to do here.
mod unused {
    use super::{Buffer, FilterPtr, HeaderLine, c_void};

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_http_callout_done(
        _: FilterPtr,
        _: *const c_void,
        _callout: u64,
        _result: u32,
        _lines: *const HeaderLine,
        _lines_size: usize,
        _chunks: *const Buffer,
        _chunks_size: usize,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_headers(
        _: FilterPtr,
        _: *const c_void,
        _stream: u64,
        _lines: *const HeaderLine,
        _lines_size: usize,
        _end_of_stream: bool,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_data(
        _: FilterPtr,
        _: *const c_void,
        _stream: u64,
        _chunks: *const Buffer,
        _chunks_size: usize,
        _end_of_stream: bool,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_trailers(
        _: FilterPtr,
        _: *const c_void,
        _stream: u64,
        _lines: *const HeaderLine,
        _lines_size: usize,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_complete(
        _: FilterPtr,
        _: *const c_void,
        _stream: u64,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_reset(
        _: FilterPtr,
        _: *const c_void,
        _stream: u64,
        _reason: u32,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
        _: FilterPtr,
        _: *const c_void,
    ) {
    }

    #[unsafe(no_mangle)]
    extern "C" fn envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
        _: FilterPtr,
        _: *const c_void,
    ) {
    }
}
