//! `Recorder`: keeps the answers of an API that knows nothing of keys (docs/backends.md).
//!
//! ```text
//! gateway -> front -> Restate -> handler -> API
//! ```
//!
//! Front and handler are one program. The front hands a request with a key to Restate under that key; Restate calls the handler once for
//! each key and keeps what it returns; the handler calls the API. A request without a key goes from the front to the API.

mod api;
mod config;
mod counters;
mod envelope;
mod front;
mod long_answers;
mod problem;
mod reply;
mod service;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use restate_sdk::prelude::*;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

pub use config::{OnUnknown, Upstream, read, written};

use api::Api;
use counters::Counters;
use front::Front;
use long_answers::LongAnswers;
use reply::{Body, full};
use service::{Recorder, options};

/// How long calls of other fronts, and answers for a Restate that is away, are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the recorder listens, and what it calls.
#[derive(Debug)]
pub struct Setup {
    /// The APIs by name.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Where the gateway calls it (HTTP/1.1, or HTTP/2 without TLS).
    pub listen: SocketAddr,
    /// Where Restate calls it (HTTP/2 without TLS).
    pub service: SocketAddr,
    /// Where it tells what it does: `/metrics` and `/upstreams`.
    pub status: SocketAddr,
    /// Restate's ingress, `http://HOST:PORT` for each node.
    pub restate: Vec<String>,
    /// How long Restate keeps answers.
    pub retention: Duration,
}

/// Serves until `ends` is there, and then until no call is under way. `listens` is called when it listens.
///
/// # Errors
/// If an address is taken, or Restate's is no URL.
pub async fn serve(
    setup: Setup,
    listens: impl AsyncFnOnce() -> Result<()>,
    ends: impl Future<Output = ()>,
) -> Result<()> {
    let apis: BTreeMap<_, _> = setup.upstreams.into_iter().map(|(name, upstream)| (name, Api::new(upstream))).collect();
    let (apis, counters) = (Arc::new(apis), Arc::new(Counters::new()));
    let long = LongAnswers::default();
    let front = Arc::new(Front::new(Arc::clone(&apis), long.clone(), &setup.restate)?);
    let [requests, calls, status] = [bind(setup.listen).await?, bind(setup.service).await?, bind(setup.status).await?];
    let (stop, stopped) = watch::channel(false);
    let front = tokio::spawn(serve_http(requests, stopped.clone(), move |request| {
        let front = Arc::clone(&front);
        async move { front.answer(request).await }
    }));
    let (told, names) = (Arc::clone(&counters), Arc::clone(&apis));
    tokio::spawn(serve_http(status, stopped.clone(), move |request| {
        let (told, names) = (Arc::clone(&told), Arc::clone(&names));
        async move { Ok(tell(&request, &told, &names).await) }
    }));
    let recorder = Recorder::new(Arc::clone(&apis), Arc::clone(&counters), long);
    let definition = recorder.into_service_definition().options(options(setup.retention, &apis));
    let endpoint = Endpoint::builder().bind(definition).build();
    let service = HttpServer::new(endpoint).serve_with_cancel(calls, std::future::pending::<()>());
    let service = tokio::spawn(service);
    listens().await?;
    ends.await;
    // First no new requests, then the calls that are under way: a call that is cut has an outcome that nobody knows.
    let _ = stop.send(true);
    let _ = front.await;
    let _ = timeout(PATIENCE, counters.idle()).await;
    service.abort();
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Serves HTTP/1.1 and HTTP/2 until it is stopped, and then the requests that are under way.
async fn serve_http<F, A>(listener: TcpListener, mut stopped: watch::Receiver<bool>, answer: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<Response<Body>, std::convert::Infallible>> + Send + 'static,
{
    let (server, graceful) = (auto::Builder::new(TokioExecutor::new()), GracefulShutdown::new());
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let _ = stream.set_nodelay(true);
        let connection =
            server.serve_connection_with_upgrades(TokioIo::new(stream), service_fn(answer.clone())).into_owned();
        tokio::spawn(graceful.watch(connection));
    }
    drop(listener);
    graceful.shutdown().await;
}

/// What operators and `check --live` ask.
async fn tell(request: &Request<Incoming>, counters: &Counters, apis: &BTreeMap<String, Api>) -> Response<Body> {
    let (status, text) = match request.uri().path() {
        "/metrics" => (200, counters.text()),
        "/upstreams" => {
            let mut upstreams = BTreeMap::new();
            for (name, api) in apis {
                let error = api.refusal().await;
                upstreams.insert(name, serde_json::json!({"url": api.upstream.url.to_string(), "error": error}));
            }
            (200, serde_json::json!(upstreams).to_string())
        }
        _ => (404, "there are /metrics and /upstreams\n".to_owned()),
    };
    let mut response = Response::new(full(Bytes::from(text)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}
