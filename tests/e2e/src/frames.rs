//! A client of HTTP/2 (RFC 9113) that sends the frames it is given: any field in any order, without a library that refuses
//! to send what a hostile client would.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, bail};

use crate::table::{Field, Table, push_text};
use crate::wire::{PATIENCE, shown};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The longest frame that every peer takes.
const FRAME: usize = 16_384;
/// So much of a connection's window is used at most; the windows' updates are not counted.
const WINDOW: usize = 60_000;

/// How a stream goes on behind its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Its last frame ends it.
    #[default]
    Whole,
    /// An empty DATA frame ends it.
    EmptyEnd,
    /// Every DATA frame is padded.
    Padded,
    /// The client resets it instead of ending it.
    Reset,
}

/// One request as it is sent.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Pseudo-header fields and header fields, in this order.
    pub head: Vec<Field>,
    /// The body, a DATA frame each.
    pub data: Vec<Vec<u8>>,
    /// Trailer fields.
    pub trailers: Vec<Field>,
    /// How it goes on and ends.
    pub flow: Flow,
    /// Whether the fields of its head enter the connection's table, and are numbers if they are there.
    pub table: bool,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |f: &mut fmt::Formatter<'_>, fields: &[Field]| {
            fields.iter().try_for_each(|(name, value)| write!(f, "\n    {}: {}", name.escape_debug(), shown(value)))
        };
        fields(f, &self.head)?;
        self.data.iter().try_for_each(|data| write!(f, "\n    DATA {}", shown(data)))?;
        fields(f, &self.trailers)?;
        write!(f, "\n    {:?}{}", self.flow, if self.table { ", fields out of the table" } else { "" })
    }
}

/// What became of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was answered with this status and body.
    Answered(u16, Vec<u8>),
    /// It was reset with this error code, before or within an answer.
    Reset(u32),
    /// The connection ended.
    Closed,
}

/// Kind, flags, stream and payload of a frame.
type Frame = (u8, u8, u32, Vec<u8>);

/// A connection for one request after the other.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    next: u32,
    sent: usize,
    ended: bool,
    table: Table,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut connection =
            Self { stream, buffer: Vec::new(), next: 1, sent: 0, ended: false, table: Table::default() };
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // HEADER_TABLE_SIZE 0: answers refer to no earlier ones. ENABLE_PUSH 0. INITIAL_WINDOW_SIZE: more than is read.
        let settings = [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 0x3f, 0xff, 0xff, 0xff];
        frame(&mut bytes, SETTINGS, 0, 0, &settings);
        frame(&mut bytes, WINDOW_UPDATE, 0, 0, &[0x3f, 0xff, 0, 0]);
        connection.stream.write_all(&bytes)?;
        Ok(connection)
    }

    /// Whether another request can be sent.
    pub const fn usable(&self) -> bool {
        !self.ended && self.sent < WINDOW
    }

    /// Sends a request, and reads until its stream ends.
    pub fn exchange(&mut self, stream: &Stream) -> Result<End> {
        let id = self.next;
        self.next += 2;
        let bytes = stream.bytes(id, &mut self.table);
        self.sent += stream.data.iter().map(|data| data.len() + 64).sum::<usize>();
        let written = self.stream.write_all(&bytes);
        if stream.flow == Flow::Reset {
            written?;
            return Ok(End::Reset(0));
        }
        // Who refuses may close before all of it is written; what came before that counts.
        let end = self.read(id)?;
        if end == End::Closed {
            self.ended = true;
        }
        Ok(end)
    }

    fn read(&mut self, wanted: u32) -> Result<End> {
        let mut status = None;
        let mut body = Vec::new();
        loop {
            let Some((kind, flags, id, payload)) = self.frame()? else { return Ok(End::Closed) };
            let mine = id == wanted;
            match kind {
                HEADERS if mine => {
                    let (skip, cut) = match (flags & PADDED != 0, flags & PRIORITY != 0) {
                        (false, false) => (0, 0),
                        (false, true) => (5, 0),
                        (true, priority) => (
                            1 + if priority { 5 } else { 0 },
                            usize::from(payload.first().copied().unwrap_or_default()),
                        ),
                    };
                    let block = payload.get(skip..payload.len().saturating_sub(cut)).unwrap_or_default();
                    // Trailers have no status, and an interim answer is none.
                    if status.is_none() {
                        status = Some(decode_status(block)?).filter(|status| *status >= 200);
                    }
                }
                DATA if mine => body.extend(&payload),
                RST_STREAM if mine => {
                    // An answer that was complete stays one: the peer only does not want the rest of the request.
                    let code = payload.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
                    return Ok(End::Reset(code));
                }
                SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, &[])?,
                PING if flags & ACK == 0 => self.write(PING, ACK, &payload)?,
                GOAWAY => {
                    self.ended = true;
                    // Nothing follows but, a second later, the connection's end, unless an answer has begun.
                    if status.is_none() {
                        return Ok(End::Closed);
                    }
                }
                _ => {}
            }
            if mine
                && matches!(kind, HEADERS | DATA)
                && flags & END_STREAM != 0
                && let Some(status) = status
            {
                return Ok(End::Answered(status, body));
            }
        }
    }

    fn write(&mut self, kind: u8, flags: u8, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::new();
        frame(&mut bytes, kind, flags, 0, payload);
        // The peer may have gone; reading tells.
        drop(self.stream.write_all(&bytes));
        Ok(())
    }

    /// The next frame; `None` at the end of the connection.
    fn frame(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some((head, rest)) = self.buffer.split_first_chunk::<9>() {
                let [a, b, c, kind, flags, id @ ..] = *head;
                let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                if let Some(payload) = rest.get(..length) {
                    let payload = payload.to_vec();
                    self.buffer.drain(..9 + length);
                    return Ok(Some((kind, flags, u32::from_be_bytes(id) & 0x7fff_ffff, payload)));
                }
            }
            let mut more = [0; 16_384];
            match self.stream.read(&mut more) {
                Ok(0) => return Ok(None),
                Ok(size) => self.buffer.extend(more.iter().take(size)),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error).context("no answer over HTTP/2"),
            }
        }
    }
}

