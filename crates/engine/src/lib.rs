//! What the edge idempotency filter decides, without a gateway: it validates a caller's idempotency key, puts it into the
//! caller's namespace and forwards the request, or refuses it with a problem document.
//!
//! # Hosts
//!
//! A host connects the engine to a gateway. It implements [`Gateway`] and [`Host`], makes a [`Configuration`] of a policy document and a
//! [`Stream`] for each request, and hands events to them. Everything that a host needs is at the root of this crate.
//!
//! The gateway of this host is in memory (`src/memory_gateway.rs` implements the traits). It forwards a request with a namespaced key:
//!
//! ```
//! use edge_idempotency_engine::memory_gateway::MemoryGateway;
//! use edge_idempotency_engine::{Configuration, FilterAction, Metrics, Stream};
//!
//! let document = br#"{"version": 1, "backend": {"kind": "restate"},
//!     "identity": {"sources": [{"name": "edge", "headers_owned_by": "the gateway",
//!         "tenant": "x-tenant", "project": "x-project", "subject": {"field": "x-subject"}}]},
//!     "routes": [{"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A"}]}"#;
//! let mut gateway = MemoryGateway::default();
//! let mut configuration = Configuration::load(&gateway, document, |_| None, &Metrics::default()).unwrap();
//! gateway.request.headers = vec![
//!     (b":method", b"POST"), (b":authority", b"api.example.com"), (b":path", b"/refunds"), (b"idempotency-key", b"k-1"),
//!     (b"x-tenant", b"acme"), (b"x-project", b"shop"), (b"x-subject", b"user:alice"),
//! ];
//! let mut stream = Stream::new(1, &configuration);
//! assert_eq!(stream.on_request_headers(&gateway, &mut configuration, true), FilterAction::Continue);
//! let edits = gateway.edits.take();
//! let key = edits.iter().find(|edit| edit.name == b"idempotency-key").unwrap();
//! assert_eq!(key.value.as_deref(), Some(b"t-acme:shop:user:alice:k-1".as_slice()));
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
//! | `host` | what the engine asks of a gateway, and of a request in it |
//! | `memory_gateway` | a gateway in memory |
//! | `events` | the steps of a request and of its response |
//! | `webhooks`, `signed_callers`, `api_keys`, `recovery`, `operations`, `collision`, `in_flight`, `shadow` | features: their part of the document, their rules, their requests and answers |
//! | `exchange` | one request and its response as a state machine |
//! | `checks` | what a decided request waits for |
//! | `questions` | what is waited for: stores, questions to Restate, claims at the guard |
//! | `lookup` | bindings, secrets and API keys from stores: caches, who waits |
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

mod attribute_value;
mod backend;
mod body;
mod bytes;
mod checks;
mod codes;
mod configuration;
mod in_flight;
mod memory;
mod percent;
mod protobuf;
mod recovery;
mod shadow;
mod signed_callers;
mod stream;
mod time;
mod waits;
mod webhooks;

#[doc(hidden)]
pub mod api_keys;
#[doc(hidden)]
pub mod call;
#[doc(hidden)]
pub mod collision;
#[doc(hidden)]
pub mod events;
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
#[cfg(feature = "memory-gateway")]
#[doc(hidden)]
pub mod memory_gateway;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod operations;
#[doc(hidden)]
pub mod policy;
#[doc(hidden)]
pub mod problem;
#[doc(hidden)]
pub mod provider;
#[doc(hidden)]
pub mod questions;
#[doc(hidden)]
pub mod telemetry;
#[doc(hidden)]
pub mod uuid;

pub use body::Body;
pub use bytes::equal as equal_bytes;
pub use call::{Call, CallReply, MAX_REPLY_BYTES};
pub use configuration::{Configuration, TICK_MS};
pub use exchange::HeaderMapKind;
pub use headers::{Headers, RouterHints};
pub use host::{
    Gateway, HeaderLines, Host, HostError, LocalReply, LogLevel, MetricId, MetricKind, MetricSeries, OperatorAdvice,
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
pub use time::Clock;

#[doc(hidden)]
pub use events::{AwaitedBody, ResponseFlow, UnreadBody};
#[doc(hidden)]
pub use exchange::{Awaits, Effect, Exchange, Pause, PauseEvent, RequestFlow, Resumed};
#[doc(hidden)]
pub use policy::Policy;
