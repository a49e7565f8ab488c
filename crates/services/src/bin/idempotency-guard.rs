//! Serves `IdempotencyGuard` alone, to be registered with Restate as a deployment of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use edge_idempotency_services::guard::{IdempotencyGuard, options};
use edge_idempotency_services::program::serve;
use restate_sdk::prelude::*;

/// The Restate service that remembers the first request that was made with an idempotency key.
///
/// Restate calls it; clients must not reach it. docs/backends.md says how to deploy it.
#[derive(Parser)]
#[command(name = "idempotency-guard", version)]
struct Options {
    /// Where Restate calls the service (HTTP/2 without TLS).
    #[arg(long, default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// How long Restate keeps a fingerprint: at least two hours longer than it keeps the results of the routes that use the guard.
    /// The policy document repeats it as `backend.guard.retention`.
    #[arg(long, default_value = "170h", value_parser = humantime::parse_duration)]
    retention: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Options { listen, retention } = Options::parse();
    let guard = IdempotencyGuard.into_service_definition().options(options(retention));
    let retention = humantime::format_duration(retention);
    let about = |address| format!("IdempotencyGuard listens on {address}; retention {retention}");
    serve(Endpoint::builder().bind(guard).build(), listen, about).await
}
