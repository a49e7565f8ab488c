//! Invocations and their stored results: queries in pages, and purging.

use super::connection::Admin;
use super::durations::{age, expiry};
use super::names::{InvocationId, RestateName};
use super::sql::one_of;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// The columns of an [`Invocation`].
const COLUMNS: &str = "id, target_service_name, target_service_key, target_handler_name, idempotency_key, status, completion_result, \
                       completion_failure, created_at, completed_at, completion_retention, retry_count, last_failure, invoked_by_id";

/// The rows of one query.
pub(crate) const PAGE: usize = 5000;
/// The ids or keys that one query names.
pub(crate) const BATCH: usize = 500;
/// How often a command looks whether Restate's tables show what it has purged.
pub(crate) const LOOKS: usize = 20;
/// The time between two looks.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// A row of `sys_invocation`. Columns without a value are absent.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Invocation {
    /// `inv_…`
    pub(crate) id: InvocationId,
    /// The service
    pub(crate) target_service_name: RestateName,
    /// The object key, for a service with keys
    #[serde(default)]
    pub(crate) target_service_key: Option<String>,
    /// The handler
    pub(crate) target_handler_name: RestateName,
    /// The key, as Restate stores it
    #[serde(default)]
    pub(crate) idempotency_key: Option<String>,
    /// `completed`, or how far it is
    pub(crate) status: String,
    /// `success` or `failure` once it is completed
    #[serde(default)]
    completion_result: Option<String>,
    /// Such as `[402] there is no money`
    #[serde(default)]
    pub(crate) completion_failure: Option<String>,
    /// When it came
    #[serde(default)]
    pub(crate) created_at: Option<String>,
    /// When it ended
    #[serde(default)]
    pub(crate) completed_at: Option<String>,
    /// For how long its result is kept
    #[serde(default)]
    completion_retention: Option<String>,
    /// The invocation whose handler called it
    #[serde(default)]
    pub(crate) invoked_by_id: Option<InvocationId>,
    /// How often it was tried
    #[serde(default)]
    pub(crate) retry_count: Option<u64>,
    /// Why its last attempt failed
    #[serde(default)]
    pub(crate) last_failure: Option<String>,
}

/// What is stored under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ResultState {
    /// A result that is a success
    Succeeded,
    /// A result that is an error
    Failed,
    /// No result yet
    InFlight,
}

impl ResultState {
    /// The state in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::InFlight => "in_flight",
        }
    }
}

/// The service of the program `recorder`.
pub(crate) const RECORDER: &str = "Recorder";

impl Invocation {
    /// The key that the filter sent, and what the recorder put behind it: a digest of the operation ([`super::selection`]) and a number.
    pub(crate) fn sent_key(&self) -> Option<(&str, Option<&str>)> {
        let stored = self.idempotency_key.as_deref()?;
        let recorded = || {
            let (rest, number) = stored.rsplit_once('.')?;
            let (sent, operation) = rest.rsplit_once('.')?;
            (number.len() == 2 && operation.len() == 16).then_some((sent, Some(operation)))
        };
        Some(if *self.target_service_name == *RECORDER { recorded() } else { None }.unwrap_or((stored, None)))
    }

    /// What is stored.
    pub(crate) fn state(&self) -> ResultState {
        match (self.status.as_str(), self.completion_result.as_deref()) {
            ("completed", Some("failure")) => ResultState::Failed,
            ("completed", _) => ResultState::Succeeded,
            _ => ResultState::InFlight,
        }
    }

    /// The status code of an error that is stored.
    pub(crate) fn error_code(&self) -> Option<u16> {
        self.completion_failure.as_deref()?.strip_prefix('[')?.split_once(']')?.0.parse().ok()
    }

    /// The message of an error that is stored.
    pub(crate) fn error_message(&self) -> Option<&str> {
        let failure = self.completion_failure.as_deref()?;
        Some(failure.split_once("] ").map_or(failure, |(_, message)| message))
    }

    /// When the result expires.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        expiry(self.completed_at.as_deref()?, self.completion_retention.as_deref()?)
    }

    /// The seconds since it came.
    pub(crate) fn age(&self, now: Timestamp) -> Option<i64> {
        age(self.created_at.as_deref()?, now)
    }

    /// `Service/handler`, without an object key.
    pub(crate) fn operation(&self) -> String {
        format!("{}/{}", self.target_service_name, self.target_handler_name)
    }
}

/// What became of a result that was to be purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PurgeOutcome {
    /// It is gone now.
    Purged,
    /// It was gone before.
    AlreadyGone,
    /// There is no result yet, and Restate keeps the invocation.
    InFlight,
    /// Restate refused for another reason.
    Refused(String),
}

