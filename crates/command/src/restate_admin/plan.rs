//! A plan: what the policy's `retention` declares (docs/contract.md section 4) beside what Restate has.

use super::claims_outlast::ClaimsOutlast;
use super::connection::Admin;
use super::durations::{exact, seconds_of};
use super::services::Service;
use crate::lints::view::token;
use edge_idempotency_engine::policy::needs::{PolicyNeeds, RouteNeeds};
use edge_idempotency_engine::policy::target_parts;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The setting of Restate that a policy declares.
pub(crate) const SETTING: &str = "idempotency_retention";

/// What the policy declares for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The service
    pub(crate) service: String,
    /// For how many seconds it keeps results
    pub(crate) seconds: u64,
    /// Where in the document
    pub(crate) pointer: String,
    /// The class; `None` for the guard
    pub(crate) class: Option<String>,
}

impl Declared {
    /// Whether it is `backend.guard.retention`.
    pub(crate) const fn is_of_guard(&self) -> bool {
        self.class.is_none()
    }
}

/// What follows for a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Restate has what the policy declares.
    Equal,
    /// A handler sets something else itself, and no route of the policy sends it a key, so that nobody asks for what it keeps.
    Unkeyed,
    /// `apply` changes it.
    Change,
    /// The server holds it below what is declared.
    Clamped,
    /// The admin API cannot change it.
    ByHand,
    /// Restate does not know the service.
    Missing,
    /// Restate refused the change, or the guard would forget a request before the backend forgets its result.
    Refused,
}

impl State {
    /// Whether there is nothing to do.
    pub(crate) const fn is_done(self) -> bool {
        matches!(self, Self::Equal | Self::Unkeyed)
    }

    /// The state in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Unkeyed => "unkeyed",
            Self::Change => "change",
            Self::Clamped => "clamped",
            Self::ByHand => "by_hand",
            Self::Missing => "service_missing",
            Self::Refused => "refused",
        }
    }
}

/// A row of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What is declared
    pub(crate) declared: Declared,
    /// What Restate has, as it writes it; `None` without the service
    pub(crate) actual: Option<String>,
    /// The handler that sets it itself, if it is one handler's
    pub(crate) handler: Option<String>,
    /// What follows
    pub(crate) state: State,
    /// What to write, or what Restate said
    pub(crate) notes: Vec<String>,
    /// Whether this run has changed it
    pub(crate) applied: bool,
}

/// Everything that is declared, beside what Restate has.
pub(crate) struct Plan {
    /// One row for each setting, in the order of the document
    pub(crate) rows: Vec<Row>,
    /// Services of targets whose retention the policy does not declare, and what Restate has
    pub(crate) undeclared: Vec<(String, String)>,
    /// What `apply` must not break
    pub(super) order: ClaimsOutlast,
}

/// What a policy declares, in the order of its document.
pub(crate) fn declared(policy: &PolicyNeeds) -> Vec<Declared> {
    let mut declared = Vec::new();
    for retention in &policy.retentions {
        declared.push(Declared {
            service: retention.service.clone(),
            seconds: retention.seconds,
            pointer: format!("/retention/services/{}", token(&retention.service)),
            class: Some(retention.class.clone()),
        });
    }
    if let Some((backend, guard)) = policy.guarded()
        && let Some(seconds) = guard.retention
    {
        declared.push(Declared {
            service: guard.service.clone(),
            seconds,
            pointer: format!("{}/guard/retention", backend.pointer),
            class: None,
        });
    }
    declared
}

impl Plan {
    /// Compares a policy with the services of a Restate.
    pub(crate) fn new(policy: &PolicyNeeds, services: &[Service]) -> Self {
        let declared = declared(policy);
        let keyed: Vec<(&str, &str)> = policy.routes.iter().filter_map(keyed_handler).collect();
        let rows = declared.iter().flat_map(|declared| rows(declared, services, &keyed)).collect();
        let targets: BTreeSet<&str> = policy.routes.iter().filter_map(|route| route.service()).collect();
        let known = |name: &str| {
            let service = services.iter().find(|service| *service.name == *name);
            service.map_or_else(|| "not registered".to_owned(), |service| service.retention().to_owned())
        };
        let undeclared = targets.into_iter().filter(|name| declared.iter().all(|declared| declared.service != *name));
        let undeclared = undeclared.map(|name| (name.to_owned(), known(name))).collect();
        Self { rows, undeclared, order: ClaimsOutlast::of(policy) }
    }

    /// Whether Restate has all that is declared.
    pub(crate) fn is_clean(&self) -> bool {
        self.rows.iter().all(|row| row.state.is_done())
    }

