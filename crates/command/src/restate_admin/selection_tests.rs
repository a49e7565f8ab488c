use super::*;

fn selection(text: &SelectionText<'_>) -> Selection {
    Selection::parse(text, None).unwrap()
}

fn invocation(key: &str) -> Invocation {
    serde_json::from_value(serde_json::json!({
        "id": "inv_1", "target_service_name": "Refunds", "target_handler_name": "create", "idempotency_key": key, "status": "completed",
    }))
    .unwrap()
}

/// Names that a pattern, a prefix or a letter case would take for each other stay apart.
#[test]
fn confusable_names_are_others() {
    let a_c = selection(&SelectionText { tenant: Some("a_c"), ..SelectionText::default() });
    assert!(a_c.has(&invocation("t-a_c:shop:user:u:k")));
    for other in
        ["t-abc:shop:user:u:k", "t-a_cd:shop:user:u:k", "t-A_C:shop:user:u:k", "t-x:a_c:user:u:k", "t-a_c", "01HV", ""]
    {
        assert!(!a_c.has(&invocation(other)), "{other}");
    }
    let subject = SelectionText { tenant: Some("acme"), subject: Some("user:a_%"), ..SelectionText::default() };
    let subject = selection(&subject);
    assert!(subject.has(&invocation("t-acme:shop:user:a_%25:k")));
    assert!(subject.has(&invocation("t-acme:_tenant:user:a_%25:other")));
    for other in [
        "t-acme:shop:user:ab:k",
        "t-acme:shop:client:a_%25:k",
        "t-acme:shop:user:x:user:a_%25:k",
        "t-acme2:shop:user:a_%25:k",
    ] {
        assert!(!subject.has(&invocation(other)), "{other}");
    }
    // A raw key that ends like the one that is meant.
    let raw = SelectionText { tenant: Some("acme"), raw: Some("k"), ..SelectionText::default() };
    let raw = selection(&raw);
    assert!(raw.has(&invocation("t-acme:shop:user:u:k")));
    assert!(!raw.has(&invocation("t-acme:shop:user:u:a:k")));
}

#[test]
fn conditions_hold_texts_as_literals() {
    let text = SelectionText {
        tenant: Some("a_c"),
        subject: Some("user:o'hara:%"),
        raw: Some("k' or '1'='1"),
        ..SelectionText::default()
    };
    assert!(Selection::parse(&text, None).is_err(), "a space is in no key");
    let text = SelectionText { raw: Some("k'or'1'='1"), ..text };
    assert_eq!(
        selection(&text).condition().unwrap(),
        "starts_with(idempotency_key, 't-a_c:') and split_part(idempotency_key, ':', 3) = 'user' \
         and split_part(idempotency_key, ':', 4) = 'o%27hara%3A%25' and (ends_with(idempotency_key, ':k''or''1''=''1') \
         or target_service_name = 'Recorder' and strpos(idempotency_key, ':k''or''1''=''1.') > 0)"
    );
    let text = SelectionText { project: Some("shop"), ..text };
    assert!(
        selection(&text)
            .condition()
            .unwrap()
            .starts_with("(idempotency_key = 't-a_c:shop:user:o%27hara%3A%25:k''or''1''=''1'")
    );
}

/// What a recorder puts behind a key is no part of it.
#[test]
fn a_recorder_keeps_the_filters_key() {
    let of = |request| SelectionText { raw: Some("k.1"), request, ..SelectionText::default() };
    let (any, one) = (selection(&of(None)), selection(&of(Some("POST /orders"))));
    let digest = one.recorded.clone().unwrap();
    let mut stored = invocation(&format!("t-acme:shop:user:u:k.1.{digest}.00"));
    assert!(!any.has(&stored) && !one.has(&stored));
    stored.target_service_name = RECORDER.to_owned().try_into().unwrap();
    assert!(any.has(&stored) && one.has(&stored) && !selection(&of(Some("PUT /orders"))).has(&stored));
    for bad in ["/orders", "POST orders", "POST /orders?a=1", "POST /orders HTTP/1.1"] {
        assert!(Selection::parse(&of(Some(bad)), None).is_err(), "{bad}");
    }
}

#[test]
fn a_stored_key_chooses_all_of_its_parts() {
    let text = SelectionText { stored: Some("t-acme:_tenant:user:a%2Fb:x:y"), ..SelectionText::default() };
    let chosen = selection(&text);
    assert_eq!(chosen.namespaced_key().unwrap().as_deref(), text.stored);
    assert!(Selection::parse(&SelectionText { stored: Some("acme:k"), ..text }, None).is_err());
}

