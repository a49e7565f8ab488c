//! A request that waits: what it waits for, which of its header lines are kept, and whose memory they take (docs/contract.md
//! section 2, "Waiting").
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use direct::attributes::TimeOnly;
use direct::requests::{Request, Verdict, run};
use direct::stores::answer;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::exchange::Waiter;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::lookup::{LookupAnswer, Lookups};
use edge_idempotency_engine::questions::Progress;
use edge_idempotency_engine::{Awaits, Exchange, PauseEvent, Policy, RequestFlow, Resumed};
use serde_json::json;
use simulated_stores::SimulatedStores;
use std::sync::LazyLock;

/// The beginning of the year 2026.
const NOW: TimeOnly = TimeOnly(1_767_225_600_000);

const LIMIT: u64 = 8;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let document = r#"{
        "version": 1,
        "allow_inline_secrets": true,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {},
            "operations": {"path": "/operations/{operation_id}", "secret": "a-secret-of-operations"}},
        "identity": {"sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}},
            {"name": "key", "unkey": {"header": "x-api-key", "prefix": "sk_", "cluster": "unkey"},
                "tenant": "/identity/externalId", "project": "/meta/project", "subject": {"field": "/keyId", "type": "client"}}
        ], "forward": {"tenant": "x-tenant", "project": "x-project"}},
        "routes": [
            {"endpoint": "raw", "path": "/raw", "policy": "REQUIRED_A", "target": "A/raw", "max_body_bytes": 8,
                "collision": "enforce"},
            {"endpoint": "json", "path": "/json", "policy": "REQUIRED_A", "target": "A/json", "max_body_bytes": 8,
                "collision": "enforce", "fingerprint": "json"},
            {"endpoint": "asked", "path": "/asked", "policy": "REQUIRED_A", "target": "A/asked", "max_body_bytes": 8,
                "in_flight": "conflict"},
            {"endpoint": "observed", "path": "/observed", "policy": "REQUIRED_A", "target": "A/observed", "max_body_bytes": 8,
                "in_flight": "conflict", "collision": "observe"},
            {"endpoint": "signed", "path": "/signed", "policy": "REQUIRED_A", "target": "A/signed"},
            {"endpoint": "compared", "path": "/compared", "policy": "REQUIRED_A", "target": "A/compared", "collision": "enforce"},
            {"endpoint": "headed", "path": "/headed", "policy": "REQUIRED_A", "target": "A/headed", "collision": "enforce",
                "fingerprint_headers": ["if-match"]},
            {"endpoint": "hooks", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "target": "A/hook", "webhook": {}}
        ],
        "callers": {"scheduler": {
            "subject": "service:scheduler", "routes": ["signed", "compared", "headed"], "secrets": ["a-secret-of-the-scheduler"],
            "signature": {
                "algorithm": "hmac-sha256",
                "signature": {"header": "X-Signature", "encoding": "hex"},
                "timestamp": {"header": "X-Date", "unit": "s", "max_age_s": 300},
                "template": "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant}\n{header:x-project}\n{body}"
            }
        }},
        "webhooks": {"unkey": {"cluster": "unkey"}, "openbao": {"cluster": "openbao"}, "static": {
            "wh_listed01": {"tenant": "acme", "project": "shop", "provider": "gitlab", "secrets": ["token"]},
            "wh_stored01": {"tenant": "acme", "project": "shop", "provider": "gitlab"}
        }}
    }"#;
    Policy::from_json(document.as_bytes()).unwrap()
});

type TextLine = (&'static str, &'static str);

const CALLER: [TextLine; 5] =
    [(":method", "POST"), ("x-t", "acme"), ("x-p", "shop"), ("x-s", "u1"), ("idempotency-key", "k")];
