//! What the programs have in common.

use std::future::pending;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use restate_sdk::prelude::*;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Serves an endpoint until the program is told to end. `about` is printed when it listens.
pub async fn serve(endpoint: Endpoint, listen: SocketAddr, about: impl FnOnce(SocketAddr) -> String) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    println!("{}", about(address));
    println!("Register it with Restate's admin interface, once and after each change of its options:");
    println!(
        "  curl -sf http://RESTATE_ADMIN:9070/deployments -H 'content-type: application/json' \
         -d '{{\"uri\": \"http://{address}\", \"force\": true}}'"
    );
    tokio::select! {
        () = HttpServer::new(endpoint).serve_with_cancel(listener, pending::<()>()) => {}
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}
