//! What the edge idempotency filter decides, without a gateway: it validates a caller's idempotency key, puts it into the
//! caller's namespace and forwards the request, or refuses it with a problem document.
//!
//! # Hosts
//!
//! A host connects the engine to a gateway. It implements [`Host`], makes a [`Configuration`] of a policy document and a
//! [`Stream`] for each request, and hands events to them. Everything that a host needs is at the root of this crate.
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
mod bytes;
mod codes;
mod configuration;
mod percent;
mod room;
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

pub use call::{Call, CallReply, MAX_REPLY_BYTES};
pub use configuration::{Configuration, TICK_MS};
pub use exchange::HeaderMapKind;
pub use headers::{Headers, RouterHints};
pub use host::{HeaderLines, Host, HostError, LocalReply, LogLevel, MetricId, MetricKind, OperatorAdvice};
pub use identity::{AttributeValue, Attributes, MetadataPath};
pub use json::Issue;
pub use metrics::Metrics;
pub use policy::PolicyErrors;
pub use stream::{FilterAction, Stream};
pub use telemetry::RECORD_TYPE;

#[doc(hidden)]
pub use exchange::{Effect, Exchange, RequestFlow, ResponseFlow};
#[doc(hidden)]
pub use policy::Policy;
