//! A gateway in memory for one request: it shows the request to the engine, takes its edits and its reply, and answers its calls
//! from the stores of the request document.

use crate::explain::request::Request;
use edge_idempotency_engine::{
    AttributeValue, Attributes, Body, Call, CallReply, Configuration, HeaderLines, HeaderMapKind, Headers, Host,
    HostError, LocalReply, LogLevel, MetadataPath, MetricId, MetricSeries, OperatorAdvice, Policy, RouterHints, Stream,
};
use simulated_stores::{SimulatedStores, StoreReply, StoreRequest};
use std::cell::{Cell, RefCell};

/// The number of the only stream.
const STREAM: u32 = 0;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

/// An edit of the request's headers.
#[derive(Debug)]
pub(super) enum HeaderEdit {
    /// One line with this name and value takes the place of all lines with this name.
    Set(String, Vec<u8>),
    /// Every line with this name is removed.
    Remove(Vec<u8>),
}

/// A gateway with one request.
pub(super) struct Gateway<'r> {
    request: &'r Request,
    stores: SimulatedStores,
    lines: RefCell<Lines>,
    edits: RefCell<Vec<HeaderEdit>>,
    has_replied: Cell<bool>,
    /// Replies to the calls that were made; the place is the token. `None` for a reply that the filter has had.
    replies: RefCell<Vec<Option<StoreReply>>>,
}

impl<'r> Gateway<'r> {
    pub(super) fn new(policy: &Policy, request: &'r Request) -> Self {
        let secret_path = |owner: &str| policy.secret_path(owner).unwrap_or_else(|| owner.to_owned());
        Self {
            request,
            stores: request.stores.clone().with_secrets_at(secret_path),
            lines: RefCell::new(request.headers.clone()),
            edits: RefCell::default(),
            has_replied: Cell::new(false),
            replies: RefCell::default(),
        }
    }

    /// Lets the request pass the engine until it is decided. The stream has a trace.
    pub(super) fn run(&self, configuration: &mut Configuration) -> Stream {
        let mut stream = Stream::traced(STREAM, configuration);
        let body = self.request.body.len();
        // What an action says, the exchange says as well.
        stream.on_request_headers(self, configuration, body == 0);
        self.answer_calls(configuration, &mut stream);
        if body > 0 && !self.has_replied.get() {
            stream.on_request_body(self, configuration, body, true);
            self.answer_calls(configuration, &mut stream);
        }
        stream
    }

    fn answer_calls(&self, configuration: &mut Configuration, stream: &mut Stream) {
        while let Some((token, StoreReply { status, body })) = self.next_reply() {
            configuration.on_call_reply(self, token, &CallReply { status, body: Some(&body) });
            while configuration.next_to_wake().is_some() {
                stream.on_wake(self, configuration);
            }
        }
    }

    fn next_reply(&self) -> Option<(u32, StoreReply)> {
        let mut replies = self.replies.borrow_mut();
        let (token, reply) = replies.iter_mut().enumerate().find(|(_, reply)| reply.is_some())?;
        u32::try_from(token).ok().zip(reply.take())
    }

    /// The edits, in their order; none if the request was refused.
    pub(super) fn into_edits(self) -> Vec<HeaderEdit> {
        if self.has_replied.get() { Vec::new() } else { self.edits.into_inner() }
    }
}

/// A copy of header lines.
pub(super) struct OwnedLines(Lines);

impl HeaderLines for OwnedLines {
    fn headers(&self) -> Option<Headers<'_>> {
        Some(Headers::new(self.0.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect()))
    }
}

impl Attributes for Gateway<'_> {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        self.request.metadata(path)
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        self.request.route_endpoint()
    }

    fn now_unix_ms(&self) -> u64 {
        self.request.now_unix_ms
    }

    fn router(&self) -> Option<&'static RouterHints> {
        self.request.router()
    }
}

impl Host for Gateway<'_> {
    type Lines = OwnedLines;

    fn header_lines(&self, map: HeaderMapKind) -> OwnedLines {
        OwnedLines(if map == HeaderMapKind::Request { self.lines.borrow().clone() } else { Lines::new() })
    }

    fn set_header(&self, _: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        let mut lines = self.lines.borrow_mut();
        lines.retain(|(line, _)| line != name.as_bytes());
        lines.push((name.as_bytes().to_vec(), value.to_vec()));
        self.edits.borrow_mut().push(HeaderEdit::Set(name.to_owned(), value.to_vec()));
        Ok(())
    }

    fn remove_header(&self, _: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
        self.lines.borrow_mut().retain(|(line, _)| line != name);
        self.edits.borrow_mut().push(HeaderEdit::Remove(name.to_vec()));
        Ok(())
    }

    fn with_request_body<T>(
        &self,
        start: usize,
        max: usize,
        read: impl FnOnce(&Body<'_>) -> T,
    ) -> Result<T, HostError> {
        let body = self.request.body.get(start..).unwrap_or_default();
        Ok(read(&Body::of(body.get(..max).unwrap_or(body))))
    }

    fn response_body(&self, _: usize) -> Result<Vec<u8>, HostError> {
        Err(HostError)
    }

    fn set_response_body(&self, _: &[u8]) -> Result<(), HostError> {
        Err(HostError)
    }

    fn reply(&self, _: &LocalReply<'_>) -> Result<(), HostError> {
        self.has_replied.set(true);
        Ok(())
    }

    fn resume_request(&self) -> Result<(), HostError> {
        Ok(())
    }

    fn received_bytes(&self) -> Option<u64> {
        None
    }

    fn resume_response(&self) -> Result<(), HostError> {
        Ok(())
    }

    fn call(&self, call: &Call) -> Result<u32, HostError> {
        let line = |name: &str| {
            call.headers.iter().find(|(line, _)| *line == name).map_or(&b""[..], |(_, value)| value.as_bytes())
        };
        let request = StoreRequest { method: line(":method"), path: line(":path"), body: &call.body };
        let reply = self.stores.reply_to(&request);
        let mut replies = self.replies.borrow_mut();
        let token = u32::try_from(replies.len()).map_err(|_| HostError)?;
        replies.push(Some(reply));
        Ok(token)
    }

    fn define_metric(&self, _: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        Err(HostError)
    }

    fn add_to_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> {
        Err(HostError)
    }

    fn record_in_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> {
        Err(HostError)
    }

    fn set_record(&self, _: &[u8]) -> Result<(), HostError> {
        Err(HostError)
    }

    fn advice(&self) -> &'static OperatorAdvice {
        &edge_idempotency_envoy::ADVICE
    }

    fn log(&self, _: LogLevel, _: &str) {}

    fn log_level(&self) -> LogLevel {
        LogLevel::Critical
    }
}