impl PurgeOutcome {
    /// The result in an audit line.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Purged => "purged",
            Self::AlreadyGone => "already_gone",
            Self::InFlight => "refused_in_flight",
            Self::Refused(_) => "failed",
        }
    }
}

#[derive(Deserialize)]
struct InvocationRows {
    rows: Vec<Invocation>,
}

impl Admin {
    /// Invocations for which a condition is true, by id. `after`: the id before the first one. At most `limit`.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn invocations(
        &self,
        condition: &str,
        after: Option<&InvocationId>,
        limit: usize,
    ) -> Result<Vec<Invocation>, String> {
        let after = after.map(|id| format!(" and id > {}", super::sql::literal(id))).unwrap_or_default();
        let query =
            format!("select {COLUMNS} from sys_invocation where ({condition}){after} order by id limit {limit}");
        let body = self.call("POST", "/query", Some(&json!({"query": query})))?;
        let body = body.map_err(|refusal| self.told("a query of sys_invocation", &refusal))?;
        let rows: InvocationRows = self.read("a query of sys_invocation", body)?;
        Ok(rows.rows)
    }

    /// All invocations for which the condition is true and that are wanted, page by page.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn all_invocations(
        &self,
        condition: &str,
        mut wanted: impl FnMut(&Invocation) -> bool,
    ) -> Result<Vec<Invocation>, String> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = self.invocations(condition, after.as_ref(), PAGE)?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|row| row.id.clone());
            found.extend(page.into_iter().filter(|row| wanted(row)));
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Makes Restate forget the result of an invocation.
    ///
    /// # Errors
    /// There is no reply.
    pub(crate) fn purge(&self, id: &InvocationId) -> Result<PurgeOutcome, String> {
        Ok(match self.call("PATCH", &format!("/invocations/{id}/purge"), None)? {
            Ok(_) => PurgeOutcome::Purged,
            Err(refusal) if refusal.status == 404 && refusal.is_restates => PurgeOutcome::AlreadyGone,
            Err(refusal) if refusal.status == 409 => PurgeOutcome::InFlight,
            Err(refusal) => {
                let told = self.told("PATCH …/purge", &refusal);
                let advice = if refusal.is_restates {
                    ""
                } else {
                    ". This is no answer of Restate's own: does a proxy in front of the admin API let PATCH pass?"
                };
                PurgeOutcome::Refused(format!("{told}{advice}"))
            }
        })
    }

    /// Those of the invocations that are stored still. Restate answers a purge before its tables show it, so this looks for five
    /// seconds. A later invocation under the same id is another one.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn still_stored(&self, purged: &[Invocation]) -> Result<Vec<Invocation>, String> {
        let mut left: Vec<Invocation> = purged.to_vec();
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let mut stored = BTreeSet::new();
            for batch in left.chunks(BATCH) {
                let condition = one_of("id", batch.iter().map(|invocation| &*invocation.id));
                let rows = self.all_invocations(&condition, |_| true)?;
                stored.extend(rows.into_iter().map(|row| (row.id, row.created_at)));
            }
            left.retain(|invocation| stored.contains(&(invocation.id.clone(), invocation.created_at.clone())));
            if left.is_empty() {
                break;
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_restate_are_read() {
        let rows: InvocationRows = serde_json::from_str(
            r#"{"rows": [
                {"id": "inv_1", "target_service_name": "Refunds", "target_handler_name": "create", "idempotency_key": "t-a:p:user:u:k",
                 "status": "completed", "completion_result": "failure", "completion_failure": "[402] no [money] left",
                 "created_at": "2026-11-22T11:49:23.922Z", "completed_at": "2026-11-22T11:49:23.967Z", "completion_retention": "PT172800S"},
                {"id": "inv_2", "target_service_name": "Cart", "target_service_key": "a/b", "target_handler_name": "get",
                 "status": "running", "completion_retention": "PT172800S", "retry_count": 3, "more": [1]}]}"#,
        )
        .unwrap();
        let [failed, running] = rows.rows.as_slice() else { panic!() };
        assert_eq!((failed.state(), failed.error_code()), (ResultState::Failed, Some(402)));
        assert_eq!(failed.error_message(), Some("no [money] left"));
        assert_eq!(failed.expires_at().unwrap().to_string(), "2026-11-24T11:49:23.967Z");
        assert_eq!((running.state(), running.expires_at(), running.error_code()), (ResultState::InFlight, None, None));
        assert_eq!(running.operation(), "Cart/get");
    }
}
