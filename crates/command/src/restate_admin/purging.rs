//! Purging of stored results, and of the guard's claims that belong to them.

use super::audit::{Audit, Purpose};
use super::claims::{ClaimKeys, StoredClaim, key_of};
use super::connection::Admin;
use super::invocations::{BATCH, Invocation, PurgeOutcome, ResultState};
use super::names::InvocationId;
use super::sql::one_of;
use crate::explain::terminal_text::printable;
use indicatif::ProgressBar;
use std::collections::{BTreeMap, BTreeSet};

/// Calls that handlers made, by the id of the result whose handler began: its own calls, and the calls of those.
pub(crate) type CallsOf = BTreeMap<InvocationId, Vec<Invocation>>;

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

/// What came of a purge.
#[derive(Debug, Default)]
pub(crate) struct Purged {
    /// The numbers
    pub(crate) counts: Counts,
    /// What Restate says is gone; [`Admin::still_stored`] asks whether it is
    pub(crate) gone: Vec<Invocation>,
    /// What is under way
    pub(crate) under_way: Vec<(Purpose, Invocation)>,
    /// What Restate refused, and what it said
    pub(crate) refused: Vec<(InvocationId, String)>,
    /// The ids of results that stay because a call or a claim of theirs does
    pub(crate) kept: BTreeSet<InvocationId>,
}

/// How much is purged with a result.
pub(crate) enum Extent<'c> {
    /// Its claims. The calls of its handler are left alone.
    Claims,
    /// Its claims and these calls. The result stays while one of them is under way, because nobody could find them without it.
    ClaimsAndCalls(&'c CallsOf),
}

/// The claims that belong to these results, of the guard with this name. None if nobody says what the guard's name is.
///
/// # Errors
/// A sentence.
pub(crate) fn claims_of(
    admin: &Admin,
    guard: Option<&str>,
    results: &[Invocation],
) -> Result<Vec<StoredClaim>, String> {
    let mut keys = ClaimKeys::default();
    results.iter().for_each(|invocation| keys.add(invocation));
    guard.map_or_else(|| Ok(Vec::new()), |guard| admin.claims(guard, &keys))
}

