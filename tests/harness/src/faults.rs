//! An HTTP/1.1 server that counts what it is asked, and fails in the way it is told: in front of a real store, or with the
//! answers of a stand-in.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::http::{Reply, Request};

/// What a reply of [`Fault::Huge`] holds: more than any gateway buffers.
pub const HUGE: usize = 40 << 20;

/// In which way the server fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The genuine answer, so much later.
    Slow(Duration),
    /// The genuine answer, once the fault is another one or over.
    Held,
    /// This status, with a body in the manner of neither store.
    Status(u16),
    /// 200 with a body that is no JSON.
    Garbage,
    /// 200 with a whole message, in which the genuine JSON ends in the middle.
    HalfJson,
    /// The genuine head, half the body, and the connection is closed.
    Cut,
    /// 200 with [`HUGE`] bytes.
    Huge,
    /// 200 without a body.
    NoBody,
    /// The connection is closed without an answer.
    Closed,
    /// This answer: what a store might say that is not here to say it.
    Says(u16, Vec<(String, String)>, String),
}

type Answering = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;
type Answer = dyn Fn(Request) -> Answering + Send + Sync;
/// The name that a request is counted under.
type Label = fn(&Request) -> String;

struct State {
    answer: Box<Answer>,
    label: Label,
    fault: watch::Sender<Option<Fault>>,
    counts: Mutex<BTreeMap<String, u64>>,
    last: Mutex<Option<Request>>,
}

/// A running server. It ends, with its connections, when this is dropped.
pub struct FaultyServer {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl fmt::Debug for FaultyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FaultyServer {
    /// Listens on `address`, whose port may be 0. `answer` gives the genuine answer; if it fails, the connection is closed.
    /// `label` names what a request asks for.
    pub async fn start<F>(
        address: SocketAddr,
        label: Label,
        answer: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = Result<Reply>> + Send + 'static,
    {
        let listener = listen(address).with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            answer: Box::new(move |request| Box::pin(answer(request))),
            label,
            fault: watch::Sender::new(None),
            counts: Mutex::default(),
            last: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, accepting })
    }

    /// One that hands everything on to `url`, as it came.
    pub async fn before(url: &str) -> Result<Self> {
        let url = url.to_owned();
        let label = |request: &Request| format!("{} {}", request.method, request.path);
        Self::start(SocketAddr::from(([127, 0, 0, 1], 0)), label, move |request| {
            let url = url.clone();
            async move { request.send(&url).await }
        })
        .await
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it fails from now on; requests under way end as they began.
    pub fn fail(&self, fault: Fault) {
        self.state.fault.send_replace(Some(fault));
    }

    /// It does not fail from now on.
    pub fn recover(&self) {
        self.state.fault.send_replace(None);
    }

    /// How often each thing was asked for since this was last forgotten, failing or not.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.state.counts).clone()
    }

    /// How many requests there were in all.
    pub fn total(&self) -> u64 {
        lock(&self.state.counts).values().sum()
    }

    /// Counts from zero again.
    pub fn forget(&self) {
        lock(&self.state.counts).clear();
    }

    /// The last request.
    pub fn last(&self) -> Option<Request> {
        lock(&self.state.last).clone()
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hundreds of connections come at once where a test asks for as many lookups: the kernel drops what the queue has no room for.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, Arc::clone(&state)));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { reply(request, &state).await }
    });
    // A broken connection is what some faults are.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// An error closes the connection without an answer.
async fn reply(request: hyper::Request<Incoming>, state: &State) -> Result<hyper::Response<Payload>> {
    let request = received(request).await?;
    *lock(&state.counts).entry((state.label)(&request)).or_default() += 1;
    *lock(&state.last) = Some(request.clone());
    let mut changes = state.fault.subscribe();
    let fault = changes.borrow_and_update().clone();
    let told = |status, body: Vec<u8>| Ok(Reply { status, headers: Vec::new(), body });
    let reply = match fault {
        None => (state.answer)(request).await,
        Some(Fault::Slow(time)) => {
            tokio::time::sleep(time).await;
            (state.answer)(request).await
        }
        Some(Fault::Held) => {
            // An error means that the server has gone, and this task with it.
            let _ = changes.wait_for(|fault| *fault != Some(Fault::Held)).await;
            (state.answer)(request).await
        }
        Some(Fault::Status(status)) => told(status, b"out of order\n".to_vec()),
        Some(Fault::Garbage) => told(200, b"\xff\x00<html>no JSON at all</html>".to_vec()),
        Some(Fault::HalfJson) => {
            let whole = (state.answer)(request).await?;
            told(200, half(&whole.body).to_vec())
        }
        Some(Fault::Cut) => return (state.answer)(request).await.and_then(cut),
        Some(Fault::Huge) => told(200, vec![b' '; HUGE]),
        Some(Fault::NoBody) => told(200, Vec::new()),
        Some(Fault::Closed) => bail!("closed on purpose"),
        Some(Fault::Says(status, headers, body)) => {
            let headers = headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
            Ok(Reply { status, headers, body: body.into_bytes() })
        }
    }?;
    response(reply)
}

async fn received(request: hyper::Request<Incoming>) -> Result<Request> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut received = Request::new(head.method.as_str(), path);
    for (name, value) in &head.headers {
        if !is_framing(name.as_str()) {
            received = received.header(name.as_str(), value.as_bytes());
        }
    }
    Ok(received.body(body.collect().await.context("a request that breaks off")?.to_bytes()))
}

/// What belongs to one connection, and not to the message.
fn is_framing(name: &str) -> bool {
    matches!(name, "host" | "connection" | "content-length" | "transfer-encoding" | "keep-alive")
}

fn response(reply: Reply) -> Result<hyper::Response<Payload>> {
    let mut response = hyper::Response::builder().status(reply.status);
    for (name, value) in reply.headers.iter().filter(|(name, _)| !is_framing(name)) {
        response = response.header(name.as_str(), value.as_slice());
    }
    Ok(response.body(Payload { rest: Some(Bytes::from(reply.body)), missing: 0 })?)
}

fn half(body: &[u8]) -> &[u8] {
    body.get(..body.len() / 2).unwrap_or_default()
}

/// The reply with half its body; its length says that more is coming.
fn cut(mut reply: Reply) -> Result<hyper::Response<Payload>> {
    let whole = reply.body.len();
    reply.body.truncate(whole / 2);
    let mut response = response(reply)?;
    response.body_mut().missing = whole - whole / 2;
    Ok(response)
}

/// A body, and how much of it never comes.
struct Payload {
    rest: Option<Bytes>,
    missing: usize,
}

impl Body for Payload {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(match self.rest.take() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.missing > 0 => Some(Err(std::io::Error::other("the rest is kept back on purpose"))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.missing == 0 && self.rest.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, Bytes::len) + self.missing;
        SizeHint::with_exact(rest as u64)
    }
}
