//! I7: nothing that comes in ends the engine; there is always an answer.

use super::generate::key_value;
use super::{cases, model};
use direct::attributes::AnyAttributes;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::json::Json;
use edge_idempotency_engine::policy::Template;
use edge_idempotency_engine::policy::{BackendKind, Target};
use edge_idempotency_engine::{
    Effect, Exchange, Pause, PauseEvent, Policy, RequestFlow, ResponseFlow, Resumed, UnreadBody, key,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::json;
use std::sync::LazyLock;

fn borrowed(lines: &[(Vec<u8>, Vec<u8>)]) -> Headers<'_> {
    Headers::new(lines.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect())
}

const DOCUMENTS: [&str; 4] = [
    include_str!("../../../../policies/reference.json"),
    include_str!("../../../../policies/examples/generic-backend.json"),
    include_str!("../../../../policies/examples/unmatched-strip.json"),
    include_str!("../schema/every_member.json"),
];

static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let compiled = DOCUMENTS.iter().map(|document| Policy::from_json(document.as_bytes()).unwrap());
    compiled
        .map(|mut policy| {
            policy.read_secrets(|_| Some(b"secret".to_vec()), |_| true, "").unwrap();
            policy
        })
        .collect()
});

fn wild_bytes() -> BoxedStrategy<Vec<u8>> {
    let known = [
        "acme",
        "shop",
        "user:u1",
        "u1",
        "POST",
        "GET",
        "/api/v1/billing/refunds",
        "/api/v1/projects/%2F/archive",
        "/orders",
        "/api/v1/webhooks/stripe/wh_01JABCDEF",
        "//restate/x",
        "/v1/payments/%zz",
        "billing.create-refund",
        "projects.archive",
        "12",
        "operations.example.com",
        "[::1",
        "\"",
        "%",
        "99999999999999999999",
        "whsec",
        "t=1,v1=00",
        "gzip",
    ];
    prop_oneof![
        3 => vec(any::<u8>(), 0..12),
        5 => select(known.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => key_value(),
        1 => (any::<u8>(), 0_usize..70_000).prop_map(|(byte, length)| vec![byte; length]),
    ]
    .boxed()
}

fn wild_lines() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let names = [
        ":path",
        ":path",
        ":path",
        ":method",
        ":method",
        ":authority",
        ":scheme",
        "idempotency-key",
        "Idempotency-Key",
        "idempotency_key",
        "x-auth-tenant",
        "x-auth-project",
        "x-auth-subject",
        "x-tenant-id",
        "content-length",
        "content-encoding",
        "stripe-signature",
        "x-gitlab-token",
        "x-restate-id",
        "x-restate-error-source",
        "idempotency-expires",
        "x-operation-id",
        "",
    ];
    let name = prop_oneof![9 => select(names.to_vec()).prop_map(|name| name.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..70)];
    vec((name, wild_bytes()), 0..12)
}

#[derive(Debug, Clone, Copy)]
enum ExchangeEvent {
    Request,
    Body,
    TooLarge,
    Trailers,
    Response,
    ResponseBody,
    ResponseTooLarge,
    ResponseTrailers,
}

/// Requests and answers come more often than what follows them.
const EVENTS: [ExchangeEvent; 11] = [
    ExchangeEvent::Request,
    ExchangeEvent::Request,
    ExchangeEvent::Body,
    ExchangeEvent::TooLarge,
    ExchangeEvent::Trailers,
    ExchangeEvent::Response,
    ExchangeEvent::Response,
    ExchangeEvent::ResponseBody,
    ExchangeEvent::ResponseBody,
    ExchangeEvent::ResponseTooLarge,
    ExchangeEvent::ResponseTrailers,
];