/// The calls that the handlers of these results made without a key. Restate keeps them, with what they were given, and nobody
/// else can get their results. A call under a key of its own, and a run of a workflow, can be somebody else's, too: purging it
/// would make that work run again.
///
/// # Errors
/// A sentence.
pub(crate) fn calls_of(admin: &Admin, results: &[Invocation]) -> Result<CallsOf, String> {
    let mut calls = CallsOf::new();
    let mut roots: BTreeMap<InvocationId, InvocationId> =
        results.iter().map(|result| (result.id.clone(), result.id.clone())).collect();
    let mut callers: Vec<InvocationId> = roots.keys().cloned().collect();
    while !callers.is_empty() {
        let mut called = Vec::new();
        for batch in callers.chunks(BATCH) {
            let of_callers = one_of("invoked_by_id", batch.iter().map(|id| &**id));
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

/// What purges, and what has come of it so far.
struct Purging<'a> {
    admin: &'a Admin,
    audit: &'a mut Audit,
    progress: &'a ProgressBar,
    purged: Purged,
}

/// Purges each result, and then its claims: a request that comes in between finds the claim of the first request and no result,
/// so a changed one is refused. In the other order it could get the old result. A claim whose result is not purged stays. The
/// calls of a result are purged before it. Claims that belong to none of the results come last.
///
/// # Errors
/// Restate does not answer, or an audit line cannot be written. What was purged before has its line.
pub(crate) fn purge(
    admin: &Admin,
    results: &[Invocation],
    extent: &Extent<'_>,
    claims: Vec<StoredClaim>,
    audit: &mut Audit,
    progress: &ProgressBar,
) -> Result<Purged, String> {
    let mut purging = Purging { admin, audit, progress, purged: Purged::default() };
    let by_key = |claim: StoredClaim| Some((claim.invocation.idempotency_key.clone()?, claim));
    let mut claims: BTreeMap<String, StoredClaim> = claims.into_iter().filter_map(by_key).collect();
    for invocation in results {
        let own = key_of(invocation).and_then(|key| claims.remove(&key));
        let is_gone = match extent {
            Extent::Claims => purging.result(invocation)?,
            Extent::ClaimsAndCalls(calls) => {
                let under_way = own.as_ref().filter(|claim| claim.is_under_way());
                purging.whole(invocation, calls, under_way)?
            }
        };
        if let Some(claim) = own.filter(|_| is_gone) {
            purging.claim(&claim)?;
        }
    }
    for claim in claims.into_values() {
        purging.claim(&claim)?;
    }
    Ok(purging.purged)
}

impl Purging<'_> {
    /// Purges a result. Whether it is gone.
    fn result(&mut self, invocation: &Invocation) -> Result<bool, String> {
        let about = invocation.sent_key().map(|(sent, _)| sent).unwrap_or_default();
        self.one(Purpose::Result, invocation, about)
    }

    /// Purges the calls of a result and then the result. `under_way`: a claim of it that is. Whether all of it is gone.
    fn whole(
        &mut self,
        invocation: &Invocation,
        calls: &CallsOf,
        under_way: Option<&StoredClaim>,
    ) -> Result<bool, String> {
        if invocation.state() == ResultState::InFlight {
            return self.result(invocation);
        }
        let about = invocation.sent_key().map(|(sent, _)| sent).unwrap_or_default();
        let calls = calls.get(&invocation.id).map(Vec::as_slice).unwrap_or_default();
        let all_gone = match under_way {
            Some(claim) => self.claim(claim)?,
            None => purge_children_first(calls, |call| self.one(Purpose::Call, call, about))?,
        };
        if !all_gone {
            self.purged.kept.insert(invocation.id.clone());
            return Ok(false);
        }
        self.result(invocation)
    }

    /// Purges a claim. Whether it is gone.
    fn claim(&mut self, claim: &StoredClaim) -> Result<bool, String> {
        self.one(Purpose::Claim, &claim.invocation, &claim.about)
    }

    /// Purges one invocation, counts it and writes its audit line, also if Restate does not answer. Whether it is gone.
    fn one(&mut self, purpose: Purpose, invocation: &Invocation, about: &str) -> Result<bool, String> {
        let outcome = match invocation.state() {
            ResultState::InFlight => Ok(PurgeOutcome::InFlight),
            _ => self.admin.purge(&invocation.id),
        };
        self.progress.suspend(|| self.audit.line(purpose, invocation, about, &outcome))?;
        self.progress.inc(1);
        let outcome = outcome?;
        self.purged.counts.count(purpose, &outcome);
        match outcome {
            PurgeOutcome::Purged | PurgeOutcome::AlreadyGone => {
                self.purged.gone.push(invocation.clone());
                return Ok(true);
            }
            PurgeOutcome::InFlight => self.purged.under_way.push((purpose, invocation.clone())),
            PurgeOutcome::Refused(said) => self.purged.refused.push((invocation.id.clone(), said)),
        }
        Ok(false)
    }
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

/// What an operator does about an invocation that is under way.
pub(crate) fn in_flight_advice(admin: &Admin, purpose: Purpose, invocation: &Invocation) -> String {
    let patch = |what: &str| {
        let url = format!("{}/invocations/{}/{what}", admin.address(), invocation.id);
        format!("curl -X PATCH {}", shell_words::quote(&url))
    };
    let (id, status) = (&invocation.id, printable(&invocation.status));
    let (mut advice, end) = match purpose {
        Purpose::Result => (
            format!(
                "{id} has no result yet ({status}), so there is nothing to forget: a retry with the key waits for it."
            ),
            "Both store a 409 under the key, which can be purged then.",
        ),
        Purpose::Call => (
            format!(
                "{id} is a call of a handler ({}) and is under way ({status}). The result that leads to it stays until it has ended.",
                printable(&invocation.operation())
            ),
            "After its end run this command again.",
        ),
        Purpose::Claim => (
            format!(
                "{id} is a claim of the guard that is under way ({status}), and cannot be purged: does the guard's service answer?"
            ),
            "After its end run this command again.",
        ),
    };
    advice.push_str(" Wait for its end, or:");
    let mut way = |why: &str, what: &str| {
        advice.push_str(&format!("\n  {why}\n    {}", patch(what)));
    };
    if invocation.status == "paused" {
        way("let it go on, after you have fixed the cause:", "resume");
    }
    way(
        "give up on it, and let the handler undo its steps; it ends when the handler comes to its next step:",
        "cancel",
    );
    way("give up on it at once, and leave its steps as they are:", "kill");
    advice.push_str(&format!("\n{end}"));
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, caller: &str) -> Invocation {
        serde_json::from_value(serde_json::json!({
            "id": format!("inv_{id}"), "invoked_by_id": format!("inv_{caller}"), "status": "completed",
            "target_service_name": "Refunds", "target_handler_name": "create",
        }))
        .unwrap()
    }

    /// The result's handler calls `a` and `b`, `a` calls `c`, and `c` calls `d`.
    #[test]
    fn a_caller_of_a_call_that_stays_is_left_alone() {
        let calls = [call("a", "result"), call("b", "result"), call("c", "a"), call("d", "c")];
        for (stays, asked) in [("", "dcba"), ("d", "db"), ("c", "dcb"), ("b", "dcba")] {
            let mut seen = String::new();
            let all_gone = purge_children_first(&calls, |call| {
                let id = call.id.strip_prefix("inv_").unwrap();
                seen.push_str(id);
                Ok(id != stays)
            });
            assert_eq!((seen.as_str(), all_gone), (asked, Ok(stays.is_empty())), "{stays} stays");
        }
    }
}
