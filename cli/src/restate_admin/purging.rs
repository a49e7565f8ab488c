//! Purging of stored results, and of the guard's claims that belong to them.

use super::audit::{Audit, Purpose};
use super::claims::{ClaimKeys, StoredClaim};
use super::connection::Admin;
use super::invocations::{Invocation, PurgeOutcome, ResultState};
use indicatif::ProgressBar;
use std::collections::BTreeSet;

/// How many results were purged, and how many were not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Results that are gone now, or were gone already
    pub(crate) results: usize,
    /// Claims of the guard, likewise
    pub(crate) claims: usize,
    /// Results that there are none of yet
    pub(crate) in_flight: usize,
    /// What Restate refused for another reason
    pub(crate) failed: usize,
}

impl Counts {
    fn count(&mut self, purpose: Purpose, purged: &PurgeOutcome) {
        let counter = match (purged, purpose) {
            (PurgeOutcome::InFlight, _) => &mut self.in_flight,
            (PurgeOutcome::Refused(_), _) => &mut self.failed,
            (_, Purpose::Result) => &mut self.results,
            (_, Purpose::Claim) => &mut self.claims,
        };
        *counter += 1;
    }
}

/// The claims that belong to these results, of the guard with this name. If a claim is shared by all operations of a caller,
/// it belongs to every result under its key.
///
/// # Errors
/// A sentence.
pub(crate) fn claims_of(admin: &Admin, guard: &str, results: &[Invocation]) -> Result<Vec<StoredClaim>, String> {
    let mut keys = ClaimKeys::default();
    results.iter().for_each(|invocation| keys.add(invocation));
    admin.claims(guard, &keys)
}

/// Purges the results, and then the claims: a request that comes in between finds the claim of the first request and no result,
/// so a changed one is refused. In the other order it could get the old result. A claim whose result is not purged stays, and
/// so does a shared claim whose key is in use for another operation.
///
/// # Errors
/// Restate does not answer, or an audit line cannot be written. What was purged before has its line.
pub(crate) fn purge(
    admin: &Admin,
    results: &[Invocation],
    claims: Vec<StoredClaim>,
    audit: &mut Audit,
    progress: &ProgressBar,
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut kept = BTreeSet::new();
    for invocation in results {
        let about = invocation.idempotency_key.as_deref().unwrap_or_default();
        let purged = if invocation.state() == ResultState::InFlight {
            record(audit, Purpose::Result, invocation, about, Ok(PurgeOutcome::InFlight))?
        } else {
            record(audit, Purpose::Result, invocation, about, admin.purge(&invocation.id))?
        };
        counts.count(Purpose::Result, &purged);
        if !matches!(purged, PurgeOutcome::Purged | PurgeOutcome::AlreadyGone) {
            let mut own = ClaimKeys::default();
            own.add(invocation);
            kept.extend(own.into_keys());
        }
        progress.inc(1);
    }
    let shared = claims.iter().filter(|claim| claim.is_shared).map(|claim| claim.about.clone()).collect();
    let in_use = admin.keys_in_use(&shared)?;
    for claim in claims {
        let is_kept = claim.invocation.idempotency_key.as_ref().is_some_and(|key| kept.contains(key));
        let is_shared_still = claim.is_shared && in_use.contains(&claim.about);
        if !is_kept && !is_shared_still {
            let purged = admin.purge(&claim.invocation.id);
            counts.count(Purpose::Claim, &record(audit, Purpose::Claim, &claim.invocation, &claim.about, purged)?);
        }
        progress.inc(1);
    }
    Ok(counts)
}

/// Writes the audit line of what was done, also if Restate did not answer.
fn record(
    audit: &mut Audit,
    purpose: Purpose,
    invocation: &Invocation,
    about: &str,
    result: Result<PurgeOutcome, String>,
) -> Result<PurgeOutcome, String> {
    audit.line(purpose, invocation, about, &result)?;
    result
}

/// What an operator does about an invocation that is under way.
pub(crate) fn in_flight_advice(admin: &Admin, invocation: &Invocation) -> String {
    let patch = |what: &str| format!("curl -X PATCH {}/invocations/{}/{what}", admin.address(), invocation.id);
    let mut advice = format!(
        "{} has no result yet ({}), so there is nothing to forget: a retry with the key waits for it. Wait for its end, or:",
        invocation.id, invocation.status
    );
    let mut way = |why: &str, what: &str| {
        advice.push_str(&format!("\n  {why}\n    {}", patch(what)));
    };
    if invocation.status == "paused" {
        way("let it go on, after the cause is mended:", "resume");
    }
    way(
        "give up on it, and let the handler undo its steps; it ends when the handler comes to its next step:",
        "cancel",
    );
    way("give up on it at once, and leave its steps as they are:", "kill");
    advice.push_str("\nBoth store a 409 under the key, which can be forgotten then.");
    advice
}
