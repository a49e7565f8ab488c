//! Cases through the engine, without a gateway: the [`Host`] holds one request and one response, as a gateway would.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use edge_idempotency_engine::{
    AttributeValue, Attributes, Body, Call, CallReply, Configuration, FilterAction, HeaderLines, HeaderMapKind,
    Headers as Lines, Host, HostError, LocalReply as EngineReply, LogLevel, MetadataPath, MetricId, MetricSeries,
    Metrics, OperatorAdvice, PolicyErrors, RouterHints, Stream,
};
use serde_json::Value;
use simulated_stores::{SimulatedStores, StoreReply};

use crate::attributes::JsonAttributes;
use crate::stores::reply_to;
use testkit::cases::{Case, CaseOutcome, StartErrors, sample};
use testkit::http::{Headers, LocalReply, Message};
use testkit::records;
use testkit::stores::stores_of;

/// The clock of a case without one: 2026-01-01 UTC, as in the module.
const DEFAULT_NOW_UNIX_MS: u64 = 1_767_225_600_000;

/// Runs cases through the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Direct {
    /// Runs a case.
    pub fn run(self, case: &Case) -> CaseOutcome {
        exchange(case).unwrap_or_else(|error| CaseOutcome { failures: vec![error], ..CaseOutcome::default() })
    }

    /// The errors of a policy, each as `pointer: message`, in a gateway that advises this; none if it starts.
    pub fn start(self, case: &StartErrors, advice: &'static OperatorAdvice) -> Vec<String> {
        let host = DirectHost { advice, ..DirectHost::default() };
        let issues = load(&host, &case.policy, &case.environment).err().map(|errors| errors.0).unwrap_or_default();
        issues.iter().map(ToString::to_string).collect()
    }
}

fn load(
    host: &DirectHost,
    document: &[u8],
    environment: &BTreeMap<String, String>,
) -> Result<Configuration, PolicyErrors> {
    let variable = |name: &str| environment.get(name).map(|value| value.clone().into_bytes());
    Configuration::load(host, document, variable, &Metrics::default())
}

/// A gateway with one request and one response.
struct DirectHost {
    advice: &'static OperatorAdvice,
    attributes: JsonAttributes,
    request: RefCell<Message>,
    response: RefCell<Message>,
    /// The filter's own reply, if it has made one.
    reply: RefCell<Option<LocalReply>>,
    /// Whether a request that waited was let go.
    resumed: Cell<bool>,
    /// Whether a response that waited was let go.
    response_resumed: Cell<bool>,
    stores: SimulatedStores,
    /// Calls that were made and whose replies are still to come.
    calls: RefCell<Vec<PendingReply>>,
    now_unix_ms: u64,
    /// Metrics by id: their names and counts
    metrics: RefCell<Vec<(String, u64)>>,
    /// What was given to histograms, as a case writes it
    samples: RefCell<Vec<String>>,
    /// The record of the request.
    record: RefCell<Option<Vec<u8>>>,
    log: RefCell<Vec<String>>,
}

impl Default for DirectHost {
    fn default() -> Self {
        let (attributes, request, response, reply, resumed, response_resumed, stores) = Default::default();
        let (calls, now_unix_ms, metrics, samples, record, log) = Default::default();
        Self {
            advice: &edge_idempotency_envoy::ADVICE,
            attributes,
            request,
            response,
            reply,
            resumed,
            response_resumed,
            stores,
            calls,
            now_unix_ms,
            metrics,
            samples,
            record,
            log,
        }
    }
}

/// The reply to a call, which comes after the callback that made the call.
struct PendingReply {
    token: u32,
    status: Option<u16>,
    body: Vec<u8>,
}

/// A copy of header lines.
struct OwnedLines(Headers);

impl HeaderLines for OwnedLines {
    fn headers(&self) -> Option<Lines<'_>> {
        Some(Lines::new(self.0.iter().map(|(name, value)| (name.as_bytes(), value)).collect()))
    }
}

impl DirectHost {
    /// Runs `edit` on a header map.
    fn with_map<T>(&self, map: HeaderMapKind, edit: impl FnOnce(&mut Headers) -> T) -> Option<T> {
        let (mut request, mut response) = (self.request.borrow_mut(), self.response.borrow_mut());
        match map {
            HeaderMapKind::Request => Some(edit(&mut request.headers)),
            HeaderMapKind::RequestTrailers => request.trailers.as_mut().map(edit),
            HeaderMapKind::Response => Some(edit(&mut response.headers)),
            HeaderMapKind::ResponseTrailers => response.trailers.as_mut().map(edit),
        }
    }

    fn has_replied(&self) -> bool {
        self.reply.borrow().is_some()
    }
}

