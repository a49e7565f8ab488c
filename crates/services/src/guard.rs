//! `IdempotencyGuard`: remembers the first request that was made with a key (docs/contract.md section 6, "Collision").
//!
//! The filter calls `claim` with the fingerprint of a request, under an idempotency key that it derives from the request's own.
//! The handler returns its input. So Restate's own idempotency returns the fingerprint of the *first* request to every later one,
//! as long as it keeps the result. The service has no state of its own, and logs nothing.

use std::time::Duration;

use restate_sdk::prelude::*;

use crate::RetryForever as _;

/// How long a fingerprint is kept if the operator does not say: two hours, which are two intervals of Restate's cleaner, longer than the
/// longest retention that the documentation recommends for results (7 days).
pub const RETENTION: Duration = Duration::from_secs(170 * 60 * 60);

/// The longest fingerprint in bytes. The filter's are shorter than 100; anything longer does not come from it.
pub const MAX_FINGERPRINT_BYTES: usize = 256;

/// The service. It is bound with [`options`].
#[derive(Clone, Copy, Debug, Default)]
pub struct IdempotencyGuard;

/// What Restate has to know about the service: the retention of fingerprints, that it never gives up on a
/// claim, and that a claim that stands still is begun anew.
pub fn options(retention: Duration) -> ServiceOptions {
    ServiceOptions::new().idempotency_retention(retention).retry_forever()
}

#[restate_sdk::service(client_visibility = "pub(crate)")]
impl IdempotencyGuard {
    /// Takes the fingerprint of a request as a JSON string of at most [`MAX_FINGERPRINT_BYTES`] bytes, and returns it unchanged.
    /// A longer one is refused with 413, which Restate keeps like any other result.
    #[handler]
    async fn claim(&self, _ctx: Context<'_>, Json(fingerprint): Json<String>) -> HandlerResult<Json<String>> {
        if fingerprint.len() > MAX_FINGERPRINT_BYTES {
            let message = format!("a fingerprint has at most {MAX_FINGERPRINT_BYTES} bytes");
            return Err(TerminalError::new_with_code(413, message).into());
        }
        Ok(Json(fingerprint))
    }
}
