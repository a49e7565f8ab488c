//! What decisions need of a request's headers, and which of its header lines the filter edits.

use super::Exchange;
use crate::backend::{Backend, restate};
use crate::bytes::equal;
use crate::headers::{Headers, IDEMPOTENCY_KEY, same_name, sorted};
use crate::identity::Attributes;
use crate::key::is_forged;
use crate::policy::Policy;
use crate::policy::path::split_query;
use crate::problem::{CallerProtocol, Problem};
use crate::provider::{IdentifierHeaders, Provider};
use crate::uuid::Uuid;

/// A request whose headers have come.
#[derive(Clone, Copy)]
pub(crate) struct IncomingRequest<'r, 'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) headers: &'r Headers<'a>,
    pub(crate) attributes: &'a dyn Attributes,
}

/// The method of a request, and its path with its query, as the client sent them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestLine<'r> {
    pub(crate) method: &'r [u8],
    pub(crate) target: &'r [u8],
    /// The target without its query
    pub(crate) raw_path: &'r [u8],
    pub(crate) query: Option<&'r [u8]>,
}

impl<'r> RequestLine<'r> {
    pub(crate) fn new(method: &'r [u8], target: &'r [u8]) -> Self {
        let (raw_path, query) = split_query(target);
        Self { method, target, raw_path, query }
    }
}

/// The header lines of a request that the filter edits.
#[derive(Default)]
pub(crate) struct EditedLines<'a> {
    /// The first two `Idempotency-Key` lines. Two are an error already, so further ones do not matter.
    pub(crate) key: [Option<&'a [u8]>; 2],
    /// The header lines to remove before the backend, sorted by their names.
    strip: Vec<(&'a [u8], &'a [u8])>,
    /// Verified headers of which one line takes the place of several equal ones
    pub(crate) once: Vec<(&'a str, &'a [u8])>,
}

/// The parts of a request's head that decisions need.
#[derive(Default)]
pub(crate) struct RequestHead<'a> {
    pub(crate) line: RequestLine<'a>,
    pub(crate) authority: &'a [u8],
    pub(crate) edited: EditedLines<'a>,
    /// The gateway's id of the request, if it has the length of a UUID and is the only one.
    pub(crate) request_id: Option<[u8; Uuid::TEXT_LENGTH]>,
    /// Which attempt the client says the request is, at most 100.
    pub(crate) attempt: Option<u8>,
    /// What the client expects of an answer
    pub(crate) protocol: CallerProtocol,
    /// Whether some reader takes the request for one of gRPC
    is_rpc: bool,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn read(policy: &Policy, headers: &Headers<'a>) -> Self {
        let mut head = Self::default();
        let (mut has_id, mut has_connect) = (false, false);
        let names = policy.request_names();
        for (name, value) in headers.iter().filter(|(name, _)| names.may_match(name)) {
            match name {
                [b':', pseudo @ ..] => match pseudo {
                    b"method" => head.line.method = value,
                    b"path" => head.line = RequestLine::new(head.line.method, value),
                    b"authority" => head.authority = value,
                    _ => {}
                },
                _ if name == IDEMPOTENCY_KEY.as_bytes() => head.edited.add_key(value),
                _ => {
                    if name == REQUEST_ID {
                        head.request_id = value.try_into().ok().filter(|_| !has_id);
                        has_id = true;
                    } else if name == ATTEMPT {
                        head.attempt = attempt(value);
                    } else if same_name(CONTENT_TYPE, name) {
                        head.is_rpc |= restate::is_rpc_type(value);
                        if equal(name, CONTENT_TYPE.as_bytes()) {
                            head.protocol = CallerProtocol::of_content_type(value);
                        }
                    } else if name == CONNECT {
                        has_connect = true;
                    }
                    if policy.backends().any(|backend| is_stripped(backend, name)) {
                        head.edited.strip.push((name, value));
                    }
                }
            }
        }
        head.edited.strip = sorted(head.edited.strip);
        if has_connect && head.protocol == CallerProtocol::Http {
            head.protocol = CallerProtocol::Connect;
        }
        head
    }

    /// Refuses a request that Restate would give to its own gRPC services, whatever its path.
    pub(crate) fn refuse_rpc(&self, backend: &Backend) -> Result<(), Problem> {
        if self.is_rpc && backend.abilities().has_own_rpc { Err(Problem::unsupported_content_type()) } else { Ok(()) }
    }
}

impl<'a> EditedLines<'a> {
    /// Those of a request that has waited, from the lines that were kept of it. Before the wait the filter has removed what
    /// no backend gets, and the key of a request that does not use it.
    pub(crate) fn of_kept(headers: &Headers<'a>) -> Self {
        let mut edited = Self::default();
        let keys = headers.iter().filter(|(name, _)| *name == IDEMPOTENCY_KEY.as_bytes());
        keys.for_each(|(_, value)| edited.add_key(value));
        edited
    }

    /// Leaves the headers to the request's backend that only other backends do not get.
    pub(crate) fn limit_to(&mut self, policy: &Policy, backend: &Backend) {
        if policy.backends().nth(1).is_some() {
            self.strip.retain(|(name, _)| is_stripped(backend, name));
        }
    }

    /// Leaves the lines of this name to the backend.
    pub(crate) fn keep(&mut self, kept: &str) {
        self.strip.retain(|(name, _)| *name != kept.as_bytes());
    }

    const fn add_key(&mut self, value: &'a [u8]) {
        match &mut self.key {
            [first @ None, _] => *first = Some(value),
            [_, second] => *second = Some(value),
        }
    }

