//! `webhook new --apply` against stand-ins for the registry and the secret store.

use super::stand_in::{Received, StandIn};
use super::{Ran, run};
use serde_json::{Value, json};

/// What the registry answers when it has made a key.
const MADE: &str = r#"{"data": {"key": "wh_3ZrXcAAAA", "keyId": "key_1"}}"#;

fn apply(unkey: &StandIn, openbao: &StandIn, more: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "planted").unwrap();
    let new =
        ["webhook", "new", "--policy", "policy.json", "--tenant", "acme", "--project", "shop", "--provider", "stripe"];
    let places = ["--apply", "--unkey-api", "api_1", "--unkey", &unkey.url, "--openbao", &openbao.url];
    run(folder.path(), &[], &[&new[..], &places, &["--secret", "@secret"], more].concat())
}

/// A secret store that has this at the webhook's path, and takes what is written.
fn storing(read: (u16, Value), write: (u16, Value)) -> StandIn {
    StandIn::answering(move |request| {
        let (status, body) = if request.line.starts_with("GET ") { &read } else { &write };
        (*status, body.to_string())
    })
}

fn written(received: &[Received]) -> Option<Value> {
    let post = received.iter().find(|request| request.line == "POST /v1/webhooks/data/acme:shop:stripe")?;
    Some(serde_json::from_str(&post.body).unwrap())
}

#[test]
fn a_secret_is_replaced_as_it_was_read() {
    let unkey = StandIn::answering(|_| (200, MADE.to_owned()));
    let version = |version: u32, names: Value| json!({"data": {"subkeys": names, "metadata": {"version": version}}});
    let done = (200, json!({"data": {"version": 9}}));
    for (stored, cas) in [
        ((200, version(3, json!({"secret": null}))), 3),
        ((404, version(4, Value::Null)), 4),
        ((404, json!({"errors": []})), 0),
    ] {
        let openbao = storing(stored.clone(), done.clone());
        let ran = apply(&unkey, &openbao, &["--replace-secret"]);
        assert_eq!(ran.status, 0, "{}", ran.errors);
        let expected = json!({"data": {"secret": "planted"}, "options": {"cas": cas}});
        let received = openbao.received();
        assert_eq!(received[0].line, "GET /v1/webhooks/subkeys/acme:shop:stripe");
        assert_eq!(written(&received), Some(expected), "{stored:?}");
        assert!(!format!("{}{}", ran.text, ran.errors).contains("planted"));
    }
    // Without the option nothing is read, and only a first secret is written.
    let openbao = storing((200, version(3, json!({"secret": null}))), done);
    assert_eq!(apply(&unkey, &openbao, &[]).status, 0);
    let received = openbao.received();
    assert_eq!(received.len(), 1);
    assert_eq!(written(&received).unwrap()["options"], json!({"cas": 0}));
}

#[test]
fn what_would_be_lost_is_not_replaced() {
    let unkey = StandIn::answering(|_| (200, MADE.to_owned()));
    let done = (200, json!({"data": {"version": 9}}));
    let conflict = (400, json!({"errors": ["check-and-set parameter did not match the current version"]}));
    let stored = |names: Value| (200, json!({"data": {"subkeys": names, "metadata": {"version": 3}}}));
    for (read, write, told, writes) in [
        (stored(json!({"secrets": null})), done.clone(), "bao kv put", 0),
        (stored(json!({"secret": null, "note": null})), done.clone(), "bao kv put", 0),
        ((403, json!({"errors": ["permission denied"]})), done.clone(), "needs `read`", 0),
        ((503, json!({"errors": ["Vault is sealed"]})), done, "Vault is sealed", 0),
        (stored(json!({"secret": null})), conflict, "run it again", 1),
    ] {
        let openbao = storing(read, write);
        let ran = apply(&unkey, &openbao, &["--replace-secret"]);
        assert_eq!((ran.status, ran.text.as_str()), (2, ""));
        assert!(ran.errors.contains(told) && !ran.errors.contains("planted"), "{}", ran.errors);
        assert_eq!(openbao.received().iter().filter(|request| request.line.starts_with("POST")).count(), writes);
        assert!(unkey.received().is_empty(), "a key was made for a secret that was not written");
    }
}

#[test]
fn answers_of_a_store_are_not_trusted() {
    let openbao = storing((404, json!({})), (200, json!({})));
    let made = |key: &str| json!({"data": {"key": key}}).to_string();
    for (status, answer, told, may_exist) in [
        (200, made("wh_\u{1b}[31mplanted"), "no webhook id", false),
        (200, made("wh_1/../../admin"), "no webhook id", false),
        (200, made("short"), "no webhook id", false),
        (200, made(&"a".repeat(65)), "no webhook id", false),
        (200, "{}".to_owned(), "without `data.key`", true),
        (400, json!({"error": {"detail": "bad \u{1b}[2J api"}}).to_string(), r"bad \u{1b}[2J api", false),
        (500, json!({}).to_string(), "answers 500", true),
    ] {
        let unkey = StandIn::answering(move |_| (status, answer.clone()));
        let ran = apply(&unkey, &openbao, &[]);
        assert_eq!((ran.status, ran.text.as_str()), (2, ""));
        assert!(ran.errors.contains(told) && !ran.errors.contains('\u{1b}'), "{told}: {}", ran.errors);
        assert_eq!(ran.errors.contains("key may exist"), may_exist, "{told}: {}", ran.errors);
    }
}