#[test]
fn ids_and_digests_are_read_as_logs_have_them() {
    let text = SelectionText { id: Some("inv_1abc.tag-tag"), ..SelectionText::default() };
    assert_eq!(selection(&text).id.as_deref(), Some("inv_1abc"));
    for bad in ["", "inv_", "1abc", "inv_1' or 1=1"] {
        assert!(Selection::parse(&SelectionText { id: Some(bad), ..SelectionText::default() }, None).is_err(), "{bad}");
    }
    let hash = key_in_logs(KeyInLogs::Hash, "t-acme:shop:user:u:k")
        .unwrap()
        .to_ascii_uppercase()
        .replace("SHA256:", "sha256:");
    let by_hash = selection(&SelectionText { key_hash: Some(&hash), ..SelectionText::default() });
    assert!(by_hash.has(&invocation("t-acme:shop:user:u:k")) && !by_hash.has(&invocation("t-acme:shop:user:u:l")));
    assert!(
        Selection::parse(&SelectionText { key_hash: Some("sha256:12"), ..SelectionText::default() }, None).is_err()
    );
}

#[test]
fn an_endpoint_gives_operation_and_scope() {
    let text = r#"{"version": 1, "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
        "identity": {"sources": [{"name": "h", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}}]},
        "routes": [
            {"endpoint": "a", "path": "/a/{id}", "policy": "REQUIRED_A", "target": "Cart/{tenant}:{id}/checkout", "scope": "tenant"},
            {"endpoint": "b", "path": "/b", "policy": "PROHIBITED"},
            {"endpoint": "d", "path": "/d", "policy": "REQUIRED_A", "target": "Cart/list"},
            {"endpoint": "e", "path": "/e", "policy": "REQUIRED_A", "target": "Cart/share", "subject": "none"}]}"#;
    let policy = Policy::from_json(text.as_bytes()).unwrap();
    let choose = |endpoint, project| {
        let text = SelectionText { endpoint: Some(endpoint), project, ..SelectionText::default() };
        Selection::parse(&text, Some(&policy))
    };
    let chosen = choose("a", None).unwrap();
    assert_eq!(chosen.project, Some(Project::Tenant));
    let operation = Operation { service: "Cart".to_owned(), handler: "checkout".to_owned(), is_keyed: true };
    assert_eq!(chosen.operation, Some(operation));
    assert_eq!(choose("a", Some("_tenant")).unwrap().project, Some(Project::Tenant));
    assert_eq!(choose("d", Some("shop")).unwrap().project.unwrap().as_str(), "shop");
    assert_eq!(choose("d", None).unwrap().project, None);
    for (endpoint, project) in [("a", "shop"), ("a", "_platform"), ("d", "_tenant")] {
        let error = choose(endpoint, Some(project)).unwrap_err();
        assert!(error.contains(&format!("never under {project}")), "{error}");
    }
    let stored =
        SelectionText { endpoint: Some("a"), stored: Some("t-acme:shop:user:u:k"), ..SelectionText::default() };
    let error = Selection::parse(&stored, Some(&policy)).unwrap_err();
    assert!(error.contains("under _tenant and never under shop"), "{error}");
    let of = |endpoint, subject| {
        let text = SelectionText { endpoint: Some(endpoint), subject: Some(subject), ..SelectionText::default() };
        Selection::parse(&text, Some(&policy))
    };
    let shared = Subject::none();
    assert_eq!(choose("e", None).unwrap().subject, Some(shared.clone()));
    assert_eq!(of("e", "_none:_").unwrap().subject, Some(shared));
    assert_eq!(choose("d", None).unwrap().subject, None);
    let error = of("e", "user:u").unwrap_err();
    assert!(error.contains("are under _none:_ and never under user:u"), "{error}");
    let error = of("d", "_none:_").unwrap_err();
    assert!(error.contains("are under their caller's subject and never under _none:_"), "{error}");
    assert!(choose("b", None).unwrap_err().contains("no target"));
    assert!(choose("c", None).unwrap_err().contains("no endpoint"));
}

#[test]
fn what_no_identity_can_hold_is_refused() {
    let parse = |text: SelectionText<'_>| Selection::parse(&text, None);
    for tenant in ["", "_x", "a'b", "a:b", "%"] {
        assert!(parse(SelectionText { tenant: Some(tenant), ..SelectionText::default() }).is_err(), "{tenant}");
    }
    for subject in ["user", "user:", "User:1", "a'b:1", "_none:a", "_none:", "_other:_"] {
        assert!(parse(SelectionText { subject: Some(subject), ..SelectionText::default() }).is_err(), "{subject}");
    }
    assert!(parse(SelectionText { project: Some("_other"), ..SelectionText::default() }).is_err());
    assert!(parse(SelectionText { endpoint: Some("a"), ..SelectionText::default() }).is_err());
}

#[test]
fn a_subject_that_was_copied_from_a_key_is_warned_of() {
    assert!(warning("user:a%2Fb").unwrap().contains("write it decoded: --subject user:a/b"));
    assert!(warning("user:%20").unwrap().contains("--subject 'user: '"));
    for fine in ["user:a/b", "user:alice", "user:100%", "user:%", "user:a b%2F", "user"] {
        assert_eq!(warning(fine), None, "{fine}");
    }
}
