//! Signed callers: docs/identity.md and its vectors, every component changed, and keys that are nobody else's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use direct::attributes::TimeOnly;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::key::{KeyGrammar, RawKey, decode};
use edge_idempotency_engine::problem::Reason;
use edge_idempotency_engine::{Effect, Exchange, PauseEvent, Policy, RequestFlow, Resumed};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value as Json;
use testkit::signatures::{hex, hmac_sha256};

const PAGE: &str = include_str!("../../../docs/identity.md");
const SECRETS: [(&str, &str); 2] =
    [("SCHEDULER_SECRET", "sched_b3bVnQ3N4dYkRr0e1zT5"), ("SCHEDULER_SECRET_PREVIOUS", "sched_0ld0ld0ld0ld0ld0ld0l")];

/// One signed request.
struct Vector {
    name: String,
    secret: String,
    parts: Parts,
    signed: String,
    signature: String,
    namespaced_key: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Parts {
    method: String,
    path: String,
    timestamp: u64,
    key: String,
    tenant: String,
    project: String,
    body: String,
}

impl Parts {
    /// The text that the page says is signed.
    fn text(&self) -> String {
        let Self { method, path, timestamp, key, tenant, project, body } = self;
        format!("{method}\n{path}\n{timestamp}\n{key}\n{tenant}\n{project}\n{body}")
    }

    fn signature(&self, secret: &str) -> String {
        format!("t={},v1={}", self.timestamp, hex(&hmac_sha256(secret.as_bytes(), self.text().as_bytes())))
    }
}

/// The n-th block of the page's part about signed callers in a language.
fn block(language: &str, index: usize) -> &'static str {
    let opening = format!("```{language}\n");
    let (_, part) = PAGE.split_once("\n## Signed callers\n").expect("a part about signed callers");
    part.split(&opening).nth(index + 1).and_then(|rest| rest.split("\n```").next()).expect(language)
}

fn policy() -> Policy {
    let mut policy = Policy::from_json(block("json", 0).as_bytes()).unwrap();
    let variable = |name: &str| SECRETS.iter().find(|(known, _)| *known == name);
    policy.read_secrets(|name| variable(name).map(|(_, value)| value.as_bytes().to_vec()), |_| true, "").unwrap();
    policy
}

fn vectors() -> Vec<Vector> {
    let file: Json = serde_json::from_str(testkit::vectors::SIGNED_CALLERS).unwrap();
    let read = |vector: &Json| {
        let text = |name: &str| vector[name].as_str().expect(name).to_owned();
        let parts = Parts {
            method: text("method"),
            path: text("path"),
            timestamp: vector["timestamp"].as_u64().unwrap(),
            key: text("key"),
            tenant: text("tenant"),
            project: text("project"),
            body: text("body"),
        };
        Vector {
            name: text("name"),
            secret: text("secret"),
            parts,
            signed: text("signed"),
            signature: text("signature"),
            namespaced_key: text("namespaced_key"),
        }
    };
    file["vectors"].as_array().unwrap().iter().map(read).collect()
}

/// The namespaced key, or the code of the refusal and its reason.
fn judge(policy: &Policy, parts: &Parts, signature: Option<&str>, now: u64) -> Result<String, (String, String)> {
    judge_at("api.example.com", policy, parts, signature, now)
}

fn judge_at(
    authority: &str,
    policy: &Policy,
    parts: &Parts,
    signature: Option<&str>,
    now: u64,
) -> Result<String, (String, String)> {
    let mut lines: Vec<(&[u8], &[u8])> = vec![
        (b":method", parts.method.as_bytes()),
        (b":path", parts.path.as_bytes()),
        (b":authority", authority.as_bytes()),
        (b"idempotency-key", parts.key.as_bytes()),
        (b"x-tenant-id", parts.tenant.as_bytes()),
        (b"x-project-id", parts.project.as_bytes()),
    ];
    lines.extend(signature.map(|signature| (b"x-schedule-signature".as_slice(), signature.as_bytes())));
    let (headers, clock) = (Headers::new(lines), TimeOnly(now * 1000));
    let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
    let flow = exchange.request_headers(policy, &headers, &clock, &mut effects);
    if let RequestFlow::Paused(pause) = flow {
        let removes = |effect: &Effect<'_>| matches!(effect, Effect::Remove { .. });
        assert!(effects.iter().all(removes), "nothing is set before the body has come");
        let event = PauseEvent::Body { body: &Body::of(parts.body.as_bytes()), now_unix_ms: now * 1000 };
        pause.resume(&mut exchange, Resumed { policy, headers: &headers, event }, &mut effects);
    }
    match exchange.refusal() {
        Some(problem) => Err((problem.code.name().to_owned(), exchange.reason().map_or("", Reason::name).to_owned())),
        None => Ok(exchange.key().unwrap().to_owned()),
    }
}

