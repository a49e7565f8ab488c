//! What the edge idempotency filter decides, without a gateway: it validates a caller's idempotency key, puts it into the
//! caller's namespace and forwards the request, or refuses it with a problem document.
//!
//! # Hosts
//!
//! A host connects the engine to a gateway. It implements [`Host`], makes a [`Configuration`] of a policy document and a
//! [`Stream`] for each request, and hands events to them. Everything that a host needs is at the root of this crate.
//!
//! This host has one gateway in memory, without metrics, calls and metadata; it forwards a request with a namespaced key:
//!
//! ```
//! use edge_idempotency_engine::{
//!     AttributeValue, Attributes, Body, Call, Configuration, FilterAction, HeaderLines, HeaderMapKind, Headers, Host, HostError,
//!     LocalReply, LogLevel, MetadataPath, MetricId, MetricSeries, Metrics, Stream,
//! };
//! use std::cell::RefCell;
//!
//! #[derive(Default)]
//! struct Gateway(RefCell<Vec<(String, Vec<u8>)>>);
//! struct Lines(Vec<(String, Vec<u8>)>);
//!
//! impl HeaderLines for Lines {
//!     fn headers(&self) -> Option<Headers<'_>> {
//!         Some(Headers::new(self.0.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect()))
//!     }
//! }
//! impl Attributes for Gateway {
//!     fn metadata(&self, _: &MetadataPath) -> AttributeValue<'_> { AttributeValue::Absent }
//!     fn route_endpoint(&self) -> AttributeValue<'_> { AttributeValue::Absent }
//!     fn now_unix_ms(&self) -> u64 { 1_767_225_600_000 }
//! }
//! impl Host for Gateway {
//!     type Lines = Lines;
//!     fn header_lines(&self, _: HeaderMapKind) -> Lines { Lines(self.0.borrow().clone()) }
//!     fn set_header(&self, _: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
//!         self.0.borrow_mut().retain(|(other, _)| other != name);
//!         self.0.borrow_mut().push((name.to_owned(), value.to_owned()));
//!         Ok(())
//!     }
//!     fn remove_header(&self, _: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
//!         self.0.borrow_mut().retain(|(other, _)| other.as_bytes() != name);
//!         Ok(())
//!     }
//!     fn with_request_body<T>(&self, _: usize, _: usize, _: impl FnOnce(&Body<'_>) -> T) -> Result<T, HostError> { Err(HostError) }
//!     fn response_body(&self, _: usize) -> Result<Vec<u8>, HostError> { Err(HostError) }
//!     fn set_response_body(&self, _: &[u8]) -> Result<(), HostError> { Err(HostError) }
//!     fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError> { panic!("{}", reply.details) }
//!     fn resume_request(&self) -> Result<(), HostError> { Err(HostError) }
//!     fn resume_response(&self) -> Result<(), HostError> { Err(HostError) }
//!     fn received_bytes(&self) -> Option<u64> { None }
//!     fn call(&self, _: &Call) -> Result<u32, HostError> { Err(HostError) }
//!     fn define_metric(&self, _: &MetricSeries<'_>) -> Result<MetricId, HostError> { Err(HostError) }
//!     fn add_to_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> { Err(HostError) }
//!     fn record_in_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> { Err(HostError) }
//!     fn set_record(&self, _: &[u8]) -> Result<(), HostError> { Ok(()) }
//!     fn log(&self, level: LogLevel, line: &str) { println!("{level:?} {line}") }
//!     fn log_level(&self) -> LogLevel { LogLevel::Info }
//! }
//!
//! let document = br#"{"version": 1, "backend": {"kind": "restate"},
//!     "identity": {"sources": [{"name": "edge", "headers_owned_by": "the gateway",
//!         "tenant": "x-tenant", "project": "x-project", "subject": {"field": "x-subject"}}]},
//!     "routes": [{"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A"}]}"#;
//! let gateway = Gateway::default();
//! let mut configuration = Configuration::load(&gateway, document, |_| None, &Metrics::default()).unwrap();
//! for (name, value) in [
//!     (":method", "POST"), (":authority", "api.example.com"), (":path", "/refunds"), ("idempotency-key", "k-1"),
//!     ("x-tenant", "acme"), ("x-project", "shop"), ("x-subject", "user:alice"),
//! ] {
//!     gateway.set_header(HeaderMapKind::Request, name, value.as_bytes()).unwrap();
//! }
//! let mut stream = Stream::new(1, &configuration);
//! assert_eq!(stream.on_request_headers(&gateway, &mut configuration, true), FilterAction::Continue);
//! let key = gateway.0.borrow().iter().find(|(name, _)| name == "idempotency-key").cloned().unwrap().1;
//! assert_eq!(key, b"t-acme:shop:user:alice:k-1");
//! // Calls are answered, and time passes: whoever waited goes on.
//! configuration.on_tick(&gateway);
//! while let Some(1) = configuration.next_to_wake() {
//!     stream.on_wake(&gateway, &mut configuration);
//! }
//! stream.on_end(&mut configuration);
//! configuration.on_end(&gateway);
//! ```
//!
//! # Inside
//!
//! Data goes one way. At start: bytes of configuration → `policy::document` → `Policy`. Per request: request head →
//! `Exchange` → `Effect`s → [`Host`]. The modules are public for the command and the tests of this repository, and change
//! without notice.
//!
//! | module | subject |
//! |---|---|
//! | `configuration` | the policy, and what its requests share |
//! | `stream` | one request and its response in a gateway |
//! | `body` | a body in pieces |
//! | `host` | what the engine asks of a gateway |
//! | `exchange` | one request and its response as a state machine |
//! | `lookup` | bindings and secrets from stores: caches, who waits |
//! | `collision` | fingerprints of requests, and claims at the guard |
//! | `call` | HTTP calls to clusters of the gateway |
//! | `policy` | the policy document, the route table, path normalisation, targets |
//! | `key` | the key's grammar, reading the header, the namespaced form |
//! | `identity` | tenant, project, subject; where they come from |
//! | `provider` | webhook providers: signatures, identifiers, raw keys |
//! | `problem` | problem documents |
//! | `telemetry` | log fields |
//! | `metrics` | counters and their series |
//! | `headers` | header lines, comparison of names |
//! | `json` | reading and writing JSON |
#![deny(unsafe_code)]

