//! A stand-in for a generic backend that deduplicates by `Idempotency-Key`, with the duties of docs/backends.md: it runs each key once,
//! keeps the result, replays it with `Idempotent-Replayed: true`, and answers a duplicate in flight 409 with `Retry-After`. Under the
//! paths of Restate it answers as Restate does. It is no backend for anything but tests: it loses, cuts and delays what the request's
//! own body asks for ([`Schedule`]), and it keeps a record of every attempt.
//!
//! | request | what it is |
//! |---|---|
//! | `POST …/orders` | an intent |
//! | `GET …/orders/{intent}` | a poll for its result, at the `Location` of a 202 |
//! | `POST /restate/call/…`, `POST /restate/send/…` | an intent, at Restate |
//! | `GET /restate/attach/{id}` | a poll, at Restate |
//! | `POST /restate/output` | the filter's question whether a key is in flight |

mod answer;
mod breaking;
mod execution;
mod fault;
mod store;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

use answer::{AnswerForm, UpstreamAnswer};
use e2e::runner::runtime;
use e2e::wire::PATIENCE;
pub(crate) use fault::{EffectTime, Failure, Location, RetryAfter, Said, Schedule};
pub(crate) use store::{IntentRecord, RecordedAttempt};
use store::{IntentRequest, Reaction, Store};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// What the upstream knows of all intents, by their names.
pub(crate) type IntentRecords = BTreeMap<String, IntentRecord>;

/// A running upstream. It ends, with its connections, when this is dropped.
pub(crate) struct HostileUpstream {
    address: SocketAddr,
    refusing_address: SocketAddr,
    /// Bound and not listening, so that connections to it are refused.
    refusing: Mutex<Option<TcpSocket>>,
    state: Arc<UpstreamState>,
    accepting: Mutex<Vec<JoinHandle<()>>>,
}

struct UpstreamState {
    store: Mutex<Store>,
    changed: Condvar,
    origin: String,
}

impl UpstreamState {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostileUpstream {
    /// Listens on a free port, and holds another one that refuses connections.
    ///
    /// # Errors
    /// There is no free port.
    pub(crate) fn start() -> Result<Self> {
        let runtime = runtime()?;
        let _context = runtime.enter();
        let (listening, refusing) = (bound()?, bound()?);
        let (address, refusing_address) = (listening.local_addr()?, refusing.local_addr()?);
        let state =
            UpstreamState { store: Mutex::default(), changed: Condvar::new(), origin: format!("http://{address}") };
        let state = Arc::new(state);
        let accepting = runtime.spawn(accept(listening.listen(BACKLOG)?, Arc::clone(&state)));
        let (refusing, accepting) = (Mutex::new(Some(refusing)), Mutex::new(vec![accepting]));
        Ok(Self { address, refusing_address, refusing, state, accepting })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it refuses connections until [`HostileUpstream::stop_refusing`].
    pub(crate) const fn refusing_address(&self) -> SocketAddr {
        self.refusing_address
    }

    /// From now on it takes connections at [`HostileUpstream::refusing_address`], too.
    ///
    /// # Errors
    /// It takes them already.
    pub(crate) fn stop_refusing(&self) -> Result<()> {
        let runtime = runtime()?;
        let _context = runtime.enter();
        let socket = self.refusing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = socket.context("connections are not refused any more")?.listen(BACKLOG)?;
        let accepting = runtime.spawn(accept(listener, Arc::clone(&self.state)));
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner).push(accepting);
        Ok(())
    }

    /// What it knows of an intent; nothing if it has never seen one of this name.
    pub(crate) fn record(&self, intent: &str) -> IntentRecord {
        self.state.store().intents.get(intent).cloned().unwrap_or_default()
    }

    /// Waits until what it knows of the intents is so.
    ///
    /// # Errors
    /// It is not so within [`PATIENCE`].
    pub(crate) fn wait_until(&self, what: &str, so: impl Fn(&IntentRecords) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut store = self.state.store();
        while !so(&store.intents) {
            let rest = end.saturating_duration_since(Instant::now());
            ensure!(!rest.is_zero(), "not within {PATIENCE:?}: {what}");
            store = self.state.changed.wait_timeout(store, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

impl Drop for HostileUpstream {
    fn drop(&mut self) {
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(JoinHandle::abort);
    }
}

fn bound() -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).context("there is no free port")?;
    Ok(socket)
}

async fn accept(listener: TcpListener, state: Arc<UpstreamState>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(breaking::serve(stream, Arc::clone(&state)));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Reads a request, notes it and says what happens to it.
async fn react(request: Request<Incoming>, state: &UpstreamState) -> Result<Reaction> {
    let (head, body) = request.into_parts();
    // A request that breaks off is no attempt: the backend never got it.
    let body = body.collect().await.context("a request breaks off")?.to_bytes();
    let reaction = react_to(&head, &body, state);
    if let Err(error) = &reaction {
        // The tests see that an answer is missing; only this says why.
        eprintln!("the hostile upstream cannot take a request: {error:#}");
    }
    state.changed.notify_all();
    reaction
}

fn react_to(head: &Parts, body: &[u8], state: &UpstreamState) -> Result<Reaction> {
    let (method, path) = (&head.method, head.uri.path());
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let (key, number) = (text("idempotency-key"), text("x-retry-attempt").and_then(|number| number.parse().ok()));
    let mut store = state.store();
    let form = match path {
        _ if path.starts_with("/restate/send/") => AnswerForm::RestateSend,
        _ if path.starts_with("/restate/") => AnswerForm::RestateCall,
        _ => AnswerForm::Generic,
    };
    if *method == Method::GET {
        let (_, last) = path.rsplit_once('/').context("a path without a slash")?;
        let attempt = RecordedAttempt { is_poll: true, number, ..RecordedAttempt::new(key, body) };
        let request_id = text("x-request-id").map(str::to_owned);
        if form == AnswerForm::Generic {
            return store.poll(last, attempt, request_id, form);
        }
        let known = store.key_of(last).and_then(|key| store.intent_of(key)).map(str::to_owned);
        return store.poll(&known.context("an unknown invocation")?, attempt, request_id, form);
    }
    if path == "/restate/output" {
        let question: serde_json::Value = serde_json::from_slice(body).context("a question is JSON")?;
        let key = question.get("idempotencyKey").and_then(|key| key.as_str()).context("a question without a key")?;
        let is_in_flight = store.asked_in_flight(key)?;
        return Ok(Reaction::Answers(UpstreamAnswer::about_flight(is_in_flight)));
    }
    if *method != Method::POST {
        bail!("{method} {path} is no request of these tests");
    }
    let key = key.context("an intent without a key")?;
    store.send(IntentRequest { key, number, body, form, results: path, other_origin: &state.origin })
}

impl UpstreamAnswer {
    fn response(self) -> Result<Response<Full<Bytes>>> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        Ok(response.body(Full::from(self.body))?)
    }
}
