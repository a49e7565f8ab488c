//! Everything a VM knows besides its code: options, contexts, what was recorded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wasmi::{Memory, TypedFunc};

use super::calls::Calls;
use super::metrics::Metrics;
use super::status::Status;
use super::stream::{Direction, Stream};
use super::work::WorkLog;
use testkit::http::{Headers, LocalReply};

/// The id of the first root context.
pub(super) const ROOT: u32 = 1;

/// How a VM is configured: what `config` and `vm_config` hold in Envoy, and the limits around it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin configuration.
    pub configuration: Vec<u8>,
    /// `vm_config.environment_variables`.
    pub environment: BTreeMap<String, String>,
    /// Clusters that HTTP calls may go to.
    pub clusters: BTreeSet<String>,
    /// How much of a body may be held back before Envoy answers by itself.
    pub body_limit: usize,
    /// Whether it is a slip of the filter to let a message go on in the middle of a body that it has held back.
    pub whole_bodies: bool,
    /// What the clock shows, in nanoseconds since 1970; it stands still until a test moves it.
    pub now: u64,
    /// The log level the host reports; every line is kept whatever its level.
    pub log_level: LogLevel,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            configuration: Vec::new(),
            environment: BTreeMap::new(),
            clusters: BTreeSet::new(),
            body_limit: 1024 * 1024,
            whole_bodies: false,
            now: 1_767_225_600_000_000_000, // 2026-01-01T00:00:00Z
            log_level: LogLevel::Info,
        }
    }
}

/// The levels of the ABI.
#[allow(missing_docs, reason = "the names are the specification's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Trace = 0,
    Debug = 1,
    Info = 2,
    Warn = 3,
    Error = 4,
    Critical = 5,
}

impl LogLevel {
    pub(super) fn from_number(level: u32) -> Result<Self, Status> {
        Ok(match level {
            0 => Self::Trace,
            1 => Self::Debug,
            2 => Self::Info,
            3 => Self::Warn,
            4 => Self::Error,
            5 => Self::Critical,
            _ => return Err(Status::BadArgument),
        })
    }
}

/// One line the filter logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its level.
    pub level: LogLevel,
    /// Its text; ill-formed UTF-8 is shown with replacement characters.
    pub message: String,
}

/// Where in its life the VM is; some host calls and buffers belong to one part only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// `_initialize` and `main`: the filter may log and read its environment.
    Initializing,
    /// Contexts, `vm_start` and `configure`: the plugin configuration is readable.
    Configuring,
    Running,
}

/// What the guest asked for and what happens only when its call has returned.
pub(super) enum Deferred {
    Reply(LocalReply),
    Continue(Direction),
}

pub(super) struct State {
    pub options: Options,
    pub memory: Option<Memory>,
    pub allocate: Option<TypedFunc<u32, u32>>,
    pub life: Life,
    /// The context of the running guest call, and the one the guest set in its place (0 is none).
    pub current: u32,
    pub effective: u32,
    /// The root contexts, one for each configuration.
    pub roots: BTreeSet<u32>,
    pub streams: BTreeMap<u32, Stream>,
    pub deferred: VecDeque<(u32, Deferred)>,
    pub calls: Calls,
    pub tick_period_ms: u32,
    pub metrics: Metrics,
    pub logs: Vec<LogLine>,
    pub failures: Vec<String>,
    /// Why the VM is of no use any more.
    pub trap: Option<String>,
    pub work: WorkLog,
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            memory: None,
            allocate: None,
            life: Life::Initializing,
            current: 0,
            effective: 0,
            roots: BTreeSet::new(),
            streams: BTreeMap::new(),
            deferred: VecDeque::new(),
            calls: Calls::default(),
            tick_period_ms: 0,
            metrics: Metrics::default(),
            logs: Vec::new(),
            failures: Vec::new(),
            trap: None,
            work: WorkLog::default(),
        }
    }

    /// Notes what no filter should do and no test should do; once is enough.
    pub(super) fn fail(&mut self, failure: impl Into<String>) {
        let failure = failure.into();
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    pub(super) fn has_context(&self, id: u32) -> bool {
        self.roots.contains(&id) && self.life != Life::Initializing || self.streams.contains_key(&id)
    }

    /// The context host calls act on.
    pub(super) fn context(&self) -> u32 {
        if self.effective != 0 && self.has_context(self.effective) { self.effective } else { self.current }
    }

    /// The stream host calls act on, if they act on one.
    pub(super) fn stream(&self) -> Option<&Stream> {
        self.streams.get(&self.context())
    }

    pub(super) fn stream_mut(&mut self) -> Option<&mut Stream> {
        let id = self.context();
        self.streams.get_mut(&id)
    }

    /// A header map as the guest may read it now.
    pub(super) fn map(&self, kind: u32) -> Result<Option<&Headers>, Status> {
        let stream = self.stream();
        let reply = self.calls.delivering.as_ref();
        Ok(match kind {
            0 | 1 => stream.and_then(|stream| stream.readable(Direction::Request, kind == 1)),
            2 | 3 => stream.and_then(|stream| stream.readable(Direction::Response, kind == 3)),
            // gRPC metadata: there are no gRPC calls here.
            4 | 5 => None,
            6 => reply.map(|reply| &reply.headers),
            7 => reply.and_then(|reply| reply.trailers.as_ref()),
            _ => return Err(Status::BadArgument),
        })
    }

    /// A header map as the guest may change it now.
    pub(super) fn map_mut(&mut self, kind: u32) -> Result<&mut Headers, Status> {
        let (direction, trailers) = match kind {
            0 | 1 => (Direction::Request, kind == 1),
            2 | 3 => (Direction::Response, kind == 3),
            _ => return Err(Status::BadArgument),
        };
        let Some(stream) = self.stream_mut() else { return Err(Status::BadArgument) };
        if stream.is_too_late(direction, trailers) {
            self.fail(format!("the filter changed {direction:?} headers that had gone on already"));
        }
        let stream = self.stream_mut().ok_or(Status::BadArgument)?;
        stream.writable(direction, trailers).ok_or(Status::BadArgument)
    }
}
