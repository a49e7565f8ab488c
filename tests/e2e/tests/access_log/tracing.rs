//! The headers of a trace reach the backend as they came; and where Envoy traces, its spans have the record's members. A
//! server stands in for the collector: it takes OTLP over HTTP on the address of the backend.

use anyhow::{Context as _, Result, ensure};
use e2e::capture::{Answer, Capture};
use e2e::config::Change;
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::{Request, exchange};
use e2e::runner::{Group, Test, sharing};
use e2e::wire::Message;
use serde_json::{Value, json};

use super::{SECRET, SECRET_VARIABLE, listener};

/// Of `t-acme:shop:user:planted-subject:planted-key`.
const KEY: &str = "sha256:60c7fdfbb2075420ec1081a7ffba29032389c356e891a5e7f86469a6bf84cf45";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const STATE: &str = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";

pub(crate) fn group() -> Group {
    // One after the other, since both look at what the backend gets.
    let both = |setup: &TracingSetup| setup.passed().and_then(|()| setup.traced());
    let tests =
        vec![Test::new("trace headers reach the backend as they came, and spans have the record's members", both)];
    sharing(TracingSetup::start, tests)
}

struct TracingSetup {
    gateway: TestGateway,
    /// Backend and collector.
    backend: Capture,
}

/// deploy/observability/envoy-tracing.yaml, for this collector.
fn tracing() -> Result<Value> {
    let block = include_str!("../../../../deploy/observability/envoy-tracing.yaml");
    let mut block: Value = serde_saphyr::from_str(&block.replace("cluster: otel_collector", "cluster: backend"))?;
    Ok(block.get_mut("tracing").context("no member tracing")?.take())
}

impl TracingSetup {
    fn start() -> Result<Self> {
        let backend = Capture::start()?;
        let invocation = ("x-restate-id".to_owned(), b"inv_1".to_vec());
        backend.answer(Answer { headers: vec![invocation], ..Answer::default() });
        let mut traced = listener("hash", "enforce");
        traced.changes.push(Change::Manager("tracing", tracing()?));
        let environment = vec![(SECRET_VARIABLE.to_owned(), SECRET.to_owned())];
        let around = TestEnvironment { environment, backend: Some(backend.address()), ..TestEnvironment::default() };
        let listeners = [("plain".to_owned(), listener("hash", "enforce")), ("traced".to_owned(), traced)];
        Ok(Self { gateway: TestGateway::start_within(&around, &listeners)?, backend })
    }

    fn send(&self, listener: &str, path: &str) -> Result<u16> {
        let token =
            self.gateway.token(&json!({"tenant_id": "acme", "project_id": "shop", "sub": "planted-subject"}))?;
        let request = Request::post(path).bearer(&token).header("idempotency-key", "planted-key");
        let request = request.header("x-retry-attempt", "3").header("traceparent", PARENT).header("tracestate", STATE);
        Ok(exchange(self.gateway.address(listener)?, "POST", &request.http1())?.status)
    }

    fn passed(&self) -> Result<()> {
        ensure!(self.send("plain", "/api/v1/refunds")? == 200, "it was not forwarded");
        let taken = self.backend.take();
        let request = taken.first().context("the backend got nothing")?;
        ensure!(lines(request, "traceparent") == [PARENT.as_bytes()], "{:?}", request.headers);
        ensure!(lines(request, "tracestate") == [STATE.as_bytes()], "{:?}", request.headers);
        Ok(())
    }

    fn traced(&self) -> Result<()> {
        // Envoy exports spans when it has five of them.
        for path in ["/api/v1/refunds", "/api/v1/refunds", "/api/v1/refunds", "/api/v1/refunds", "/api/v1/planted"] {
            self.send("traced", path)?;
        }
        let spans = std::cell::RefCell::new(Vec::new());
        self.gateway.until("the spans are exported", |_| {
            spans.borrow_mut().extend(self.backend.take());
            Ok(spans.borrow().iter().any(|message: &Message| message.start.starts_with(b"POST /v1/traces ")))
        })?;
        let taken = spans.into_inner();
        let (exports, forwarded): (Vec<_>, Vec<_>) =
            taken.iter().partition(|message| message.start.starts_with(b"POST /v1/traces "));
        // The gateway's span is the parent of the backend's.
        let of_trace = |request: &&Message| {
            lines(request, "traceparent").iter().any(|line| line.starts_with(format!("00-{TRACE}-").as_bytes()))
        };
        ensure!(forwarded.len() == 4 && forwarded.iter().all(of_trace), "another trace");
        let exported: Vec<u8> = exports.iter().flat_map(|message| message.body.clone()).collect();
        for (tag, value) in [
            ("tenant", "acme"),
            ("endpoint", "refunds"),
            ("idempotency_outcome", "stored"),
            ("idempotency_outcome", "rejected"),
            ("idempotency_code", "not_found"),
            ("idempotency_key_namespaced", KEY),
            ("attempt", "3"),
        ] {
            ensure!(
                holds(&exported, &attribute(tag, value)),
                "no span has {tag}: {value}: {}",
                exported.escape_ascii()
            );
        }
        ensure!(!holds(&exported, b"planted"), "a span holds what the client wrote: {}", exported.escape_ascii());
        Ok(())
    }
}

fn lines<'m>(message: &'m Message, name: &str) -> Vec<&'m [u8]> {
    let named = message.headers.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_slice()).collect()
}

/// An attribute of a span in OTLP's protobuf encoding, `KeyValue`.
fn attribute(name: &str, value: &str) -> Vec<u8> {
    let size = |text: &str| u8::try_from(text.len()).unwrap_or(u8::MAX);
    let mut bytes = vec![0x0a, size(name)];
    bytes.extend(name.as_bytes());
    bytes.extend([0x12, size(value) + 2, 0x0a, size(value)]);
    bytes.extend(value.as_bytes());
    bytes
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
