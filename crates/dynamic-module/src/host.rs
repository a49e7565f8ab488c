//! The engine's `Host` in Envoy, at an event of a stream; and its `Gateway` alone, at one of the configuration.
//!
//! A reply, and letting a message go on, can make Envoy call other hooks of the same stream, or destroy it. So these are kept until
//! the event is over ([`Afterwards`]).

use crate::abi::{BodyType, HeaderType};
use crate::calls::{self, AbiLogLevel, ConfigHandle, CopiedLines, RequestHandle};
use crate::metrics::{Samples, ThreadMetrics};
use crate::outside::Calls;
use crate::record::TypedRecord;
use edge_idempotency_engine::{
    AttributeValue, Attributes, Body, Call, Clock, Gateway, HeaderLines, HeaderMapKind, Headers, Host, HostError,
    LocalReply, LogLevel, MetadataJson, MetadataPath, MetricId, MetricSeries, OperatorAdvice, RouterHints,
    SecretReader,
};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

/// Which part of a message Envoy shows in the hook.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Headers, trailers, or an event of another thread
    Other,
    /// A part of the request's body
    Request,
    /// A part of the response's body
    Response,
}

/// Whether earlier parts of a body are kept by Envoy, because this filter has paused in the body.
#[derive(Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) request: bool,
    pub(crate) response: bool,
}

/// What has to be done after an event.
#[derive(Default)]
pub(crate) struct Afterwards {
    reply: Option<OwnedReply>,
    resumes_request: bool,
    resumes_response: bool,
}

struct OwnedReply {
    status: u16,
    details: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    grpc_status: Option<u8>,
}

impl Afterwards {
    /// A reply alone.
    pub(crate) fn reply(reply: &LocalReply<'_>) -> Self {
        Self { reply: Some(OwnedReply::of(reply)), ..Self::default() }
    }

    /// Whether the message goes on by itself.
    pub(crate) const fn resumes(&self) -> bool {
        self.resumes_request || self.resumes_response
    }

    /// Whether there is a reply.
    pub(crate) const fn replies(&self) -> bool {
        self.reply.is_some()
    }

    /// Does it. The stream may not exist any more after that.
    pub(crate) fn carry_out(self, request: RequestHandle<'_>) {
        if let Some(OwnedReply { status, details, headers, body, grpc_status }) = self.reply {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            request.reply(&LocalReply { status, details: &details, headers: &headers, body: &body, grpc_status });
        } else if self.resumes_request {
            request.resume_request();
        } else if self.resumes_response {
            request.resume_response();
        }
    }
}

impl OwnedReply {
    fn of(reply: &LocalReply<'_>) -> Self {
        Self {
            status: reply.status,
            details: reply.details.to_owned(),
            headers: reply.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            body: reply.body.to_vec(),
            grpc_status: reply.grpc_status,
        }
    }
}

/// A namespace of dynamic metadata that the gateway hands over.
pub(crate) struct HandedNamespace {
    pub(crate) name: String,
    /// The key of the filter state
    pub(crate) object: String,
}

impl HandedNamespace {
    pub(crate) fn new(name: String) -> Self {
        Self { object: edge_idempotency_envoy::metadata_object(&name), name }
    }
}

/// The host at an event of a stream.
pub(crate) struct StreamHost<'e> {
    request: RequestHandle<'e>,
    calls: &'e Calls,
    namespaces: &'e [HandedNamespace],
    thread: &'e ThreadMetrics,
    phase: Phase,
    held: Held,
    /// The record, which the gateway gets later
    record: &'e RefCell<TypedRecord>,
    /// The namespaces of metadata, read when the first value is asked for
    metadata: OnceCell<Vec<(&'e str, MetadataJson<'e>)>>,
    /// Whether headers of the request were changed
    edited: Cell<bool>,
    pub(crate) samples: Samples,
    afterwards: RefCell<Afterwards>,
}

impl<'e> StreamHost<'e> {
    pub(crate) fn new(
        request: RequestHandle<'e>,
        calls: &'e Calls,
        namespaces: &'e [HandedNamespace],
        thread: &'e ThreadMetrics,
        phase: Phase,
        mut held: Held,
        record: &'e RefCell<TypedRecord>,
    ) -> Self {
        let (metadata, edited, samples, afterwards) = Default::default();
        // Another filter that goes on lets Envoy show again what this one has paused for.
        match phase {
            Phase::Other => {}
            Phase::Request => held.request = held.request && !request.shows_kept_request(),
            Phase::Response => held.response = held.response && !request.shows_kept_response(),
        }
        Self { request, calls, namespaces, thread, phase, held, record, metadata, edited, samples, afterwards }
    }

    /// How many bytes of the body have come that this filter has not let pass.
    pub(crate) fn body_size(&self) -> usize {
        let size = |part| self.request.body_size(part);
        match self.phase {
            Phase::Other => 0,
            Phase::Request => self.request_parts().map(size).sum(),
            Phase::Response => self.response_parts().map(size).sum(),
        }
    }

