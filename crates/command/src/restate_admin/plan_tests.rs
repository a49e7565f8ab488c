use super::*;
use edge_idempotency_engine::Policy;

fn services(text: &str) -> Vec<Service> {
    serde_json::from_str(text).unwrap()
}

/// A policy with these members.
fn policy(members: &str) -> Policy {
    let text = format!(
        r#"{{"version": 1, "identity": {{"sources": [{{"name": "a", "metadata": ["a"], "tenant": "t", "project": "p",
            "subject": {{"field": "s", "type": "user"}}}}]}}, {members}}}"#
    );
    Policy::from_json(text.as_bytes()).unwrap()
}

fn declaring() -> Policy {
    policy(
        r#""backend": {"kind": "restate", "cluster": "restate", "guard": {"retention": "170h"}},
        "routes": [
            {"endpoint": "a", "path": "/a", "policy": "REQUIRED_A", "target": "Refunds/create"},
            {"endpoint": "b", "path": "/b", "policy": "PROHIBITED", "target": "Refunds/find"},
            {"endpoint": "c", "path": "/c", "policy": "REQUIRED_A", "target": "Cart/{tenant}/get"},
            {"endpoint": "d", "path": "/d", "policy": "ACCEPTED", "target": "Emails/send"},
            {"endpoint": "e", "path": "/e", "policy": "PROHIBITED"}
        ],
        "retention": {
            "classes": {"short": "24h", "long": "7d"},
            "services": {"Refunds": "long", "Emails": "short", "Gone": "short"}
        }"#,
    )
}

fn states(plan: &Plan) -> Vec<(String, &'static str, &'static str)> {
    plan.rows
        .iter()
        .map(|row| {
            let handler = row.handler.as_ref().map(|handler| format!("/{handler}")).unwrap_or_default();
            (format!("{}{handler}", row.declared.service), SETTING, row.state.name())
        })
        .collect()
}

#[test]
fn a_plan_has_a_row_for_each_declared_setting() {
    let plan = Plan::new(
        declaring().needs(),
        &services(
            r#"[
            {"name": "Refunds", "ty": "Service", "idempotency_retention": "1d"},
            {"name": "Emails", "ty": "Service", "idempotency_retention": "1d", "handlers": [{"name": "send"}]},
            {"name": "IdempotencyGuard", "ty": "Service", "idempotency_retention": "7d 2h"}]"#,
        ),
    );
    assert_eq!(
        states(&plan),
        [
            ("Refunds".to_owned(), "idempotency_retention", "change"),
            ("Emails".to_owned(), "idempotency_retention", "equal"),
            ("Gone".to_owned(), "idempotency_retention", "service_missing"),
            ("IdempotencyGuard".to_owned(), "idempotency_retention", "equal"),
        ]
    );
    assert_eq!(plan.undeclared, [("Cart".to_owned(), "not registered".to_owned())]);
    assert!(!plan.is_clean());
}

#[test]
fn a_handler_s_own_setting_is_a_row_of_its_own() {
    let plan = Plan::new(
        declaring().needs(),
        &services(
            r#"[{"name": "Refunds", "idempotency_retention": "7d", "handlers": [
                {"name": "create", "idempotency_retention": "1h"},
                {"name": "find", "idempotency_retention": "0s"}, {"name": "expire", "idempotency_retention": "1h"},
                {"name": "void", "idempotency_retention": "7d"}]},
                {"name": "IdempotencyGuard", "idempotency_retention": "7d 2h", "handlers": [
                {"name": "claim", "idempotency_retention": "1h"}]}]"#,
        ),
    );
    assert_eq!(
        states(&plan).into_iter().filter(|(name, ..)| name.contains('R') || name.contains('G')).collect::<Vec<_>>(),
        [
            ("Refunds".to_owned(), "idempotency_retention", "equal"),
            ("Refunds/create".to_owned(), "idempotency_retention", "by_hand"),
            // No route sends these a key.
            ("Refunds/find".to_owned(), "idempotency_retention", "unkeyed"),
            ("Refunds/expire".to_owned(), "idempotency_retention", "unkeyed"),
            ("Gone".to_owned(), "idempotency_retention", "service_missing"),
            ("IdempotencyGuard".to_owned(), "idempotency_retention", "equal"),
            ("IdempotencyGuard/claim".to_owned(), "idempotency_retention", "by_hand"),
        ]
    );
    let done = plan.rows.iter().filter(|row| row.state.is_done()).map(|row| row.handler.as_deref());
    assert!(done.eq([None, Some("find"), Some("expire"), None]), "{:?}", states(&plan));
    assert!(plan.rows.iter().all(|row| !row.is_change()), "nothing that the admin API could change");
}

#[test]
fn the_server_s_limit_is_told_from_a_change() {
    let clamped = r#"[{"name": "Refunds", "idempotency_retention": "2d", "info": [{"code": "RT0022"}]},
        {"name": "Emails", "idempotency_retention": "2d", "info": [{"code": "RT0022"}]}]"#;
    let plan = Plan::new(declaring().needs(), &services(clamped));
    let row = plan.rows.first().unwrap();
    assert_eq!((row.state, row.is_change()), (State::Clamped, true));
    assert!(row.notes[0].contains("max-idempotency-retention = \"7d\""), "{:?}", row.notes);
    // The limit does not keep a shorter retention from being set.
    let emails = plan.rows.iter().find(|row| row.declared.service == "Emails").unwrap();
    assert_eq!(emails.state, State::Change);
}

#[test]
fn a_policy_without_retention_declares_nothing() {
    let policy = policy(r#""backend": {"kind": "restate"}, "routes": []"#);
    assert!(declared(policy.needs()).is_empty());
    assert_eq!(policy.needs().guard_name(), "IdempotencyGuard");
}