#[test]
fn every_vector_is_what_the_page_says_and_verifies() {
    let policy = policy();
    for vector in vectors() {
        let Vector { name, secret, parts, signed, signature, namespaced_key } = &vector;
        assert_eq!(parts.text(), *signed, "{name}");
        assert_eq!(parts.signature(secret), *signature, "{name}");
        assert_eq!(judge(&policy, parts, Some(signature), parts.timestamp).as_ref(), Ok(namespaced_key), "{name}");
    }
}

#[test]
fn the_page_s_example_is_a_vector() {
    let example = &vectors()[0];
    assert_eq!(block("text", 1), example.signed);
    assert_eq!(block("text", 2), format!("X-Schedule-Signature: {}", example.signature));
    for told in [
        &example.secret,
        &example.namespaced_key,
        &format!("({} bytes, no line feed", example.signed.len()),
        &format!("at {} (2026-10-26T07:33:20Z)", example.parts.timestamp),
    ] {
        assert!(PAGE.contains(told.as_str()), "{told}");
    }
}

/// The page's policy with another template, scope and mode.
fn policy_with(template: &str, scope: &str, mode: &str) -> Policy {
    let mut document: Json = serde_json::from_str(block("json", 0)).unwrap();
    document["callers"]["scheduler"]["signature"]["template"] = template.into();
    document["routes"][0]["scope"] = scope.into();
    document["routes"][0]["mode"] = mode.into();
    let mut policy = Policy::from_json(document.to_string().as_bytes()).unwrap();
    policy.read_secrets(|_| Some(SECRETS[0].1.as_bytes().to_vec()), |_| true, "").unwrap();
    policy
}

/// Where a text cannot be cut in one way only, what no tenant and no project can be is refused whatever the route.
#[test]
fn a_signed_text_is_cut_in_one_way_only() {
    const TEMPLATE: &str = "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}:{header:x-project-id}:{body}";
    let parts = Parts { body: "x:y".to_owned(), ..vectors().swap_remove(0).parts };
    let Parts { method, path, timestamp, key, tenant, project, body } = &parts;
    let text = format!("{method}\n{path}\n{timestamp}\n{key}\n{tenant}:{project}:{body}");
    let signature = format!("t={timestamp},v1={}", hex(&hmac_sha256(SECRETS[0].1.as_bytes(), text.as_bytes())));
    let otherwise = [
        Parts { project: format!("{project}:x"), body: "y".to_owned(), ..parts.clone() },
        Parts { tenant: format!("{tenant}:{project}"), project: "x".to_owned(), body: "y".to_owned(), ..parts.clone() },
    ];
    for (scope, mode) in [("project", "enforce"), ("tenant", "enforce"), ("project", "shadow"), ("tenant", "shadow")] {
        let policy = policy_with(TEMPLATE, scope, mode);
        assert!(judge(&policy, &parts, Some(&signature), *timestamp).is_ok(), "{scope} {mode}");
        for other in &otherwise {
            let found = judge(&policy, other, Some(&signature), *timestamp).map_err(|(code, _)| code);
            assert_eq!(found, Err("identity_invalid".to_owned()), "{scope} {mode} {other:?}");
        }
    }
}

/// A path that was signed is that of the request, not of what its host and path make together.
#[test]
fn no_authority_lends_a_path_its_beginning() {
    let policy = policy();
    let parts = vectors().swap_remove(0).parts;
    for (authority, signed) in
        [("api.example.com/evil", "/evil/api/v1/reports/run"), ("a/x?", "/x?/api/v1/reports/run"), ("a#", "")]
    {
        let signature = Parts { path: signed.to_owned(), ..parts.clone() }.signature(SECRETS[0].1);
        let found = judge_at(authority, &policy, &parts, Some(&signature), parts.timestamp);
        assert_eq!(found.map_err(|(code, _)| code), Err("path_ambiguous".to_owned()), "{authority}");
    }
}

/// No request target has a fragment (RFC 9112 section 3.2); a URL without it would be signed.
#[test]
fn nothing_rides_behind_a_signed_path() {
    let policy = policy();
    let signed = Parts { path: "/api/v1/reports/run?x=1".to_owned(), ..vectors().swap_remove(0).parts };
    let signature = signed.signature(SECRETS[0].1);
    for path in ["/api/v1/reports/run?x=1#", "/api/v1/reports/run?x=1#&x=2", "/api/v1/reports/run#?x=1"] {
        let found =
            judge(&policy, &Parts { path: path.to_owned(), ..signed.clone() }, Some(&signature), signed.timestamp);
        assert_eq!(found.map_err(|(code, _)| code), Err("path_ambiguous".to_owned()), "{path}");
    }
}

/// Texts that differ by what stands between the parts.
fn near() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec!["a", ".", "-", "~1", "sched", "t-", "_"]);
    prop::collection::vec(pieces, 1..4).prop_map(|pieces| pieces.concat())
}

