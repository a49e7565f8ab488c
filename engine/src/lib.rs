//! What the edge idempotency filter decides, without a gateway: it validates a caller's idempotency key, puts it into the
//! caller's namespace and forwards the request, or refuses it with a problem document.
//!
//! Data goes one way. At start: bytes of configuration → [`policy::document`] → [`Policy`]. Per request: request head →
//! [`Exchange`] → [`Effect`]s → [`host::Host`]. The [`Driver`] does the second half for any host; the engine knows none.
//!
//! | module | subject |
//! |---|---|
//! | [`driver`] | drives one exchange over a host |
//! | [`host`] | what the engine asks of a gateway |
//! | [`exchange`] | one request and its response as a state machine |
//! | [`lookup`] | bindings and secrets from stores: caches, who waits |
//! | [`collision`] | fingerprints of requests, and claims at the guard |
//! | [`call`] | HTTP calls to clusters of the gateway |
//! | [`policy`] | the policy document, the route table, path normalisation, targets |
//! | [`key`] | the key's grammar, reading the header, the namespaced form |
//! | [`identity`] | tenant, project, subject; where they come from |
//! | [`provider`] | webhook providers: signatures, identifiers, raw keys |
//! | [`problem`] | problem documents |
//! | [`telemetry`] | log fields |
//! | [`metrics`] | counters and their series |
//! | [`headers`] | header lines, comparison of names |
//! | [`json`] | reading and writing JSON |
#![deny(unsafe_code)]

mod backend;
mod bytes;
pub mod call;
pub mod collision;
pub mod driver;
pub mod exchange;
pub mod headers;
pub mod host;
pub mod identity;
pub mod json;
pub mod key;
pub mod lookup;
pub mod metrics;
mod percent;
pub mod policy;
pub mod problem;
pub mod provider;
mod room;
pub mod telemetry;
mod time;
pub mod uuid;
mod waits;

pub use driver::{Driver, FilterAction, STALL_TICK_MS, SharedLookups};
pub use exchange::{Effect, Exchange, HeaderMapKind, RequestFlow, ResponseFlow};
pub use policy::{Policy, PolicyErrors};
pub use waits::Waits;
