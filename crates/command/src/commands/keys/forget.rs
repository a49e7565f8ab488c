//! `keys purge`: one result is purged, so that the next request with its key runs.

use super::arguments::PurgeArguments;
use super::say;
use super::session::{Session, UNKNOWN_GUARD};
use crate::commands::question::confirmed;
use crate::commands::{BAD_INPUT, FORWARD, REJECT};
use crate::output::tell;
use crate::restate_admin::audit::Purpose;
use crate::restate_admin::claims::{ClaimKeys, StoredClaim};
use crate::restate_admin::invocations::{Invocation, ResultState};
use crate::restate_admin::keys_text::{details, table};
use crate::restate_admin::purging::{Extent, claims_of, in_flight_advice, purge};
use edge_idempotency_engine::policy::HandlerAddress;
use indicatif::ProgressBar;
use jiff::Timestamp;

pub(super) fn forget(args: &PurgeArguments) -> Result<u8, String> {
    let one = &args.one;
    if one.key.is_none() && one.stored_key.is_none() && one.key_hash.is_none() && one.id.is_none() {
        return Err(
            "say which result: give --id, --key with --tenant, --stored-key or --key-hash; or --all for all results of a \
             subject"
                .to_owned(),
        );
    }
    let Some(session) = Session::open(&args.common, Some(one))? else { return Ok(BAD_INPUT) };
    let rows = session.found()?;
    let guard = session.guard()?;
    let now = Timestamp::now();
    let claims = match rows.as_slice() {
        [] => lone_claims(&session, guard.as_deref())?,
        // A recorder tries a key again under the next number.
        [first, others @ ..] if others.iter().all(|row| is_retry(row, first)) => {
            claims_of(&session.admin, guard.as_deref(), &rows)?
        }
        several => {
            tell!("{}", table(several, now));
            return Err(format!(
                "{} results match, so nothing was purged: choose one with --id, or with --operation if a recorder keeps them",
                several.len()
            ));
        }
    };
    let not_looked_for = not_looked_for(&session, guard.as_deref(), rows.is_empty())?;
    if rows.is_empty() && claims.is_empty() {
        let runs = if not_looked_for.is_empty() {
            ", and the guard has no claim of it, so the next request with it runs"
        } else {
            ""
        };
        tell!("edge-idempotency: nothing is stored under such a key{runs}");
        not_looked_for.iter().for_each(|note| tell!("  {note}"));
        return Ok(REJECT);
    }
    if let Some(running) = rows.iter().find(|row| row.state() == ResultState::InFlight) {
        tell!("edge-idempotency: {}", in_flight_advice(&session.admin, Purpose::Result, running));
        return Ok(REJECT);
    }
    for row in &rows {
        tell!("{}", details(row, Some(&claims), now));
    }
    if rows.is_empty() {
        tell!(
            "no result is stored under this key, but the guard has a claim of it: another request with it is refused"
        );
    }
    not_looked_for.iter().for_each(|note| tell!("note: {note}"));
    if !args.yes && !confirmed("Forget this?")? {
        tell!("edge-idempotency: nothing was purged");
        return Ok(REJECT);
    }
    // The same id can have a new result by the time of the answer, and a key without a result can have one.
    let times = |rows: &[Invocation]| rows.iter().map(|row| row.completed_at.clone()).collect::<Vec<_>>();
    if times(&session.found()?) != times(&rows) {
        return Err("the result has changed since it was shown; nothing was purged. Look at it again".to_owned());
    }
    let mut audit = session.audit("forget", &args.purge)?;
    let purged = purge(&session.admin, &rows, &Extent::Claims, claims, &mut audit, &ProgressBar::hidden())?;
    let still_stored = session.admin.still_stored(&purged.gone)?;
    say(&session, &purged, &still_stored);
    let is_done = purged.under_way.is_empty() && purged.refused.is_empty() && still_stored.is_empty();
    Ok(if is_done { FORWARD } else { REJECT })
}

/// Whether both belong to one key of one operation.
fn is_retry(row: &Invocation, first: &Invocation) -> bool {
    row.sent_key().is_some_and(|(_, recorded)| recorded.is_some()) && row.sent_key() == first.sent_key()
}

/// The claims of a key that is given whole, and under which no result is stored: its request never ran, or its result has
/// expired. With an id or a digest the key may have a result that was not asked for, so then there are none.
fn lone_claims(session: &Session, guard: Option<&str>) -> Result<Vec<StoredClaim>, String> {
    let selection = &session.selection;
    // The object key of a target is not known here.
    let operation = selection.operation.as_ref().filter(|operation| !operation.is_keyed);
    let (Some(stored), Some(guard), Some(operation), false) =
        (selection.namespaced_key()?, guard, operation, selection.names_an_invocation())
    else {
        return Ok(Vec::new());
    };
    let address = HandlerAddress { service: &operation.service, object_key: None, handler: &operation.handler };
    let mut keys = ClaimKeys::default();
    keys.add_operation(&stored, &address);
    session.admin.claims(guard, &keys)
}

/// What may be stored and was not looked for. `nothing`: no result was found, so that claims are found by the key alone.
fn not_looked_for(session: &Session, guard: Option<&str>, nothing: bool) -> Result<Vec<&'static str>, String> {
    let selection = &session.selection;
    let mut notes = Vec::new();
    if nothing && selection.id.is_some() {
        notes.push(
            "With --id the command looks only for results under namespaced keys. It does not find calls of handlers, \
             claims, or requests without a key.",
        );
    }
    if guard.is_none() {
        notes.push(UNKNOWN_GUARD);
        return Ok(notes);
    }
    if !nothing {
        return Ok(notes);
    }
    let whole_key = selection.namespaced_key()?.is_some() && !selection.names_an_invocation();
    match &selection.operation {
        Some(operation) if whole_key && operation.is_keyed => notes.push(
            "The guard's claim of this operation was not looked for: it depends on the target's object key, which is not known here. \
             Until it ends (backend.guard.retention) the guard refuses a request with this key and another body.",
        ),
        Some(_) if whole_key => {}
        _ => notes.push(
            "Claims of the guard were not looked for. That needs the whole key (--stored-key; or --tenant, --project, --subject and \
             --key) without --id and --key-hash, and --endpoint with --policy.",
        ),
    }
    Ok(notes)
}
