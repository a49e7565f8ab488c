//! The interface between the engine and a gateway: the gateway itself, and a request in it. The proxy-wasm filter implements both with
//! host calls. Another kind of gateway needs one more implementation and nothing else.
//!
//! No method panics: a failed operation is a [`HostError`].

use crate::body::Body;
use crate::call::Call;
use crate::exchange::HeaderMapKind;
use crate::headers::Headers;
use crate::identity::Attributes;
use crate::policy::SecretReader;
use crate::time::Clock;
use std::sync::Arc;

pub use crate::headers::RouterHints;

/// An operation of the gateway failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostError;

/// How important a line of the gateway's log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something that only the search for an error needs
    Debug,
    /// Something started, or works again
    Info,
    /// Something failed, and the filter goes on
    Warn,
    /// The filter cannot start
    Error,
    /// The gateway is configured wrongly, and requests are refused for it
    Critical,
}

/// What operators have to change in the configuration of a gateway, in the gateway's own terms.
#[derive(Debug, Clone, Copy)]
pub struct OperatorAdvice {
    /// If the filter does not get an environment variable
    pub environment: &'static str,
    /// If the gateway keeps back the body that a message waits for
    pub kept_back_body: &'static str,
}

impl OperatorAdvice {
    /// The advice for a gateway of which nothing is known.
    pub const GENERAL: Self = Self {
        environment: "set it in the gateway's environment",
        kept_back_body: "a body that the filter waits for did not come within 5 s. Let the gateway pass bodies to the filter \
             while it pauses a message",
    };
}

/// The kind of a metric. The numbers are those of proxy-wasm (`proxy_metric_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows
    Counter = 0,
    /// A distribution of values
    Histogram = 2,
}

/// A series of a metric: its name, and its labels with their values.
#[derive(Debug, Clone, Copy)]
pub struct MetricSeries<'s> {
    /// The kind of the metric
    pub kind: MetricKind,
    /// The name, as Prometheus shows it
    pub name: &'static str,
    /// Each label with its value, of which there is one for every label that [`metric_names`](crate::metric_names) lists
    pub labels: &'s [(&'static str, String)],
}

impl MetricSeries<'_> {
    /// Name and labels in one text for a gateway whose metrics have no labels: `name;label=value;…`. The gateway's rules for
    /// metrics take it apart.
    pub fn flat_name(&self) -> String {
        let mut name = self.name.to_owned();
        for (label, value) in self.labels {
            for part in [";", label, "=", value] {
                name.push_str(part);
            }
        }
        name
    }
}

/// A metric that the gateway has defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricId(pub u32);

/// A copy of a header map.
pub trait HeaderLines {
    /// The lines; `None` if the host's encoding of them is broken.
    fn headers(&self) -> Option<Headers<'_>>;
}

/// A response that the filter makes itself.
#[derive(Debug, Clone, Copy)]
pub struct LocalReply<'r> {
    /// The HTTP status
    pub status: u16,
    /// The response details in the access log (`%RESPONSE_CODE_DETAILS%`)
    pub details: &'r str,
    /// Header lines, without the status
    pub headers: &'r [(&'r str, String)],
    /// The body
    pub body: &'r [u8],
    /// The status of gRPC, if the reply is one to a gRPC client. The headers have it, too: this is for a host that makes replies to
    /// such clients by itself, as Envoy does.
    pub grpc_status: Option<u8>,
}

/// A gateway, at any event.
///
/// No method of a gateway or of a [`Host`] may hand another event to the engine: what it causes (a reply to a call, another request)
/// comes after the event.
pub trait Gateway: Clock {
    /// Begins an HTTP call and returns the token that identifies its reply. The call goes on if the request ends.
    ///
    /// # Errors
    /// The call was not made, and no reply will come.
    fn call(&self, call: &Call) -> Result<u32, HostError>;

