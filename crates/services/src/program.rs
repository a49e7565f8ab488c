//! What the programs have in common.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use restate_sdk::prelude::*;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

/// How long Restate's admin interface may take to be there.
const ADMIN: Duration = Duration::from_secs(60);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(250);

/// Serves an endpoint until the program is told to end. `about` is printed when it listens.
pub async fn serve(endpoint: Endpoint, listen: SocketAddr, about: impl FnOnce(SocketAddr) -> String) -> Result<()> {
    let ends = terminated()?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    println!("{}", about(address));
    register(None, &format!("http://{address}")).await?;
    tokio::select! {
        () = HttpServer::new(endpoint).serve_with_cancel(listener, pending::<()>()) => {}
        () = ends => {}
    }
    Ok(())
}

/// Is there when the program is told to end.
pub fn terminated() -> Result<impl Future<Output = ()>> {
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    })
}

/// Registers an endpoint with Restate's admin interface, or says how.
pub async fn register(admin: Option<&str>, endpoint: &str) -> Result<()> {
    let deployment = format!(r#"{{"uri": "{endpoint}", "force": true}}"#);
    let Some(admin) = admin else {
        println!("Register it with Restate's admin interface, once and after each change of its options:");
        println!(
            "  curl -sf http://RESTATE_ADMIN:9070/deployments -H 'content-type: application/json' -d '{deployment}'"
        );
        return Ok(());
    };
    let (url, give_up) = (format!("{}/deployments", admin.trim_end_matches('/')), Instant::now() + ADMIN);
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    loop {
        let request = Request::post(&url).header("content-type", "application/json");
        let request = request.body(Full::from(deployment.clone())).with_context(|| format!("`{admin}` is no URL"))?;
        let failed = match client.request(request).await {
            Ok(response) if response.status().is_success() => break,
            Ok(response) => {
                let status = response.status();
                let why = response.into_body().collect().await?.to_bytes();
                format!("{status}: {}", String::from_utf8_lossy(&why))
            }
            Err(error) => error.to_string(),
        };
        if Instant::now() > give_up {
            bail!("{url} does not register {endpoint}: {failed}");
        }
        sleep(BETWEEN_ATTEMPTS).await;
    }
    println!("Restate at {admin} knows {endpoint}");
    Ok(())
}
