//! `keys`: what Restate stores under keys, and purging of it.

mod arguments;

pub(crate) use arguments::Arguments;
use arguments::{Action, Common, EraseArguments, ForgetArguments, ListArguments, OneKey, PurgeOptions, ShowArguments};

use super::input::{print, read_policy_document};
use super::retention::confirmed;
use super::{BAD_INPUT, FORWARD, REJECT};
use crate::plain;
use crate::restate_admin::audit::Audit;
use crate::restate_admin::claims::{ClaimKeys, StoredClaim};
use crate::restate_admin::connection::Admin;
use crate::restate_admin::invocations::{Invocation, PAGE, ResultState};
use crate::restate_admin::keys_text::{details, details_to_json, table, to_json};
use crate::restate_admin::plan::guard_name;
use crate::restate_admin::purging::{CallsOf, Counts, calls_of, claims_of, in_flight_advice, purge};
use crate::restate_admin::selection::{Selection, SelectionText};
use edge_idempotency_engine::policy::{HandlerAddress, KeyInLogs};
use indicatif::ProgressBar;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// What the arguments say, and the Restate that they name.
struct Session {
    selection: Selection,
    guard: String,
    key_in_logs: KeyInLogs,
    admin: Admin,
}

impl Session {
    /// `None` if the document is no policy; then its errors have been printed.
    fn open(common: &Common, one: Option<&OneKey>) -> Result<Option<Self>, String> {
        let mut policy = None;
        if let Some(file) = &common.policy {
            let Some(read) = read_policy_document(file, common.json)? else { return Ok(None) };
            policy = Some(read);
        }
        let text = SelectionText {
            tenant: common.tenant.as_deref(),
            project: common.project.as_deref(),
            subject: common.subject.as_deref(),
            endpoint: common.endpoint.as_deref(),
            raw: one.and_then(|one| one.key.as_deref()),
            stored: one.and_then(|one| one.stored_key.as_deref()),
            id: one.and_then(|one| one.id.as_deref()),
            key_hash: one.and_then(|one| one.key_hash.as_deref()),
        };
        let policy = policy.as_ref().map(|(policy, document)| (policy, document));
        Ok(Some(Self {
            selection: Selection::parse(&text, policy)?,
            guard: policy
                .map_or_else(|| guard_name(&Value::Null).to_owned(), |(_, document)| guard_name(document).to_owned()),
            key_in_logs: policy.map(|(policy, _)| policy.key_in_logs()).unwrap_or_default(),
            admin: Admin::connect(&common.connection)?,
        }))
    }

    fn found(&self) -> Result<Vec<Invocation>, String> {
        self.admin.all_invocations(&self.selection.condition()?, |invocation| self.selection.has(invocation))
    }

    fn audit(&self, action: &'static str, options: &PurgeOptions) -> Result<Audit, String> {
        Audit::open(action, self.admin.address(), options.by.as_deref(), self.key_in_logs, options.audit_log.as_deref())
    }
}

/// Runs the command; its exit status.
pub(crate) fn run(args: &Arguments) -> Result<u8, String> {
    match &args.action {
        Action::List(args) => list(args),
        Action::Show(args) => show(args),
        Action::Forget(args) => forget(args),
        Action::Erase(args) => erase(args),
    }
}

