//! The guard's claims outlast the results that they belong to, also between two changes of Restate's retention. If the guard
//! forgets first, a changed request with a used key gets the result of another one (docs/contract.md section 6, "Collision").

use super::durations::{exact, seconds_of};
use super::services::Service;
use edge_idempotency_engine::policy::defaults::CLEANUP_S;
use edge_idempotency_engine::policy::needs::PolicyNeeds;
use std::collections::BTreeSet;

/// The guard, and the services whose requests it compares.
#[derive(Debug, Clone, Default)]
pub(super) struct ClaimsOutlast {
    guard: String,
    guarded: BTreeSet<String>,
}

impl ClaimsOutlast {
    /// Those of a policy: the targets of routes with collision detection.
    pub(super) fn of(policy: &PolicyNeeds) -> Self {
        let services =
            policy.routes.iter().filter(|route| route.collision.asks_guard()).filter_map(|route| route.service());
        Self { guard: policy.guard_name().to_owned(), guarded: services.map(str::to_owned).collect() }
    }

    /// Why a service must not get this retention, given what the services have now; `None` if it may.
    pub(super) fn objection(&self, service: &str, seconds: u64, services: &[Service]) -> Option<String> {
        let find = |name: &str| services.iter().find(|service| *service.name == *name);
        if service == self.guard {
            return self.guarded.iter().find_map(|name| {
                let kept = longest(find(name)?);
                (kept.is_none_or(|kept| seconds < kept.saturating_add(CLEANUP_S))).then(|| {
                    let kept = kept.map_or_else(|| "an unknown time".to_owned(), exact);
                    format!(
                        "not changed: {name} keeps results for {kept}, and the guard has to keep their claims 2h longer"
                    )
                })
            });
        }
        let keeps = seconds_of(find(service)?.retention());
        if !self.guarded.contains(service) || keeps.is_some_and(|keeps| keeps >= seconds) {
            return None;
        }
        let needed = seconds.saturating_add(CLEANUP_S);
        let has = match find(&self.guard).map(shortest) {
            None => "is not registered".to_owned(),
            Some(None) => "keeps claims for an unknown time".to_owned(),
            Some(Some(kept)) if kept < needed => format!("keeps claims for {}", exact(kept)),
            Some(Some(_)) => return None,
        };
        Some(format!(
            "not changed: the guard {} {has}, and after this change it would have to keep those of {service} for {}. Its \
             retention is `guard.retention` of the backend in the policy",
            self.guard,
            exact(needed)
        ))
    }
}

/// The longest retention of a service and of its handlers; `None` if one of them cannot be read.
fn longest(service: &Service) -> Option<u64> {
    all(service).try_fold(0, |longest, seconds| Some(seconds?.max(longest)))
}

/// The shortest retention of a service and of its handlers; `None` if one of them cannot be read.
fn shortest(service: &Service) -> Option<u64> {
    all(service).try_fold(u64::MAX, |shortest, seconds| Some(seconds?.min(shortest)))
}

fn all(service: &Service) -> impl Iterator<Item = Option<u64>> {
    let handlers = service.handlers.iter().filter_map(|handler| handler.idempotency_retention.as_deref());
    std::iter::once(service.retention()).chain(handlers).map(seconds_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_idempotency_engine::Policy;
    use serde_json::{Value, json};

    const GUARDED: &str = r#"{"version": 1, "backend": {"kind": "restate", "cluster": "restate", "guard": {"service": "Guard"}},
        "identity": {"sources": [{"name": "a", "metadata": ["a"], "tenant": "t", "project": "p", "subject": {"field": "s", "type": "user"}}]},
        "routes": [
            {"endpoint": "a", "path": "/a", "policy": "REQUIRED_A", "target": "Refunds/create", "collision": "enforce"},
            {"endpoint": "b", "path": "/b", "policy": "REQUIRED_A", "target": "Cart/{tenant}/checkout", "collision": "observe"},
            {"endpoint": "c", "path": "/c", "policy": "REQUIRED_A", "target": "Emails/send", "collision": "off"},
            {"endpoint": "d", "path": "/d", "policy": "REQUIRED_A", "target": "Reports/run"},
            {"endpoint": "e", "path": "/e", "policy": "PROHIBITED"}]}"#;

    fn objection(service: &str, hours: u64, services: &Value) -> Option<String> {
        let services: Vec<Service> = serde_json::from_value(services.clone()).unwrap();
        ClaimsOutlast::of(Policy::from_json(GUARDED.as_bytes()).unwrap().needs()).objection(
            service,
            hours * 3600,
            &services,
        )
    }

    fn service(name: &str, retention: &str) -> Value {
        json!({"name": name, "idempotency_retention": retention})
    }

    #[test]
    fn a_service_is_lengthened_only_below_its_guard() {
        let services =
            json!([service("Refunds", "1d"), service("Cart", "1d"), service("Emails", "1d"), service("Guard", "50h")]);
        for (name, hours, objects) in [
            ("Refunds", 48, false),
            ("Refunds", 49, true),
            ("Cart", 49, true),
            // A shorter one is safe whatever the guard does.
            ("Refunds", 12, false),
            // The guard has no claims of these.
            ("Emails", 100, false),
            ("Reports", 100, false),
        ] {
            assert_eq!(objection(name, hours, &services).is_some(), objects, "{name} {hours}");
        }
        let text = objection("Refunds", 49, &services).unwrap();
        assert!(
            text.contains("keeps claims for 2d 2h") && text.contains("have to keep those of Refunds for 2d 3h"),
            "{text}"
        );
        // One of the guard's handlers keeps claims for a shorter time.
        let mut guard = service("Guard", "50h");
        guard["handlers"] = json!([{"name": "claim", "idempotency_retention": "1h"}]);
        assert!(objection("Refunds", 48, &json!([service("Refunds", "1d"), guard])).unwrap().contains("for 1h"));
        for (guard, says) in [
            (json!([service("Refunds", "1d")]), "not registered"),
            (json!([service("Refunds", "1d"), {"name": "Guard"}]), "unknown"),
        ] {
            assert!(objection("Refunds", 48, &guard).unwrap().contains(says), "{guard}");
        }
        // What a service has now cannot be read, so any retention may be a longer one.
        assert!(objection("Refunds", 49, &json!([{"name": "Refunds"}, service("Guard", "50h")])).is_some());
    }

    #[test]
    fn the_guard_is_shortened_only_above_its_services() {
        let mut cart = service("Cart", "1d");
        cart["handlers"] = json!([{"name": "checkout", "idempotency_retention": "3d"}, {"name": "add"}]);
        let services = json!([service("Refunds", "2d"), cart, service("Emails", "90d"), service("Guard", "9d")]);
        assert!(objection("Guard", 74, &services).is_none());
        assert!(objection("Guard", 73, &services).unwrap().contains("Cart keeps results for 3d"));
        assert!(objection("Guard", 73, &json!([{"name": "Refunds"}])).unwrap().contains("unknown"));
        assert!(objection("Guard", 1, &json!([service("Emails", "90d")])).is_none());
    }
}
