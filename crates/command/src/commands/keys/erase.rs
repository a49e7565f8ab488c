//! `keys purge --all`: all results of a subject are purged.

use super::arguments::PurgeArguments;
use super::session::{Session, UNKNOWN_GUARD};
use super::{number, say};
use crate::commands::question::{can_ask, confirmed};
use crate::commands::{BAD_INPUT, FORWARD, REJECT};
use crate::explain::terminal_text::{self, printable};
use crate::output::print;
use crate::output::tell;
use crate::restate_admin::audit::Purpose;
use crate::restate_admin::claims::StoredClaim;
use crate::restate_admin::invocations::{BETWEEN_LOOKS, Invocation, LOOKS, ResultState};
use crate::restate_admin::keys_text::{call_to_json, call_to_text, details_to_json, table};
use crate::restate_admin::purging::{CallsOf, Extent, calls_of, claims_of, in_flight_advice, purge};
use indicatif::ProgressBar;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What is stored of a subject.
struct Stored {
    rows: Vec<Invocation>,
    /// `None` if nobody says what the guard's name is
    claims: Option<Vec<StoredClaim>>,
    calls: CallsOf,
}

pub(super) fn erase(args: &PurgeArguments) -> Result<u8, String> {
    let (Some(tenant), Some(subject)) = (&args.common.tenant, &args.common.subject) else {
        return Err("give --tenant and --subject: the same subject in another tenant is another caller".to_owned());
    };
    let Some(session) = Session::open(&args.common, None)? else { return Ok(BAD_INPUT) };
    let rows = session.found()?;
    let guard = session.guard()?;
    let claims = claims_of(&session.admin, guard.as_deref(), &rows)?;
    let calls = calls_of(&session.admin, &rows)?;
    let stored = Stored { claims: guard.map(|_| claims), calls, rows };
    let asks = !args.yes && !args.common.json && can_ask();
    if !args.yes {
        stored.show(args.common.json, asks)?;
    }
    if stored.rows.is_empty() {
        tell!("no result of {} is stored in the tenant {tenant}", printable(subject));
        return Ok(FORWARD);
    }
    if !args.yes {
        tell!("{}", stored.summary());
    }
    // Claims are found by their results only, so the results stay until the claims can be found.
    let Some(claims) = stored.claims else {
        return Err(format!("{UNKNOWN_GUARD}. Without their results nobody could find them, so nothing was purged"));
    };
    let is_wanted = args.yes || asks && confirmed("Erase this permanently?")?;
    if !is_wanted {
        tell!("edge-idempotency: nothing was purged{}", if asks { "" } else { ": --yes purges" });
        return Ok(REJECT);
    }
    let mut audit = session.audit("erase", &args.purge)?;
    let count = stored.rows.len() + stored.calls.values().map(Vec::len).sum::<usize>() + claims.len();
    let progress = ProgressBar::new(u64::try_from(count).unwrap_or_default());
    let extent = Extent::ClaimsAndCalls(&stored.calls);
    let purged = purge(&session.admin, &stored.rows, &extent, claims, &mut audit, &progress)?;
    progress.finish_and_clear();
    let still_stored = session.admin.still_stored(&purged.gone)?;
    say(&session, &purged, &still_stored);
    let mut known: BTreeSet<&str> = purged.kept.iter().map(|id| &**id).collect();
    known.extend(purged.refused.iter().map(|(id, _)| &**id));
    known.extend(purged.under_way.iter().map(|(_, invocation)| &*invocation.id));
    known.extend(still_stored.iter().map(|invocation| &*invocation.id));
    let left = left_over(&session, &known)?;
    for row in left.iter().filter(|row| !known.contains(&*row.id)) {
        match row.state() {
            ResultState::InFlight => {
                tell!("edge-idempotency: {}", in_flight_advice(&session.admin, Purpose::Result, row));
            }
            _ => tell!("edge-idempotency: {} came in the meantime: run the command again", row.id),
        }
    }
    for id in &purged.kept {
        tell!(
            "edge-idempotency: the result {id} was not purged, because what is left is found through it: run the \
             command again"
        );
    }
    Ok(if left.is_empty() && known.is_empty() { FORWARD } else { REJECT })
}

impl Stored {
    /// The list of all that is stored. `asks`: a question follows, so that the list is for the terminal, and standard output
    /// gets audit lines only.
    fn show(&self, as_json: bool, asks: bool) -> Result<(), String> {
        let now = Timestamp::now();
        let calls = self.calls.values().flatten();
        if as_json {
            let rows = self.rows.iter().map(|row| details_to_json(row, self.claims.as_deref(), now));
            let calls: Vec<Value> = calls.map(call_to_json).collect();
            return print(&terminal_text::json(&json!({"invocations": rows.collect::<Vec<_>>(), "calls": calls})));
        }
        if self.rows.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = std::iter::once(table(&self.rows, now)).chain(calls.map(call_to_text)).collect();
        let text = lines.join("\n");
        if asks {
            tell!("{text}");
            return Ok(());
        }
        print(&text)
    }

    fn summary(&self) -> String {
        let running = self.rows.iter().filter(|row| row.state() == ResultState::InFlight).count();
        let calls = self.calls.values().map(Vec::len).sum::<usize>();
        let claims = self.claims.as_ref().map(|claims| number(claims.len(), "claim"));
        format!(
            "{} ({running} under way), {} of handlers and {} of the guard",
            number(self.rows.len(), "result"),
            number(calls, "call"),
            claims.as_deref().unwrap_or("an unknown number of claims")
        )
    }
}

/// What is still stored of the selection. Restate answers a purge before its tables show it, so this looks a few times, unless
/// only those are left that are known and those that are under way.
fn left_over(session: &Session, known: &BTreeSet<&str>) -> Result<Vec<Invocation>, String> {
    let mut left = session.found()?;
    for _ in 1..LOOKS {
        if left.iter().all(|row| row.state() == ResultState::InFlight || known.contains(&*row.id)) {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        left = session.found()?;
    }
    Ok(left)
}
