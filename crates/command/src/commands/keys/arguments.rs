//! The arguments of `keys`, and its help texts.

use crate::restate_admin::connection::ConnectionArguments;
use crate::restate_admin::invocations::ResultState;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Shows what Restate stores under keys, and purges it.
///
/// Examples:
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --tenant acme --subject user:alice
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --id inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt --details
///   edge-idempotency keys purge --admin http://127.0.0.1:9070 --policy policy.json --endpoint refunds.create \
///     --tenant acme --project shop --subject user:alice --key refund-1001
///   edge-idempotency keys purge --admin http://127.0.0.1:9070 --tenant acme --subject user:alice --all
///
/// Exit status: 0 if all is done; 1 if nothing was found, or something could not be purged; 2 if an argument is wrong or Restate
/// does not answer.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    pub(super) action: KeysAction,
}

#[derive(Subcommand)]
pub(super) enum KeysAction {
    Show(ShowArguments),
    Purge(PurgeArguments),
}

/// Lists the results that are stored under keys, in the order of their ids, or shows all that is known of them.
///
/// Without options that choose, all results under namespaced keys are listed. A time under "expires in" is when the retention ends; Restate
/// removes results up to an hour later (worker.cleanup-interval), and answers with them until then. With --details the results that
/// are chosen are shown with error, times, attempts and the guard's claims.
///
/// Examples:
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --tenant acme --subject service:webhook-ingest --state failed
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --limit 1000 --after inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt --json
///   edge-idempotency keys show --admin http://127.0.0.1:9070 --tenant acme --key refund-1001 --details
///
/// Exit status: 0; with --details 1 if nothing is stored; 2 if an argument is wrong or Restate does not answer.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ShowArguments {
    #[command(flatten)]
    pub(super) common: SharedKeysArguments,
    #[command(flatten)]
    pub(super) one: OneKey,
    /// Shows all that is known of the results that are chosen.
    #[arg(long, conflicts_with_all = ["state", "limit", "after"])]
    pub(super) details: bool,
    /// Only results that are a success, an error, or not there yet.
    #[arg(long, value_enum)]
    pub(super) state: Option<ResultState>,
    /// The greatest number of results; 0 lists all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) limit: usize,
    /// Continues behind this id, the last one of the list before.
    #[arg(long, value_name = "ID")]
    pub(super) after: Option<String>,
}

/// Purges one result, so that the next request with its key runs; or with --all every result of a subject.
///
/// One result: for a stored error, before the client or the provider sends the same key again. Fix the cause first. If the guard has a
/// claim of this key, it is purged, too, so that a corrected request is not refused as a collision. A request that is under way cannot
/// be purged; the command says what to do about it. If nothing is found, it says what it did not look for.
///
/// With --all: the results of --subject in all of the tenant's projects and at all endpoints unless you say which. The guard's
/// claims for these keys are purged, too, and the calls that the handlers of these requests made without a key of their own. What
/// is under way stays, with the result that leads to it, and the command says so; run it again when it has ended. It finds results by
/// their key, so it does not find what requests without a key left, what handlers keep elsewhere, or claims and calls whose result is
/// gone already. Without --policy the guard's service is taken to be IdempotencyGuard; if Restate has no such service, nothing is
/// purged.
///
/// The results are shown, and the command asks before they are purged. Without a terminal nothing is purged unless you give --yes. Each
/// purge writes an audit line, a JSON object, to standard output. If a line cannot be written, the command stops. At the end it looks
/// whether Restate still has what it has purged.
///
/// Examples:
///   edge-idempotency keys purge --admin http://127.0.0.1:9070 --id inv_1gdJBtdVEcM95Kw8Cj1VkQ9QCVVyU6Tzwt
///   edge-idempotency keys purge --admin http://127.0.0.1:9070 --policy policy.json --endpoint webhooks.ingest --yes \
///     --tenant acme --project shop --subject service:webhook-ingest --key stripe-evt_1Q2w --audit-log purges.jsonl
///   edge-idempotency keys purge --admin http://127.0.0.1:9070 --tenant acme --project shop --subject user:alice --key order-1 \
///     --operation 'POST /orders'
///   edge-idempotency keys purge --admin http://127.0.0.1:9070 --tenant acme --subject user:alice --all
///
/// Exit status: 0 if it was purged, or nothing of the subject is left; 1 if nothing is stored under the key, something is under way,
/// left or still stored after the purge, or you said no; 2 if an argument is wrong, several results are meant without --all, Restate
/// does not answer, nobody says what the guard's service is called, an audit line cannot be written, or for one result there is no
/// terminal to ask on and no --yes.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct PurgeArguments {
    #[command(flatten)]
    pub(super) common: SharedKeysArguments,
    #[command(flatten)]
    pub(super) one: OneKey,
    /// Purges all results of --subject in --tenant.
    #[arg(long, conflicts_with_all = ["key", "stored_key", "key_hash", "operation", "id"])]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) purge: PurgeOptions,
    /// Does not ask for confirmation.
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Args)]
pub(super) struct SharedKeysArguments {
    #[command(flatten)]
    pub(super) connection: ConnectionArguments,
    /// The policy document: needed for --endpoint. It says what the guard's service is called (without it IdempotencyGuard), and how
    /// audit lines show keys.
    #[arg(long, value_name = "FILE|-")]
    pub(super) policy: Option<PathBuf>,
    /// The tenant.
    #[arg(long)]
    pub(super) tenant: Option<String>,
    /// The project; _tenant or _platform for routes of such a scope.
    #[arg(long)]
    pub(super) project: Option<String>,
    /// The subject with its type, such as user:alice. Its id is written as the identity source has it. _none:_ for keys that
    /// callers share.
    #[arg(long, value_name = "TYPE:ID")]
    pub(super) subject: Option<String>,
    /// The endpoint whose target the results are of. If its scope is not `project`, the scope gives the project.
    #[arg(long, requires = "policy")]
    pub(super) endpoint: Option<String>,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct OneKey {
    /// The key as the client sent it; for a webhook the provider's name, a hyphen and the identifier.
    #[arg(long)]
    pub(super) key: Option<String>,
    /// The namespaced key, as the access log has it with "key_in_logs": "full".
    #[arg(long, conflicts_with_all = ["tenant", "project", "subject", "key"])]
    pub(super) stored_key: Option<String>,
    /// The digest of the namespaced key, as the access log has it by default. All results of the choice are read for it.
    #[arg(long, value_name = "sha256:…")]
    pub(super) key_hash: Option<String>,
    /// Of answers that a recorder keeps, those of this method and path, such as 'POST /orders/7'.
    #[arg(long, value_name = "METHOD PATH")]
    pub(super) operation: Option<String>,
    /// The id of the invocation, or an operation id.
    #[arg(long)]
    pub(super) id: Option<String>,
}

#[derive(Args)]
pub(super) struct PurgeOptions {
    /// Appends the audit lines to this file, too. A new file can be read by its owner only.
    #[arg(long, value_name = "FILE")]
    pub(super) audit_log: Option<PathBuf>,
    /// Who acts, for the audit lines; by default the user of this process.
    #[arg(long, value_name = "NAME")]
    pub(super) by: Option<String>,
}