fn list(args: &ListArguments) -> Result<u8, String> {
    let Some(mut session) = Session::open(&args.common, Some(&args.one))? else { return Ok(BAD_INPUT) };
    session.selection.state = args.state;
    let condition = session.selection.condition()?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let mut after = args.after.clone();
    let mut rows = Vec::new();
    // One more than the limit tells whether there is another page.
    while rows.len() <= limit {
        let page = session.admin.invocations(&condition, after.as_deref(), PAGE.min(limit.saturating_add(1)))?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        rows.extend(page.into_iter().filter(|invocation| session.selection.has(invocation)));
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().map(|last| last.id.clone()).filter(|_| has_more);
    let now = Timestamp::now();
    if args.common.json {
        let invocations: Vec<Value> = rows.iter().map(|row| Value::Object(to_json(row, now))).collect();
        print(&plain::json(&json!({"invocations": invocations, "next": next})))?;
        return Ok(FORWARD);
    }
    if rows.is_empty() {
        eprintln!("nothing is stored under such keys");
        return Ok(FORWARD);
    }
    print(&table(&rows, now))?;
    if let Some(next) = next {
        eprintln!("there are more: --after {next}");
    }
    Ok(FORWARD)
}

fn show(args: &ShowArguments) -> Result<u8, String> {
    let Some(session) = Session::open(&args.common, Some(&args.one))? else { return Ok(BAD_INPUT) };
    if session.selection.is_empty() {
        return Err(
            "choose what to show, such as by --tenant and --key, or by --id; `keys list` lists everything".to_owned()
        );
    }
    let rows = session.found()?;
    let claims = claims_of(&session.admin, &session.guard, &rows)?;
    let now = Timestamp::now();
    if args.common.json {
        let invocations: Vec<Value> = rows.iter().map(|row| details_to_json(row, &claims, now)).collect();
        print(&plain::json(&json!({"invocations": invocations})))?;
    } else if !rows.is_empty() {
        print(&rows.iter().map(|row| details(row, &claims, now)).collect::<Vec<_>>().join("\n\n"))?;
    }
    if rows.is_empty() {
        eprintln!("edge-idempotency: nothing is stored under such a key");
        return Ok(REJECT);
    }
    Ok(FORWARD)
}

fn forget(args: &ForgetArguments) -> Result<u8, String> {
    let one = &args.one;
    if one.key.is_none() && one.stored_key.is_none() && one.key_hash.is_none() && one.id.is_none() {
        return Err("which result? Give --id, --key with --tenant, --stored-key or --key-hash. `keys erase` purges all results of a \
                    subject"
            .to_owned());
    }
    let Some(session) = Session::open(&args.common, Some(one))? else { return Ok(BAD_INPUT) };
    let rows = session.found()?;
    let now = Timestamp::now();
    let claims = match rows.as_slice() {
        [] => lone_claims(&session)?,
        [_] => claims_of(&session.admin, &session.guard, &rows)?,
        several => {
            eprintln!("{}", table(several, now));
            return Err(format!("{} results are meant; nothing was purged. Choose one by --id", several.len()));
        }
    };
    if rows.is_empty() && claims.is_empty() {
        eprintln!("edge-idempotency: nothing is stored under such a key, so the next request with it runs");
        return Ok(REJECT);
    }
    if let Some(running) = rows.iter().find(|row| row.state() == ResultState::InFlight) {
        eprintln!("edge-idempotency: {}", in_flight_advice(&session.admin, running));
        return Ok(REJECT);
    }
    for row in &rows {
        eprintln!("{}", details(row, &claims, now));
    }
    if rows.is_empty() {
        eprintln!(
            "no result is stored under this key, but the guard has a claim of it: another request with it is refused"
        );
    }
    if !args.yes && !confirmed("Forget this?")? {
        eprintln!("edge-idempotency: nothing was purged");
        return Ok(REJECT);
    }
    // The same id can have a new result by the time of the answer.
    let times = |rows: &[Invocation]| rows.iter().map(|row| row.completed_at.clone()).collect::<Vec<_>>();
    if times(&session.found()?) != times(&rows) {
        return Err("the result has changed since it was shown; nothing was purged. Look at it again".to_owned());
    }
    let mut audit = session.audit("forget", &args.purge)?;
    let counts = purge(&session.admin, &rows, &CallsOf::new(), claims, &mut audit, &ProgressBar::hidden())?;
    say(counts);
    Ok(if counts.in_flight + counts.failed > 0 { REJECT } else { FORWARD })
}

/// The claims of a key that is given whole, and under which no result is stored: its request never ran, or its result has
/// expired.
fn lone_claims(session: &Session) -> Result<Vec<StoredClaim>, String> {
    let Some(stored) = session.selection.namespaced_key()? else { return Ok(Vec::new()) };
    let mut keys = ClaimKeys::default();
    keys.add_shared(&stored);
    // The object key of a target is not known here.
    if let Some(operation) = session.selection.operation.as_ref().filter(|operation| !operation.is_keyed) {
        let address = HandlerAddress { service: &operation.service, object_key: None, handler: &operation.handler };
        keys.add_operation(&stored, &address);
    }
    session.admin.claims(&session.guard, &keys)
}

fn erase(args: &EraseArguments) -> Result<u8, String> {
    if args.common.tenant.is_none() || args.common.subject.is_none() {
        return Err(
            "whose results? Give --tenant and --subject; subjects of different tenants are different ones".to_owned()
        );
    }
    let Some(session) = Session::open(&args.common, None)? else { return Ok(BAD_INPUT) };
    let rows = session.found()?;
    let claims = claims_of(&session.admin, &session.guard, &rows)?;
    let calls = calls_of(&session.admin, &rows)?;
    let count_calls = calls.values().map(Vec::len).sum::<usize>();
    let now = Timestamp::now();
    if !args.yes {
        if args.common.json {
            let invocations: Vec<Value> = rows.iter().map(|row| details_to_json(row, &claims, now)).collect();
            let calls: Vec<Value> = calls.values().flatten().map(call_to_json).collect();
            print(&plain::json(&json!({"invocations": invocations, "calls": calls})))?;
        } else if !rows.is_empty() {
            print(&table(&rows, now))?;
        }
        let running = rows.iter().filter(|row| row.state() == ResultState::InFlight).count();
        eprintln!(
            "{} ({running} under way), {} of handlers and {} of the guard. Nothing was purged: --yes purges",
            number(rows.len(), "result"),
            number(count_calls, "call"),
            number(claims.len(), "claim")
        );
        return Ok(FORWARD);
    }
    let mut audit = session.audit("erase", &args.purge)?;
    let progress = ProgressBar::new(u64::try_from(rows.len() + count_calls + claims.len()).unwrap_or_default());
    let counts = purge(&session.admin, &rows, &calls, claims, &mut audit, &progress)?;
    progress.finish_and_clear();
    say(counts);
    let waiting: Vec<&Invocation> =
        calls.values().flatten().filter(|call| call.state() == ResultState::InFlight).collect();
    for call in &waiting {
        eprintln!("edge-idempotency: {}", in_flight_advice(&session.admin, call));
    }
    let left = left_over(&session, |row| !waiting.is_empty() && calls.contains_key(&row.id))?;
    for row in &left {
        match row.state() {
            ResultState::InFlight => eprintln!("edge-idempotency: {}", in_flight_advice(&session.admin, row)),
            _ => eprintln!("edge-idempotency: {} is still stored, or came meanwhile; run this again", row.id),
        }
    }
    Ok(if left.is_empty() && counts.failed == 0 { FORWARD } else { REJECT })
}

fn call_to_json(call: &Invocation) -> Value {
    json!({"id": call.id, "service": call.target_service_name, "handler": call.target_handler_name, "state": call.state().name(),
        "called_by": call.invoked_by_id})
}

/// What is still stored of the selection. Restate answers a purge before its tables show it, so this looks a few times, unless
/// only those are left that `stays` knows and those that are under way.
fn left_over(session: &Session, stays: impl Fn(&Invocation) -> bool) -> Result<Vec<Invocation>, String> {
    let mut left = session.found()?;
    for _ in 0..20 {
        if left.iter().all(|row| row.state() == ResultState::InFlight || stays(row)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
        left = session.found()?;
    }
    Ok(left)
}

fn say(counts: Counts) {
    let Counts { results, claims, calls, in_flight, failed } = counts;
    let (results, claims, calls) = (number(results, "result"), number(claims, "claim"), number(calls, "call"));
    eprintln!("purged: {results}, {calls}, {claims}; under way: {in_flight}; failed: {failed}");
}

fn number(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
