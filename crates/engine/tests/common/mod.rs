//! A stand-in for a gateway that has one request: it notes what it is asked to do.
#![allow(clippy::unwrap_used, dead_code, reason = "tests, each of which uses a part of it")]

use edge_idempotency_engine::{
    AttributeValue, Attributes, Body, Call, HeaderLines, HeaderMapKind, Headers, Host, HostError, LocalReply, LogLevel,
    MetadataPath, MetricId, MetricSeries,
};
use std::cell::{Cell, RefCell};

/// A header's name and value.
pub(crate) type StaticLine = (&'static [u8], &'static [u8]);

/// A gateway with one request.
#[derive(Default)]
pub(crate) struct Gateway {
    pub(crate) responses_resumed: Cell<usize>,
    pub(crate) request: Vec<StaticLine>,
    /// What it has of the request's body, without [`Gateway::withheld`] bytes at the end
    pub(crate) body: RefCell<Vec<u8>>,
    pub(crate) withheld: usize,
    /// The parts of the body that were read: begin and length
    pub(crate) reads: RefCell<Vec<(usize, usize)>>,
    /// The statuses of its own replies
    pub(crate) replies: RefCell<Vec<u16>>,
    pub(crate) resumed: Cell<usize>,
    /// What the gateway has received of the request, in bytes
    pub(crate) received_bytes: Cell<Option<u64>>,
    pub(crate) metrics: RefCell<Vec<(String, u64)>>,
    /// The bodies of calls; each call has the id 7
    pub(crate) calls: RefCell<Vec<String>>,
    /// Whom the calls go to: cluster, authority and path, and the milliseconds for an answer
    pub(crate) called: RefCell<Vec<[String; 4]>>,
    pub(crate) refuses_calls: bool,
    /// How often it was asked for the endpoint that its route names
    pub(crate) endpoints: Cell<usize>,
    pub(crate) request_trailers: Vec<StaticLine>,
    /// The response's headers; if there are none, the status 408
    pub(crate) response: Vec<StaticLine>,
    /// The part of the response's body that comes; it has none if this is empty
    pub(crate) response_part: RefCell<Vec<u8>>,
    /// Whether it refuses to set and to remove headers
    pub(crate) refuses_edits: bool,
    /// How often it was given another body of the response
    pub(crate) bodies: Cell<usize>,
    /// The path that was set last
    pub(crate) path: RefCell<String>,
    pub(crate) log: RefCell<Vec<String>>,
}

impl Gateway {
    pub(crate) fn with(request: &[StaticLine]) -> Self {
        Self { request: request.to_vec(), body: RefCell::new(b"{}".to_vec()), ..Self::default() }
    }

    /// A request of a caller with a key. None of its body has come.
    pub(crate) fn posting(path: &'static [u8]) -> Self {
        let request = vec![
            (b":method".as_slice(), b"POST".as_slice()),
            (b":authority", b"a"),
            (b":path", path),
            (b"x-t", b"acme"),
            (b"x-p", b"shop"),
            (b"x-s", b"u1"),
            (b"idempotency-key", b"k"),
        ];
        Self { request, ..Self::default() }
    }

    /// How many lines of its log contain a text.
    pub(crate) fn logged(&self, text: &str) -> usize {
        self.log.borrow().iter().filter(|line| line.contains(text)).count()
    }

    /// The path of the request as it came.
    pub(crate) fn request_path(&self) -> &'static [u8] {
        self.request.iter().find(|(name, _)| *name == b":path").unwrap().1
    }
}

pub(crate) struct TestHeaderLines(Vec<StaticLine>);

impl HeaderLines for TestHeaderLines {
    fn headers(&self) -> Option<Headers<'_>> {
        Some(Headers::new(self.0.clone()))
    }
}

impl Attributes for Gateway {
    fn metadata(&self, _: &MetadataPath) -> AttributeValue<'_> {
        AttributeValue::Absent
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        self.endpoints.set(self.endpoints.get() + 1);
        AttributeValue::Absent
    }

    fn now_unix_ms(&self) -> u64 {
        1_000_000
    }
}

