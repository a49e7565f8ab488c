//! The sample service behind the gateway: twelve Restate services, and a plain HTTP side port that tells what they did.
//!
//! It also hosts `IdempotencyGuard` and `Promises`, as `docs/backends.md` and `docs/restate.md` have it, and the demo's registry of
//! webhooks: a stand-in for Unkey that knows those of the story.
//!
//! Side port: `GET /health`, `GET /effects` (effects per id), `GET /calls?after=N` (handler runs and what they saw), and a stand-in for
//! a payment provider, `POST /charges`.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use edge_idempotency_services::guard::{self, IdempotencyGuard};
use edge_idempotency_services::promises::{Limits, bind as bind_promises};
use harness::senders::{LOOKED_UP, LookedUp};
use harness::unkey::{Binding, Unkey};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use restate_sdk::prelude::*;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::accounts::{Accounts, Deposits};
use crate::handlers::{Cart, Conversations, Inbox, Notifications, Projects, Refunds, Reports, Webhooks, options};
use crate::ledger::{Charged, Ledger};
use crate::payments::{CHARGES, Charges, LOSE_ANSWERS};
use crate::purchases::Purchases;
use crate::signups::Signups;

mod accounts;
mod handlers;
mod ledger;
mod payments;
#[path = "../../../../examples/promises/rust/src/promises.rs"]
mod promises;
mod purchases;
mod signups;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The sample Restate service of the demo.
#[derive(Parser)]
struct Options {
    /// Where Restate calls the handlers.
    #[arg(long, default_value = "127.0.0.1:9080")]
    listen: SocketAddr,
    /// Where the ledger can be read.
    #[arg(long, default_value = "127.0.0.1:9081")]
    side: SocketAddr,
    /// Where the stand-in for Unkey listens, if there is to be one; DEMO_REGISTRY_ROOT_KEY is its root key.
    #[arg(long)]
    registry: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let ledger = Arc::new(Ledger::default());
    let handlers = bind(options.listen).await?;
    let side = bind(options.side).await?;
    let _registry = match options.registry {
        Some(address) => Some(registry(address, &std::env::var("DEMO_REGISTRY_ROOT_KEY")?).await?),
        None => None,
    };
    println!("ready: handlers on {}, ledger on {}", handlers.local_addr()?, side.local_addr()?);

    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        () = HttpServer::new(endpoint(&ledger, format!("http://{}", side.local_addr()?))).serve_with_cancel(handlers, pending::<()>()) => {}
        () = serve_side_port(side, ledger) => {}
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// The registry, with the webhooks that are looked up.
async fn registry(address: SocketAddr, root_key: &str) -> Result<Unkey> {
    let registry = Unkey::start(address, root_key).await?;
    for LookedUp { webhook_id, tenant, project, provider } in LOOKED_UP {
        registry.bind(webhook_id, &Binding::new(tenant, project, provider));
    }
    Ok(registry)
}

/// Every service with its retention: a day where a person waits, a week where money moves. The guard keeps fingerprints for longer
/// than any of them keeps results.
fn endpoint(ledger: &Arc<Ledger>, provider: String) -> Endpoint {
    let payments = Charges { ledger: ledger.clone(), provider };
    let endpoint = Endpoint::builder()
        .bind(Conversations(ledger.clone()).into_service_definition().options(options(DAY)))
        .bind(Refunds(ledger.clone()).into_service_definition().options(options(7 * DAY)))
        .bind(Inbox(ledger.clone()).into_service_definition().options(options(7 * DAY)))
        .bind(Cart(ledger.clone()).into_service_definition().options(options(7 * DAY)))
        .bind(Notifications(ledger.clone()).into_service_definition().options(options(DAY)))
        .bind(Webhooks(ledger.clone()).into_service_definition().options(options(7 * DAY)))
        .bind(Reports(ledger.clone()).into_service_definition().options(options(7 * DAY)))
        .bind(Projects(ledger.clone()).into_service_definition().options(options(DAY)))
        .bind(Accounts.into_service_definition().options(options(7 * DAY)))
        .bind(Deposits.into_service_definition().options(options(7 * DAY)))
        .bind(Signups.into_service_definition())
        .bind(Purchases(ledger.clone()).into_service_definition().options(options(7 * DAY)))
        .bind(payments.into_service_definition().options(options(7 * DAY)))
        .bind(IdempotencyGuard.into_service_definition().options(guard::options(8 * DAY)));
    bind_promises(endpoint, Limits::default()).build()
}

async fn serve_side_port(listener: TcpListener, ledger: Arc<Ledger>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let ledger = ledger.clone();
                async move { Ok::<_, Infallible>(answer(request, &ledger).await) }
            });
            // A reader that goes away early is no concern of the service.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, ledger: &Ledger) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => json_response(200, &"ok"),
        (&Method::GET, "/effects") => json_response(200, &ledger.effects()),
        (&Method::GET, "/calls") => match after(request.uri().query()) {
            Some(after) => json_response(200, &ledger.calls(after)),
            None => json_response(400, &"the query is ?after=NUMBER"),
        },
        (&Method::POST, CHARGES) => charge(request, ledger).await,
        _ => json_response(404, &"there is /health, /effects, /calls?after=NUMBER and /charges"),
    }
}

/// What the stand-in for a payment provider answers: it charges once for each token, and gives a repetition the stored charge.
async fn charge(request: Request<Incoming>, ledger: &Ledger) -> Response<Full<Bytes>> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (token, lost) = (header("idempotency-key"), header(LOSE_ANSWERS));
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let order = serde_json::from_slice::<serde_json::Value>(&body).ok();
    let Some((token, order)) = token.zip(order.as_ref().and_then(|order| order.get("order")?.as_str())) else {
        return json_response(400, &"a charge needs an Idempotency-Key and an order");
    };
    let Charged { number, attempts } = ledger.charge(&token, order);
    if lost.and_then(|lost| lost.parse().ok()).is_some_and(|lost: u64| attempts <= lost) {
        return json_response(502, &"the answer got lost");
    }
    json_response(200, &format!("ch_{number}"))
}

fn after(query: Option<&str>) -> Option<usize> {
    match query {
        None => Some(0),
        Some(query) => query.strip_prefix("after=")?.parse().ok(),
    }
}

fn json_response(status: u16, body: &impl Serialize) -> Response<Full<Bytes>> {
    let (status, body) = match serde_json::to_vec(body) {
        Ok(body) => (status, body),
        Err(error) => (500, error.to_string().into_bytes()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_of_calls() {
        assert_eq!(after(None), Some(0));
        assert_eq!(after(Some("after=12")), Some(12));
        assert_eq!(after(Some("after=x")), None);
        assert_eq!(after(Some("since=1")), None);
    }
}
