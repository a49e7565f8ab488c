//! The engine of Edge Idempotency: it validates a caller's idempotency key, adds the caller's namespace to it and
//! forwards the request, or refuses the request with a problem document. All decisions are here; the gateway is behind
//! the trait [`host::Host`].
//!
//! At start: bytes of configuration → [`policy::document`] → [`Policy`]. Per request: request head → [`Exchange`] →
//! [`Effect`]s → [`Driver`] → the host.
//!
//! | module | subject |
//! |---|---|
//! | [`key`] | the key's grammar, reading the header, the namespaced form |
//! | [`identity`] | tenant, project, subject; where they come from |
//! | [`policy`] | the policy document, the route table, path normalisation, targets |
//! | [`exchange`] | one request and its response as a state machine |
//! | [`lookup`] | bindings and secrets from stores: caches, calls, waiting requests |
//! | [`problem`] | problem documents |
//! | [`provider`] | webhook providers: signatures, identifiers, raw keys |
//! | [`telemetry`] | log fields |
//! | [`headers`] | header lines, comparison of names |
//! | [`json`] | reading and writing JSON |
#![deny(unsafe_code)]

mod bytes;
pub mod call;
pub mod driver;
pub mod exchange;
pub mod headers;
pub mod host;
pub mod identity;
pub mod json;
pub mod key;
pub mod lookup;
mod percent;
pub mod policy;
pub mod problem;
pub mod provider;
pub mod telemetry;
mod time;

pub use driver::{Driver, FilterAction, SharedLookups};
pub use exchange::{Effect, Exchange, HeaderMapKind, RequestFlow, ResponseFlow};
pub use policy::{Policy, PolicyErrors};
