//! A connection of HTTP/2 whose requests begin and do not end. A long field stands once in the connection's table (RFC 7541
//! section 2.3.2), and each request refers to it with one byte, as often as it likes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, bail};

use crate::frames::frame;
use crate::table::{Field, push_text};
use crate::wire::PATIENCE;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// The first place of the table that a peer fills.
const FIRST: u8 = 62;

/// Such a connection. Its requests wait until it is dropped.
pub struct HeldRequests {
    stream: TcpStream,
    buffer: Vec<u8>,
    next: u32,
    /// How many bytes were sent.
    pub sent: usize,
}

impl HeldRequests {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut held = Self { stream, buffer: Vec::new(), next: 1, sent: 0 };
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(&mut bytes, SETTINGS, 0, 0, &[]);
        held.send(&bytes)?;
        Ok(held)
    }

    /// Begins a request with these fields, and the long one so many times behind the one at `place`. Every request of a
    /// connection has the same long field.
    pub fn begin(&mut self, fields: &[Field], long: &Field, place: usize, times: usize) -> Result<()> {
        let mut block = Vec::new();
        for at in 0..=fields.len() {
            if at == place {
                for time in 0..times {
                    if self.next == 1 && time == 0 {
                        // A literal field that enters the table (section 6.2.1).
                        block.push(0x40);
                        push_text(&mut block, long.0.as_bytes());
                        push_text(&mut block, &long.1);
                    } else {
                        block.push(0x80 | FIRST);
                    }
                }
            }
            if let Some((name, value)) = fields.get(at) {
                block.push(0);
                push_text(&mut block, name.as_bytes());
                push_text(&mut block, value);
            }
        }
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS, self.next, &block);
        self.next += 2;
        self.send(&bytes)
    }

    /// Waits until the peer has read everything.
    pub fn settle(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        frame(&mut bytes, PING, 0, 0, b"settled?");
        self.send(&bytes)?;
        loop {
            while let Some((head, rest)) = self.buffer.split_first_chunk::<9>() {
                let [a, b, c, kind, flags, ..] = *head;
                let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                if rest.len() < length {
                    break;
                }
                self.buffer.drain(..9 + length);
                match kind {
                    GOAWAY => bail!("the peer has closed the connection"),
                    PING if flags & ACK != 0 => return Ok(()),
                    _ => {}
                }
            }
            let mut more = [0; 16_384];
            match self.stream.read(&mut more).context("the peer reads no more")? {
                0 => bail!("the peer has closed the connection"),
                size => self.buffer.extend(more.iter().take(size)),
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.sent += bytes.len();
        self.stream.write_all(bytes).context("the peer takes no more")
    }
}