impl Host for Gateway {
    type Lines = TestHeaderLines;

    fn header_lines(&self, map: HeaderMapKind) -> TestHeaderLines {
        TestHeaderLines(match map {
            HeaderMapKind::Request => self.request.clone(),
            HeaderMapKind::Response if self.response.is_empty() => vec![(b":status", b"408")],
            HeaderMapKind::Response => self.response.clone(),
            HeaderMapKind::RequestTrailers => self.request_trailers.clone(),
            HeaderMapKind::ResponseTrailers => Vec::new(),
        })
    }

    fn set_header(&self, _: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError> {
        if name == ":path" {
            *self.path.borrow_mut() = String::from_utf8(value.to_vec()).unwrap();
        }
        if self.refuses_edits { Err(HostError) } else { Ok(()) }
    }

    fn remove_header(&self, _: HeaderMapKind, _: &[u8]) -> Result<(), HostError> {
        if self.refuses_edits { Err(HostError) } else { Ok(()) }
    }

    fn with_request_body<T>(
        &self,
        start: usize,
        max: usize,
        read: impl FnOnce(&Body<'_>) -> T,
    ) -> Result<T, HostError> {
        let body = self.body.borrow();
        let given = body.len().saturating_sub(self.withheld);
        let part: Vec<u8> = body.iter().take(given).skip(start).take(max).copied().collect();
        self.reads.borrow_mut().push((start, part.len()));
        Ok(read(&Body::of(&part)))
    }

    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError> {
        let part = self.response_part.borrow();
        let given = part.len().saturating_sub(self.withheld).min(max);
        part.get(..given).filter(|_| !part.is_empty()).map(<[u8]>::to_vec).ok_or(HostError)
    }

    fn set_response_body(&self, _: &[u8]) -> Result<(), HostError> {
        self.bodies.set(self.bodies.get() + 1);
        Ok(())
    }

    fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError> {
        self.replies.borrow_mut().push(reply.status);
        Ok(())
    }

    fn resume_response(&self) -> Result<(), HostError> {
        self.responses_resumed.set(self.responses_resumed.get() + 1);
        Ok(())
    }

    fn received_bytes(&self) -> Option<u64> {
        self.received_bytes.get()
    }

    fn resume_request(&self) -> Result<(), HostError> {
        self.resumed.set(self.resumed.get() + 1);
        Ok(())
    }

    fn call(&self, call: &Call) -> Result<u32, HostError> {
        if self.refuses_calls {
            return Err(HostError);
        }
        let line = |name: &str| call.headers.iter().find(|(line, _)| *line == name).unwrap().1.clone();
        self.called.borrow_mut().push([
            call.cluster.clone(),
            line(":authority"),
            line(":path"),
            call.timeout_ms.to_string(),
        ]);
        self.calls.borrow_mut().push(String::from_utf8(call.body.clone()).unwrap());
        Ok(7)
    }

    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError> {
        let mut metrics = self.metrics.borrow_mut();
        let id = u32::try_from(metrics.len()).map_err(|_| HostError)?;
        metrics.push((series.flat_name(), 0));
        Ok(MetricId(id))
    }

    fn add_to_metric(&self, MetricId(id): MetricId, count: u64) -> Result<(), HostError> {
        let mut metrics = self.metrics.borrow_mut();
        let metric = metrics.get_mut(id as usize).ok_or(HostError)?;
        metric.1 += count;
        Ok(())
    }

    fn record_in_metric(&self, _: MetricId, _: u64) -> Result<(), HostError> {
        Ok(())
    }

    fn set_record(&self, _: &[u8]) -> Result<(), HostError> {
        Ok(())
    }

    fn log(&self, _: LogLevel, line: &str) {
        self.log.borrow_mut().push(line.to_owned());
    }

    fn log_level(&self) -> LogLevel {
        LogLevel::Info
    }
}
