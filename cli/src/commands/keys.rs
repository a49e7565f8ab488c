//! `keys`: what Restate stores under keys, and purging of it.

use super::input::{print, read_policy_document};
use super::retention::confirmed;
use super::{BAD_INPUT, FORWARD, REJECT};
use crate::plain;
use crate::restate_admin::audit::Audit;
use crate::restate_admin::claims::{ClaimKeys, StoredClaim};
use crate::restate_admin::connection::{Admin, ConnectionArguments};
use crate::restate_admin::invocations::{Invocation, PAGE, ResultState};
use crate::restate_admin::keys_text::{details, details_to_json, table, to_json};
use crate::restate_admin::plan::guard_name;
use crate::restate_admin::purging::{Counts, claims_of, in_flight_advice, purge};
use crate::restate_admin::selection::{Selection, SelectionText};
use clap::{Args, Subcommand};
use edge_idempotency_engine::policy::{HandlerAddress, KeyInLogs};
use indicatif::ProgressBar;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Shows what Restate stores under keys, and purges it.
///
/// Examples:
///   edge-idempotency keys list --admin http://127.0.0.1:9070 --tenant acme --subject user:alice
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --id inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt
///   edge-idempotency keys forget --admin http://127.0.0.1:9070 --policy policy.json --endpoint refunds.create \
///     --tenant acme --project shop --subject user:alice --key refund-1001
///   edge-idempotency keys erase --admin http://127.0.0.1:9070 --tenant acme --subject user:alice
///
/// Exit status: 0 if all is done; 1 if nothing was found, or something could not be purged; 2 if an argument is wrong or Restate
/// does not answer.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(ListArguments),
    Show(ShowArguments),
    Forget(ForgetArguments),
    Erase(EraseArguments),
}

/// Lists the results that are stored under keys, in the order of their ids.
///
/// Without a choice all results under namespaced keys are listed. A time under "expires in" is when the retention ends; Restate
/// removes results up to an hour later (worker.cleanup-interval), and answers with them until then.
///
/// Examples:
///   edge-idempotency keys list --admin http://127.0.0.1:9070 --tenant acme --subject user:alice
///   edge-idempotency keys list --admin http://127.0.0.1:9070 --tenant acme --subject service:webhook-ingest --state failed
///   edge-idempotency keys list --admin http://127.0.0.1:9070 --limit 1000 --after inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt --json
///
/// Exit status: 0; 2 if an argument is wrong or Restate does not answer.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct ListArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    one: OneKey,
    /// Only results that are a success, an error, or not there yet.
    #[arg(long, value_enum)]
    state: Option<ResultState>,
    /// The greatest number of results; 0 lists all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Continues behind this id, the last one of the list before.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

/// Shows all that is known of the results that are chosen: error, times, attempts, the guard's claims.
///
/// Examples:
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --id inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --tenant acme --key refund-1001
///
/// Exit status: 0; 1 if nothing is stored; 2 if an argument is wrong or Restate does not answer.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct ShowArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    one: OneKey,
}

/// Purges one result, so that the next request with its key runs.
///
/// This is the cure for an error that is stored, before the client or the provider sends the same key again. Mend the cause
/// first. If the guard has a claim of this key, it is purged, too, so that a corrected request is not refused as a collision.
/// A request that is under way cannot be forgotten; the command says what to do about it.
///
/// Shows the result and asks before it is purged. Each purge writes an audit line, a JSON object, to standard output.
///
/// Examples:
///   edge-idempotency keys forget --admin http://127.0.0.1:9070 --id inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt
///   edge-idempotency keys forget --admin http://127.0.0.1:9070 --policy policy.json --endpoint webhooks.ingest --yes \
///     --tenant acme --project shop --subject service:webhook-ingest --key stripe-evt_1Q2w --audit-log purges.jsonl
///
/// Exit status: 0 if it was purged; 1 if nothing is stored, it is under way, or you said no; 2 if an argument is wrong, several
/// results are meant, Restate does not answer, or there is no terminal to ask on and no --yes.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct ForgetArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    one: OneKey,
    #[command(flatten)]
    purge: PurgeOptions,
    /// Does not ask.
    #[arg(long)]
    yes: bool,
}