const SIGNED: [TextLine; 6] = [
    (":method", "POST"),
    ("x-date", "1767225600"),
    ("x-signature", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    ("x-tenant", "acme"),
    ("x-project", "shop"),
    ("idempotency-key", "k"),
];
const DELIVERY: [TextLine; 2] = [(":method", "POST"), ("x-gitlab-token", "token")];
/// What no signature reads, and lines that are repeated.
const MORE: [TextLine; 10] = [
    (":authority", "a"),
    (":scheme", "http"),
    ("x-other", "1"),
    ("if-match", "1"),
    ("if-match", "1"),
    ("content-type", "a"),
    ("content-type", " a "),
    ("content-type", "a"),
    ("content-type", "b"),
    ("content-type", "c"),
];

fn lines(path: &'static str, lines: &[TextLine]) -> Headers<'static> {
    let lines = [(":path", path)].into_iter().chain(lines.iter().chain(&MORE).copied());
    Headers::new(lines.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect())
}

/// A request whose headers have come, and what it waits for.
fn begun(headers: &Headers<'static>) -> (Exchange, RequestFlow) {
    let mut exchange = Exchange::new();
    let flow = exchange.request_headers(&POLICY, headers, &NOW, &mut Vec::new());
    (exchange, flow)
}

#[test]
fn the_lines_that_are_read_later_are_kept_for_who_sends_them() {
    let unverified = |name: &str| Waiter::Unverified(name.into());
    let acme = || Waiter::Tenant("acme".into());
    // Of several lines as many are kept as tell absent, one and ambiguous values apart.
    let delivery = "x-gitlab-token content-type=a content-type= a  content-type=b";
    let signed = "x-date x-signature x-tenant x-project idempotency-key";
    let some_types = "content-type=a content-type= a  content-type=b";
    let all_types = "content-type=a content-type= a  content-type=a content-type=b content-type=c";
    let get = [&CALLER[1..4], &[(":method", "GET")]].concat();
    // What the exchange keeps itself: method, target, a path that normalisation has changed, and the values of parameters; until
    // a signature is verified also scheme and authority.
    let values = |path: &str| path.strip_prefix("/h/").map_or(0, str::len);
    let respelled = |path: &str| "POST".len() + path.len() + "/raw".len();
    let (line, url) =
        (|path: &str| "POST".len() + path.len(), |path: &str| format!("POSThttp://a{path}").len() + values(path));
    for (path, sent, kept, carried, waiter) in [
        (
            "/h/gitlab/wh_listed01",
            &DELIVERY[..],
            delivery.to_owned(),
            Some(&url as &dyn Fn(&str) -> usize),
            unverified("wh_listed01"),
        ),
        ("/h/gitlab/wh_stored01", &DELIVERY, delivery.to_owned(), Some(&url), unverified("wh_stored01")),
        ("/h/gitlab/wh_unknown1", &DELIVERY, delivery.to_owned(), Some(&url), unverified("")),
        // It cannot be verified, whatever the registry says.
        ("/h/gitlab/wh_unknown1", &DELIVERY[..1], String::new(), None, unverified("")),
        ("/signed", &SIGNED, format!("{signed} {some_types}"), Some(&url), unverified("caller:scheduler")),
        ("/compared", &SIGNED, format!("{signed} {all_types}"), Some(&url), unverified("caller:scheduler")),
        (
            "/headed",
            &SIGNED,
            format!("{signed} if-match if-match {all_types}"),
            Some(&url),
            unverified("caller:scheduler"),
        ),
        ("/raw", &CALLER, String::new(), Some(&line), acme()),
        ("/raw?q=%41", &CALLER, String::new(), Some(&line), acme()),
        ("/%72aw", &CALLER, String::new(), Some(&respelled), acme()),
        ("/asked", &CALLER, String::new(), Some(&line), acme()),
        ("/raw/by-idempotency-key/k", &get, String::new(), None, acme()),
    ] {
        let headers = lines(path, sent);
        let (exchange, flow) = begun(&headers);
        let RequestFlow::Paused(pause) = flow else { panic!("{path}: {:?}", exchange.refusal()) };
        assert_eq!(pause.waiter(&POLICY), waiter, "{path}");
        assert_eq!(pause.carried_bytes(), carried.map_or(0, |carried| carried(path)), "{path}");
        let shown = |(name, value): (&[u8], &[u8])| {
            let (name, value) = (name.escape_ascii().to_string(), value.escape_ascii().to_string());
            if name == "content-type" { format!("{name}={value}") } else { name }
        };
        let names: Vec<String> = pause.kept_lines(&exchange, &POLICY, &headers).iter().map(shown).collect();
        assert_eq!(names.join(" "), kept, "{path}");
    }
}

/// It has no other name yet. What is kept of it is the question to the registry.
#[test]
fn a_request_with_an_api_key_waits_under_the_digest_of_its_key() {
    let key = |text| [(":method", "POST"), ("x-api-key", text), ("idempotency-key", "k")];
    let waiting = |text| {
        let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
        let headers = lines("/raw", &key(text));
        let flow = exchange.request_headers(&POLICY, &headers, &NOW, &mut effects);
        assert_eq!(effects, [], "it is evaluated again with all of its headers");
        let RequestFlow::Paused(pause) = flow else { panic!("{flow:?}") };
        assert!(matches!(pause.awaits(), Awaits::Caller { .. }), "{pause:?}");
        (pause.waiter(&POLICY), pause.carried_bytes())
    };
    let (Waiter::Unverified(one), carried) = waiting("sk_1") else { panic!("a tenant waits") };
    assert!(one.starts_with("api key:") && !one.contains("sk_1"), "{one}");
    assert!(carried >= "sk_1".len(), "{carried}");
    assert_ne!(waiting("sk_2").0, Waiter::Unverified(one));
}

/// Its record has the tenant, and the key if there was one.
#[test]
fn a_refusal_keeps_what_was_decided_before_the_wait() {
    let get = [&CALLER[1..4], &[(":method", "GET")]].concat();
    for (path, sent, tenant, key) in [
        ("/raw", &CALLER[..], Some("acme"), Some("t-acme:shop:user:u1:k")),
        ("/raw/by-idempotency-key/k", &get, Some("acme"), None),
        ("/h/gitlab/wh_listed01", &DELIVERY, None, None),
    ] {
        let (mut exchange, flow) = begun(&lines(path, sent));
        let RequestFlow::Paused(pause) = flow else { panic!("{path}: {flow:?}") };
        pause.refuse_body(&mut exchange, &mut Vec::new());
        assert_eq!(exchange.refusal().map(|problem| problem.status()), Some(413), "{path}");
        assert_eq!(exchange.identity().map(|caller| caller.tenant.as_str()), tenant, "{path}");
        assert_eq!(exchange.key(), key, "{path}");
    }
}

/// Only canonical JSON, and an observation behind another step, need the whole body in memory.
#[test]
fn a_request_waits_for_as_little_as_its_steps_need() {
    let limit = LIMIT;
    for (path, first, last) in [
        ("/raw", Awaits::End { limit }, None),
        ("/json", Awaits::Body { limit }, None),
        ("/asked", Awaits::Call { limit }, Some(Awaits::End { limit })),
        ("/observed", Awaits::Call { limit }, Some(Awaits::Body { limit })),
    ] {
        let (mut exchange, flow) = begun(&lines(path, &CALLER));
        assert_eq!(flow.awaits(), Some(first), "{path}");
        if let Some(last) = last {
            let answer = LookupAnswer::Output(Ok(Progress::Unknown));
            assert_eq!(answered(&mut exchange, flow, answer).awaits(), Some(last), "{path}");
        }
    }
}

#[test]
fn a_whole_request_has_a_body_of_at_most_the_limit() {
    for path in ["/raw", "/json", "/asked", "/observed"] {
        for (body, expected) in [(&b"12345678"[..], true), (b"123456789", false)] {
            let headers = lines(path, &CALLER);
            let headers = headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            let (_, verdict) = run(&POLICY, &Request { headers, body: body.to_vec(), ..Request::default() }, &NOW);
            assert_eq!(matches!(verdict, Verdict::Forwarded { .. }), expected, "{path} {verdict:?}");
        }
    }
}

/// The secrets were changed between two lookups.
#[test]
fn newer_secrets_verify_a_delivery_and_the_same_ones_do_not() {
    for (newer, expected) in [("token", true), ("old", false)] {
        let headers = lines("/h/gitlab/wh_stored01", &DELIVERY);
        let (mut exchange, flow) = begun(&headers);
        let flow = looked_up(&mut exchange, flow, "old");
        let RequestFlow::Paused(pause) = flow else { panic!("{flow:?}") };
        let event = PauseEvent::Body { body: &Body::of(b"{}"), now_unix_ms: NOW.0 };
        let resumed = Resumed { policy: &POLICY, headers: &headers, event };
        let flow = pause.resume(&mut exchange, resumed, &mut Vec::new());
        assert!(matches!(flow.awaits(), Some(Awaits::Call { .. })), "{flow:?}");
        let flow = looked_up(&mut exchange, flow, newer);
        assert_eq!(matches!(flow.awaits(), Some(Awaits::Body { .. })), expected, "{newer}");
        assert_eq!(matches!(flow, RequestFlow::Replied), !expected, "{newer}");
    }
}

/// The secret store answers with this secret.
fn looked_up(exchange: &mut Exchange, flow: RequestFlow, secret: &str) -> RequestFlow {
    let stores = SimulatedStores::read(&json!({"secrets": {"acme:shop:gitlab": {"secret": secret}}})).unwrap();
    let RequestFlow::Paused(pause) = &flow else { panic!("{flow:?}") };
    let answer = answer(&stores, Lookups::of(&POLICY).as_mut(), pause.lookup().unwrap(), NOW.0).unwrap();
    answered(exchange, flow, answer)
}

fn answered(exchange: &mut Exchange, flow: RequestFlow, answer: LookupAnswer) -> RequestFlow {
    let RequestFlow::Paused(pause) = flow else { panic!("{flow:?}") };
    let resumed = Resumed { policy: &POLICY, headers: &Headers::default(), event: PauseEvent::Answer(answer) };
    pause.resume(exchange, resumed, &mut Vec::new())
}

/// `explain` shows where the identity of a request for an operation stands, though no route has its path.
#[test]
fn an_operation_s_caller_has_identity_sources() {
    let headers = lines("/operations/inv_1", &CALLER[1..4]);
    let (exchange, _) = begun(&headers);
    assert_eq!(exchange.identity_sources(&POLICY, &headers).len(), 2);
    let headers = lines("/elsewhere", &CALLER);
    let (exchange, _) = begun(&headers);
    assert!(exchange.identity_sources(&POLICY, &headers).is_empty());
}
