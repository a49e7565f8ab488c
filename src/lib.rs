//! Edge idempotency: a proxy-wasm filter that validates, namespaces or refuses idempotency keys at the edge.

#[cfg(any(target_arch = "wasm32", feature = "check-proxy"))]
mod proxy;

pub mod headers;
pub mod identity;
pub mod key;
pub mod policy;