/// Purges all results of a subject, in all of the tenant's projects and at all endpoints unless you say which.
///
/// Without --yes nothing is purged, and the results are listed. The guard's claims for these keys are purged, too. Requests that
/// are under way stay, and the command says so; run it again when they have ended. It finds results by their key, so it does not
/// find what requests without a key left, what handlers keep elsewhere, or claims whose result is gone already.
///
/// Each purge writes an audit line, a JSON object, to standard output.
///
/// Examples:
///   edge-idempotency keys erase --admin http://127.0.0.1:9070 --tenant acme --subject user:alice
///   edge-idempotency keys erase --admin http://127.0.0.1:9070 --tenant acme --subject user:alice --yes --audit-log purges.jsonl
///
/// Exit status: 0 if nothing of the subject is left, or without --yes; 1 if something is left; 2 if an argument is wrong or
/// Restate does not answer.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct EraseArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    purge: PurgeOptions,
    /// Purges. Without it the results are listed only.
    #[arg(long)]
    yes: bool,
}

#[derive(Args)]
struct Common {
    #[command(flatten)]
    connection: ConnectionArguments,
    /// The policy document: needed for --endpoint, and it names the guard and how audit lines show keys.
    #[arg(long, value_name = "FILE|-")]
    policy: Option<PathBuf>,
    /// The tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// The project; _tenant or _platform for routes of such a scope.
    #[arg(long)]
    project: Option<String>,
    /// The subject with its type, such as user:alice. Its id is written as the identity source has it.
    #[arg(long, value_name = "TYPE:ID")]
    subject: Option<String>,
    /// The endpoint whose target the results are of; its scope gives the project where that is not `project`.
    #[arg(long, requires = "policy")]
    endpoint: Option<String>,
    /// Prints JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct OneKey {
    /// The key as the client sent it; for a webhook the provider's name, a hyphen and the identifier.
    #[arg(long)]
    key: Option<String>,
    /// The namespaced key, as the access log has it with "key_in_logs": "full".
    #[arg(long, conflicts_with_all = ["tenant", "project", "subject", "key"])]
    stored_key: Option<String>,
    /// The digest of the namespaced key, as the access log has it by default. All results of the choice are read for it.
    #[arg(long, value_name = "sha256:…")]
    key_hash: Option<String>,
    /// The id of the invocation, or an operation id.
    #[arg(long)]
    id: Option<String>,
}

#[derive(Args)]
struct PurgeOptions {
    /// Appends the audit lines to this file, too.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Who acts, for the audit lines; by default the user of this process.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

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
    let counts = purge(&session.admin, &rows, claims, &mut audit, &ProgressBar::hidden())?;
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
    let now = Timestamp::now();
    if !args.yes {
        if args.common.json {
            let invocations: Vec<Value> = rows.iter().map(|row| details_to_json(row, &claims, now)).collect();
            print(&plain::json(&json!({"invocations": invocations})))?;
        } else if !rows.is_empty() {
            print(&table(&rows, now))?;
        }
        let running = rows.iter().filter(|row| row.state() == ResultState::InFlight).count();
        eprintln!(
            "{} results ({running} of them under way) and {} claims of the guard. Nothing was purged: --yes purges them",
            rows.len(),
            claims.len()
        );
        return Ok(FORWARD);
    }
    let mut audit = session.audit("erase", &args.purge)?;
    let progress = ProgressBar::new(u64::try_from(rows.len() + claims.len()).unwrap_or_default());
    let counts = purge(&session.admin, &rows, claims, &mut audit, &progress)?;
    progress.finish_and_clear();
    say(counts);
    let left = left_over(&session)?;
    for row in &left {
        match row.state() {
            ResultState::InFlight => eprintln!("edge-idempotency: {}", in_flight_advice(&session.admin, row)),
            _ => eprintln!("edge-idempotency: {} is still stored, or came meanwhile; run this again", row.id),
        }
    }
    Ok(if left.is_empty() && counts.failed == 0 { FORWARD } else { REJECT })
}

/// What is still stored of the selection. Restate answers a purge before its tables show it, so this looks a few times.
fn left_over(session: &Session) -> Result<Vec<Invocation>, String> {
    let mut left = session.found()?;
    for _ in 0..20 {
        if left.iter().all(|row| row.state() == ResultState::InFlight) {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
        left = session.found()?;
    }
    Ok(left)
}

fn say(counts: Counts) {
    let Counts { results, claims, in_flight, failed } = counts;
    eprintln!("purged: {results} results, {claims} claims; under way: {in_flight}; failed: {failed}");
}
