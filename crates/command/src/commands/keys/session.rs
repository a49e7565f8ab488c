//! What the arguments of `keys` say, and the Restate that they name.

use super::arguments::{OneKey, PurgeOptions, SharedKeysArguments};
use crate::input::read_policy;
use crate::output::tell;
use crate::restate_admin::audit::Audit;
use crate::restate_admin::connection::Admin;
use crate::restate_admin::invocations::Invocation;
use crate::restate_admin::selection::{Selection, SelectionText, warning};
use edge_idempotency_engine::policy::KeyInLogs;
use edge_idempotency_engine::policy::defaults::GUARD;

/// What is not known without a policy if Restate has no service of the guard's usual name.
pub(super) const UNKNOWN_GUARD: &str = "claims of the guard were not looked for, because this Restate has no service \
    IdempotencyGuard. --policy FILE says what the guard's service is called, or that there is none";

/// What the arguments say, and the Restate that they name.
pub(super) struct Session {
    pub(super) selection: Selection,
    /// The guard's service, as the policy has it; `None` without a policy
    named_guard: Option<String>,
    key_in_logs: KeyInLogs,
    pub(super) admin: Admin,
}

impl Session {
    /// `None` if the document is no policy; then its errors have been printed.
    pub(super) fn open(common: &SharedKeysArguments, one: Option<&OneKey>) -> Result<Option<Self>, String> {
        let mut policy = None;
        if let Some(file) = &common.policy {
            let Some(read) = read_policy(file, common.json)? else { return Ok(None) };
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
            request: one.and_then(|one| one.operation.as_deref()),
            key_hash: one.and_then(|one| one.key_hash.as_deref()),
        };
        let policy = policy.as_ref();
        let selection = Selection::parse(&text, policy)?;
        if let Some(warning) = common.subject.as_deref().and_then(warning) {
            tell!("edge-idempotency: warning: {warning}");
        }
        Ok(Some(Self {
            selection,
            named_guard: policy.map(|policy| policy.needs().guard_name().to_owned()),
            key_in_logs: policy.map(|policy| policy.key_in_logs).unwrap_or_default(),
            admin: Admin::connect(&common.connection)?,
        }))
    }

    /// The results that are meant.
    pub(super) fn found(&self) -> Result<Vec<Invocation>, String> {
        self.admin.all_invocations(&self.selection.condition()?, |invocation| self.selection.has(invocation))
    }

    /// The name of the guard's service: as the policy has it, else the usual one, if Restate has such a service. `None` if
    /// neither tells it.
    pub(super) fn guard(&self) -> Result<Option<String>, String> {
        if let Some(name) = &self.named_guard {
            return Ok(Some(name.clone()));
        }
        let is_there = self.admin.services()?.iter().any(|service| *service.name == *GUARD);
        Ok(is_there.then(|| GUARD.to_owned()))
    }

    pub(super) fn audit(&self, action: &'static str, options: &PurgeOptions) -> Result<Audit, String> {
        Audit::open(action, self.admin.address(), options.by.as_deref(), self.key_in_logs, options.audit_log.as_deref())
    }
}
