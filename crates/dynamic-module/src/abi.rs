//! Declarations of Envoy's ABI for dynamic modules, as `source/extensions/dynamic_modules/abi/abi.h` of envoyproxy/envoy has them
//! (Apache-2.0). Only what this module uses is here. Each group names the first version of Envoy that has it.
//!
//! The stand-in for Envoy of tests/dynamic-module/ defines these functions.
//!
//! Names lose the prefix `envoy_dynamic_module_type_`; the functions keep theirs, since the linker finds them by it.
#![allow(unsafe_code, missing_docs)]

use std::ffi::{c_char, c_void};

/// The version of the ABI that the declarations are of (`ENVOY_DYNAMIC_MODULES_ABI_VERSION` of Envoy 1.40). Envoy logs a
/// warning if its own is another one.
pub const ABI_VERSION: &std::ffi::CStr = c"v0.2.0";

/// `envoy_buffer` and `module_buffer`, 1.36: bytes that somebody else owns.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Buffer {
    pub ptr: *const c_char,
    pub length: usize,
}

/// `envoy_http_header` and `module_http_header`, 1.36.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct HeaderLine {
    pub key_ptr: *const c_char,
    pub key_length: usize,
    pub value_ptr: *const c_char,
    pub value_length: usize,
}

/// `http_filter_config_envoy_ptr`, 1.36.
pub type ConfigPtr = *mut c_void;
/// `http_filter_envoy_ptr`, 1.36.
pub type FilterPtr = *mut c_void;
/// `http_filter_scheduler_module_ptr`, 1.36; `http_filter_config_scheduler_module_ptr`, 1.37.
pub type SchedulerPtr = *mut c_void;

/// `http_header_type`, 1.36.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum HeaderType {
    RequestHeader = 0,
    RequestTrailer = 1,
    ResponseHeader = 2,
    ResponseTrailer = 3,
}

/// `http_body_type`, 1.37.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum BodyType {
    ReceivedRequest = 0,
    BufferedRequest = 1,
    ReceivedResponse = 2,
    BufferedResponse = 3,
}

/// `log_level`, 1.36.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum AbiLogLevel {
    Debug = 1,
    Info = 2,
    Warn = 3,
    Error = 4,
    Critical = 5,
}

/// `metadata_source`, 1.36.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum MetadataSource {
    Route = 1,
}

/// `attribute_id`, 1.36: `request.total_size`, `source.address`.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum AttributeId {
    RequestTotalSize = 14,
    SourceAddress = 24,
}

/// `http_callout_init_result::Success`, 1.36.
pub const CALLOUT_SUCCESS: u32 = 0;
/// `metrics_result::Success`, 1.37.
pub const METRIC_SUCCESS: u32 = 0;

/// What the hooks for headers return (`on_http_filter_request_headers_status`, and that of responses), 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum HeadersStatus {
    Continue = 0,
    StopIteration = 1,
    StopAllIterationAndWatermark = 4,
}

/// What the hooks for bodies return (`on_http_filter_request_body_status`, and that of responses), 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum BodyStatus {
    Continue = 0,
    StopIterationAndBuffer = 1,
    StopIterationNoBuffer = 3,
}

/// What the hooks for trailers return (`on_http_filter_request_trailers_status`, and that of responses), 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum TrailersStatus {
    Continue = 0,
    StopIteration = 1,
}

// 1.36
unsafe extern "C" {
    pub fn envoy_dynamic_module_callback_log_enabled(level: AbiLogLevel) -> bool;
    pub fn envoy_dynamic_module_callback_get_concurrency() -> u32;
    pub fn envoy_dynamic_module_callback_http_get_headers_size(filter: FilterPtr, map: HeaderType) -> usize;
    pub fn envoy_dynamic_module_callback_http_get_headers(
        filter: FilterPtr,
        map: HeaderType,
        lines: *mut HeaderLine,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_set_header(
        filter: FilterPtr,
        map: HeaderType,
        name: Buffer,
        value: Buffer,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_send_response(
        filter: FilterPtr,
        status: u32,
        headers: *mut HeaderLine,
        headers_size: usize,
        body: Buffer,
        details: Buffer,
    );
    pub fn envoy_dynamic_module_callback_http_clear_route_cache(filter: FilterPtr);
    pub fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        filter: FilterPtr,
        attribute: AttributeId,
        result: *mut Buffer,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
        filter: FilterPtr,
        attribute: AttributeId,
        result: *mut u64,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_get_metadata_string(
        filter: FilterPtr,
        source: MetadataSource,
        namespace: Buffer,
        key: Buffer,
        result: *mut Buffer,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
        filter: FilterPtr,
        namespace: Buffer,
        key: Buffer,
        value: Buffer,
    );
    pub fn envoy_dynamic_module_callback_http_set_dynamic_metadata_number(
        filter: FilterPtr,
        namespace: Buffer,
        key: Buffer,
        value: f64,
    );
    pub fn envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(
        filter: FilterPtr,
        namespace: Buffer,
        key: Buffer,
        value: bool,
    );
    pub fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
        filter: FilterPtr,
        key: Buffer,
        result: *mut Buffer,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: FilterPtr);
    pub fn envoy_dynamic_module_callback_http_filter_continue_encoding(filter: FilterPtr);
    pub fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: FilterPtr) -> SchedulerPtr;
    pub fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: SchedulerPtr, event: u64);
    pub fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: SchedulerPtr);
}