impl Stream {
    fn bytes(&self, id: u32, table: &mut Table) -> Vec<u8> {
        let mut bytes = Vec::new();
        let has_more = !self.data.is_empty() || !self.trailers.is_empty() || self.flow != Flow::Whole;
        push_fields(&mut bytes, id, &self.head, self.table.then_some(table), !has_more);
        for (index, data) in self.data.iter().enumerate() {
            let last = index + 1 == self.data.len() && self.trailers.is_empty();
            let ends = last && matches!(self.flow, Flow::Whole | Flow::Padded);
            let end = if ends { END_STREAM } else { 0 };
            if self.flow == Flow::Padded {
                let padded = [&[7], data.as_slice(), &[0; 7]].concat();
                frame(&mut bytes, DATA, end | PADDED, id, &padded);
            } else {
                frame(&mut bytes, DATA, end, id, data);
            }
        }
        match self.flow {
            Flow::Reset => frame(&mut bytes, RST_STREAM, 0, id, &[0, 0, 0, 8]),
            _ if !self.trailers.is_empty() => push_fields(&mut bytes, id, &self.trailers, None, true),
            Flow::EmptyEnd => frame(&mut bytes, DATA, END_STREAM, id, &[]),
            Flow::Padded if self.data.is_empty() => frame(&mut bytes, DATA, END_STREAM, id, &[]),
            _ => {}
        }
        bytes
    }
}

/// Writes a frame.
pub(crate) fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or_default();
    bytes.extend(length.to_be_bytes().iter().skip(1));
    bytes.extend([kind, flags]);
    bytes.extend(id.to_be_bytes());
    bytes.extend(payload);
}

/// A HEADERS frame, and CONTINUATION frames if it is long.
fn push_fields(bytes: &mut Vec<u8>, id: u32, fields: &[Field], mut table: Option<&mut Table>, ends: bool) {
    let mut block = Vec::new();
    for field @ (name, value) in fields {
        if let Some(table) = table.as_deref_mut() {
            table.write(&mut block, field);
            continue;
        }
        // A literal field without indexing, its name not indexed either (RFC 7541 section 6.2.2).
        block.push(0);
        push_text(&mut block, name.as_bytes());
        push_text(&mut block, value);
    }
    let mut chunks = block.chunks(FRAME).peekable();
    let mut kind = HEADERS;
    while let Some(chunk) = chunks.next() {
        let end = if ends && kind == HEADERS { END_STREAM } else { 0 };
        let last = if chunks.peek().is_none() { END_HEADERS } else { 0 };
        frame(bytes, kind, end | last, id, chunk);
        kind = CONTINUATION;
    }
}