    /// Defines a series of a metric, or finds it.
    ///
    /// # Errors
    /// The gateway has no such metric.
    fn define_metric(&self, series: &MetricSeries<'_>) -> Result<MetricId, HostError>;

    /// Adds to a counter.
    ///
    /// # Errors
    /// The gateway did not count.
    fn add_to_metric(&self, metric: MetricId, count: u64) -> Result<(), HostError>;

    /// Records a value of a histogram.
    ///
    /// # Errors
    /// The gateway did not record it.
    fn record_in_metric(&self, metric: MetricId, value: u64) -> Result<(), HostError>;

    /// Asks the gateway for a secret of its secret discovery service, while a configuration is loaded. `source`: a `ConfigSource` of
    /// Envoy as JSON, empty for a secret that the gateway itself has.
    ///
    /// # Errors
    /// The gateway has no such secrets.
    fn secret_reader(&self, name: &str, source: &str) -> Result<Arc<dyn SecretReader>, HostError> {
        let (_, _) = (name, source);
        Err(HostError)
    }

    /// What operators of this gateway have to change.
    fn advice(&self) -> &'static OperatorAdvice {
        &OperatorAdvice::GENERAL
    }

    /// Writes a line into the gateway's log.
    fn log(&self, level: LogLevel, line: &str);

    /// The lowest level that the gateway's log shows.
    fn log_level(&self) -> LogLevel;
}

/// A gateway at an event of one of its requests: every method of this trait acts on that request. [`Attributes`] are what the gateway
/// knows about it in addition to its headers.
pub trait Host: Gateway + Attributes {
    /// A copy of a header map.
    type Lines: HeaderLines;

    /// The current state of a header map; it has no lines if the map does not exist.
    fn header_lines(&self, map: HeaderMapKind) -> Self::Lines;

    /// Replaces all lines with this name (lower case) by one line with this value.
    ///
    /// # Errors
    /// The gateway did not change the map.
    fn set_header(&self, map: HeaderMapKind, name: &str, value: &[u8]) -> Result<(), HostError>;

    /// Removes every line with this name.
    ///
    /// # Errors
    /// The gateway did not change the map.
    fn remove_header(&self, map: HeaderMapKind, name: &[u8]) -> Result<(), HostError>;

    /// Hands the buffered body of the request to `read`, from the byte `start` on, at most `max` bytes of it. `read` changes nothing
    /// in the gateway, so the gateway can show its own memory.
    ///
    /// # Errors
    /// The gateway has no such buffer, and `read` was not called.
    fn with_request_body<T>(&self, start: usize, max: usize, read: impl FnOnce(&Body<'_>) -> T)
    -> Result<T, HostError>;

    /// The buffered body of the response, at most `max` bytes of it.
    ///
    /// # Errors
    /// The gateway has no such buffer.
    fn response_body(&self, max: usize) -> Result<Vec<u8>, HostError>;

    /// Replaces the part of the response's body that is buffered, or in the current callback, by `body`.
    ///
    /// # Errors
    /// The gateway did not change the body.
    fn set_response_body(&self, body: &[u8]) -> Result<(), HostError>;

    /// Sends a local reply to the client. The request is not forwarded.
    ///
    /// # Errors
    /// The gateway has ended the stream already.
    fn reply(&self, reply: &LocalReply<'_>) -> Result<(), HostError>;

    /// Resumes the paused request of this host. The current callback may belong to another context.
    ///
    /// # Errors
    /// The request has ended.
    fn resume_request(&self) -> Result<(), HostError>;

    /// How many bytes of the request the gateway has received: names and values of its headers, and its body. `None` if
    /// the gateway does not tell.
    fn received_bytes(&self) -> Option<u64>;

    /// Resumes the paused response of this host. The current callback may belong to another context.
    ///
    /// # Errors
    /// The response has ended.
    fn resume_response(&self) -> Result<(), HostError>;

    /// The address and the port of the client that the request is from, as text, behind proxies that the gateway trusts. `None` if
    /// the gateway does not tell.
    fn sender_address(&self) -> Option<Vec<u8>> {
        None
    }

    /// Makes the record of the request, a `google.protobuf.Struct`, available to the gateway's access log and traces. It
    /// replaces the record of an earlier call.
    ///
    /// # Errors
    /// The gateway did not take it.
    fn set_record(&self, record: &[u8]) -> Result<(), HostError>;
}