// 1.37
unsafe extern "C" {
    pub fn envoy_dynamic_module_callback_http_get_body_size(filter: FilterPtr, body: BodyType) -> usize;
    pub fn envoy_dynamic_module_callback_http_get_body_chunks_size(filter: FilterPtr, body: BodyType) -> usize;
    pub fn envoy_dynamic_module_callback_http_get_body_chunks(
        filter: FilterPtr,
        body: BodyType,
        chunks: *mut Buffer,
    ) -> bool;
    pub fn envoy_dynamic_module_callback_http_append_body(filter: FilterPtr, body: BodyType, data: Buffer) -> bool;
    pub fn envoy_dynamic_module_callback_http_drain_body(filter: FilterPtr, body: BodyType, size: usize) -> bool;
    pub fn envoy_dynamic_module_callback_http_received_buffered_request_body(filter: FilterPtr) -> bool;
    pub fn envoy_dynamic_module_callback_http_received_buffered_response_body(filter: FilterPtr) -> bool;
    pub fn envoy_dynamic_module_callback_http_filter_get_worker_index(filter: FilterPtr) -> u32;
    pub fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        config: ConfigPtr,
        name: Buffer,
        labels: *mut Buffer,
        labels_size: usize,
        id: *mut usize,
    ) -> u32;
    pub fn envoy_dynamic_module_callback_http_filter_config_define_histogram(
        config: ConfigPtr,
        name: Buffer,
        labels: *mut Buffer,
        labels_size: usize,
        id: *mut usize,
    ) -> u32;
    pub fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: ConfigPtr) -> SchedulerPtr;
    pub fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(scheduler: SchedulerPtr, event: u64);
    pub fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: SchedulerPtr);
}

// 1.39
unsafe extern "C" {
    pub fn envoy_dynamic_module_callback_http_filter_config_start_http_stream(
        config: ConfigPtr,
        call: *mut u64,
        cluster: Buffer,
        headers: *mut HeaderLine,
        headers_size: usize,
        body: Buffer,
        end_stream: bool,
        timeout_ms: u64,
    ) -> u32;
    pub fn envoy_dynamic_module_callback_http_filter_config_reset_http_stream(config: ConfigPtr, call: u64);
    pub fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
        config: ConfigPtr,
        id: usize,
        label_values: *mut Buffer,
        label_values_size: usize,
        value: u64,
    ) -> u32;
    pub fn envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
        config: ConfigPtr,
        id: usize,
        label_values: *mut Buffer,
        label_values_size: usize,
        value: u64,
    ) -> u32;
}

// 1.40. They are looked up when they are needed, so that the module loads where they do not exist.

/// `envoy_dynamic_module_callback_log_v2`: a line, and the file and the number of its line in the source.
pub type Log = unsafe extern "C" fn(AbiLogLevel, Buffer, Buffer, u32);
/// `envoy_dynamic_module_callback_log`, which is deprecated from 1.40 on.
pub type DeprecatedLog = unsafe extern "C" fn(AbiLogLevel, Buffer);
/// `http_set_dynamic_typed_metadata`: the last argument is a serialized `google.protobuf.Any`.
pub type SetTypedMetadata = unsafe extern "C" fn(FilterPtr, Buffer, Buffer) -> bool;
/// `http_filter_config_generic_secret_subscribe`: the secret's name and a `ConfigSource` as JSON, which is empty for a secret of
/// the bootstrap; 0 if it failed.
pub type SecretSubscribe = unsafe extern "C" fn(ConfigPtr, Buffer, Buffer) -> usize;
/// `http_filter_config_get_generic_secret`: the value is empty until there is one.
pub type SecretGet = unsafe extern "C" fn(ConfigPtr, usize, *mut Buffer) -> bool;
