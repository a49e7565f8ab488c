//! A client that sends the bytes it is given, and a request that can be written in any way a client can write one.

use std::net::{SocketAddr, TcpStream};
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use serde_json::Value;

use crate::wire::{HeaderLine, Kind, Reader};

/// A request, before it is written down in a protocol.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target: path and query, or the absolute form.
    pub target: Vec<u8>,
    /// `Host` or `:authority`.
    pub authority: String,
    /// Header lines in their order, names as written.
    pub headers: Vec<HeaderLine>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer lines; with any, HTTP/1.1 sends the body in chunks.
    pub trailers: Vec<HeaderLine>,
}

/// What a client got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The reason phrase, which HTTP/2 does not have.
    pub reason: String,
    /// Header lines in their order, names in lower case.
    pub headers: Vec<HeaderLine>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer lines, names in lower case.
    pub trailers: Vec<HeaderLine>,
}

impl Request {
    /// A request for `target` without headers or body.
    pub fn new(method: &str, target: impl Into<Vec<u8>>) -> Self {
        Self {
            method: method.to_owned(),
            target: target.into(),
            authority: "api.example.com".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// `POST target` with a small body.
    pub fn post(target: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", target).header("content-type", "application/json").body("{}")
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Adds `authorization: Bearer …`.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds a trailer line.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.trailers.push((name.to_owned(), value.into()));
        self
    }

    /// The request in HTTP/1.1: in chunks if it has trailers, else with a length where a body is expected.
    pub fn http1(&self) -> Vec<u8> {
        let mut bytes = format!("{} ", self.method).into_bytes();
        bytes.extend(&self.target);
        bytes.extend(b" HTTP/1.1\r\nHost: ");
        bytes.extend(self.authority.as_bytes());
        bytes.extend(b"\r\n");
        push_lines(&mut bytes, &self.headers);
        if !self.trailers.is_empty() {
            bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
            if !self.body.is_empty() {
                bytes.extend(format!("{:x}\r\n", self.body.len()).as_bytes());
                bytes.extend(&self.body);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n");
            push_lines(&mut bytes, &self.trailers);
            bytes.extend(b"\r\n");
            return bytes;
        }
        let has_length = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if !has_length && (!self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")) {
            bytes.extend(format!("content-length: {}\r\n", self.body.len()).as_bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }
}

fn push_lines(bytes: &mut Vec<u8>, lines: &[HeaderLine]) {
    for (name, value) in lines {
        bytes.extend(name.as_bytes());
        bytes.extend(b": ");
        bytes.extend(value);
        bytes.extend(b"\r\n");
    }
}

impl Reply {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value.as_slice())
    }

    /// The first value of a header, if it is text.
    pub fn text_header(&self, name: &str) -> Option<&str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The body as JSON, null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A connection for one request after the other, or for a part of one.
pub struct Connection(Reader);

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        Ok(Self(Reader::new(TcpStream::connect(address).context("cannot connect")?)?))
    }

    /// Writes bytes as they stand.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write(bytes).context("sending failed")
    }

    /// Whether any bytes of an answer have come so far.
    pub fn has_answer(&self) -> Result<bool> {
        self.0.has_bytes().context("the connection cannot be read")
    }

    /// Reads one answer. `method` tells whether that has a body.
    pub fn answer(&mut self, method: &str) -> Result<Reply> {
        loop {
            let mut message = self.0.head()?.context("the connection ended without an answer")?;
            let (status, reason) = status(&message.start)?;
            if (100..200).contains(&status) {
                continue;
            }
            let body = method != "HEAD" && !matches!(status, 204 | 304);
            self.0.body(&mut message, Kind::Response { body })?;
            let lower = |lines: Vec<HeaderLine>| {
                lines.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
            };
            let (headers, trailers) = (lower(message.headers), lower(message.trailers));
            return Ok(Reply { status, reason, headers, body: message.body, trailers });
        }
    }
}

/// Sends `bytes` on a connection of their own, and reads one answer. `method` tells whether that has a body.
pub fn exchange(address: SocketAddr, method: &str, bytes: &[u8]) -> Result<Reply> {
    let mut connection = Connection::open(address)?;
    // Who refuses a request may close before all of it is written; the answer counts.
    let sent = connection.send(bytes);
    match (connection.answer(method), sent) {
        (Err(why), Err(error)) => Err(why.context(format!("{error:#}"))),
        (answer, _) => answer,
    }
}

/// How many connections [`send_each`] has.
const SIDE_BY_SIDE: u64 = 8;

/// Sends a request for each number, on eight connections side by side, each of which sends one after the other. `check` gets
/// each number and its answer; its first error ends that connection's requests.
pub fn send_each(
    address: SocketAddr,
    numbers: impl Iterator<Item = u64> + Clone + Send,
    request: impl Fn(u64) -> Request + Sync,
    check: impl Fn(u64, &Reply) -> Result<()> + Sync,
) -> Result<()> {
    let (request, check) = (&request, &check);
    thread::scope(|scope| {
        let client = |client: u64| {
            let numbers = numbers.clone().filter(move |number| number % SIDE_BY_SIDE == client);
            scope.spawn(move || -> Result<()> {
                let mut connection = Connection::open(address)?;
                for number in numbers {
                    let request = request(number);
                    connection.send(&request.http1())?;
                    let reply = connection.answer(&request.method).with_context(|| format!("request {number}"))?;
                    // Envoy closes a connection whose request it refuses before the body is there.
                    if reply.text_header("connection") == Some("close") {
                        connection = Connection::open(address)?;
                    }
                    check(number, &reply).with_context(|| format!("request {number}"))?;
                }
                Ok(())
            })
        };
        let clients: Vec<_> = (0..SIDE_BY_SIDE).map(client).collect();
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| anyhow!("a client panicked"))?)
    })
}

fn status(line: &[u8]) -> Result<(u16, String)> {
    let text = std::str::from_utf8(line).context("a status line")?;
    let parts = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split_at_checked(3));
    let read = parts.and_then(|(code, reason)| Some((code.parse().ok()?, reason.trim().to_owned())));
    read.with_context(|| format!("no status line of HTTP/1.1: `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_given() {
        let request = Request::new("POST", "//a/%zz").header("X-A", b"\xff").header("x-a", "").body("hi");
        let written =
            b"POST //a/%zz HTTP/1.1\r\nHost: api.example.com\r\nX-A: \xff\r\nx-a: \r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(request.http1(), written);
        let written = request.trailer("T", "1").http1();
        assert!(written.ends_with(b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nT: 1\r\n\r\n"));
        assert!(Request::new("GET", "/").http1().ends_with(b"example.com\r\n\r\n"));
        assert!(Request::new("POST", "/").http1().ends_with(b"content-length: 0\r\n\r\n"));
    }

    #[test]
    fn status_lines() {
        assert_eq!(status(b"HTTP/1.1 404 Not Found").unwrap(), (404, "Not Found".to_owned()));
        assert!(status(b"HTTP/1.1 x").is_err());
    }
}
