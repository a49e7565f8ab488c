//! Counts the claims of requests that are checked beside their way to the backend.

use super::{Count, Counter, Histogram, HistogramSeries, NONE, SeriesTable};
use crate::collision::{self, ClaimVerdict, ObservedCaller, ObservedClaim, Unobserved};

impl Unobserved {
    /// Counts that no claim was made.
    pub(crate) fn count(&self, series: &mut SeriesTable, max_series: usize) {
        add(&self.caller, Counter::Lookup, [collision::STORE, self.reason.name()], series, max_series);
    }
}

impl ObservedClaim {
    /// The histogram of the time of its call.
    pub(crate) fn call_time(&self, series: &mut SeriesTable, max_series: usize) -> Option<HistogramSeries> {
        let ObservedCaller { tenant, project, endpoint } = &self.caller;
        let about = series.subject(Some(tenant), Some(project), Some(endpoint));
        series.histogram(&about, Histogram::LookupTime, collision::STORE, max_series)
    }

    /// Counts the verdict.
    pub(crate) fn count(&self, verdict: ClaimVerdict, series: &mut SeriesTable, max_series: usize) {
        add(&self.caller, Counter::Lookup, [collision::STORE, verdict.name()], series, max_series);
        if verdict == ClaimVerdict::Mismatch {
            add(&self.caller, Counter::KeyCollision, ["observe", NONE], series, max_series);
        }
    }
}

fn add(caller: &ObservedCaller, counter: Counter, values: [&str; 2], series: &mut SeriesTable, max_series: usize) {
    let (tenant, project) = (Some(caller.tenant.as_str()), Some(caller.project.as_str()));
    series.add(&Count { counter, values, tenant, project, endpoint: Some(&caller.endpoint) }, max_series);
}
