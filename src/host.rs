//! Implements the engine's `Gateway` and `Host` with proxy-wasm's host calls.

use crate::abi::{self, MapType};
use crate::attributes;
use edge_idempotency_engine::{
    AttributeValue, Attributes, Body, Call, Clock, Gateway, HeaderLines, HeaderMapKind, Headers, Host, HostError,
    LocalReply, LogLevel, MetadataPath, MetricId, MetricSeries, OperatorAdvice, RouterHints,
};
use std::cell::OnceCell;

/// The host of the current callback.
pub(crate) struct WasmHost {
    /// The context of the configuration. HTTP calls are made for it, since a reply for a request's context is lost if
    /// the request ends.
    root: u32,
    /// The context that the callback is for.
    current: u32,
    /// The dynamic metadata of the request, read when a claim is asked for.
    metadata: OnceCell<Option<Vec<u8>>>,
}

impl WasmHost {
    /// The host in a callback for the context `current`, whose configuration has the context `root`.
    pub(crate) const fn new(root: u32, current: u32) -> Self {
        Self { root, current, metadata: OnceCell::new() }
    }
}

/// A header map in the host's encoding.
pub(crate) struct SerializedLines(Vec<u8>);

impl HeaderLines for SerializedLines {
    fn headers(&self) -> Option<Headers<'_>> {
        abi::pairs(&self.0).map(Headers::new)
    }
}

impl Clock for WasmHost {
    fn now_unix_ms(&self) -> u64 {
        abi::now_unix_ms()
    }
}

impl Gateway for WasmHost {
    fn call(&self, call: &Call) -> Result<u32, HostError> {
        let token = abi::act_for(self.root)
            .and_then(|()| abi::http_call(&call.cluster, &call.headers, &call.body, call.timeout_ms));
        // This cannot fail: the context exists, since an event of it is being handled.
        let _ = abi::act_for(self.current);
        token.map_err(|_| HostError)
    }

    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        abi::define_metric(series.kind as u32, &series.flat_name()).map(MetricId).map_err(|_| HostError)
    }

    fn add_to_metric(&self, metric: MetricId, count: u64) -> Result<(), HostError> {
        abi::increment_metric(metric.0, count).map_err(|_| HostError)
    }

    fn record_in_metric(&self, metric: MetricId, value: u64) -> Result<(), HostError> {
        abi::record_metric(metric.0, value).map_err(|_| HostError)
    }

    fn log_level(&self) -> LogLevel {
        match abi::log_level() {
            Ok(level) if level <= abi::AbiLogLevel::Debug as u32 => LogLevel::Debug,
            Ok(level) if level > abi::AbiLogLevel::Info as u32 => LogLevel::Warn,
            _ => LogLevel::Info,
        }
    }

    fn advice(&self) -> &'static OperatorAdvice {
        &edge_idempotency_envoy::ADVICE
    }

    fn log(&self, level: LogLevel, line: &str) {
        let level = match level {
            LogLevel::Debug => abi::AbiLogLevel::Debug,
            LogLevel::Info => abi::AbiLogLevel::Info,
            LogLevel::Warn => abi::AbiLogLevel::Warn,
            LogLevel::Error => abi::AbiLogLevel::Error,
            LogLevel::Critical => abi::AbiLogLevel::Critical,
        };
        abi::log(level, line);
    }
}

impl Attributes for WasmHost {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        attributes::value_at(self.metadata.get_or_init(attributes::metadata).as_deref(), path)
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        attributes::route_endpoint()
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

impl Host for WasmHost {
    type Lines = SerializedLines;

    fn header_lines(&self, map: HeaderMapKind) -> SerializedLines {
        SerializedLines(abi::header_map(map_type(map)).unwrap_or_default())
    }

    fn set_header(&self, map: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        abi::set_header(map_type(map), name.as_bytes(), value).map_err(|_| HostError)
    }

    fn remove_header(&self, map: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
        abi::remove_header(map_type(map), name).map_err(|_| HostError)
    }

    fn with_request_body<T>(
        &self,
        start: usize,
        max: usize,
        read: impl FnOnce(&Body<'_>) -> T,
    ) -> Result<T, HostError> {
        abi::request_body(start, max).map(|body| read(&Body::of(&body))).map_err(|_| HostError)
    }

    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError> {
        abi::response_body(max).map_err(|_| HostError)
    }

    fn set_response_body(&self, body: &[u8]) -> Result<(), HostError> {
        abi::set_response_body(body).map_err(|_| HostError)
    }

    fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError> {
        abi::reply(reply).map_err(|_| HostError)
    }

    fn resume_request(&self) -> Result<(), HostError> {
        abi::continue_request().map_err(|_| HostError)
    }

    fn received_bytes(&self) -> Option<u64> {
        attributes::request_size()
    }

    fn resume_response(&self) -> Result<(), HostError> {
        abi::continue_response().map_err(|_| HostError)
    }

    fn sender_address(&self) -> Option<Vec<u8>> {
        attributes::sender_address()
    }

    fn set_record(&self, record: &[u8]) -> Result<(), HostError> {
        attributes::set_record(record).map_err(|_| HostError)
    }
}

const fn map_type(map: HeaderMapKind) -> MapType {
    match map {
        HeaderMapKind::Request => MapType::RequestHeaders,
        HeaderMapKind::RequestTrailers => MapType::RequestTrailers,
        HeaderMapKind::Response => MapType::ResponseHeaders,
        HeaderMapKind::ResponseTrailers => MapType::ResponseTrailers,
    }
}