    /// The number of rows in this state.
    pub(crate) fn count(&self, state: State) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }

    /// The plan as JSON (docs/contract.md section 11).
    pub(crate) fn to_json(&self, admin: &Admin) -> Value {
        let settings: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        let undeclared: Vec<Value> =
            self.undeclared.iter().map(|(service, actual)| json!({"service": service, "actual": actual})).collect();
        json!({
            "admin": admin.address(), "restate": admin.version, "clean": self.is_clean(),
            "settings": settings, "undeclared": undeclared,
        })
    }
}

impl Row {
    /// Whether `apply` sends a change. It does for what is clamped, too: then Restate has the value as soon as its limit is
    /// raised.
    pub(crate) fn is_change(&self) -> bool {
        self.handler.is_none() && matches!(self.state, State::Change | State::Clamped)
    }

    /// What is declared, as people read it.
    pub(crate) fn wish(&self) -> String {
        exact(self.declared.seconds)
    }

    fn to_json(&self) -> Value {
        let mut row = Map::new();
        row.insert("service".to_owned(), json!(self.declared.service));
        row.insert("handler".to_owned(), json!(self.handler));
        row.insert("setting".to_owned(), json!(SETTING));
        row.insert("declared".to_owned(), json!(self.wish()));
        row.insert("actual".to_owned(), json!(self.actual));
        row.insert("state".to_owned(), json!(self.state.name()));
        row.insert("applied".to_owned(), json!(self.applied));
        row.insert("pointer".to_owned(), json!(self.declared.pointer));
        row.insert("notes".to_owned(), json!(self.notes));
        Value::Object(row)
    }
}

/// The state of a setting that the server's limit holds back, and what to write.
pub(super) fn clamped(actual: u64, wanted: u64) -> (State, Vec<String>) {
    let note = format!(
        "the server allows at most {}. To raise this in its configuration file: max-idempotency-retention = \"{}\", or \
         in its environment: RESTATE_MAX_IDEMPOTENCY_RETENTION=\"{}\"",
        exact(actual),
        exact(wanted),
        exact(wanted)
    );
    (State::Clamped, vec![note])
}

/// Service and handler of a route's target, if requests with a key reach it.
fn keyed_handler(route: &RouteNeeds) -> Option<(&str, &str)> {
    let (service, _, handler) = target_parts(route.target.as_ref()?)?;
    route.sends_keys().then_some((service, handler))
}

/// The rows of a declared setting: one for the service, and one for each handler that sets something else itself. `keyed`: the handlers
/// that get keys.
fn rows(declared: &Declared, services: &[Service], keyed: &[(&str, &str)]) -> Vec<Row> {
    let row = |handler: Option<&str>, actual: Option<String>, state, notes| Row {
        declared: declared.clone(),
        actual,
        handler: handler.map(str::to_owned),
        state,
        notes,
        applied: false,
    };
    let Some(service) = services.iter().find(|service| *service.name == *declared.service) else {
        let note =
            "this Restate has no service of this name: register its deployment, or correct the policy".to_owned();
        return vec![row(None, None, State::Missing, vec![note])];
    };
    let wanted = declared.seconds;
    let actual = service.retention();
    let (state, mut notes) = match seconds_of(actual) {
        Some(actual) if actual == wanted => (State::Equal, Vec::new()),
        Some(actual) if actual < wanted && service.is_clamped() => clamped(actual, wanted),
        _ => (State::Change, Vec::new()),
    };
    if service.ty == "Workflow" {
        notes.push(
            "this holds for the workflow's other handlers; results of `run` are kept for the SDK's option \
                     workflow_completion_retention, which the admin API cannot change"
                .to_owned(),
        );
    }
    let own = service.handlers.iter().filter_map(|handler| {
        let actual = handler.idempotency_retention.as_deref()?;
        let is_keyed = declared.is_of_guard() || keyed.contains(&(declared.service.as_str(), &*handler.name));
        (seconds_of(actual) != Some(wanted)).then(|| {
            let (state, note) = if is_keyed {
                let note = format!(
                    "the handler sets this itself, and the admin API cannot change it. Remove it from the handler's \
                             options in the SDK, or write {} there; then register the deployment again",
                    exact(wanted)
                );
                (State::ByHand, note)
            } else {
                (State::Unkeyed, "the handler sets this itself, and no route sends it keys".to_owned())
            };
            row(Some(&handler.name), Some(actual.to_owned()), state, vec![note])
        })
    });
    std::iter::once(row(None, Some(actual.to_owned()), state, notes)).chain(own).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
