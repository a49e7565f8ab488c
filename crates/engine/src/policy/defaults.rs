//! What holds where a document is silent, and what its numbers mean for a gateway: for the reader here, and for the command, which
//! configures and checks gateways.

pub use crate::backend::restate::RETENTION_S;

/// The default of a route's `max_body_bytes`, and the longest body of an answer that is read, in bytes.
pub const MAX_BODY_BYTES: u64 = 1 << 20;

/// How much more than `max_body_bytes` a gateway has to buffer, in bytes (docs/contract.md section 5).
pub const BUFFER_MARGIN: u64 = 64 << 10;

/// The default of `recovery_wait_ms`, in milliseconds.
pub const WAIT_MS: u64 = 30_000;

/// The default of `backend.guard.service`.
pub const GUARD: &str = "IdempotencyGuard";

/// How much longer than a result the guard has to keep its claim, in seconds. Restate removes what has expired once an hour
/// (`worker.cleanup-interval`), so a result can live up to an hour beyond its retention. Twice this time covers a longer interval and
/// clocks that differ.
pub const CLEANUP_S: u64 = 2 * 3_600;
