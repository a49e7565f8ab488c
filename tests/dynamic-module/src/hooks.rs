//! The functions of the module, as `abi.h` declares them.
#![allow(missing_docs)]

use edge_idempotency::abi::{BodyStatus, Buffer, ConfigPtr, FilterPtr, HeaderLine, HeadersStatus, TrailersStatus};
use std::ffi::{c_char, c_void};

/// What the module's hooks return as their own: a configuration or a stream of the module.
pub(crate) type ModulePtr = *const c_void;

unsafe extern "C" {
    pub(crate) fn envoy_dynamic_module_on_program_init() -> *const c_char;
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_new(
        config: ConfigPtr,
        name: Buffer,
        document: Buffer,
    ) -> ModulePtr;
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_destroy(module: ModulePtr);
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_scheduled(
        config: ConfigPtr,
        module: ModulePtr,
        event: u64,
    );
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_http_stream_headers(
        config: ConfigPtr,
        module: ModulePtr,
        call: u64,
        lines: *const HeaderLine,
        lines_size: usize,
        end_of_stream: bool,
    );
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_http_stream_data(
        config: ConfigPtr,
        module: ModulePtr,
        call: u64,
        chunks: *const Buffer,
        chunks_size: usize,
        end_of_stream: bool,
    );
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_http_stream_complete(
        config: ConfigPtr,
        module: ModulePtr,
        call: u64,
    );
    pub(crate) fn envoy_dynamic_module_on_http_filter_config_http_stream_reset(
        config: ConfigPtr,
        module: ModulePtr,
        call: u64,
        reason: u32,
    );
    pub(crate) fn envoy_dynamic_module_on_http_filter_new(config: ModulePtr, filter: FilterPtr) -> ModulePtr;
    pub(crate) fn envoy_dynamic_module_on_http_filter_request_headers(
        filter: FilterPtr,
        module: ModulePtr,
        end_of_stream: bool,
    ) -> HeadersStatus;
    pub(crate) fn envoy_dynamic_module_on_http_filter_request_body(
        filter: FilterPtr,
        module: ModulePtr,
        end_of_stream: bool,
    ) -> BodyStatus;
    pub(crate) fn envoy_dynamic_module_on_http_filter_request_trailers(
        filter: FilterPtr,
        module: ModulePtr,
    ) -> TrailersStatus;
    pub(crate) fn envoy_dynamic_module_on_http_filter_response_headers(
        filter: FilterPtr,
        module: ModulePtr,
        end_of_stream: bool,
    ) -> HeadersStatus;
    pub(crate) fn envoy_dynamic_module_on_http_filter_response_body(
        filter: FilterPtr,
        module: ModulePtr,
        end_of_stream: bool,
    ) -> BodyStatus;
    pub(crate) fn envoy_dynamic_module_on_http_filter_response_trailers(
        filter: FilterPtr,
        module: ModulePtr,
    ) -> TrailersStatus;
    pub(crate) fn envoy_dynamic_module_on_http_filter_scheduled(filter: FilterPtr, module: ModulePtr, event: u64);
    pub(crate) fn envoy_dynamic_module_on_http_filter_stream_complete(filter: FilterPtr, module: ModulePtr);
    pub(crate) fn envoy_dynamic_module_on_http_filter_destroy(module: ModulePtr);
}
