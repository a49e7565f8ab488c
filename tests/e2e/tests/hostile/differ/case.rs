//! One case: a request, and what was done to it.

use std::fmt;

use e2e::frames::{Flow, Stream};
use e2e::wire::shown;

use super::api::{Listener, Route};

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// HTTP/1.1
    Http1,
    /// HTTP/2
    Http2,
}

/// What kind of thing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The request target.
    Path,
    /// The authority.
    Host,
    /// A header line.
    Header,
    /// The method.
    Method,
    /// How the request stands on the wire: version, lengths, chunks, frames, trailers, what follows it.
    Framing,
    /// The caller's token.
    Token,
}

/// Every class.
pub(crate) const CLASSES: [Class; 6] =
    [Class::Path, Class::Host, Class::Header, Class::Method, Class::Framing, Class::Token];

/// Whose token a request brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Token {
    /// That of a user of one tenant.
    #[default]
    One,
    /// That of a user of another tenant.
    Other,
    /// None.
    Missing,
    /// One that has expired.
    Expired,
    /// One that somebody else signed.
    Forged,
    /// Something that is no token.
    Garbage,
}

/// A header line; over HTTP/1.1 the name, this text and the value stand one after the other.
#[derive(Clone, Debug)]
pub(crate) struct CaseLine {
    /// The name as it is written.
    pub(crate) name: String,
    /// Between name and value.
    pub(crate) between: &'static str,
    /// The value as it is written: over HTTP/1.1 it may go on in the next line.
    pub(crate) value: Vec<u8>,
}

impl CaseLine {
    /// A line as it should be.
    pub(crate) fn new(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), between: ": ", value: value.into() }
    }
}

/// What becomes of a message that is framed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sound {
    /// It is a request like any other.
    Yes,
    /// No server may let it in.
    No,
    /// A server may refuse it or read it as the RFC says; this is the reason.
    Either(&'static str),
    /// Its body never ends as it should: a gateway that streams has let the head in before it sees that.
    Broken,
}

/// How the body is framed over HTTP/1.1.
#[derive(Clone, Debug)]
pub(crate) struct Framing {
    /// The version in the request line.
    pub(crate) version: &'static str,
    /// The header lines that tell the length.
    pub(crate) lines: Vec<CaseLine>,
    /// What stands behind the head.
    pub(crate) body: Vec<u8>,
    /// Whether lines end with LF only.
    pub(crate) bare_line_feeds: bool,
    /// What the client does after that.
    pub(crate) then: Then,
    /// Whether it is a request at all.
    pub(crate) sound: Sound,
    /// What the upstream gets as the body, if that is certain.
    pub(crate) payload: Option<Vec<u8>>,
}

/// What the client does when it has sent a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Then {
    /// It reads the answer.
    #[default]
    Reads,
    /// It sends nothing more, and reads what comes.
    Ends,
    /// It closes the connection without reading.
    Leaves,
}

/// How the request stands in HTTP/2 frames.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    /// Pseudo-header fields in the place of the usual ones.
    pub(crate) pseudo: Vec<(String, Vec<u8>)>,
    /// Pseudo-header fields behind the regular ones.
    pub(crate) late: Vec<(String, Vec<u8>)>,
    /// The body, a DATA frame each.
    pub(crate) data: Vec<Vec<u8>>,
    /// How the stream goes on and ends.
    pub(crate) flow: Flow,
    /// Whether its fields come out of the connection's table.
    pub(crate) table: bool,
    /// Whether it is a request at all.
    pub(crate) sound: Sound,
}

/// A request, and what was done to it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The seed of the run.
    pub(crate) seed: u64,
    /// Its number in the run.
    pub(crate) number: u64,
    /// Its protocol.
    pub(crate) protocol: Protocol,
    /// The listener.
    pub(crate) listener: Listener,
    /// The route that it was made for.
    pub(crate) route: &'static Route,
    /// The method.
    pub(crate) method: String,
    /// The request target without the absolute form's beginning.
    pub(crate) target: Vec<u8>,
    /// The absolute form's beginning: scheme and authority.
    pub(crate) absolute: Option<(&'static str, Vec<u8>)>,
    /// `Host` lines, or `:authority` and then `host` lines.
    pub(crate) hosts: Vec<Vec<u8>>,
    /// Whether `:authority` is there; else all of `hosts` are `host` lines.
    pub(crate) has_authority: bool,
    /// The header lines, without the token's.
    pub(crate) lines: Vec<CaseLine>,
    /// The token.
    pub(crate) token: Token,
    /// Trailer lines.
    pub(crate) trailers: Vec<(String, Vec<u8>)>,
    /// The framing over HTTP/1.1.
    pub(crate) framing: Framing,
    /// The framing over HTTP/2.
    pub(crate) frames: Frames,
    /// Another request behind the first, on the same connection.
    pub(crate) second: Option<Vec<u8>>,
    /// What was done.
    pub(crate) mutations: Vec<(Class, String)>,
}

