//! An upstream that keeps every request by the case that it belongs to, whenever it comes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;
use e2e::wire::{Kind, Message, Reader};
use serde_json::Value;
use testkit::stores::restate_reply;

use super::api::DENIED_SERVICES;

/// A request as the upstream got it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The request, with as much of the body as is known.
    pub(crate) message: Message,
    /// Whether all of it came.
    pub(crate) complete: bool,
    /// Which of the case's requests it is: the first, the second, or one that was hidden in a body.
    pub(crate) part: String,
}

/// Everything that came.
#[derive(Default)]
struct Records {
    by_case: BTreeMap<u64, Vec<Record>>,
    /// What belongs to no case.
    astray: Vec<String>,
}

/// A running upstream. A request is kept before its answer is sent.
#[derive(Clone)]
pub(crate) struct Upstream {
    address: SocketAddr,
    records: Arc<Mutex<Records>>,
}

/// What it says, in one piece.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
/// To a question for a stored result, as Restate says it.
const RESULT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-restate-id: inv_1\r\n\
    idempotency-expires: Fri, 01 Jan 2100 00:00:00 GMT\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
/// The same to `HEAD`.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n";

impl Upstream {
    /// Listens on a free port, as long as the process is there.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let upstream = Self { address: listener.local_addr()?, records: Arc::default() };
        let shared = upstream.clone();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let upstream = shared.clone();
                thread::spawn(move || upstream.serve(stream));
            }
        });
        Ok(upstream)
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests of a case.
    pub(crate) fn take(&self, case: u64) -> Vec<Record> {
        self.records().by_case.remove(&case).unwrap_or_default()
    }

    /// What came and belongs to no case, and the cases whose requests nobody took.
    pub(crate) fn astray(&self) -> Vec<String> {
        std::mem::take(&mut self.records().astray)
    }

    /// The cases below this number that still have requests: those came after the case was judged.
    pub(crate) fn late(&self, below: u64) -> Vec<u64> {
        self.records().by_case.range(..below).map(|(case, _)| *case).collect()
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(mut reader) = Reader::patient(stream) else { return };
        loop {
            let mut message = match reader.head() {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(error) => return self.records().astray.push(format!("no head of a request: {error:#}")),
            };
            let complete = reader.body(&mut message, Kind::Request).is_ok();
            // The filter's own lookups are no requests of a case; a client's would bring the case's number.
            let is_lookup = message.start.starts_with(b"POST /restate/lookup ");
            if is_lookup && lines(&message, "x-case").next().is_none() {
                if reader.write(&self.looked_up(&message)).is_err() {
                    return;
                }
                continue;
            }
            let answer = match message.start.as_slice() {
                [b'H', b'E', b'A', b'D', b' ', ..] => HEAD,
                start if start.starts_with(b"GET /restate/") => RESULT,
                _ => ANSWER,
            };
            self.keep(message, complete);
            if !complete || reader.write(answer).is_err() {
                return;
            }
        }
    }

    /// Answers a lookup of an invocation. Nobody may ask for results of a service that RBAC denies.
    fn looked_up(&self, message: &Message) -> Vec<u8> {
        let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
        let service = body.get("service").and_then(Value::as_str).unwrap_or_default();
        if service.is_empty() || DENIED_SERVICES.contains(&service) {
            self.records().astray.push(format!("RBAC denies every way to {service}: {message:?}"));
        }
        let reply = restate_reply("/restate/lookup", &message.body).1;
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", reply.len());
        [head.into_bytes(), reply].concat()
    }

    fn keep(&self, message: Message, complete: bool) {
        let marks: Vec<&[u8]> = lines(&message, "x-case").collect();
        let mark = match marks.as_slice() {
            [mark] => std::str::from_utf8(mark).ok().and_then(|mark| mark.split_once('/')),
            _ => None,
        };
        let case = mark.and_then(|(number, part)| Some((number.parse().ok()?, part.to_owned())));
        let mut records = self.records();
        match case {
            Some((number, part)) => {
                records.by_case.entry(number).or_default().push(Record { message, complete, part });
            }
            None => records.astray.push(format!("{message:?}")),
        }
    }
}

/// The values of the lines with this name.
pub(crate) fn lines<'m>(message: &'m Message, name: &'m str) -> impl Iterator<Item = &'m [u8]> {
    message.headers.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_slice())
}
