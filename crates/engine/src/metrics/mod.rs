//! Counters and histograms (docs/contract.md section 9): which there are, what an exchange counts, and the bounded set of
//! series.
//!
//! | module | subject |
//! |---|---|
//! | `claims` | what the claim of an observed request counts |
//! | `counters` | the names of the counters and histograms, and of their labels |
//! | `observe` | what an exchange counts |
//! | `series` | the series of one VM, bounded, with counts that wait for the next flush |

mod claims;
mod counters;
mod observe;
mod series;

pub use counters::{Counter, Histogram};
pub(crate) use observe::{call_time, count_handler_hit, count_request, count_response};
pub(crate) use series::{HistogramSeries, NONE};
pub use series::{SeriesTable, metric_names};
use std::sync::{Arc, Mutex, PoisonError};

/// The metrics of one worker of a gateway. All of its configurations share them, also those that have been replaced, because
/// the gateway keeps their series.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<SeriesTable>>);

impl Metrics {
    /// Runs `event` with the series.
    pub(crate) fn with<T>(&self, event: impl FnOnce(&mut SeriesTable) -> T) -> T {
        event(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One increment of a counter. A value that is absent is `_none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count<'c> {
    /// The counter
    pub counter: Counter,
    /// The values of the counter's own labels, in the order of [`Counter::labels`]
    pub values: [&'c str; 2],
    /// The tenant, from a verified identity only
    pub tenant: Option<&'c str>,
    /// The project, from a verified identity only
    pub project: Option<&'c str>,
    /// The endpoint; without one the request matched no route
    pub endpoint: Option<&'c str>,
}