fn parts() -> impl Strategy<Value = Parts> {
    let key = (near(), 0..100_u64).prop_map(|(schedule, ms)| format!("sched:{schedule}:{ms}"));
    let path = prop::option::of(near()).prop_map(|query| match query {
        Some(query) => format!("/api/v1/reports/run?{query}"),
        None => "/api/v1/reports/run".to_owned(),
    });
    let body = prop::collection::vec(prop::sample::select(vec!["a", "\n", "acme", "{}", "1793000000"]), 0..5);
    let method = prop::sample::select(vec!["POST", "PUT"]);
    (method, path, 1_793_000_000..1_793_000_003_u64, key, near(), near(), body).prop_map(
        |(method, path, timestamp, key, tenant, project, body)| Parts {
            method: method.to_owned(),
            path,
            timestamp,
            key,
            tenant,
            project,
            body: body.concat(),
        },
    )
}

/// A part of a request, and the same part of another.
fn exchanged(parts: &Parts, other: &Parts, part: usize) -> Parts {
    let mut changed = parts.clone();
    match part {
        0 => changed.method.clone_from(&other.method),
        1 => changed.path.clone_from(&other.path),
        2 => changed.timestamp = other.timestamp,
        3 => changed.key.clone_from(&other.key),
        4 => changed.tenant.clone_from(&other.tenant),
        5 => changed.project.clone_from(&other.project),
        _ => changed.body.clone_from(&other.body),
    }
    changed
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// A signature fits the request that it was made for and no other.
    #[test]
    fn a_signature_means_one_request(parts in parts(), other in parts(), part in 0_usize..8) {
        let policy = policy();
        let other = if part == 7 { other } else { exchanged(&parts, &other, part) };
        let signature = parts.signature(SECRETS[0].1);
        let mut found = judge(&policy, &other, Some(&signature), 1_793_000_000);
        if other.timestamp != parts.timestamp {
            // The header holds the timestamp: it is the header that is changed.
            let header = signature.replace(&format!("t={}", parts.timestamp), &format!("t={}", other.timestamp));
            found = judge(&policy, &other, Some(&header), 1_793_000_000);
        }
        if other == parts {
            prop_assert!(!matches!(found, Err((code, _)) if code == "signature_invalid"));
        } else {
            prop_assert_eq!(found, Err(("signature_invalid".to_owned(), "signature_mismatch".to_owned())));
        }
    }

    /// Any one bit of the signed text or of the signature.
    #[test]
    fn no_bit_can_change(place in any::<Index>(), bit in 0_u8..7) {
        let (policy, vector) = (policy(), vectors().swap_remove(0));
        let mut body = vector.parts.body.clone().into_bytes();
        let at = place.index(body.len());
        body[at] ^= 1 << bit;
        let parts = Parts { body: String::from_utf8(body).unwrap(), ..vector.parts.clone() };
        prop_assert!(judge(&policy, &parts, Some(&vector.signature), parts.timestamp).is_err());

        let mut signature = vector.signature.clone().into_bytes();
        let at = place.index(signature.len());
        signature[at] ^= 1 << bit;
        let signature = String::from_utf8(signature).unwrap();
        prop_assert!(judge(&policy, &vector.parts, Some(&signature), vector.parts.timestamp).is_err());
    }

    /// I2: a caller's key is its own: it decodes to the caller's subject and the key that was signed, and no client can
    /// send it.
    #[test]
    fn a_caller_s_key_is_nobody_else_s(parts in parts()) {
        let found = judge(&policy(), &parts, Some(&parts.signature(SECRETS[0].1)), 1_793_000_000);
        match found {
            Ok(key) => {
                let decoded = decode(&key).unwrap();
                prop_assert_eq!(decoded.identity.subject.as_str(), "service:scheduler");
                prop_assert_eq!(decoded.identity.tenant.as_str(), &parts.tenant);
                prop_assert_eq!(decoded.identity.project.as_str(), &parts.project);
                prop_assert_eq!(decoded.raw, &parts.key);
                prop_assert!(RawKey::parse(parts.key.as_bytes()).is_err());
            }
            Err((code, _)) => prop_assert_eq!(code, "identity_invalid", "{:?}", parts),
        }
    }

    /// Whatever a caller's grammar, its keys hold nothing that would end a header, begin a namespace or split a list.
    #[test]
    fn no_grammar_lets_a_dangerous_key_in(prefix in ".{0,4}", key in prop::collection::vec(any::<u8>(), 0..8)) {
        if let Ok(grammar) = KeyGrammar::of_caller(&prefix)
            && let Ok(key) = grammar.parse(&key)
        {
            let key = key.as_str();
            prop_assert!(!key.starts_with("t-") && key.starts_with(&prefix) && key != prefix);
            prop_assert!(key.bytes().all(|byte| byte.is_ascii_graphic() && !b",;%\"\\/?#".contains(&byte)));
        }
    }
}
