//! The platform's own scheduler: it has no token, and signs what it sends as docs/identity.md says.

use serde_json::Value;
use testkit::signatures::{SignedCall, unix_now};

use crate::http::Request;

/// Where reports are run.
pub const REPORTS_PATH: &str = "/api/v1/reports/run";

/// One run of a schedule.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The schedule
    pub schedule: &'static str,
    /// When it was due, in Unix milliseconds: with the schedule it names the run
    pub due_ms: u64,
    /// For whom
    pub tenant: &'static str,
    /// Likewise
    pub project: &'static str,
    /// The body
    pub body: Value,
}

impl Dispatch {
    /// `sched:{schedule}:{ms}`: the same however often the dispatch is sent.
    pub fn key(&self) -> String {
        format!("sched:{}:{}", self.schedule, self.due_ms)
    }

    /// The key as the filter puts it into the scheduler's namespace.
    pub fn namespaced(&self) -> String {
        format!("t-{}:{}:service:scheduler:{}", self.tenant, self.project, self.key())
    }

    /// The dispatch without its signature.
    pub fn unsigned(&self) -> Request {
        Request::post(REPORTS_PATH)
            .header("Idempotency-Key", self.key())
            .header("X-Tenant-Id", self.tenant)
            .header("X-Project-Id", self.project)
            .json(&self.body)
    }

    /// The dispatch as it was signed `age` seconds ago.
    pub fn signed(&self, secret: &str, age: u64) -> Request {
        self.signed_at(secret, unix_now().saturating_sub(age))
    }

    fn signed_at(&self, secret: &str, time: u64) -> Request {
        let (key, body) = (self.key(), self.body.to_string());
        let call = SignedCall {
            method: b"POST",
            path: REPORTS_PATH.as_bytes(),
            time,
            key: key.as_bytes(),
            tenant: self.tenant.as_bytes(),
            project: self.project.as_bytes(),
            body: body.as_bytes(),
        };
        self.unsigned().header("X-Schedule-Signature", call.header(secret))
    }
}
