//! A request that is checked beside its way to the backend (`collision: observe`). Its body is read as it passes, and the
//! claim is made when the whole body has passed. Nothing of the request waits for it.

use super::claim::{Claim, ClaimVerdict, OpenClaim};
use super::fingerprint::BodyReader;
use crate::metrics::{Count, Counter, NONE, SeriesTable};

/// A request whose body is still passing.
#[derive(Debug)]
pub(crate) struct Observation {
    claim: OpenClaim,
    body: BodyReader,
    /// How many more bytes the body may have
    room: u64,
    caller: ObservedCaller,
}

/// Whose request it is, for metrics.
#[derive(Debug)]
pub(crate) struct ObservedCaller {
    pub(crate) tenant: String,
    pub(crate) project: String,
    pub(crate) endpoint: String,
}

/// A claim that no request waits for.
#[derive(Debug)]
pub(crate) struct ObservedClaim {
    pub(crate) claim: Claim,
    caller: ObservedCaller,
}

/// The body of an observed request is above the limit, so no claim is made.
#[derive(Debug)]
pub(crate) struct ObservedTooLarge(ObservedCaller);

impl Observation {
    /// A request of which no body has come. `limit`: the longest body for which a claim is made, in bytes.
    pub(crate) fn new(claim: OpenClaim, limit: u64, caller: ObservedCaller) -> Self {
        Self { body: claim.body_reader(), claim, room: limit, caller }
    }

    /// Takes the next part of the body.
    ///
    /// # Errors
    /// The body is above the limit.
    pub(crate) fn push(mut self: Box<Self>, part: &[u8]) -> Result<Box<Self>, ObservedTooLarge> {
        match self.room.checked_sub(part.len() as u64) {
            Some(room) => {
                self.room = room;
                self.body.push(part);
                Ok(self)
            }
            None => Err(ObservedTooLarge(self.caller)),
        }
    }

    /// The claim of the whole request.
    pub(crate) fn finish(self) -> ObservedClaim {
        ObservedClaim { claim: self.claim.with_body(self.body), caller: self.caller }
    }
}

impl ObservedTooLarge {
    /// Counts that no claim was made.
    pub(crate) fn count(&self, series: &mut SeriesTable, max_series: usize) {
        self.0.count(Counter::Lookup, ["guard", "body_too_large"], series, max_series);
    }
}

impl ObservedClaim {
    /// Counts the verdict.
    pub(crate) fn count(&self, verdict: ClaimVerdict, series: &mut SeriesTable, max_series: usize) {
        self.caller.count(Counter::Lookup, ["guard", verdict.name()], series, max_series);
        if verdict == ClaimVerdict::Mismatch {
            self.caller.count(Counter::KeyCollision, ["observe", NONE], series, max_series);
        }
    }
}

impl ObservedCaller {
    fn count(&self, counter: Counter, values: [&str; 2], series: &mut SeriesTable, max_series: usize) {
        let (tenant, project) = (Some(self.tenant.as_str()), Some(self.project.as_str()));
        series.add(&Count { counter, values, tenant, project, endpoint: Some(&self.endpoint) }, max_series);
    }
}