    /// Removes the headers that `provider` reads from a verified request, in every spelling. Only a header that `kept` names
    /// stays, as one line.
    pub(crate) fn strip_unverified(
        &mut self,
        backend: &Backend,
        provider: &Provider,
        kept: &dyn Fn(&[u8]) -> Option<&'a str>,
        headers: &Headers<'a>,
    ) {
        let is_concerned =
            |name: &[u8]| provider.reads(name) && !is_stripped(backend, name) && !backend.keeps_header(name);
        for (name, value) in headers.iter().filter(|(name, _)| is_concerned(name)) {
            if self.once.iter().any(|(known, _)| known.as_bytes() == name) {
                continue;
            }
            let lines = || headers.iter().filter(|(other, _)| *other == name).map(|(_, value)| value.trim_ascii());
            match kept(name) {
                Some(_) if lines().nth(1).is_none() => {}
                // A signature accepts equal lines. An identifier that the filter did not need can be in different ones.
                Some(kept) if lines().all(|other| other == value.trim_ascii()) => {
                    self.once.push((kept, value.trim_ascii()));
                }
                _ => self.strip.push((name, value)),
            }
        }
        self.strip = sorted(std::mem::take(&mut self.strip));
    }

    /// Removes from a verified request of a signed caller what looks like a header that its signature covers. Other requests stay
    /// as they are.
    pub(crate) fn strip_unsigned(&mut self, exchange: &Exchange, policy: &'a Policy, headers: &Headers<'a>) {
        let Some(caller) = exchange.signed_caller(policy) else { return };
        let signature = &caller.signature;
        let kept = |name: &[u8]| signature.kept_header(name, &Provider::VERIFIED_CALLER, IdentifierHeaders::All);
        self.strip_unverified(exchange.backend(policy), signature, &kept, headers);
    }

    /// The names of the header lines to remove, without duplicates.
    pub(crate) fn stripped_names(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let mut before = None;
        let names = self.strip.iter().map(|(name, _)| *name);
        names.filter(move |name| before.replace(*name) != Some(*name))
    }

    /// Whether one of these lines has the name, and this value. A repeated line counts as two.
    pub(crate) fn has_only(&self, name: &str, value: &str) -> bool {
        let mut lines = self.strip.iter().filter(|(line, _)| *line == name.as_bytes());
        lines.next().is_some_and(|(_, sent)| *sent == value.as_bytes()) && lines.next().is_none()
    }

    /// Leaves a client's key of this name to the backend, as in shadow mode the one in `Idempotency-Key`: not if it is repeated, or looks
    /// like a namespaced one.
    pub(crate) fn keep_sent_key(&mut self, name: &str) {
        let mut lines = self.lines_of(name);
        if let (Some(line), None) = (lines.next(), lines.next())
            && !is_forged(line)
        {
            drop(lines);
            self.keep(name);
        }
    }

    /// The values of the lines with this name, among those to remove.
    pub(crate) fn lines_of(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.strip.iter().filter(move |(line, _)| *line == name.as_bytes()).map(|(_, value)| *value)
    }

    pub(crate) fn key_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.key.into_iter().flatten()
    }

    pub(crate) const fn has_key(&self) -> bool {
        self.key[0].is_some()
    }
}

/// The header with the gateway's id of the request.
const REQUEST_ID: &[u8] = b"x-request-id";
const CONTENT_TYPE: &str = "content-type";
/// The header of unary calls of Connect, whose content types are those of other requests, too.
const CONNECT: &[u8] = b"connect-protocol-version";

/// Whether a backend does not get headers with this name. [`super::Decision`] decides about the exact name
/// `idempotency-key`.
pub(crate) fn is_stripped(backend: &Backend, name: &[u8]) -> bool {
    backend.strip.contains(name)
}

/// The header with the number of attempts that a client has made. Of several lines the last one counts.
const ATTEMPT: &[u8] = b"x-retry-attempt";
/// The number that stands for every greater number of attempts.
const MAX_ATTEMPT: u8 = 100;

/// Reads the value of [`ATTEMPT`]: digits, and nothing else.
fn attempt(value: &[u8]) -> Option<u8> {
    let add = |number: u8, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit).min(MAX_ATTEMPT))
    };
    value.iter().try_fold(0, add).filter(|_| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::REQUEST_NAMES;

    #[test]
    fn an_attempt_is_a_bounded_number() {
        let cases: [(&[u8], Option<u8>); 11] = [
            (b"0", Some(0)),
            (b"1", Some(1)),
            (b"007", Some(7)),
            (b"100", Some(100)),
            (b"101", Some(100)),
            (b"18446744073709551616", Some(100)),
            (b"", None),
            (b"-1", None),
            (b"+1", None),
            (b"1.5", None),
            (b"1, 2", None),
        ];
        for (value, expected) in cases {
            assert_eq!(attempt(value), expected, "{}", value.escape_ascii());
        }
    }

    /// [`RequestHead::read`] sees no other names than those of the policy and these.
    #[test]
    fn the_gate_knows_every_name_that_is_read() {
        let read: [&[u8]; 8] = [
            b":method",
            b":path",
            b":authority",
            IDEMPOTENCY_KEY.as_bytes(),
            REQUEST_ID,
            ATTEMPT,
            CONTENT_TYPE.as_bytes(),
            CONNECT,
        ];
        assert!(read.iter().all(|name| REQUEST_NAMES.iter().any(|known| known.as_bytes() == *name)));
    }
}