    /// Whether the gateway has handed over the metadata that identity sources read.
    pub(crate) fn has_metadata(&self) -> bool {
        self.namespaces.iter().all(|namespace| self.request.filter_state(&namespace.object).is_some())
    }

    /// The metadata of a namespace.
    fn namespace(&self, name: &str) -> Option<&MetadataJson<'e>> {
        let read = |namespace: &'e HandedNamespace| {
            Some((namespace.name.as_str(), MetadataJson::parse(self.request.filter_state(&namespace.object)?)))
        };
        let namespaces = self.metadata.get_or_init(|| self.namespaces.iter().filter_map(read).collect());
        namespaces.iter().find(|(known, _)| *known == name).map(|(_, values)| values)
    }

    /// What has to be done after the event.
    pub(crate) fn finish(self) -> Afterwards {
        // Envoy has chosen a route by headers that have another value now.
        if self.edited.get() {
            self.request.clear_route_cache();
        }
        self.afterwards.into_inner()
    }

    /// The parts of the request's body that this filter has not let pass.
    fn request_parts(&self) -> impl Iterator<Item = BodyType> {
        let kept = self.held.request.then_some(BodyType::BufferedRequest);
        kept.into_iter().chain((self.phase == Phase::Request).then_some(BodyType::ReceivedRequest))
    }

    /// The same for the response.
    fn response_parts(&self) -> impl Iterator<Item = BodyType> {
        let kept = self.held.response.then_some(BodyType::BufferedResponse);
        kept.into_iter().chain((self.phase == Phase::Response).then_some(BodyType::ReceivedResponse))
    }
}

/// Lines of a header map.
impl HeaderLines for CopiedLines {
    fn headers(&self) -> Option<Headers<'_>> {
        self.lines().map(Headers::new)
    }
}

impl Clock for StreamHost<'_> {
    fn now_unix_ms(&self) -> u64 {
        crate::process::now_unix_ms()
    }
}

impl Gateway for StreamHost<'_> {
    fn call(&self, call: &Call) -> Result<u32, HostError> {
        Ok(self.calls.ask(call))
    }

    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        self.thread.define(series).ok_or(HostError)
    }

    fn add_to_metric(&self, metric: MetricId, count: u64) -> Result<(), HostError> {
        if self.samples.add(self.thread, metric, count) { Ok(()) } else { Err(HostError) }
    }

    fn record_in_metric(&self, metric: MetricId, value: u64) -> Result<(), HostError> {
        self.add_to_metric(metric, value)
    }

    fn advice(&self) -> &'static OperatorAdvice {
        &edge_idempotency_envoy::DYNAMIC_MODULE_ADVICE
    }

    fn log(&self, level: LogLevel, line: &str) {
        log(level, line);
    }

    fn log_level(&self) -> LogLevel {
        log_level()
    }
}

impl Attributes for StreamHost<'_> {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        self.namespace(path.namespace()).map_or(AttributeValue::Absent, |metadata| metadata.value(path))
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        match self.request.route_metadata("edge.idempotency", "endpoint") {
            Some(endpoint) if !endpoint.is_empty() => AttributeValue::Text(Cow::Owned(endpoint)),
            _ => AttributeValue::Absent,
        }
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

impl Host for StreamHost<'_> {
    type Lines = CopiedLines;

    fn header_lines(&self, map: HeaderMapKind) -> CopiedLines {
        self.request.header_lines(header_type(map))
    }

    fn set_header(&self, map: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        self.note_edit(map);
        self.request.set_header(header_type(map), name.as_bytes(), value).map_err(|_| HostError)
    }

    fn remove_header(&self, map: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
        self.note_edit(map);
        self.request.remove_header(header_type(map), name).map_err(|_| HostError)
    }

    fn with_request_body<T>(
        &self,
        start: usize,
        max: usize,
        read: impl FnOnce(&Body<'_>) -> T,
    ) -> Result<T, HostError> {
        Ok(self.request.with_body(self.request_parts(), start, max, |pieces| read(&Body::of_pieces(pieces))))
    }

    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError> {
        Ok(self.request.with_body(self.response_parts(), 0, max, |pieces| pieces.concat()))
    }

    fn set_response_body(&self, body: &[u8]) -> Result<(), HostError> {
        let is_received = self.phase == Phase::Response;
        if self.held.response {
            self.request.drain_body(BodyType::BufferedResponse);
        }
        if is_received {
            self.request.drain_body(BodyType::ReceivedResponse);
        }
        if body.is_empty() {
            return Ok(());
        }
        let place = if is_received { BodyType::ReceivedResponse } else { BodyType::BufferedResponse };
        self.request.append_body(place, body).map_err(|_| HostError)
    }

    fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError> {
        self.afterwards.borrow_mut().reply = Some(OwnedReply::of(reply));
        Ok(())
    }

    fn resume_request(&self) -> Result<(), HostError> {
        self.afterwards.borrow_mut().resumes_request = true;
        Ok(())
    }

    fn received_bytes(&self) -> Option<u64> {
        self.request.request_size()
    }

    fn resume_response(&self) -> Result<(), HostError> {
        self.afterwards.borrow_mut().resumes_response = true;
        Ok(())
    }

    fn sender_address(&self) -> Option<Vec<u8>> {
        self.request.sender_address()
    }

    fn set_record(&self, record: &[u8]) -> Result<(), HostError> {
        self.record.borrow_mut().replace(record);
        Ok(())
    }
}