proptest! {
    #![proptest_config(cases(3000))]

    /// Whatever comes in whatever order: an answer, and a record of it.
    #[test]
    fn every_exchange_has_an_answer(
        place in any::<Index>(),
        request in wild_lines(),
        body in wild_bytes(),
        trailers in wild_lines(),
        response in wild_lines(),
        metadata in vec(proptest::option::of(wild_bytes()), 0..5),
        endpoint in proptest::option::weighted(0.3, wild_bytes()),
        events in vec(select(EVENTS.to_vec()), 1..6),
        now in any::<u64>(),
    ) {
        let policy = place.get(&POLICIES);
        let attributes = AnyAttributes { metadata, endpoint };
        let (request, trailers, response) = (borrowed(&request), borrowed(&trailers), borrowed(&response));
        let mut exchange = Exchange::new();
        let (mut paused, mut awaited) = (None, None);
        for event in events {
            let mut effects = Vec::new();
            let flow = match event {
                ExchangeEvent::Request => Some(exchange.request_headers(policy, &request, &attributes, &mut effects)),
                ExchangeEvent::Body => paused.take().map(|pause: Pause| {
                    let event = PauseEvent::Body { body: &Body::of(&body), now_unix_ms: now };
                    pause.resume(&mut exchange, Resumed { policy, headers: &request, event }, &mut effects)
                }),
                ExchangeEvent::TooLarge => paused.take().map(|pause: Pause| pause.refuse_body(&mut exchange, &mut effects)),
                ExchangeEvent::Trailers => {
                    exchange.request_trailers(policy, &trailers, &mut effects);
                    None
                }
                ExchangeEvent::Response => {
                    if let ResponseFlow::AwaitBody(body) = exchange.response_headers(policy, &response, &mut effects) {
                        awaited = Some(body);
                    }
                    None
                }
                ExchangeEvent::ResponseBody => {
                    if let Some(awaited) = awaited {
                        exchange.response_body(awaited, policy, &body, &mut effects);
                    }
                    None
                }
                ExchangeEvent::ResponseTooLarge => {
                    if let Some(awaited) = awaited {
                        exchange.response_body_unread(awaited, UnreadBody::Passes, policy, &mut effects);
                    }
                    None
                }
                ExchangeEvent::ResponseTrailers => {
                    exchange.response_trailers(policy, &trailers, &mut effects);
                    None
                }
            };
            let replies = effects.iter().filter(|effect| matches!(effect, Effect::Reply(_))).count();
            prop_assert_eq!(replies, usize::from(matches!(flow, Some(RequestFlow::Replied))), "{:?}", effects);
            prop_assert!(replies == 0 || effects.len() == 1, "{:?}", effects);
            if let [Effect::Reply(problem)] = effects.as_slice() {
                prop_assert!((400..=599).contains(&problem.status()));
                prop_assert!(is_object(&problem.document(&policy.answers)));
            }
            if let Some(RequestFlow::Paused(pause)) = flow {
                paused = Some(pause);
            }
            prop_assert!(is_object(&exchange.record(policy).to_json()));
        }
    }

    #[test]
    fn texts_of_any_kind_are_read_or_refused(text in ".{0,40}", pieces in vec(select(vec!["/", "{", "}", "a", "%", "2F", ":", "t-", "é", ".", "tenant"]), 0..12)) {
        for text in [text, pieces.concat()] {
            if let Ok(template) = Template::parse(&text) {
                prop_assert_eq!(template.to_string(), text.as_str());
            }
            let _ = Target::parse(&text, &["a"], true, BackendKind::Restate).map(|target| target.path(&[vec![0xff]], None).is_some());
            let _ = key::decode(&text);
            let _ = key::read([text.as_bytes()]);
            let _ = model::normalised(text.as_bytes());
        }
    }
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|json| json.is_object())
}

/// Any JSON out of the words of policy documents.
fn wild_json() -> impl Strategy<Value = serde_json::Value> {
    let words: Vec<String> = DOCUMENTS[3].split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let names = words.clone();
    let leaf = prop_oneof![
        6 => select(words).prop_map(serde_json::Value::from),
        1 => select(vec![json!(null), json!(true), json!(1), json!(-1), json!(0.5), json!(1e300), json!("")]),
        1 => ".{0,6}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let object = vec((select(names.clone()), inner.clone()), 0..6);
        prop_oneof![
            1 => vec(inner, 0..4).prop_map(serde_json::Value::from),
            3 => object.prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether a pointer leads to a place of the document.
fn leads_somewhere(document: &serde_json::Value, pointer: &str) -> bool {
    document.pointer(pointer).is_some()
}

fn judge(document: &serde_json::Value) -> Result<(), TestCaseError> {
    if let Err(errors) = Policy::from_json(document.to_string().as_bytes()) {
        prop_assert!(!errors.0.is_empty());
        for error in &errors.0 {
            // What is named may be what is missing beside it: a route's `webhook`, say.
            let parent = error.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            prop_assert!(
                leads_somewhere(document, &error.pointer) || leads_somewhere(document, parent),
                "{error}\n{document}"
            );
            prop_assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn any_bytes_are_a_policy_or_errors(bytes in vec(any::<u8>(), 0..60)) {
        prop_assert!(Policy::from_json(&bytes).is_err());
        let _ = Json::parse(&bytes);
    }

    #[test]
    fn any_json_is_a_policy_or_errors_with_places(document in wild_json()) {
        judge(&document)?;
    }

    /// A whole policy with one part of another document in a place of it.
    #[test]
    fn parts_in_wrong_places_are_errors_with_places(place in any::<Index>(), part in any::<Index>(), wild in wild_json(), use_part in any::<bool>()) {
        let mut document: serde_json::Value = serde_json::from_str(DOCUMENTS[3]).unwrap();
        let mut pointers = Vec::new();
        collect(&document, String::new(), &mut pointers);
        let value = if use_part { document.pointer(&pointers[part.index(pointers.len())]).unwrap().clone() } else { wild };
        *document.pointer_mut(&pointers[place.index(pointers.len())]).unwrap() = value;
        judge(&document)?;
    }
}

fn collect(value: &serde_json::Value, pointer: String, pointers: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                collect(value, format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        serde_json::Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{pointer}/{index}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(pointer);
}
