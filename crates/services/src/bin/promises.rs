//! Serves `Promises` and `PromiseIds` alone, to be registered with Restate as a deployment of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use edge_idempotency_services::program::serve;
use edge_idempotency_services::promises::{Limits, bind};
use restate_sdk::prelude::*;

/// The Restate services by which a handler waits for a third party's webhook.
///
/// Restate calls them; clients must not reach them. docs/restate.md says how to deploy them.
#[derive(Parser)]
#[command(name = "promises", version)]
struct Options {
    /// Where Restate calls the services (HTTP/2 without TLS).
    #[arg(long, default_value = "127.0.0.1:9091")]
    listen: SocketAddr,
    /// How long a promise lives if the handler that waits does not say.
    #[arg(long, default_value = "24h", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// The longest time to live that a handler may ask for.
    #[arg(long, default_value = "30d", value_parser = humantime::parse_duration)]
    max_ttl: Duration,
    /// How long a completion is kept that comes before anybody waits.
    #[arg(long, default_value = "24h", value_parser = humantime::parse_duration)]
    keep: Duration,
    /// The largest payload in bytes, at most 8388608.
    #[arg(long, default_value_t = Limits::default().payload_bytes)]
    max_payload: usize,
    /// How long Restate keeps the answers to deliveries: at least as long as senders repeat them.
    #[arg(long, default_value = "7d", value_parser = humantime::parse_duration)]
    retention: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Options { listen, ttl, max_ttl, keep, max_payload, retention } = Options::parse();
    let second = Duration::from_secs(1);
    ensure!(ttl >= second && ttl <= max_ttl, "--ttl has to be between 1s and --max-ttl");
    ensure!(keep >= second, "--keep has to be 1s or more");
    ensure!((1..=8 << 20).contains(&max_payload), "--max-payload has to be between 1 and 8388608");
    let limits = Limits { payload_bytes: max_payload, ttl, max_ttl, keep, retention };
    let about = |address| format!("Promises and PromiseIds listen on {address}");
    serve(bind(Endpoint::builder(), limits).build(), listen, about).await
}