impl Attributes for DirectHost {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        self.attributes.metadata(path)
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        self.attributes.route_endpoint()
    }

    fn now_unix_ms(&self) -> u64 {
        self.now_unix_ms
    }

    fn router(&self) -> Option<&'static RouterHints> {
        self.attributes.router()
    }
}

impl Host for DirectHost {
    type Lines = OwnedLines;

    fn header_lines(&self, map: HeaderMapKind) -> OwnedLines {
        OwnedLines(self.with_map(map, |headers| headers.clone()).unwrap_or_default())
    }

    fn set_header(&self, map: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        self.with_map(map, |headers| headers.set(name, value)).ok_or(HostError)
    }

    fn remove_header(&self, map: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
        self.with_map(map, |headers| headers.remove(&String::from_utf8_lossy(name))).ok_or(HostError)
    }

    /// In two pieces, as a gateway can have it.
    fn with_request_body<T>(
        &self,
        start: usize,
        max: usize,
        read: impl FnOnce(&Body<'_>) -> T,
    ) -> Result<T, HostError> {
        let body: Vec<u8> = self.request.borrow().body.iter().skip(start).take(max).copied().collect();
        let (first, second) = body.split_at(body.len() / 2);
        Ok(read(&Body::of_pieces(&[first, second])))
    }

    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError> {
        Ok(self.response.borrow().body.iter().take(max).copied().collect())
    }

    fn set_response_body(&self, body: &[u8]) -> Result<(), HostError> {
        self.response.borrow_mut().body = body.to_vec();
        Ok(())
    }

    fn reply(&self, reply: &EngineReply<'_>) -> Result<(), HostError> {
        let headers = reply.headers.iter().map(|(name, value)| (*name, value.clone())).collect();
        let details = reply.details.to_owned();
        let (status, body, grpc_status) = (u32::from(reply.status), reply.body.to_vec(), reply.grpc_status);
        let reply = LocalReply { status, headers, body, details, grpc_status };
        *self.reply.borrow_mut() = Some(reply);
        Ok(())
    }

    fn resume_response(&self) -> Result<(), HostError> {
        self.response_resumed.set(true);
        Ok(())
    }

    fn received_bytes(&self) -> Option<u64> {
        None
    }

    fn resume_request(&self) -> Result<(), HostError> {
        self.resumed.set(true);
        Ok(())
    }

    fn call(&self, call: &Call) -> Result<u32, HostError> {
        let StoreReply { status, body } = reply_to(&self.stores, call);
        let mut calls = self.calls.borrow_mut();
        let token = u32::try_from(calls.len()).map_err(|_| HostError)?;
        calls.push(PendingReply { token, status, body });
        Ok(token)
    }

    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        let mut metrics = self.metrics.borrow_mut();
        let id = u32::try_from(metrics.len()).map_err(|_| HostError)?;
        metrics.push((series.flat_name(), 0));
        Ok(MetricId(id))
    }

    fn add_to_metric(&self, MetricId(id): MetricId, count: u64) -> Result<(), HostError> {
        let mut metrics = self.metrics.borrow_mut();
        let metric = metrics.get_mut(id as usize).ok_or(HostError)?;
        metric.1 += count;
        Ok(())
    }

    fn record_in_metric(&self, MetricId(id): MetricId, value: u64) -> Result<(), HostError> {
        let name = self.metrics.borrow().get(id as usize).ok_or(HostError)?.0.clone();
        self.samples.borrow_mut().push(sample(&name, value));
        Ok(())
    }

    fn set_record(&self, record: &[u8]) -> Result<(), HostError> {
        *self.record.borrow_mut() = Some(record.to_vec());
        Ok(())
    }

    fn advice(&self) -> &'static OperatorAdvice {
        self.advice
    }

    fn log(&self, level: LogLevel, line: &str) {
        self.log.borrow_mut().push(format!("{level:?} {line}"));
    }

    fn log_level(&self) -> LogLevel {
        LogLevel::Info
    }
}

/// One request and its response on their way.
struct CaseRun<'h> {
    host: &'h DirectHost,
    stream: Stream,
    configuration: Configuration,
}

/// The number of the only stream.
const STREAM: u32 = 1;

