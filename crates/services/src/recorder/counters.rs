//! What the recorder has done, for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::envelope::Outcome;

/// Counts since the program began.
#[derive(Debug)]
pub(super) struct Counters {
    /// By upstream and outcome
    calls: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// By upstream
    bytes: Mutex<BTreeMap<String, u64>>,
    running: watch::Sender<usize>,
}

impl Counters {
    pub(super) fn new() -> Self {
        Self { calls: Mutex::default(), bytes: Mutex::default(), running: watch::Sender::new(0) }
    }

    /// A call begins.
    pub(super) fn begin(&self) {
        self.running.send_modify(|running| *running += 1);
    }

    /// Restate has the answer of a call.
    pub(super) fn end(&self) {
        self.running.send_modify(|running| *running = running.saturating_sub(1));
    }

    /// Waits until no call is under way.
    pub(super) async fn idle(&self) {
        let mut running = self.running.subscribe();
        // The sender lives as long as this.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    pub(super) fn count(&self, upstream: &str, outcome: Outcome, bytes: usize) {
        let outcome = match outcome {
            Outcome::Answered(_) => "answered",
            Outcome::TooLong(_) => "too_long",
            Outcome::Refused(_) => "refused",
            Outcome::Unreachable => "unreachable",
            Outcome::Unknown => "unknown",
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry((upstream.to_owned(), outcome)).or_default() += 1;
        let mut sizes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *sizes.entry(upstream.to_owned()).or_default() += u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    /// The counts in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("# TYPE edge_recorder_calls_total counter\n");
        for ((upstream, outcome), count) in self.calls.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "edge_recorder_calls_total{{upstream={upstream:?},outcome=\"{outcome}\"}} {count}");
        }
        text.push_str("# TYPE edge_recorder_answer_bytes_total counter\n");
        for (upstream, bytes) in self.bytes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "edge_recorder_answer_bytes_total{{upstream={upstream:?}}} {bytes}");
        }
        let running = *self.running.borrow();
        let _ = writeln!(text, "# TYPE edge_recorder_calls_running gauge\nedge_recorder_calls_running {running}");
        text
    }
}
