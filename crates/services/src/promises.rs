//! `Promises`: a handler waits for a third party, whose webhook knows only the third party's own id (docs/restate.md).
//!
//! `Promises` is a virtual object by the key `{tenant}:{project}:…`, where the rest names what is waited for. A handler makes an
//! awakeable and registers it with `await`; `resolve` and `reject` complete it. What comes before anybody waits is kept. [`machine`]
//! decides, without Restate; [`service`] carries it out. `PromiseIds` leads from a promise's id to its key.

use std::time::Duration;

use restate_sdk::prelude::*;

use crate::RetryForever as _;
use service::{PromiseIds, Promises};

mod id;
mod machine;
mod payload;
mod service;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest payload in bytes, as it is kept.
    pub payload_bytes: usize,
    /// How long a promise lives if `await` does not say.
    pub ttl: Duration,
    /// The longest time to live that `await` may ask for.
    pub max_ttl: Duration,
    /// How long a completion is kept that comes before anybody waits.
    pub keep: Duration,
    /// How long Restate keeps the answers to deliveries and calls with a key: at least as long as senders repeat a delivery, so that a
    /// late repetition does not count as a new completion.
    pub retention: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload_bytes: 256 * 1024, ttl: DAY, max_ttl: 30 * DAY, keep: DAY, retention: 7 * DAY }
    }
}

/// Adds both services to an endpoint.
pub fn bind(endpoint: restate_sdk::endpoint::Builder, limits: Limits) -> restate_sdk::endpoint::Builder {
    let options = || ServiceOptions::new().idempotency_retention(limits.retention).retry_forever();
    let private = || HandlerOptions::new().ingress_private(true);
    // Restate keeps the answers to calls without a key, too, and nobody asks for these again.
    let get = HandlerOptions::new().idempotency_retention(Duration::ZERO);
    // Whoever could call these could wait for another tenant's webhooks, or end a promise before its time.
    let promises = options()
        .handler("await", private())
        .handler("complete", private())
        .handler("expire", private())
        .handler("get", get);
    endpoint
        .bind(Promises { limits }.into_service_definition().options(promises))
        .bind(PromiseIds { limits }.into_service_definition().options(options()))
}
