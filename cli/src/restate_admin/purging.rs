//! Purging of stored results, and of the guard's claims that belong to them.

use super::audit::{Audit, Purpose};
use super::claims::{ClaimKeys, StoredClaim};
use super::connection::Admin;
use super::invocations::{Invocation, PurgeOutcome, ResultState};
use super::sql::one_of;
use indicatif::ProgressBar;
use std::collections::{BTreeMap, BTreeSet};

/// The ids of one query.
const BATCH: usize = 500;

/// Calls that handlers made, by the id of the result whose handler began: its own calls, and the calls of those.
pub(crate) type CallsOf = BTreeMap<String, Vec<Invocation>>;

/// How many results were purged, and how many were not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Results that are gone now, or were gone already
    pub(crate) results: usize,
    /// Claims of the guard, likewise
    pub(crate) claims: usize,
    /// Calls that handlers made, likewise
    pub(crate) calls: usize,
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
            (_, Purpose::Call) => &mut self.calls,
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

/// The calls that the handlers of these results made without a key. Restate keeps them, with what they were given, and nobody
/// else can get their results. A call under a key of its own, and a run of a workflow, can be somebody else's, too: purging it
/// would make that work run again.
///
/// # Errors
/// A sentence.
pub(crate) fn calls_of(admin: &Admin, results: &[Invocation]) -> Result<CallsOf, String> {
    let mut calls = CallsOf::new();
    let mut roots: BTreeMap<String, String> =
        results.iter().map(|result| (result.id.clone(), result.id.clone())).collect();
    let mut callers: Vec<String> = roots.keys().cloned().collect();
    while !callers.is_empty() {
        let mut called = Vec::new();
        for batch in callers.chunks(BATCH) {
            let of_callers = one_of("invoked_by_id", batch.iter().map(String::as_str));
            let condition = format!("{of_callers} and idempotency_key is null and target_service_ty <> 'workflow'");
            for call in admin.all_invocations(&condition, |_| true)? {
                let root = call.invoked_by_id.as_ref().and_then(|caller| roots.get(caller)).cloned();
                let (Some(root), false) = (root, roots.contains_key(&call.id)) else { continue };
                roots.insert(call.id.clone(), root.clone());
                called.push(call.id.clone());
                calls.entry(root).or_default().push(call);
            }
        }
        callers = called;
    }
    Ok(calls)
}

/// Purges each result, and then its claims: a request that comes in between finds the claim of the first request and no result,
/// so a changed one is refused. In the other order it could get the old result. A claim whose result is not purged stays, and
/// so does a shared claim whose key is in use for another operation. The calls of a result are purged before it, and it stays as
/// long as one of them does: without it nobody could find them again. Claims that belong to none of the results come last.
///
/// # Errors
/// Restate does not answer, or an audit line cannot be written. What was purged before has its line.
pub(crate) fn purge(
    admin: &Admin,
    results: &[Invocation],
    calls: &CallsOf,
    claims: Vec<StoredClaim>,
    audit: &mut Audit,
    progress: &ProgressBar,
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut purged = BTreeSet::new();
    let by_key = |claim: StoredClaim| Some((claim.invocation.idempotency_key.clone()?, claim));
    let mut claims: BTreeMap<String, StoredClaim> = claims.into_iter().filter_map(by_key).collect();
    let mut kept_claims = BTreeMap::new();
    for invocation in results {
        let about = invocation.idempotency_key.as_deref().unwrap_or_default();
        let mut is_gone = invocation.state() != ResultState::InFlight;
        if is_gone {
            let calls = calls.get(&invocation.id).map(Vec::as_slice).unwrap_or_default();
            is_gone =
                purge_children_first(calls, |call| purge_one(admin, Purpose::Call, call, about, audit, &mut counts))?;
            progress.inc(u64::try_from(calls.len()).unwrap_or_default());
        }
        if is_gone || invocation.state() == ResultState::InFlight {
            is_gone = purge_one(admin, Purpose::Result, invocation, about, audit, &mut counts)?;
        }
        progress.inc(1);
        if is_gone {
            purged.insert(invocation.id.clone());
        }
        let mut own = ClaimKeys::default();
        own.add(invocation);
        for key in own.into_keys() {
            // A shared claim belongs to every result under its key, so it can have been kept for one before.
            let Some(claim) = claims.remove(&key).or_else(|| kept_claims.remove(&key)) else { continue };
            let about = BTreeSet::from([claim.about.clone()]);
            if !is_gone || claim.is_shared && !admin.keys_in_use(&about, &purged)?.is_empty() {
                kept_claims.insert(key, claim);
            } else {
                purge_one(admin, Purpose::Claim, &claim.invocation, &claim.about, audit, &mut counts)?;
                progress.inc(1);
            }
        }
    }
    for claim in claims.into_values() {
        let about = BTreeSet::from([claim.about.clone()]);
        if !claim.is_shared || admin.keys_in_use(&about, &purged)?.is_empty() {
            purge_one(admin, Purpose::Claim, &claim.invocation, &claim.about, audit, &mut counts)?;
        }
        progress.inc(1);
    }
    Ok(counts)
}

/// Purges calls, which come in the order in which they were found: a call after its caller. Each call is purged before its
/// caller, and a caller of a call that stays is left alone, because it leads to that call. Whether all of them are gone.
fn purge_children_first(
    calls: &[Invocation],
    mut purge: impl FnMut(&Invocation) -> Result<bool, String>,
) -> Result<bool, String> {
    let mut callers_of_kept = BTreeSet::new();
    let mut all_gone = true;
    for call in calls.iter().rev() {
        if callers_of_kept.contains(&call.id) || !purge(call)? {
            all_gone = false;
            callers_of_kept.extend(call.invoked_by_id.clone());
        }
    }
    Ok(all_gone)
}

/// Purges one invocation, counts it and writes its audit line, also if Restate does not answer. Whether it is gone.
fn purge_one(
    admin: &Admin,
    purpose: Purpose,
    invocation: &Invocation,
    about: &str,
    audit: &mut Audit,
    counts: &mut Counts,
) -> Result<bool, String> {
    let outcome = match invocation.state() {
        ResultState::InFlight => Ok(PurgeOutcome::InFlight),
        _ => admin.purge(&invocation.id),
    };
    audit.line(purpose, invocation, about, &outcome)?;
    let outcome = outcome?;
    counts.count(purpose, &outcome);
    Ok(matches!(outcome, PurgeOutcome::Purged | PurgeOutcome::AlreadyGone))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, caller: &str) -> Invocation {
        let mut call = Invocation::default();
        call.id.push_str(id);
        call.invoked_by_id = Some(caller.to_owned());
        call
    }

    /// The result's handler calls `a` and `b`, `a` calls `c`, and `c` calls `d`.
    #[test]
    fn a_caller_of_a_call_that_stays_is_left_alone() {
        let calls = [call("a", "result"), call("b", "result"), call("c", "a"), call("d", "c")];
        for (stays, asked) in [("", "dcba"), ("d", "db"), ("c", "dcb"), ("b", "dcba")] {
            let mut seen = String::new();
            let all_gone = purge_children_first(&calls, |call| {
                seen.push_str(&call.id);
                Ok(call.id != stays)
            });
            assert_eq!((seen.as_str(), all_gone), (asked, Ok(stays.is_empty())), "{stays} stays");
        }
    }
}
