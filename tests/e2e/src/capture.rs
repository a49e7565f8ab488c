//! An upstream that keeps every request exactly as it came, and answers as it is told; or that keeps none, and answers each by what is
//! in it. The filter's own questions about invocations, and its claims at the guard, it answers as Restate would, and does not keep them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use testkit::stores::restate_reply;

use crate::wire::{HeaderLine, Kind, Message, Reader};

/// What the upstream says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Header lines, without a `content-length`. With `transfer-encoding: chunked`, and with trailers, the body comes in chunks.
    pub headers: Vec<HeaderLine>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer lines.
    pub trailers: Vec<HeaderLine>,
}

impl Default for Answer {
    /// `200` with a little JSON.
    fn default() -> Self {
        let json = ("content-type".to_owned(), b"application/json".to_vec());
        Self { status: 200, headers: vec![json], body: b"{\"ok\":true}".to_vec(), trailers: Vec::new() }
    }
}

/// The longest chunk of an answer, in bytes.
const CHUNK: usize = 10_007;

/// Answers a request by what is in it.
type Answering = Box<dyn Fn(&Message) -> Answer + Send + Sync>;

#[derive(Default)]
struct State {
    requests: Mutex<Vec<Message>>,
    answer: Mutex<Answer>,
    answering: Option<Answering>,
    claims: Mutex<Claims>,
    released: Condvar,
    stopped: AtomicBool,
}

/// The filter's claims at the guard.
#[derive(Default)]
struct Claims {
    /// Whether their answers are withheld.
    held: bool,
    /// How many wait for their answers.
    waiting: usize,
}

/// Withholds the answers to claims until it is dropped.
pub struct HeldClaims<'a>(&'a State);

impl HeldClaims<'_> {
    /// How many claims wait for their answers.
    pub fn waiting(&self) -> usize {
        lock(&self.0.claims).waiting
    }
}

impl Drop for HeldClaims<'_> {
    fn drop(&mut self) {
        lock(&self.0.claims).held = false;
        self.0.released.notify_all();
    }
}

/// A running upstream. A request is in its list before its answer is sent: who has the answer finds the request.
pub struct Capture {
    address: SocketAddr,
    state: Arc<State>,
}

impl Capture {
    /// Listens on a free port.
    pub fn start() -> Result<Self> {
        Self::start_with(State::default())
    }

    /// Listens on a free port, and answers each request by what is in it: several may come at once. It keeps none.
    pub fn answering(answering: impl Fn(&Message) -> Answer + Send + Sync + 'static) -> Result<Self> {
        Self::start_with(State { answering: Some(Box::new(answering)), ..State::default() })
    }

    fn start_with(state: State) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
        let address = listener.local_addr()?;
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &shared));
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it says from now on.
    pub fn answer(&self, answer: Answer) {
        *lock(&self.state.answer) = answer;
    }

    /// From now on claims at the guard wait for their answers.
    pub fn hold_claims(&self) -> HeldClaims<'_> {
        lock(&self.state.claims).held = true;
        HeldClaims(&self.state)
    }

    /// The requests that came since this was last asked, oldest first.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut lock(&self.state.requests))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        // Only so that the listener wakes and sees it.
        drop(TcpStream::connect(self.address));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    while let Ok((stream, _)) = listener.accept() {
        if state.stopped.load(Ordering::Relaxed) {
            return;
        }
        let state = Arc::clone(state);
        // A connection that breaks shows as a missing or a failed answer in the test that used it.
        thread::spawn(move || drop(serve(stream, &state)));
    }
}

fn serve(stream: TcpStream, state: &State) -> Result<()> {
    let mut connection = Reader::patient(stream)?;
    while let Some(mut request) = connection.head()? {
        connection.body(&mut request, Kind::Request)?;
        let without_body = request.start.starts_with(b"HEAD ");
        let answer = if let Some(answering) = &state.answering {
            answering(&request)
        } else if let Some(answer) = restate_answer(&request) {
            if is_claim(&request) {
                wait_for_release(state);
            }
            answer
        } else {
            lock(&state.requests).push(request);
            lock(&state.answer).clone()
        };
        send(&mut connection, &answer, without_body)?;
    }
    Ok(())
}