/// The status, which stands first in an answer's block (RFC 7541 section 6; `:status` has the static indices 8 to 14).
fn decode_status(block: &[u8]) -> Result<u16> {
    const FIXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let mut rest = block;
    while let [0x20..=0x3f, after @ ..] = rest {
        rest = after;
    }
    match rest {
        [first @ 0x88..=0x8e, ..] => {
            FIXED.get(usize::from(first - 0x88)).copied().context("a status that is in no table")
        }
        [0x48..=0x4e | 0x08..=0x0e | 0x18..=0x1e, length, text @ ..] => {
            let text = text.get(..usize::from(length & 0x7f)).context("a status that is cut off")?;
            let digits = if length & 0x80 == 0 { text.to_vec() } else { huffman_digits(text)? };
            std::str::from_utf8(&digits)?.parse().context("a status")
        }
        _ => bail!("an answer that begins without a status: {}", shown(block)),
    }
}

/// Digits in Huffman coding (RFC 7541 appendix B): 0, 1 and 2 have five bits, the others six.
fn huffman_digits(text: &[u8]) -> Result<Vec<u8>> {
    let bits: Vec<u8> = text.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let mut rest = bits.as_slice();
    let mut digits = Vec::new();
    let value = |bits: &[u8]| bits.iter().fold(0, |value, bit| value << 1 | bit);
    while rest.len() > 7 || rest.contains(&0) {
        let (five, six) = (rest.get(..5).map(value), rest.get(..6).map(value));
        let (digit, size) = match (five, six) {
            (Some(digit @ 0..=2), _) => (digit, 5),
            (_, Some(digit @ 0b01_1001..=0b01_1111)) => (digit - 0b01_1001 + 3, 6),
            _ => bail!("a status that is no number"),
        };
        digits.push(b'0' + digit);
        rest = rest.get(size..).unwrap_or_default();
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_in_every_form() {
        for (block, status) in [
            (&[0x88][..], 200),
            (&[0x20, 0x8d], 404),
            (&[0x48, 3, b'4', b'0', b'3'], 403),
            (&[0x08, 3, b'5', b'0', b'3'], 503),
            // RFC 7541 appendix C.6.1 and C.6.2.
            (&[0x48, 0x82, 0x64, 0x02], 302),
            (&[0x48, 0x83, 0x64, 0x0e, 0xff], 307),
        ] {
            assert_eq!(decode_status(block).unwrap(), status, "{block:?}");
        }
        assert!(decode_status(&[0x00, 1, b'a', 1, b'b']).is_err());
    }

    #[test]
    fn frames_are_written_as_given() {
        let head = vec![(":method".to_owned(), b"POST".to_vec()), ("X-A".to_owned(), vec![b'v'; 200])];
        let stream = Stream { head, data: vec![b"hi".to_vec()], trailers: Vec::new(), ..Stream::default() };
        let bytes = stream.bytes(3, &mut Table::default());
        assert_eq!(bytes[..9], [0, 0, 0xdd, HEADERS, END_HEADERS, 0, 0, 0, 3]);
        assert_eq!(bytes[9..24], *b"\0\x07:method\x04POST\0");
        assert_eq!(bytes[24..30], [3, b'X', b'-', b'A', 0x7f, 200 - 0x7f]);
        assert!(bytes.ends_with(&[0, 0, 2, DATA, END_STREAM, 0, 0, 0, 3, b'h', b'i']));

        let long = Stream { head: vec![("a".to_owned(), vec![b'v'; 20_000])], ..Stream::default() };
        let bytes = long.bytes(1, &mut Table::default());
        assert_eq!(bytes[..9], [0, 0x40, 0, HEADERS, END_STREAM, 0, 0, 0, 1]);
        assert_eq!(bytes[9 + FRAME + 3..][..2], [CONTINUATION, END_HEADERS]);
    }
}
