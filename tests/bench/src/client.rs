//! Requests over keep-alive connections: as little work as can be, so that the worker thread has always something to do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use harness::ports::loopback;

/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A UUID; its last digits count.
const KEY: &str = "8e03978e-40d5-43e8-bc93-000000000000";
const DIGITS: usize = 12;

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Where the key stands.
    key_at: Option<usize>,
}

impl Request {
    pub(crate) fn new<'a>(method: &str, path: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        Self { bytes: text.into_bytes(), key_at: None }
    }

    /// Adds a key, another one for each request.
    pub(crate) fn with_key(mut self) -> Self {
        self.bytes.truncate(self.bytes.len() - 2);
        self.bytes.extend(b"idempotency-key: ");
        self.key_at = Some(self.bytes.len());
        self.bytes.extend(KEY.as_bytes());
        self.bytes.extend(b"\r\n\r\n");
        self
    }

    /// Adds a body; its length stands in the headers.
    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        self.bytes.extend(body);
        self
    }

    /// The same with another last byte: of the body, if there is one.
    pub(crate) fn tampered(mut self) -> Self {
        if let Some(last) = self.bytes.last_mut() {
            *last ^= 1;
        }
        self
    }

    /// The request with key number `number`.
    fn numbered(&mut self, number: usize) -> &[u8] {
        if let Some(digits) = self.key_at.map(|at| at + KEY.len() - DIGITS)
            && let Some(place) = self.bytes.get_mut(digits..digits + DIGITS)
        {
            let mut rest = number;
            for digit in place.iter_mut().rev() {
                *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
                rest /= 10;
            }
        }
        &self.bytes
    }
}

/// The key with this number.
pub(crate) fn key(number: usize) -> String {
    let (prefix, _) = KEY.split_at(KEY.len() - DIGITS);
    format!("{prefix}{number:0DIGITS$}")
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

impl Reply {
    /// The value of the only line with this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(line, _)| line == name).map(|(_, value)| value.as_str());
        values.next().filter(|_| values.next().is_none())
    }
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    /// What was read: the beginning of the next answer, if anything.
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&loopback(port), TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, buffer: Vec::with_capacity(4_096) })
    }

    /// Sends the request with key number `number`, and reads its answer, whose status must be 200.
    pub(crate) fn exchange(&mut self, request: &mut Request, number: usize) -> Result<()> {
        self.stream.write_all(request.numbered(number))?;
        succeeded(&self.read()?)
    }

    /// Reads one answer and returns its head, up to the empty line.
    fn read(&mut self) -> Result<Vec<u8>> {
        let mut chunk = [0; 4_096];
        loop {
            if let Some(answer) = message(&mut self.buffer)? {
                return Ok(answer.head);
            }
            let count = self.stream.read(&mut chunk)?;
            ensure!(count > 0, "the connection was closed");
            self.buffer.extend(chunk.get(..count).unwrap_or_default());
        }
    }
}

/// An HTTP/1.1 message.
pub(crate) struct Message {
    /// Up to the empty line
    head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Takes the first message out of the buffer; `None` if it is not whole yet.
pub(crate) fn message(buffer: &mut Vec<u8>) -> Result<Option<Message>> {
    const EMPTY_LINE: &[u8] = b"\r\n\r\n";
    let Some(end) = find(buffer, EMPTY_LINE) else { return Ok(None) };
    let length = content_length(buffer.get(..end).unwrap_or_default())?;
    let begin = end + EMPTY_LINE.len();
    if buffer.len() < begin + length {
        return Ok(None);
    }
    let rest = buffer.split_off(begin + length);
    let mut head = std::mem::replace(buffer, rest);
    let body = head.split_off(begin);
    head.truncate(end);
    Ok(Some(Message { head, body }))
}

/// Whether the head of an answer has the status 200.
fn succeeded(head: &[u8]) -> Result<()> {
    if !head.starts_with(b"HTTP/1.1 200 ") {
        bail!("not answered: {}", String::from_utf8_lossy(head));
    }
    Ok(())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn content_length(head: &[u8]) -> Result<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let at = find(head, NAME).context("a message without content-length")? + NAME.len();
    let digits = head.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

/// Sends one request on a connection of its own.
pub(crate) fn ask(port: u16, request: &Request) -> Result<Reply> {
    let mut connection = Connection::open(port)?;
    connection.stream.write_all(&request.bytes)?;
    let head = String::from_utf8(connection.read()?).context("an answer that is no text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(Reply {
        status: status.context("an answer without a status")?,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    })
}

/// Keep-alive connections to one listener.
pub(crate) struct Connections {
    connections: Vec<Connection>,
    request: Request,
    sent: usize,
}

impl Connections {
    pub(crate) fn open(port: u16, count: usize, request: Request) -> Result<Self> {
        let connections = (0..count).map(|_| Connection::open(port)).collect::<Result<_>>()?;
        Ok(Self { connections, request, sent: 0 })
    }

    /// Sends another request from now on.
    pub(crate) fn exchange(&mut self, request: Request) {
        self.request = request;
    }

    /// Sends this many requests, at least as many as there are connections, and reads the answers.
    pub(crate) fn send(&mut self, count: usize) -> Result<()> {
        let Self { connections, request, sent } = self;
        for connection in connections.iter_mut() {
            *sent += 1;
            connection.stream.write_all(request.numbered(*sent))?;
        }
        let mut open = count.saturating_sub(connections.len());
        let mut waiting = connections.len();
        while waiting > 0 {
            for connection in connections.iter_mut().take(waiting) {
                let head = connection.read()?;
                succeeded(&head)?;
                if open > 0 {
                    open -= 1;
                    *sent += 1;
                    connection.stream.write_all(request.numbered(*sent))?;
                } else {
                    waiting -= 1;
                }
            }
        }
        Ok(())
    }
}
