//! Restate services that the filter calls. They are ordinary services: a deployment of one's own can host them beside its own
//! services, or the program `idempotency-guard` runs them (`docs/guard.md`).
//!
//! ```no_run
//! # async fn example() {
//! use edge_idempotency_services::guard::{IdempotencyGuard, RETENTION, options};
//! use restate_sdk::prelude::*;
//!
//! let endpoint = Endpoint::builder().bind(IdempotencyGuard.into_service_definition().options(options(RETENTION))).build();
//! HttpServer::new(endpoint).listen_and_serve("127.0.0.1:9080".parse().unwrap()).await;
//! # }
//! ```

pub mod guard;
