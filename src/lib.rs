//! Edge idempotency: a proxy-wasm filter that validates, namespaces or refuses idempotency keys at the edge.

#[cfg(any(target_arch = "wasm32", feature = "check-proxy"))]
mod proxy;
