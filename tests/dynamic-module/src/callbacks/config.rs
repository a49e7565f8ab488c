//! The functions for a configuration.

use super::{bytes, headers, items, text};
use crate::envoy::{ConfigScheduler, ConfigState, Kind};
use edge_idempotency::abi::{Buffer, ConfigPtr, HeaderLine, SchedulerPtr};

/// The configuration that the module names.
///
/// # Safety
/// It has to live.
pub(super) unsafe fn config<'c>(config: ConfigPtr) -> &'c ConfigState {
    // SAFETY: as the caller says.
    unsafe { &*config.cast_const().cast() }
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
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_start_http_stream(
    at: ConfigPtr,
    call: *mut u64,
    cluster: Buffer,
    lines: *mut HeaderLine,
    lines_size: usize,
    body: Buffer,
    end_of_stream: bool,
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
        let body = bytes(body);
        let length = (!body.is_empty()).then(|| body.len().to_string());
        if !end_of_stream || headers.get("content-length") != length.as_deref().map(str::as_bytes) {
            config.process.fail("a call has no end, or not the length of its body");
        }
        call.write(config.call(text(cluster), headers, body.to_vec()));
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_callback_http_filter_config_reset_http_stream(at: ConfigPtr, call: u64) {
    // SAFETY: the configuration lives.
    unsafe { config(at) }.reset(at, call);
}
