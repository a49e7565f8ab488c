//! Sends cases, and keeps the connections on which another can follow.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result};
use e2e::frames::{self, Connection};
use e2e::wire::{Kind, Message, Reader};
use serde_json::Value;

use super::api::Listener;
use super::case::{Case, Protocol, Sound, Then, Token};

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With an answer.
    Answered {
        /// The status.
        status: u16,
        /// The body.
        body: Vec<u8>,
    },
    /// The peer reset the stream, or closed the connection.
    Closed,
    /// The client did not wait.
    Left,
    /// Something else.
    Failed(String),
}

impl End {
    /// The answer's status.
    pub(crate) const fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The code of a problem document.
    pub(crate) fn code(&self) -> Option<String> {
        let Self::Answered { body, .. } = self else { return None };
        let problem: Value = serde_json::from_slice(body).ok()?;
        Some(problem.get("code")?.as_str()?.to_owned())
    }

    /// Whether the body begins so.
    pub(crate) fn says(&self, text: &str) -> bool {
        matches!(self, Self::Answered { body, .. } if body.starts_with(text.as_bytes()))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { status, body } => write!(f, "{status} {}", e2e::wire::shown(body)),
            Self::Closed => f.write_str("a closed connection or a reset stream"),
            Self::Left => f.write_str("not waited for"),
            Self::Failed(error) => f.write_str(error),
        }
    }
}

/// What a client saw.
#[derive(Clone, Debug)]
pub(crate) struct CaseOutcome {
    /// One for each answer, or what came instead of the first.
    pub(crate) answers: Vec<End>,
}

impl CaseOutcome {
    /// What came of the first request.
    pub(crate) fn first(&self) -> &End {
        self.answers.first().unwrap_or(&End::Closed)
    }
}

/// The tokens, by whose they are.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// Of the first tenant's user.
    pub(crate) one: String,
    /// Of the other tenant's.
    pub(crate) other: String,
    /// Expired.
    pub(crate) expired: String,
    /// Signed by somebody else.
    pub(crate) forged: String,
}

impl Tokens {
    fn of(&self, token: Token) -> Option<&str> {
        match token {
            Token::One => Some(&self.one),
            Token::Other => Some(&self.other),
            Token::Missing => None,
            Token::Expired => Some(&self.expired),
            Token::Forged => Some(&self.forged),
            Token::Garbage => Some("garbage"),
        }
    }
}

/// A client with connections of its own.
pub(crate) struct Client<'w> {
    addresses: &'w BTreeMap<Listener, SocketAddr>,
    tokens: &'w Tokens,
    http1: BTreeMap<Listener, Reader>,
    http2: BTreeMap<Listener, Connection>,
}

impl<'w> Client<'w> {
    /// A client without connections yet.
    pub(crate) const fn new(addresses: &'w BTreeMap<Listener, SocketAddr>, tokens: &'w Tokens) -> Self {
        Self { addresses, tokens, http1: BTreeMap::new(), http2: BTreeMap::new() }
    }

    /// Sends a case.
    pub(crate) fn send(&mut self, case: &Case) -> CaseOutcome {
        let sent = match case.protocol {
            Protocol::Http1 => self.send_http1(case),
            Protocol::Http2 => self.send_http2(case),
        };
        sent.unwrap_or_else(|error| CaseOutcome { answers: vec![End::Failed(format!("{error:#}"))] })
    }

    fn address(&self, case: &Case) -> Result<SocketAddr> {
        self.addresses.get(&case.listener).copied().context("no such listener")
    }

    fn send_http1(&mut self, case: &Case) -> Result<CaseOutcome> {
        let mut reader = match self.http1.remove(&case.listener) {
            Some(reader) => reader,
            None => Reader::new(TcpStream::connect(self.address(case)?)?)?,
        };
        // Who refuses may close before all of it is written.
        let written = reader.write(&case.http1(self.tokens.of(case.token)));
        match case.framing.then {
            Then::Leaves => return Ok(CaseOutcome { answers: vec![End::Left] }),
            Then::Ends => reader.end(),
            Then::Reads => {}
        }
        let expected = 1 + usize::from(case.second.is_some());
        let mut answers = Vec::new();
        let mut stays = written.is_ok() && case.framing.then == Then::Reads && case.sound() == Sound::Yes;
        while answers.len() < expected && (answers.is_empty() || stays) {
            match answer(&mut reader, &case.method)? {
                Some((message, status)) => {
                    stays &= !closes(&message);
                    answers.push(End::Answered { status, body: message.body });
                }
                None => {
                    stays = false;
                    break;
                }
            }
        }
        // What stands behind a body that is longer than it says is the beginning of something.
        let behind = case.framing.payload.as_ref().is_some_and(Vec::is_empty) && !case.framing.body.is_empty();
        if stays && !behind {
            self.http1.insert(case.listener, reader);
        }
        if answers.is_empty() {
            answers.push(End::Closed);
        }
        Ok(CaseOutcome { answers })
    }

    fn send_http2(&mut self, case: &Case) -> Result<CaseOutcome> {
        let mut connection = match self.http2.remove(&case.listener) {
            Some(connection) => connection,
            None => Connection::open(self.address(case)?)?,
        };
        let end = match connection.exchange(&case.http2(self.tokens.of(case.token)))? {
            frames::End::Answered(status, body) => End::Answered { status, body },
            frames::End::Reset(_) if case.frames.flow == frames::Flow::Reset => End::Left,
            frames::End::Reset(_) | frames::End::Closed => End::Closed,
        };
        if connection.usable() && case.sound() == Sound::Yes {
            self.http2.insert(case.listener, connection);
        }
        Ok(CaseOutcome { answers: vec![end] })
    }
}

/// The next answer; `None` if the connection ended before it.
fn answer(reader: &mut Reader, method: &str) -> Result<Option<(Message, u16)>> {
    loop {
        let mut message = match reader.head() {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(None),
            Err(error) if error.to_string().contains("reset") => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = String::from_utf8_lossy(&message.start).into_owned();
        let status: u16 = line.split(' ').nth(1).and_then(|status| status.parse().ok()).context("a status line")?;
        if (100..200).contains(&status) {
            continue;
        }
        let body = method != "HEAD" && !matches!(status, 204 | 304);
        reader.body(&mut message, Kind::Response { body })?;
        return Ok(Some((message, status)));
    }
}

fn closes(message: &Message) -> bool {
    message.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("connection") && value == b"close")
}
