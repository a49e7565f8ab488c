//! `keys`: what Restate stores under keys, and purging of it.

mod arguments;
mod erase;
mod forget;
mod session;

use crate::output::tell;
pub(crate) use arguments::KeysArguments;
use arguments::{KeysAction, ShowArguments};
use erase::erase;
use forget::forget;
use session::Session;

use super::{BAD_INPUT, FORWARD, REJECT};
use crate::explain::terminal_text;
use crate::output::print;
use crate::restate_admin::claims::StoredClaim;
use crate::restate_admin::invocations::{Invocation, PAGE};
use crate::restate_admin::keys_text::{details, details_to_json, table, to_json};
use crate::restate_admin::names::InvocationId;
use crate::restate_admin::purging::{Counts, Purged, claims_of, in_flight_advice};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Runs the command; its exit status.
pub(crate) fn run(args: &KeysArguments) -> Result<u8, String> {
    match &args.action {
        KeysAction::Show(args) if args.details => details_of(args),
        KeysAction::Show(args) => list(args),
        KeysAction::Purge(args) if args.all => erase(args),
        KeysAction::Purge(args) => forget(args),
    }
}

fn list(args: &ShowArguments) -> Result<u8, String> {
    let Some(mut session) = Session::open(&args.common, Some(&args.one))? else { return Ok(BAD_INPUT) };
    session.selection.state = args.state;
    let condition = session.selection.condition()?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let after = args.after.clone().map(InvocationId::try_from).transpose();
    let mut after = after.map_err(|_| "--after: expected the id of an invocation, such as inv_1gdJ…".to_owned())?;
    let mut rows = Vec::new();
    // One more than the limit tells whether there is another page. Restate does not know digests, so all rows are read for one.
    let size = if session.selection.key_hash.is_some() { PAGE } else { PAGE.min(limit.saturating_add(1)) };
    while rows.len() <= limit {
        let page = session.admin.invocations(&condition, after.as_ref(), size)?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        let is_last = page.len() < size;
        rows.extend(page.into_iter().filter(|invocation| session.selection.has(invocation)));
        if is_last {
            break;
        }
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().map(|last| last.id.clone()).filter(|_| has_more);
    let now = Timestamp::now();
    if args.common.json {
        let invocations: Vec<Value> = rows.iter().map(|row| Value::Object(to_json(row, now))).collect();
        print(&terminal_text::json(&json!({"invocations": invocations, "next": next})))?;
        return Ok(FORWARD);
    }
    if rows.is_empty() {
        tell!("nothing is stored under such keys");
        return Ok(FORWARD);
    }
    print(&table(&rows, now))?;
    if let Some(next) = next {
        tell!("there are more results: continue with --after {next}");
    }
    Ok(FORWARD)
}

fn details_of(args: &ShowArguments) -> Result<u8, String> {
    let Some(session) = Session::open(&args.common, Some(&args.one))? else { return Ok(BAD_INPUT) };
    if session.selection.is_empty() {
        return Err(
            "choose what to show, such as by --tenant and --key, or by --id; without --details everything is listed"
                .to_owned(),
        );
    }
    let rows = session.found()?;
    let guard = session.guard()?;
    let found = claims_of(&session.admin, guard.as_deref(), &rows)?;
    let claims: Option<&[StoredClaim]> = guard.as_ref().map(|_| found.as_slice());
    let now = Timestamp::now();
    if args.common.json {
        let invocations: Vec<Value> = rows.iter().map(|row| details_to_json(row, claims, now)).collect();
        print(&terminal_text::json(&json!({"invocations": invocations})))?;
    } else if !rows.is_empty() {
        print(&rows.iter().map(|row| details(row, claims, now)).collect::<Vec<_>>().join("\n\n"))?;
    }
    if rows.is_empty() {
        tell!("edge-idempotency: nothing is stored under such a key");
        return Ok(REJECT);
    }
    if guard.is_none() {
        tell!("edge-idempotency: {}", session::UNKNOWN_GUARD);
    }
    Ok(FORWARD)
}

/// What a purge did, on standard error: the numbers, and what stays and why.
fn say(session: &Session, purged: &Purged, still_stored: &[Invocation]) {
    let Counts { results, claims, calls, in_flight, failed } = purged.counts;
    let (results, claims, calls) = (number(results, "result"), number(claims, "claim"), number(calls, "call"));
    tell!("purged: {results}, {calls}, {claims}; under way: {in_flight}; failed: {failed}");
    for (id, said) in &purged.refused {
        tell!("edge-idempotency: {id} was not purged: {said}");
    }
    for (purpose, invocation) in &purged.under_way {
        tell!("edge-idempotency: {}", in_flight_advice(&session.admin, *purpose, invocation));
    }
    for invocation in still_stored {
        tell!(
            "edge-idempotency: {} ({}) is still stored, although Restate has said that it is gone",
            invocation.id,
            terminal_text::printable(&invocation.operation())
        );
    }
}

fn number(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