impl StreamHost<'_> {
    fn note_edit(&self, map: HeaderMapKind) {
        if map == HeaderMapKind::Request {
            self.edited.set(true);
        }
    }
}

/// The host at an event of the configuration, on the main thread.
pub(crate) struct MainHost<'e> {
    config: ConfigHandle,
    /// `None` while the configuration is made
    calls: Option<&'e Calls>,
    thread: &'e ThreadMetrics,
    /// Whether counts are taken; else they wait for another configuration
    counts: bool,
    pub(crate) samples: Samples,
    /// The secrets of SDS that the policy names
    pub(crate) secrets: RefCell<Vec<SdsSecret>>,
}

/// The name of a secret of SDS, and its source.
pub(crate) type SdsSecret = (String, String);

impl<'e> MainHost<'e> {
    /// `thread`: whose metrics are flushed.
    pub(crate) fn new(config: ConfigHandle, calls: Option<&'e Calls>, thread: &'e ThreadMetrics) -> Self {
        let (samples, secrets) = Default::default();
        Self { config, calls, thread, counts: true, samples, secrets }
    }

    /// The host of a configuration that ends; `counts`: whether it is the last one.
    pub(crate) fn ending(config: ConfigHandle, thread: &'e ThreadMetrics, counts: bool) -> Self {
        Self { counts, ..Self::new(config, None, thread) }
    }
}

impl Clock for MainHost<'_> {
    fn now_unix_ms(&self) -> u64 {
        crate::process::now_unix_ms()
    }
}

impl Gateway for MainHost<'_> {
    fn call(&self, call: &Call) -> Result<u32, HostError> {
        self.calls.and_then(|calls| calls.make(self.config, call)).ok_or(HostError)
    }

    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        self.thread.define(series).ok_or(HostError)
    }

    fn add_to_metric(&self, metric: MetricId, count: u64) -> Result<(), HostError> {
        if self.counts && self.samples.add(self.thread, metric, count) { Ok(()) } else { Err(HostError) }
    }

    fn record_in_metric(&self, metric: MetricId, value: u64) -> Result<(), HostError> {
        self.add_to_metric(metric, value)
    }

    fn secret_reader(&self, name: &str, source: &str) -> Result<Arc<dyn SecretReader>, HostError> {
        let id = self.config.subscribe_secret(name, source).map_err(|_| HostError)?;
        self.secrets.borrow_mut().push((name.to_owned(), source.to_owned()));
        Ok(Arc::new(EnvoySecret { config: self.config, id }))
    }

    fn advice(&self) -> &'static OperatorAdvice {
        &edge_idempotency_envoy::DYNAMIC_MODULE_ADVICE
    }

    fn log(&self, level: LogLevel, line: &str) {
        log(level, line);
    }

    fn log_level(&self) -> LogLevel {
        log_level()
    }
}

/// A secret of Envoy's. It is read at events of streams and of the configuration, which live as long as Envoy's configuration.
struct EnvoySecret {
    config: ConfigHandle,
    id: usize,
}

impl SecretReader for EnvoySecret {
    fn read(&self) -> Option<Vec<u8>> {
        self.config.secret(self.id)
    }
}

/// Writes a line into Envoy's log.
pub(crate) fn log(level: LogLevel, line: &str) {
    let level = match level {
        LogLevel::Debug => AbiLogLevel::Debug,
        LogLevel::Info => AbiLogLevel::Info,
        LogLevel::Warn => AbiLogLevel::Warn,
        LogLevel::Error => AbiLogLevel::Error,
        LogLevel::Critical => AbiLogLevel::Critical,
    };
    calls::log(level, line);
}

fn log_level() -> LogLevel {
    if calls::log_shows(AbiLogLevel::Debug) {
        LogLevel::Debug
    } else if calls::log_shows(AbiLogLevel::Info) {
        LogLevel::Info
    } else {
        LogLevel::Warn
    }
}

const fn header_type(map: HeaderMapKind) -> HeaderType {
    match map {
        HeaderMapKind::Request => HeaderType::RequestHeader,
        HeaderMapKind::RequestTrailers => HeaderType::RequestTrailer,
        HeaderMapKind::Response => HeaderType::ResponseHeader,
        HeaderMapKind::ResponseTrailers => HeaderType::ResponseTrailer,
    }
}