impl Case {
    /// A header by which the upstream's record is attributed.
    pub(crate) fn mark(&self, part: &str) -> String {
        format!("{}/{part}", self.number)
    }

    /// The command that repeats it.
    pub(crate) fn command(&self) -> String {
        format!("make hostile SEED={} ONLY={}", self.seed, self.number)
    }

    /// The body as it is meant.
    pub(crate) fn payload(&self) -> Vec<u8> {
        if matches!(self.method.as_str(), "GET" | "HEAD") {
            return Vec::new();
        }
        format!("{{\"case\":{}}}", self.number).into_bytes()
    }

    /// Whether it is a request at all.
    pub(crate) const fn sound(&self) -> Sound {
        match self.protocol {
            Protocol::Http1 => self.framing.sound,
            Protocol::Http2 => self.frames.sound,
        }
    }

    /// The bytes of HTTP/1.1, with this token.
    pub(crate) fn http1(&self, token: Option<&str>) -> Vec<u8> {
        let mut bytes = format!("{} ", self.method).into_bytes();
        if let Some((scheme, authority)) = &self.absolute {
            bytes.extend(scheme.as_bytes());
            bytes.extend(authority);
        }
        bytes.extend(&self.target);
        bytes.extend(format!(" {}\r\nx-case: {}\r\n", self.framing.version, self.mark("1")).as_bytes());
        let hosts = self.hosts.iter().map(|host| CaseLine::new("Host", host.clone()));
        let token = token.map(|token| CaseLine::new("authorization", format!("Bearer {token}")));
        for line in hosts.chain(token).chain(self.lines.iter().chain(&self.framing.lines).cloned()) {
            bytes.extend([line.name.as_bytes(), line.between.as_bytes(), &line.value, b"\r\n"].concat());
        }
        bytes.extend(b"\r\n");
        if self.framing.bare_line_feeds {
            bytes.retain(|byte| *byte != b'\r');
        }
        bytes.extend(&self.framing.body);
        bytes.extend(self.second.iter().flatten());
        bytes
    }

    /// The stream of HTTP/2, with this token.
    pub(crate) fn http2(&self, token: Option<&str>) -> Stream {
        let mut head = self.frames.pseudo.clone();
        let mut hosts = self.hosts.iter();
        if self.has_authority {
            head.extend(hosts.next().map(|authority| (":authority".to_owned(), authority.clone())));
        }
        head.push(("x-case".to_owned(), self.mark("1").into_bytes()));
        head.extend(hosts.map(|host| ("host".to_owned(), host.clone())));
        head.extend(token.map(|token| ("authorization".to_owned(), format!("Bearer {token}").into_bytes())));
        head.extend(self.lines.iter().map(|line| (line.name.clone(), line.value.clone())));
        head.extend(self.frames.late.clone());
        let Frames { data, flow, table, .. } = self.frames.clone();
        Stream { head, data, trailers: self.trailers.clone(), flow, table }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done: Vec<&str> = self.mutations.iter().map(|(_, what)| what.as_str()).collect();
        writeln!(f, "  case {} on the listener `{}`, {}", self.number, self.listener.name(), self.command())?;
        writeln!(f, "  done to it: {}", if done.is_empty() { "nothing".to_owned() } else { done.join("; ") })?;
        writeln!(f, "  token: {:?}", self.token)?;
        match self.protocol {
            Protocol::Http1 => write!(f, "  sent over HTTP/1.1: {}", shown(&self.http1(None))),
            Protocol::Http2 => write!(f, "  sent over HTTP/2:{}", self.http2(None)),
        }
    }
}