mod backend;
mod body;
mod bytes;
mod codes;
mod configuration;
mod memory;
mod percent;
mod protobuf;
mod stream;
mod time;
mod waits;

#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod collision;
#[doc(hidden)]
pub mod exchange;
#[doc(hidden)]
pub mod headers;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod identity;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod key;
#[doc(hidden)]
pub mod lookup;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod policy;
#[doc(hidden)]
pub mod problem;
#[doc(hidden)]
pub mod provider;
#[doc(hidden)]
pub mod telemetry;
#[doc(hidden)]
pub mod uuid;

pub use body::Body;
pub use call::{Call, CallReply, MAX_REPLY_BYTES};
pub use configuration::{Configuration, TICK_MS};
pub use exchange::HeaderMapKind;
pub use headers::{Headers, RouterHints};
pub use host::{
    HeaderLines, Host, HostError, LocalReply, LogLevel, MetricId, MetricKind, MetricSeries, OperatorAdvice,
};
pub use identity::{AttributeValue, Attributes, MetadataJson, MetadataPath};
pub use json::Issue;
pub use metrics::{Metrics, metric_names};
#[cfg(feature = "needs")]
pub use policy::needs::needs_as_json;
pub use policy::{PolicyErrors, SecretReader};
pub use protobuf::append_field;
pub use stream::{FilterAction, Stream};
pub use telemetry::RECORD_TYPE;

#[doc(hidden)]
pub use exchange::{Effect, Exchange, RequestFlow, ResponseFlow};
#[doc(hidden)]
pub use policy::Policy;
