//! Serves `IdempotencyGuard` alone, to be registered with Restate as a deployment of its own.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use edge_idempotency_services::guard::{IdempotencyGuard, options};
use restate_sdk::prelude::*;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The Restate service that remembers the first request that was made with an idempotency key.
///
/// Restate calls it; clients must not reach it. docs/guard.md says how to deploy it.
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
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    println!("IdempotencyGuard listens on {address}; retention {}", humantime::format_duration(retention));
    println!("Register it with Restate's admin interface, once and after each change of the retention:");
    println!(
        "  curl -sf http://RESTATE_ADMIN:9070/deployments -H 'content-type: application/json' \
         -d '{{\"uri\": \"http://{address}\", \"force\": true}}'"
    );
    let guard = IdempotencyGuard.into_service_definition().options(options(retention));
    let server = HttpServer::new(Endpoint::builder().bind(guard).build());
    tokio::select! {
        () = server.serve_with_cancel(listener, pending::<()>()) => {}
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}
