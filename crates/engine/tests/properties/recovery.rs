//! I2 and I5 for recovery: a caller asks for the invocation that its own call made, and for no other. The question is the body of
//! a lookup.

use super::{cases, model};
use direct::attributes::NoAttributes;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::lookup::LookupAnswer;
use edge_idempotency_engine::questions::{PendingLookup, UncachedLookup};
use edge_idempotency_engine::{CallReply, Effect, Exchange, Policy, RequestFlow};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::sync::LazyLock;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let document = r#"{
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
        "identity": {"sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
        ]},
        "key": {"charset": "visible"},
        "routes": [
            {"endpoint": "plain", "path": "/plain", "policy": "REQUIRED_A", "target": "Refunds/create"},
            {"endpoint": "later", "path": "/later", "policy": "REQUIRED_A", "target": "Emails/send", "one_way": true},
            {"endpoint": "cart", "path": "/carts/{a}/{b}", "policy": "ACCEPTED", "encoded_slash": true, "target": "Cart/{tenant}:{a}:x{b}/checkout"},
            {"endpoint": "profile", "path": "/profile", "policy": "ACCEPTED", "target": "Profile/{subject}/change"}
        ]
    }"#;
    Policy::from_json(document.as_bytes()).unwrap()
});

/// Who calls which operation, with which key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecoveryCall {
    tenant: &'static str,
    subject: String,
    path: String,
    key: String,
}

/// Keys of every visible character but the comma; a quote at the beginning would begin a Structured Field string, and programs
/// read dots between slashes as segments.
fn key() -> impl Strategy<Value = String> {
    let odd = "[!#-+\\--~][!-+\\--~]{0,12}".prop_filter("a reserved beginning, or dot segments", |key| {
        !key.starts_with("t-") && !key.split(['/', '\\']).any(|part| [".", ".."].contains(&part))
    });
    prop_oneof![
        1 => select(vec!["k", "l", "output", "/", "//a/", "a%2Fb", "a%5Cb", "by-idempotency-key/k"]).prop_map(str::to_owned),
        1 => odd,
    ]
}

fn call() -> impl Strategy<Value = RecoveryCall> {
    let value = prop_oneof!["[a-c:%\"é]{0,3}(/[a-c:]{1,2})?", Just("x".to_owned())].prop_map(|text| {
        // A segment of dots alone is refused.
        model::percent_encoded(format!("v{text}").as_bytes())
    });
    let path = prop_oneof![
        Just("/plain".to_owned()),
        Just("/later".to_owned()),
        Just("/profile".to_owned()),
        (value.clone(), value).prop_map(|(a, b)| format!("/carts/{a}/{b}")),
    ];
    (select(vec!["acme", "other"]), "[a-c:%]{1,3}", path, key()).prop_map(|(tenant, subject, path, key)| RecoveryCall {
        tenant,
        subject,
        path,
        key,
    })
}

/// Runs a request; the exchange, and the headers that were set.
fn run(
    call: &RecoveryCall,
    method: &str,
    path: &str,
    key: Option<&str>,
) -> (Exchange, RequestFlow, Vec<(String, String)>) {
    let mut lines = vec![
        (":method", method),
        (":authority", "a"),
        (":path", path),
        ("x-t", call.tenant),
        ("x-p", "shop"),
        ("x-s", &call.subject),
    ];
    lines.extend(key.map(|key| ("idempotency-key", key)));
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
    let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
    let flow = exchange.request_headers(&POLICY, &headers, &NoAttributes, &mut effects);
    let set = effects.iter().filter_map(|effect| match effect {
        Effect::Set { name, value, .. } => Some(((*name).to_owned(), String::from_utf8(value.to_vec()).unwrap())),
        _ => None,
    });
    let set = set.collect();
    (exchange, flow, set)
}

/// What Restate makes an invocation's id of: service, object key, handler and idempotency key, as the call has them.
fn called(call: &RecoveryCall) -> [String; 4] {
    let (_, flow, set) = run(call, "POST", &call.path, Some(&call.key));
    assert!(matches!(flow, RequestFlow::Continue), "{flow:?}");
    let value = |wanted: &str| set.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
    let path = value(":path");
    let rest = path.strip_prefix("/restate/call/").or_else(|| path.strip_prefix("/restate/send/")).unwrap();
    let parts: Vec<&str> = rest.split('/').collect();
    let decoded = |part: &str| String::from_utf8(model::percent_decoded(part)).unwrap();
    let object_key = if parts.len() == 3 { decoded(parts[1]) } else { String::new() };
    [parts[0].to_owned(), object_key, parts[parts.len() - 1].to_owned(), value("idempotency-key")]
}

/// What the recovery of a call asks for.
fn asked(call: &RecoveryCall, wait: &str) -> [String; 4] {
    let path = format!("{}/by-idempotency-key/{}{wait}", call.path, model::percent_encoded(call.key.as_bytes()));
    let (_, flow, set) = run(call, "GET", &path, None);
    let RequestFlow::Paused(pause) = flow else { panic!("{flow:?}") };
    assert!(set.is_empty(), "nothing is edited before the id is known");
    let Some(PendingLookup::Invocation(question)) = pause.lookup() else { panic!("no lookup") };
    let body = &question.body;
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["target"], "idempotentInvocation");
    ["service", "key", "handler", "idempotencyKey"].map(|name| body[name].as_str().unwrap_or_default().to_owned())
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_caller_asks_for_the_invocation_of_its_own_call(one in call(), other in call()) {
        prop_assert_eq!(asked(&one, ""), called(&one));
        prop_assert_eq!(asked(&one, "/output"), called(&one));
        if one != other {
            prop_assert_ne!(asked(&one, ""), asked(&other, ""));
        }
    }

    /// I7, and no reply makes another path than one of Restate's results.
    #[test]
    fn any_reply_to_a_lookup_is_an_id_or_a_failure(
        status in prop_oneof![3 => Just(200), 1 => 100_u16..600],
        body in prop_oneof![
            ".{0,40}",
            "(inv_)?[a-zA-Z0-9_/.%?-]{0,70}".prop_map(|id| json!({"invocationId": id}).to_string()),
            any::<i64>().prop_map(|id| json!({"invocationId": id}).to_string()),
        ],
    ) {
        let reply = CallReply { status: Some(status), body: Some(body.as_bytes()) };
        let answer = UncachedLookup::Invocation.read_reply(&reply);
        let LookupAnswer::Invocation(id) = answer else { panic!("{answer:?}") };
        if let Ok(id) = id {
            let plain = id.strip_prefix("inv_").is_some_and(|rest| rest.chars().all(|char| char.is_ascii_alphanumeric()));
            prop_assert!(plain && id.len() > 4 && id.len() <= 64 && status == 200, "{}", id);
        }
    }
}
