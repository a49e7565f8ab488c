//! Cases through the engine, in a gateway in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;

use edge_idempotency_engine::memory_gateway::{BorrowedLine, MemoryGateway, MemoryMessage, MemoryReply};
use edge_idempotency_engine::{
    Configuration, FilterAction, HeaderLines as _, HeaderMapKind, Host as _, Metrics, OperatorAdvice, PolicyErrors,
    Stream,
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
        let gateway = MemoryGateway { advice: Some(advice), ..MemoryGateway::default() };
        let issues = load(&gateway, &case.policy, &case.environment).err().map(|errors| errors.0).unwrap_or_default();
        issues.iter().map(ToString::to_string).collect()
    }
}

fn load(
    gateway: &MemoryGateway<'_>,
    document: &[u8],
    environment: &BTreeMap<String, String>,
) -> Result<Configuration, PolicyErrors> {
    let variable = |name: &str| environment.get(name).map(|value| value.clone().into_bytes());
    Configuration::load(gateway, document, variable, &Metrics::default())
}

/// Lines as a gateway shows them.
fn lines(headers: &Headers) -> Vec<BorrowedLine<'_>> {
    headers.iter().map(|(name, value)| (name.as_bytes(), value)).collect()
}

/// A message as it comes to the gateway.
fn coming(message: &Message) -> MemoryMessage<'_> {
    let trailers = message.trailers.as_ref().map(lines).unwrap_or_default();
    MemoryMessage { headers: lines(&message.headers), body: RefCell::new(message.body.clone()), trailers }
}

/// The lines of a message as they leave the gateway.
fn leaving(gateway: &MemoryGateway<'_>, map: HeaderMapKind) -> Headers {
    let lines = gateway.header_lines(map);
    let text = |(name, value): BorrowedLine<'_>| (String::from_utf8_lossy(name).into_owned(), value.to_vec());
    lines.headers().iter().flat_map(|lines| lines.iter()).map(text).collect()
}

/// One request and its response on their way.
struct CaseRun<'g> {
    gateway: &'g MemoryGateway<'g>,
    stores: SimulatedStores,
    stream: Stream,
    configuration: Configuration,
}

/// The number of the only stream.
const STREAM: u32 = 1;

impl CaseRun<'_> {
    /// Lets every call be answered. Whether the message goes on after an event with this action.
    fn goes_on(&mut self, action: FilterAction) -> bool {
        self.gateway.answer_calls(&mut self.configuration, &mut self.stream, |call| {
            let StoreReply { status, body } = reply_to(&self.stores, call);
            (status, body)
        });
        action == FilterAction::Continue
    }

    /// Whether the request went on.
    fn request(&mut self, message: &Message) -> bool {
        let (gateway, shared) = (self.gateway, &mut self.configuration);
        let (has_body, has_trailers) = (!message.body.is_empty(), message.trailers.is_some());
        let action = self.stream.on_request_headers(gateway, shared, !has_body && !has_trailers);
        let mut went_on = self.goes_on(action) || gateway.requests_resumed.get() > 0;
        if action == FilterAction::PauseReading && !went_on {
            // Nothing of the body is shown.
            return false;
        }
        if has_body && !gateway.has_replied() {
            let action =
                self.stream.on_request_body(gateway, &mut self.configuration, message.body.len(), !has_trailers);
            went_on = self.goes_on(action) || gateway.requests_resumed.get() > 0;
        }
        if has_trailers && !gateway.has_replied() {
            let action = self.stream.on_request_trailers(gateway, &mut self.configuration);
            went_on = self.goes_on(action) || gateway.requests_resumed.get() > 0;
        }
        went_on
    }

    /// Whether the response went on.
    fn response(&mut self, message: &Message) -> bool {
        let (gateway, shared, stream) = (self.gateway, &mut self.configuration, &mut self.stream);
        let (has_body, has_trailers) = (!message.body.is_empty(), message.trailers.is_some());
        let mut action = stream.on_response_headers(gateway, shared, !has_body && !has_trailers);
        let length = message.body.len();
        // As with HTTP/1.1, an empty part ends a body.
        let waits = has_body && stream.on_response_body(gateway, shared, length, false) == FilterAction::Pause;
        if has_body && !has_trailers && !gateway.has_replied() {
            // What does not wait has passed.
            let passed = if waits { Vec::new() } else { gateway.response.body.take() };
            action = stream.on_response_body(gateway, shared, if waits { length } else { 0 }, true);
            gateway.response.body.borrow_mut().splice(..0, passed);
        }
        if has_trailers && !gateway.has_replied() {
            action = stream.on_response_trailers(gateway, shared);
        }
        self.goes_on(action) || gateway.responses_resumed.get() > 0 || gateway.has_replied()
    }
}

fn exchange(case: &Case) -> Result<CaseOutcome, String> {
    let (metadata, route) = (Value::Object(case.metadata.clone()), Value::Object(case.route_metadata.clone()));
    let attributes = JsonAttributes::new(metadata, &route);
    let gateway = MemoryGateway {
        attributes: Some(&attributes),
        now_unix_ms: case.now_unix_ms.unwrap_or(DEFAULT_NOW_UNIX_MS),
        advice: Some(&edge_idempotency_envoy::ADVICE),
        request: coming(&case.request),
        response: coming(&case.response),
        ..MemoryGateway::default()
    };
    let configuration = load(&gateway, &case.policy, &case.environment).map_err(|errors| errors.to_string())?;
    // Cases are about the lines of a request.
    gateway.log.take();
    let stream = Stream::new(STREAM, &configuration);
    let mut run = CaseRun { gateway: &gateway, stores: stores_of(case)?, stream, configuration };
    let went_on = run.request(&case.request);
    let is_refused = gateway.has_replied();
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
    configuration.on_tick(&gateway);
    configuration.on_end(&gateway);

    let repeated = |(name, count): (String, u64)| vec![name; usize::try_from(count).unwrap_or_default()];
    let mut metrics: Vec<String> = gateway.metrics.take().into_iter().flat_map(repeated).collect();
    metrics.extend(gateway.samples.take().iter().map(|(name, value)| sample(name, *value)));
    metrics.sort();
    let passed = |came: &Message, body, headers, trailers| Message {
        headers: leaving(&gateway, headers),
        body,
        trailers: came.trailers.as_ref().map(|_| leaving(&gateway, trailers)),
        complete: came.complete,
    };
    let mut client = match gateway.replies.take().pop() {
        Some(MemoryReply { status, details, headers, body, grpc_status }) => {
            let headers = headers.into_iter().collect();
            LocalReply { status: status.into(), headers, body, details, grpc_status }.into_message()
        }
        None => {
            let body = gateway.response.body.take();
            passed(&case.response, body, HeaderMapKind::Response, HeaderMapKind::ResponseTrailers)
        }
    };
    if case.request.headers.get(":method") == Some(b"HEAD") {
        client.body.clear();
    }
    let body = gateway.request.body.take();
    let upstream =
        (!is_refused).then(|| passed(&case.request, body, HeaderMapKind::Request, HeaderMapKind::RequestTrailers));
    let record = gateway.record.take().map(|message| records::read(&message));
    Ok(CaseOutcome {
        upstream,
        client: Some(client),
        metrics,
        record: record.map_or(Ok(None), |record| record.map(Some).ok_or("the record cannot be read".to_owned()))?,
        log: gateway.log.take().into_iter().map(|(level, line)| format!("{level:?} {line}")).collect(),
        ..CaseOutcome::default()
    })
}
