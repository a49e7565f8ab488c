//! HTTP/1.1 messages as they stand on the wire (RFC 9112): no names folded, no lines joined, nothing validated.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// A peer that says nothing for so long is taken to hang.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A header or trailer line.
pub type HeaderLine = (String, Vec<u8>);

/// A request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The request line or the status line.
    pub start: Vec<u8>,
    /// Header lines in their order; names as written.
    pub headers: Vec<HeaderLine>,
    /// The body, without its chunks' frames.
    pub body: Vec<u8>,
    /// Trailer lines; a body with `content-length` has none.
    pub trailers: Vec<HeaderLine>,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Without a length there is no body.
    Request,
    /// Without a length the body ends with the connection; `false`: there is none whatever the headers say.
    Response {
        /// Whether a body can follow.
        body: bool,
    },
}

/// Reads messages off a connection.
pub struct Reader {
    stream: TcpStream,
    /// Read and not consumed.
    buffer: Vec<u8>,
}

impl Reader {
    /// Reads from `stream`.
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Waits without a limit: a server does not know when the next request comes.
    pub fn patient(stream: TcpStream) -> Result<Self> {
        let reader = Self::new(stream)?;
        reader.stream.set_read_timeout(None)?;
        Ok(reader)
    }

    /// Writes to the same connection.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Whether bytes have come that nobody has read yet; this does not wait.
    pub fn has_bytes(&self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        match peeked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(!self.buffer.is_empty()),
            Err(error) => Err(error),
        }
    }

    /// Nothing more will be written.
    pub fn end(&self) {
        // A peer that has gone has no use for it.
        drop(self.stream.shutdown(Shutdown::Write));
    }

    /// The next message's start line and headers; `None` if the connection ended before it.
    pub fn head(&mut self) -> Result<Option<Message>> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            if !self.fill()? {
                ensure!(self.buffer.is_empty(), "the connection ended within a head: {}", shown(&self.buffer));
                return Ok(None);
            }
        };
        let head = self.consume(end + 4)?;
        let mut lines = lines(&head);
        let start = lines.next().context("a head without a start line")?.to_vec();
        let headers = lines.map(line).collect::<Result<_>>()?;
        Ok(Some(Message { start, headers, ..Message::default() }))
    }

    /// Reads the body that belongs to a head.
    pub fn body(&mut self, message: &mut Message, kind: Kind) -> Result<()> {
        let value = |wanted: &str| {
            let mut values = message.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            values.next().map(|(_, value)| value.clone())
        };
        if kind == (Kind::Response { body: false }) {
            return Ok(());
        }
        if value("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked")) {
            return self.chunks(message);
        }
        if let Some(length) = value("content-length") {
            let length = std::str::from_utf8(&length)?.parse().context("content-length")?;
            message.body = self.exactly(length)?;
            return Ok(());
        }
        if matches!(kind, Kind::Response { .. }) {
            while self.fill()? {}
            message.body = std::mem::take(&mut self.buffer);
        }
        Ok(())
    }

    fn chunks(&mut self, message: &mut Message) -> Result<()> {
        loop {
            let size = self.line()?;
            let size = usize::from_str_radix(std::str::from_utf8(&size)?, 16).context("a chunk's size")?;
            if size == 0 {
                break;
            }
            message.body.extend(self.exactly(size)?);
            ensure!(self.line()?.is_empty(), "a chunk without an end");
        }
        loop {
            let text = self.line()?;
            if text.is_empty() {
                return Ok(());
            }
            message.trailers.push(line(&text)?);
        }
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let mut line = self.consume(at + 2)?;
                line.truncate(at);
                return Ok(line);
            }
            ensure!(self.fill()?, "the connection ended within a body");
        }
    }

    fn exactly(&mut self, size: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < size {
            ensure!(self.fill()?, "the connection ended after {} of {size} bytes of a body", self.buffer.len());
        }
        self.consume(size)
    }

    fn consume(&mut self, size: usize) -> Result<Vec<u8>> {
        ensure!(size <= self.buffer.len(), "{size} bytes are not read yet");
        let rest = self.buffer.split_off(size);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Reads more; `false` at the end of the connection.
    fn fill(&mut self) -> Result<bool> {
        let mut more = [0; 16_384];
        match self.stream.read(&mut more) {
            Ok(0) => Ok(false),
            // A peer that closes a connection on which an answer of ours is still unread resets it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && self.buffer.is_empty() => Ok(false),
            Ok(size) => {
                self.buffer.extend(more.iter().take(size));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                bail!("nothing came for {PATIENCE:?}, after {}", shown(&self.buffer))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The lines of a head, up to the empty one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let at = find(rest, b"\r\n")?;
        let (line, after) = rest.split_at_checked(at)?;
        rest = after.get(2..)?;
        (!line.is_empty()).then_some(line)
    })
}

fn line(text: &[u8]) -> Result<HeaderLine> {
    let colon =
        text.iter().position(|byte| *byte == b':').with_context(|| format!("no header line: {}", shown(text)))?;
    let (name, value) = text.split_at_checked(colon).unwrap_or_default();
    let name = String::from_utf8(name.to_vec()).context("a header name")?;
    let value = value.strip_prefix(b":").unwrap_or(value);
    Ok((name, value.strip_prefix(b" ").unwrap_or(value).to_vec()))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Bytes for an error message, not more than a few lines of them.
pub fn shown(bytes: &[u8]) -> String {
    const LIMIT: usize = 600;
    let head = bytes.get(..LIMIT).unwrap_or(bytes);
    let rest = bytes.len().saturating_sub(LIMIT);
    if rest == 0 { format!("`{}`", head.escape_ascii()) } else { format!("`{}` and {rest} more", head.escape_ascii()) }
}

/// Lines for an error message, one a row.
pub fn shown_lines(lines: &[HeaderLine]) -> String {
    lines.iter().map(|(name, value)| format!("\n    {name}: {}", shown(value))).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Reads what a peer writes before it goes.
    fn read(bytes: &[u8], kind: Kind) -> Result<Vec<Message>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut peer = TcpStream::connect(listener.local_addr()?)?;
        let mut reader = Reader::new(listener.accept()?.0)?;
        peer.write_all(bytes)?;
        peer.shutdown(Shutdown::Write)?;
        let mut messages = Vec::new();
        while let Some(mut message) = reader.head()? {
            reader.body(&mut message, kind)?;
            messages.push(message);
        }
        Ok(messages)
    }

    #[test]
    fn lines_are_kept_as_they_stand() {
        let bytes =
            b"GET //x HTTP/1.1\r\nHost: a\r\nX-A:  \xff \r\nx-a:\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi";
        let messages = read(bytes, Kind::Request).unwrap();
        let [first, second] = messages.as_slice() else { panic!("{messages:?}") };
        assert_eq!(first.start, b"GET //x HTTP/1.1");
        let expected = [("Host", b"a".as_slice()), ("X-A", b" \xff "), ("x-a", b"")];
        assert!(first.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).eq(expected));
        assert_eq!((first.body.as_slice(), second.body.as_slice()), (b"".as_slice(), b"hi".as_slice()));
    }

    #[test]
    fn chunks_and_trailers_are_taken_apart() {
        let bytes = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n";
        let messages = read(bytes, Kind::Request).unwrap();
        assert_eq!(messages[0].body, b"abcde");
        assert_eq!(messages[0].trailers, [("X-T".to_owned(), b"1".to_vec())]);
    }

    #[test]
    fn a_response_without_a_length_ends_with_the_connection() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nall of it";
        assert_eq!(read(bytes, Kind::Response { body: true }).unwrap()[0].body, b"all of it");
        assert!(read(b"HTTP/1.1 200 OK\r\nx: 1", Kind::Response { body: true }).is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", Kind::Response { body: true }).is_err());
    }
}