/// What a key has in it whose request Restate says to be under way.
pub const UNDER_WAY: &str = "under-way";

fn is_claim(request: &Message) -> bool {
    request.start.starts_with(b"POST /restate/call/IdempotencyGuard/claim ")
}

/// What Restate answers to the filter's own questions, and to its claims; `None` for other requests. Each claim is the first under its key,
/// so that its answer is what it says itself.
pub fn restate_answer(request: &Message) -> Option<Answer> {
    if is_claim(request) {
        return Some(Answer { body: request.body.clone(), ..Answer::default() });
    }
    let is_asked = |path: &&str| request.start.starts_with(format!("POST {path} ").as_bytes());
    let path = ["/restate/lookup", "/restate/output"].into_iter().find(is_asked)?;
    let is_under_way = request.body.windows(UNDER_WAY.len()).any(|part| part == UNDER_WAY.as_bytes());
    if path == "/restate/output" && is_under_way {
        let body = br#"{"code":470,"message":"the invocation exists but has not completed yet","source":"ingress"}"#;
        return Some(Answer { status: 470, body: body.to_vec(), ..Answer::default() });
    }
    let (status, body) = restate_reply(path, &request.body);
    Some(Answer { status, body, ..Answer::default() })
}

fn wait_for_release(state: &State) {
    let mut claims = lock(&state.claims);
    claims.waiting += 1;
    let released = state.released.wait_while(claims, |claims| claims.held);
    released.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
}

fn send(connection: &mut Reader, answer: &Answer, without_body: bool) -> io::Result<()> {
    let mut bytes = format!("HTTP/1.1 {} Told\r\n", answer.status).into_bytes();
    for (name, value) in &answer.headers {
        bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    let without_body = without_body || matches!(answer.status, 204 | 304);
    let is_chunked = answer.headers.iter().any(|(name, _)| name == "transfer-encoding");
    if without_body {
        bytes.extend(b"\r\n");
    } else if answer.trailers.is_empty() && !is_chunked {
        bytes.extend(format!("content-length: {}\r\n\r\n", answer.body.len()).as_bytes());
        bytes.extend(&answer.body);
    } else {
        bytes.extend(if is_chunked { &b"\r\n"[..] } else { b"transfer-encoding: chunked\r\n\r\n" });
        for chunk in answer.body.chunks(CHUNK) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend([chunk, b"\r\n"].concat());
            // Each chunk has a write of its own, so that it also arrives by itself.
            connection.write(&std::mem::take(&mut bytes))?;
        }
        bytes.extend(b"0\r\n");
        for (name, value) in &answer.trailers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        bytes.extend(b"\r\n");
    }
    connection.write(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Request, exchange};

    #[test]
    fn requests_are_kept_and_answered_as_told() {
        let capture = Capture::start().unwrap();
        let request = Request::post("//x").header("X-A", b"\xff").header("X-A", "2").trailer("X-T", "3");
        let reply = exchange(capture.address(), "POST", &request.http1()).unwrap();
        assert_eq!((reply.status, reply.body.as_slice()), (200, br#"{"ok":true}"#.as_slice()));
        let taken = capture.take();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].start, b"POST //x HTTP/1.1");
        assert_eq!(taken[0].headers[2..4], [("X-A".to_owned(), vec![0xff]), ("X-A".to_owned(), b"2".to_vec())]);
        assert_eq!((taken[0].body.as_slice(), taken[0].trailers.len()), (b"{}".as_slice(), 1));
        assert!(capture.take().is_empty());

        let teapot = ("X-Tea".to_owned(), b"\xe9".to_vec());
        let trailers = vec![("X-T".to_owned(), b"1".to_vec())];
        capture.answer(Answer { status: 418, headers: vec![teapot], body: b"short".to_vec(), trailers });
        let reply = exchange(capture.address(), "GET", &Request::new("GET", "/").http1()).unwrap();
        assert_eq!((reply.status, reply.header("x-tea")), (418, Some(b"\xe9".as_slice())));
        assert_eq!((reply.body, reply.trailers), (b"short".to_vec(), vec![("x-t".to_owned(), b"1".to_vec())]));
    }
}
