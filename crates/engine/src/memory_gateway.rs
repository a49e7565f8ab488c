//! A gateway in memory for one request: it shows messages to the engine, and notes what it is asked to do. `explain`, tests and
//! benchmarks run requests in it; the module does not have it (feature `memory-gateway`).

use crate::body::Body;
use crate::call::{Call, CallReply};
use crate::configuration::Configuration;
use crate::exchange::HeaderMapKind;
use crate::headers::{Headers, RouterHints};
use crate::host::{
    Gateway, HeaderLines, Host, HostError, LocalReply, LogLevel, MetricId, MetricSeries, OperatorAdvice,
};
use crate::identity::{AttributeValue, Attributes, MetadataPath};
use crate::stream::Stream;
use crate::time::Clock;
use std::cell::{Cell, RefCell};

/// A gateway with one request and one response.
#[derive(Default)]
pub struct MemoryGateway<'a> {
    /// What it knows of the request, if anything. It has a clock of its own.
    pub attributes: Option<&'a dyn Attributes>,
    /// The clock, in milliseconds since 1970-01-01 UTC
    pub now_unix_ms: u64,
    /// What its operators have to change, if not [`OperatorAdvice::GENERAL`]
    pub advice: Option<&'static OperatorAdvice>,
    /// The request as it came
    pub request: MemoryMessage<'a>,
    /// The response as it came
    pub response: MemoryMessage<'a>,
    /// How many bytes at the end of a body it does not show
    pub withheld: usize,
    /// What it has received of the request, in bytes
    pub received_bytes: Cell<Option<u64>>,
    /// Whether it refuses to set and to remove headers
    pub refuses_edits: bool,
    /// Whether it refuses to make calls
    pub refuses_calls: bool,
    /// The edits of headers. Without them the messages have the headers that came.
    pub edits: RefCell<Vec<HeaderEdit>>,
    /// The parts of the request's body that were read: begin and length
    pub reads: RefCell<Vec<(usize, usize)>>,
    /// How often it was given another body of the response
    pub response_bodies: Cell<usize>,
    /// How often it was asked for the endpoint that its route names
    pub endpoints: Cell<usize>,
    /// The replies of the filter
    pub replies: RefCell<Vec<MemoryReply>>,
    /// How often the request was resumed
    pub requests_resumed: Cell<usize>,
    /// How often the response was resumed
    pub responses_resumed: Cell<usize>,
    /// The calls that were made, in their order; the place of a call is its token
    pub calls: RefCell<Vec<Call>>,
    /// How many of the calls [`MemoryGateway::answer_calls`] has answered
    pub answered: Cell<usize>,
    /// The series of metrics with their counts; the place of a series is its id
    pub metrics: RefCell<Vec<(String, u64)>>,
    /// The series of histograms, each with a value that it was given
    pub samples: RefCell<Vec<(String, u64)>>,
    /// The record of the request
    pub record: RefCell<Option<Vec<u8>>>,
    /// The lines of its log
    pub log: RefCell<Vec<(LogLevel, String)>>,
}

/// Name and value of a header.
pub type BorrowedLine<'a> = (&'a [u8], &'a [u8]);

/// A message as it came.
#[derive(Default)]
pub struct MemoryMessage<'a> {
    /// Header lines, names in lower case
    pub headers: Vec<BorrowedLine<'a>>,
    /// What there is of the body
    pub body: RefCell<Vec<u8>>,
    /// Lines of trailers
    pub trailers: Vec<BorrowedLine<'a>>,
}

/// An edit of headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderEdit {
    /// Where the header is
    pub map: HeaderMapKind,
    /// The name; every line with it is removed.
    pub name: Vec<u8>,
    /// The value of the line that takes their place, if there is one
    pub value: Option<Vec<u8>>,
}

/// A reply of the filter: an owned [`LocalReply`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of a LocalReply")]
pub struct MemoryReply {
    pub status: u16,
    pub details: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub grpc_status: Option<u8>,
}

/// Lines as they came, and the edits of them.
pub struct MemoryLines<'a> {
    came: Vec<BorrowedLine<'a>>,
    edits: Vec<HeaderEdit>,
}

impl HeaderLines for MemoryLines<'_> {
    fn headers(&self) -> Option<Headers<'_>> {
        let mut lines: Vec<BorrowedLine<'_>> = self.came.clone();
        for HeaderEdit { name, value, .. } in &self.edits {
            lines.retain(|(other, _)| other != name);
            lines.extend(value.as_ref().map(|value| (name.as_slice(), value.as_slice())));
        }
        Some(Headers::new(lines))
    }
}

impl Call {
    /// The value of a header line; empty if there is no such line.
    pub fn line(&self, name: &str) -> &str {
        self.headers.iter().find(|(line, _)| *line == name).map_or("", |(_, value)| value)
    }
}

