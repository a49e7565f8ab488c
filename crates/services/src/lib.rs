//! Restate services that the filter calls, or that webhooks reach through it. They are ordinary services: a deployment of one's own can
//! host them beside its own services, or the programs `idempotency-guard` (`docs/backends.md`) and `promises` (`docs/restate.md`) run them.
//!
//! ```no_run
//! # async fn example() {
//! use edge_idempotency_services::guard::{IdempotencyGuard, RETENTION, options};
//! use edge_idempotency_services::promises::{self, Limits};
//! use restate_sdk::prelude::*;
//!
//! let endpoint = Endpoint::builder().bind(IdempotencyGuard.into_service_definition().options(options(RETENTION)));
//! let endpoint = promises::bind(endpoint, Limits::default()).build();
//! HttpServer::new(endpoint).listen_and_serve("127.0.0.1:9080".parse().unwrap()).await;
//! # }
//! ```

use std::time::Duration;

use restate_sdk::prelude::*;

pub mod guard;
pub mod program;
pub mod promises;
pub mod recorder;

/// How often a call that found no running service is tried again before Restate pauses it: for a year and longer, because a paused
/// call would need an operator. Restate's default is 70 attempts, about an hour.
const ATTEMPTS: u64 = 10_000_000;
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(5);
/// How long a call may stand still before it is begun anew, with another program if there are several. It takes microseconds.
const STALLED: Duration = Duration::from_secs(5);

/// What Restate has to know about all services here.
trait RetryForever {
    /// It never gives up on a call, begins one that stands still anew, and keeps no steps of a finished one, at which nobody looks.
    fn retry_forever(self) -> Self;
}

impl RetryForever for ServiceOptions {
    fn retry_forever(self) -> Self {
        self.journal_retention(Duration::ZERO)
            .inactivity_timeout(STALLED)
            .abort_timeout(STALLED)
            .retry_policy_initial_interval(FIRST_RETRY)
            .retry_policy_exponentiation_factor(2.0)
            .retry_policy_max_interval(LAST_RETRY)
            .retry_policy_max_attempts(ATTEMPTS)
            .retry_policy_pause_on_max_attempts()
    }
}