impl CaseRun<'_> {
    /// Lets every call be answered. Whether the message goes on after an event with this action.
    fn goes_on(&mut self, action: FilterAction) -> bool {
        while let Some(PendingReply { token, status, body }) = { self.host.calls.borrow_mut().pop() } {
            self.configuration.on_call_reply(self.host, token, &CallReply { status, body: Some(&body) });
            while self.configuration.next_to_wake().is_some() {
                self.stream.on_wake(self.host, &mut self.configuration);
            }
        }
        action == FilterAction::Continue
    }

    /// Whether the request went on.
    fn request(&mut self, message: &Message) -> bool {
        let (host, shared) = (self.host, &mut self.configuration);
        let (has_body, has_trailers) = (!message.body.is_empty(), message.trailers.is_some());
        let action = self.stream.on_request_headers(host, shared, !has_body && !has_trailers);
        let mut went_on = self.goes_on(action) || host.resumed.get();
        if action == FilterAction::PauseReading && !went_on {
            // Nothing of the body is shown.
            return false;
        }
        if has_body && !host.has_replied() {
            let action = self.stream.on_request_body(host, &mut self.configuration, message.body.len(), !has_trailers);
            went_on = self.goes_on(action) || host.resumed.get();
        }
        if has_trailers && !host.has_replied() {
            let action = self.stream.on_request_trailers(host, &mut self.configuration);
            went_on = self.goes_on(action) || host.resumed.get();
        }
        went_on
    }

    /// Whether the response went on.
    fn response(&mut self, message: &Message) -> bool {
        let (host, shared, stream) = (self.host, &mut self.configuration, &mut self.stream);
        let (has_body, has_trailers) = (!message.body.is_empty(), message.trailers.is_some());
        let mut action = stream.on_response_headers(host, shared, !has_body && !has_trailers);
        let length = message.body.len();
        // As with HTTP/1.1, an empty part ends a body.
        let waits = has_body && stream.on_response_body(host, shared, length, false) == FilterAction::Pause;
        if has_body && !has_trailers && !host.has_replied() {
            // What does not wait has passed.
            let passed = if waits { Vec::new() } else { std::mem::take(&mut host.response.borrow_mut().body) };
            action = stream.on_response_body(host, shared, if waits { length } else { 0 }, true);
            host.response.borrow_mut().body.splice(..0, passed);
        }
        if has_trailers && !host.has_replied() {
            action = stream.on_response_trailers(host, shared);
        }
        self.goes_on(action) || host.response_resumed.get() || host.has_replied()
    }
}

fn exchange(case: &Case) -> Result<CaseOutcome, String> {
    let host = DirectHost {
        attributes: JsonAttributes::new(
            Value::Object(case.metadata.clone()),
            &Value::Object(case.route_metadata.clone()),
        ),
        request: RefCell::new(case.request.clone()),
        response: RefCell::new(case.response.clone()),
        stores: stores_of(case)?,
        now_unix_ms: case.now_unix_ms.unwrap_or(DEFAULT_NOW_UNIX_MS),
        ..DirectHost::default()
    };
    let configuration = load(&host, &case.policy, &case.environment).map_err(|errors| errors.to_string())?;
    // Cases are about the lines of a request.
    host.log.borrow_mut().clear();
    let stream = Stream::new(STREAM, &configuration);
    let mut run = CaseRun { host: &host, stream, configuration };
    let went_on = run.request(&case.request);
    let is_refused = host.has_replied();
    if !is_refused && !went_on {
        return Err("the request waits for ever".to_owned());
    }
    if !is_refused && !run.response(&case.response) {
        return Err("the response waits for ever".to_owned());
    }
    let decided = run.stream.exchange();
    if let (Some(problem), Some(reason)) = (decided.refusal(), decided.reason())
        && !reason.codes().contains(&problem.code)
    {
        return Err(format!("`{}` is not among the codes of the reason `{}`", problem.code.name(), reason.name()));
    }
    let CaseRun { mut stream, mut configuration, .. } = run;
    stream.on_end(&mut configuration);
    configuration.on_tick(&host);
    configuration.on_end(&host);

    let DirectHost { request, response, reply, metrics, samples, record, log, .. } = host;
    let repeated = |(name, count): (String, u64)| vec![name; usize::try_from(count).unwrap_or_default()];
    let mut metrics: Vec<String> = metrics.into_inner().into_iter().flat_map(repeated).collect();
    metrics.append(&mut samples.into_inner());
    metrics.sort();
    let mut client = reply.into_inner().map_or_else(|| response.into_inner(), LocalReply::into_message);
    if case.request.headers.get(":method") == Some(b"HEAD") {
        client.body.clear();
    }
    let upstream = (!is_refused).then(|| request.into_inner());
    let record = record.into_inner().map(|message| records::read(&message));
    Ok(CaseOutcome {
        upstream,
        client: Some(client),
        metrics,
        record: record.map_or(Ok(None), |record| record.map(Some).ok_or("the record cannot be read".to_owned()))?,
        log: log.into_inner(),
        ..CaseOutcome::default()
    })
}