impl MemoryGateway<'_> {
    /// Whether the filter has replied.
    pub fn has_replied(&self) -> bool {
        !self.replies.borrow().is_empty()
    }

    /// Answers each call that was made, also those that an answer leads to, and lets the stream go on. `answer` gives status and
    /// body of an answer.
    pub fn answer_calls(
        &self,
        configuration: &mut Configuration,
        stream: &mut Stream,
        answer: impl Fn(&Call) -> (Option<u16>, Vec<u8>),
    ) {
        while let Some((status, body)) = { self.calls.borrow().get(self.answered.get()).map(&answer) } {
            let token = u32::try_from(self.answered.replace(self.answered.get() + 1)).unwrap_or(u32::MAX);
            configuration.on_call_reply(self, token, &CallReply { status, body: Some(&body) });
            while configuration.next_to_wake().is_some() {
                stream.on_wake(self, configuration);
            }
        }
    }

    fn edit(&self, map: HeaderMapKind, name: &[u8], value: Option<&[u8]>) -> Result<(), HostError> {
        if self.refuses_edits {
            return Err(HostError);
        }
        let (name, value) = (name.to_vec(), value.map(<[u8]>::to_vec));
        self.edits.borrow_mut().push(HeaderEdit { map, name, value });
        Ok(())
    }

    /// What it shows of a body, from the byte `start` on, at most `max` bytes of it.
    fn shown(&self, body: &RefCell<Vec<u8>>, start: usize, max: usize) -> Vec<u8> {
        let body = body.borrow();
        let given = body.len().saturating_sub(self.withheld);
        body.iter().take(given).skip(start).take(max).copied().collect()
    }
}

impl Clock for MemoryGateway<'_> {
    fn now_unix_ms(&self) -> u64 {
        self.now_unix_ms
    }
}

impl Attributes for MemoryGateway<'_> {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        self.attributes.map_or(AttributeValue::Absent, |attributes| attributes.metadata(path))
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        self.endpoints.set(self.endpoints.get() + 1);
        self.attributes.map_or(AttributeValue::Absent, Attributes::route_endpoint)
    }

    fn router(&self) -> Option<&'static RouterHints> {
        self.attributes?.router()
    }
}

impl Gateway for MemoryGateway<'_> {
    fn call(&self, call: &Call) -> Result<u32, HostError> {
        if self.refuses_calls {
            return Err(HostError);
        }
        let mut calls = self.calls.borrow_mut();
        calls.push(call.clone());
        u32::try_from(calls.len() - 1).map_err(|_| HostError)
    }

    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        let mut metrics = self.metrics.borrow_mut();
        metrics.push((series.flat_name(), 0));
        u32::try_from(metrics.len() - 1).map(MetricId).map_err(|_| HostError)
    }

    fn add_to_metric(&self, MetricId(id): MetricId, count: u64) -> Result<(), HostError> {
        self.metrics.borrow_mut().get_mut(id as usize).ok_or(HostError)?.1 += count;
        Ok(())
    }

    fn record_in_metric(&self, MetricId(id): MetricId, value: u64) -> Result<(), HostError> {
        let name = self.metrics.borrow().get(id as usize).ok_or(HostError)?.0.clone();
        self.samples.borrow_mut().push((name, value));
        Ok(())
    }

    fn advice(&self) -> &'static OperatorAdvice {
        self.advice.unwrap_or(&OperatorAdvice::GENERAL)
    }

    fn log(&self, level: LogLevel, line: &str) {
        self.log.borrow_mut().push((level, line.to_owned()));
    }

    fn log_level(&self) -> LogLevel {
        LogLevel::Info
    }
}

impl<'a> Host for MemoryGateway<'a> {
    type Lines = MemoryLines<'a>;

    fn header_lines(&self, map: HeaderMapKind) -> MemoryLines<'a> {
        let came = match map {
            HeaderMapKind::Request => &self.request.headers,
            HeaderMapKind::RequestTrailers => &self.request.trailers,
            HeaderMapKind::Response => &self.response.headers,
            HeaderMapKind::ResponseTrailers => &self.response.trailers,
        };
        let edits = self.edits.borrow().iter().filter(|edit| edit.map == map).cloned().collect();
        MemoryLines { came: came.clone(), edits }
    }

    fn set_header(&self, map: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        self.edit(map, name.as_bytes(), Some(value))
    }

    fn remove_header(&self, map: HeaderMapKind, name: &[u8]) -> Result<(), HostError> {
        self.edit(map, name, None)
    }

    /// In two pieces, as a gateway can have it.
    fn with_request_body<T>(
        &self,
        start: usize,
        max: usize,
        read: impl FnOnce(&Body<'_>) -> T,
    ) -> Result<T, HostError> {
        let part = self.shown(&self.request.body, start, max);
        self.reads.borrow_mut().push((start, part.len()));
        let (first, second) = part.split_at(part.len() / 2);
        Ok(read(&Body::of_pieces(&[first, second])))
    }

    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError> {
        Ok(self.shown(&self.response.body, 0, max))
    }

    fn set_response_body(&self, body: &[u8]) -> Result<(), HostError> {
        self.response_bodies.set(self.response_bodies.get() + 1);
        self.response.body.replace(body.to_vec());
        Ok(())
    }

    fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError> {
        self.replies.borrow_mut().push(MemoryReply {
            status: reply.status,
            details: reply.details.to_owned(),
            headers: reply.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            body: reply.body.to_vec(),
            grpc_status: reply.grpc_status,
        });
        Ok(())
    }

    fn resume_request(&self) -> Result<(), HostError> {
        self.requests_resumed.set(self.requests_resumed.get() + 1);
        Ok(())
    }

    fn received_bytes(&self) -> Option<u64> {
        self.received_bytes.get()
    }

    fn resume_response(&self) -> Result<(), HostError> {
        self.responses_resumed.set(self.responses_resumed.get() + 1);
        Ok(())
    }

    fn set_record(&self, record: &[u8]) -> Result<(), HostError> {
        self.record.replace(Some(record.to_vec()));
        Ok(())
    }
}
