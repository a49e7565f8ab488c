//! Raw keys are injective over provider, slot, webhook, identifier and body (invariant I2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Delivery, Identifier, NoIdentifier, Provider, body_digest};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use testkit::signatures::{hex, hmac_sha256};

use crate::extent::{part_of, some};

/// A provider with three slots, whose deliveries all verify. The second and the third slot's patterns overlap.
const SLOTS: &str = r#"{
    "schemes": [{"algorithm": "token", "signature": {"header": "x-token"}}],
    "identifiers": [
        {"slot": "first", "header": "x-first", "signed": false},
        {"slot": "token", "pattern": "uuid", "header": "x-token-id", "signed": false},
        {"slot": "call", "pattern": "CA*", "header": "x-call", "signed": false},
        {"slot": "plain", "header": "x-plain", "signed": false}
    ]
}"#;
const URL: &[u8] = b"https://a.example/";
const HEADERS: [&str; 4] = ["x-first", "x-token-id", "x-call", "x-plain"];
/// A provider whose signed text cannot be taken apart, so that a key is made of the whole of it.
const WHOLE: &str = r#"{
    "schemes": [{
        "algorithm": "hmac-sha256",
        "signature": {"header": "x-signature", "encoding": "hex"},
        "template": "{url}{sorted_form}",
        "boundaries": "none"
    }],
    "identifiers": [{"slot": "first", "form": [["id"]], "signed": true}]
}"#;
/// What stands for its slot.
const SIGNED_TEXT: usize = HEADERS.len();
/// Names that extend others, and names that look like parts of keys.
const PROVIDERS: [&str; 4] = ["twilio", "twilio_event_streams", "t", "twilio_"];
const WEBHOOKS: [&str; 4] = ["wh_01JABC", "wh_01JABCD", "token-token", "first___"];

/// Everything that a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Meaning {
    provider: usize,
    slot: usize,
    webhook: Option<usize>,
    body: Option<u8>,
    identifier: Vec<u8>,
}

impl Meaning {
    fn key(&self, providers: &[Provider]) -> String {
        if self.slot == SIGNED_TEXT {
            return whole_key(PROVIDERS[self.provider], self.webhook, self.body, &self.identifier);
        }
        let provider = &providers[self.provider];
        let identifier = identifier(provider, &[(HEADERS[self.slot], &self.identifier)], b"").unwrap().unwrap();
        provider.raw_key(
            &identifier,
            self.webhook.map(|index| WEBHOOKS[index]),
            self.body.map(|byte| body_digest(&Body::of(&[byte]))).as_ref(),
        )
    }
}

/// The key of a form with this field, made of its whole signed text.
fn whole_key(provider: &str, webhook: Option<usize>, body: Option<u8>, value: &[u8]) -> String {
    let provider = Provider::read(provider, WHOLE.as_bytes()).unwrap();
    let form = format!("id={}", value.iter().map(|byte| format!("%{byte:02x}")).collect::<String>());
    let signed = [URL, b"id", value].concat();
    let signature = hex(&hmac_sha256(b"secret", &signed));
    let lines = vec![
        (b"x-signature".as_slice(), signature.as_bytes()),
        (b"content-type", b"application/x-www-form-urlencoded"),
    ];
    let headers = Headers::new(lines);
    let delivery = Delivery { method: b"POST", url: URL, headers: &headers, body: &Body::of(form.as_bytes()) };
    let verified = provider.verify(&delivery, &[b"secret"], 0).unwrap();
    let identifier = provider.identifier(&delivery, &verified).unwrap().unwrap();
    provider.raw_key(
        &identifier,
        webhook.map(|index| WEBHOOKS[index]),
        body.map(|byte| body_digest(&Body::of(&[byte]))).as_ref(),
    )
}

/// What a provider of tokens reads from a delivery.
fn identifier(provider: &Provider, headers: &[(&str, &[u8])], body: &[u8]) -> Result<Option<Identifier>, NoIdentifier> {
    let mut lines = vec![(b"x-token".as_slice(), b"secret".as_slice())];
    lines.extend(headers.iter().map(|(name, value)| (name.as_bytes(), *value)));
    let headers = Headers::new(lines);
    let delivery = Delivery { method: b"POST", url: URL, headers: &headers, body: &Body::of(body) };
    let verified = provider.verify(&delivery, &[b"secret"], 0).unwrap();
    provider.identifier(&delivery, &verified)
}

/// Identifiers that could be taken for something else.
fn near_misses(providers: &[Provider]) -> Vec<Vec<u8>> {
    let uuid = "38053878-a5d4-4295-a906-cca8f58027c9";
    let mut all: Vec<Vec<u8>> = [
        "a",
        "A",
        "SM1-delivered",
        uuid,
        "CA9-completed-3",
        "CA053878-a5d4-4295-a906-cca8f58027c9",
        "~",
        "~a",
        "a b",
        "é",
        "token",
        "token\0a",
        "call\0a",
        "plain\0a",
        "first\0a",
        "\0",
        "\0a",
        "\0ia",
        "\0i\0ia",
        "a\0",
        "a\0a",
        "wh_01JABC\0a",
        "wh_01JABC\0token\0a",
        "wh_01JABC\0\0ia",
        "wh_01JABC\0wh_01JABC\0a",
        "token-token\0a",
        "first___\0a",
        "short\0a",
        "wh_01JAB\0a",
        "wh_01J\0a",
        "event_streams-a",
        "-a",
        "_-a",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    all.extend([vec![b'a'; 255], vec![b'a'; 256], b"\xff".to_vec(), b"\xc3".to_vec()]);
    let bound = [b"\0b".as_slice(), &body_digest(&Body::of(&[0])), b"a"].concat();
    all.push(bound);
    all.push([b"\0b".as_slice(), &body_digest(&Body::of(&[0])), b"wh_01JABC\0a"].concat());
    let whole = Sha256::digest([URL, b"ida"].concat());
    all.push([b"\0s".as_slice(), &whole].concat());
    all.push([b"wh_01JABC\0\0s".as_slice(), &whole].concat());
    all.push([URL, b"ida"].concat());
    all.push(whole.to_vec());
    // Identifiers that look like the digests of others.
    for text in all.clone() {
        let meaning = Meaning { provider: 0, slot: 0, webhook: None, body: None, identifier: text };
        all.push(meaning.key(providers).strip_prefix("twilio-").unwrap().as_bytes().to_vec());
    }
    all.sort();
    all.dedup();
    all
}

pub(crate) fn providers() -> Vec<Provider> {
    PROVIDERS.iter().map(|name| Provider::read(name, SLOTS.as_bytes()).unwrap()).collect()
}

/// Every combination of near misses.
pub(crate) fn near_misses_differ() -> Result<(), String> {
    let providers = providers();
    let mut keys: BTreeMap<String, Meaning> = BTreeMap::new();
    let options = |count: usize| std::iter::once(None).chain((0..count).map(Some));
    for identifier in some(near_misses(&providers)) {
        for (provider, name) in PROVIDERS.iter().enumerate() {
            for slot in 0..=SIGNED_TEXT {
                for webhook in options(WEBHOOKS.len()) {
                    // What is signed as a whole holds the body.
                    for body in options(if slot == SIGNED_TEXT { 0 } else { 2 }) {
                        let body = body.map(|byte| byte as u8);
                        let meaning = Meaning { provider, slot, webhook, body, identifier: identifier.clone() };
                        let key = meaning.key(&providers);
                        assert!(
                            key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)),
                            "{key}"
                        );
                        assert!(key.len() <= name.len() + 1 + 255, "{key}");
                        if let Some(other) = keys.insert(key.clone(), meaning.clone()) {
                            return Err(format!("{key} is the key of {meaning:?} and of {other:?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(keys.len() > part_of(5_000) as usize, "{}", keys.len());
    Ok(())
}

/// The forms of keys, which backends have stored: changing one is a breaking change.
pub(crate) fn digests_are_those_of_the_documentation() -> Result<(), String> {
    let providers = providers();
    let key = |slot, webhook, body, identifier: &[u8]| {
        Meaning { provider: 0, slot, webhook, body, identifier: identifier.to_vec() }.key(&providers)
    };
    let digest = |text: &[u8]| format!("twilio-~{}", URL_SAFE_NO_PAD.encode(Sha256::digest(text)));
    let uuid = b"38053878-a5d4-4295-a906-cca8f58027c9";
    assert_eq!(key(0, None, None, b"SM1-delivered"), "twilio-SM1-delivered");
    assert_eq!(key(1, None, None, uuid), "twilio-38053878-a5d4-4295-a906-cca8f58027c9");
    assert_eq!(key(2, None, None, b"CA9-completed-3"), "twilio-CA9-completed-3");
    assert_eq!(key(0, None, None, b"a b"), digest(b"a b"));
    assert_eq!(key(0, None, None, b"a b"), "twilio-~yGh6CKpdbtIEQyj6aml6uOltw0KR6MIDSujDjm_MbWU");
    // A first slot's identifier that looks like another slot's.
    assert_eq!(key(0, None, None, uuid), digest(uuid));
    assert_eq!(key(1, None, None, b"SM1"), digest(b"token\0SM1"));
    assert_eq!(key(3, None, None, b"SM1"), digest(b"plain\0SM1"));
    assert_eq!(key(0, Some(0), None, b"SM1"), digest(b"wh_01JABC\0SM1"));
    assert_eq!(key(1, Some(0), None, uuid), digest(&[b"wh_01JABC\0token\0".as_slice(), uuid].concat()));
    assert_eq!(
        key(0, None, Some(7), b"SM1"),
        digest(&[b"\0b".as_slice(), &body_digest(&Body::of(&[7])), b"SM1"].concat())
    );
    assert_eq!(
        key(0, Some(0), Some(7), b"SM1"),
        digest(&[b"\0b".as_slice(), &body_digest(&Body::of(&[7])), b"wh_01JABC\0SM1"].concat())
    );
    assert_eq!(key(0, None, None, b"token\0SM1"), digest(b"\0itoken\0SM1"));
    let text = [URL, b"idSM1"].concat();
    let whole = [b"\0s".as_slice(), &Sha256::digest(text)].concat();
    assert_eq!(key(SIGNED_TEXT, None, None, b"SM1"), digest(&whole));
    assert_eq!(key(SIGNED_TEXT, None, Some(7), b"SM1"), digest(&whole));
    assert_eq!(key(SIGNED_TEXT, Some(0), None, b"SM1"), digest(&[b"wh_01JABC\0".as_slice(), &whole].concat()));
    Ok(())
}

/// Random pairs, made of pieces that are likely to meet.
pub(crate) fn random_pairs_differ() -> Result<(), String> {
    let providers = providers();
    let pieces = [
        "token",
        "call",
        "wh_01JABC",
        "\0",
        "\0i",
        "\0b",
        "~",
        "-",
        "CA",
        "a",
        "38053878-a5d4-4295-a906-cca8f58027c9",
        "é",
    ];
    let identifier = prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..5)
        .prop_map(|parts| parts.concat().into_bytes());
    let meaning = (0..4_usize, 0..=SIGNED_TEXT, prop::option::of(0..4_usize), prop::option::of(0..2_u8), identifier)
        .prop_map(|(provider, slot, webhook, body, identifier)| {
            let body = body.filter(|_| slot != SIGNED_TEXT);
            Meaning { provider, slot, webhook, body, identifier }
        });
    TestRunner::new(ProptestConfig { cases: part_of(20_000), failure_persistence: None, ..ProptestConfig::default() })
        .run(&(meaning.clone(), meaning), |(one, other)| {
            prop_assert_eq!(one.key(&providers) == other.key(&providers), one == other);
            Ok(())
        })
        .map_err(|error| error.to_string())
}

/// Different fields never join to the same composite, whatever they hold.
pub(crate) fn composites_differ() -> Result<(), String> {
    let file = r#"{
        "schemes": [{"algorithm": "token", "signature": {"header": "x-token"}}],
        "identifiers": [{"form": [["a", "b", "c"]], "dash": "b", "signed": false}]
    }"#;
    let provider = Provider::read("p", file.as_bytes()).unwrap();
    let values = ["a", "-", "a-", "-a", "a-a", "--", "no-answer", "no", "answer", "1", "%20", "%2D", "+"];
    let mut keys = BTreeMap::new();
    for a in values {
        for b in values {
            for c in values {
                let body = format!("a={a}&b={b}&c={c}");
                let headers = [("content-type", b"application/x-www-form-urlencoded".as_slice())];
                let Ok(Some(identifier)) = identifier(&provider, &headers, body.as_bytes()) else { continue };
                let decoded = [a, b, c].map(|text| text.replace('+', " ").replace("%20", " ").replace("%2D", "-"));
                if let Some(other) = keys.insert(provider.raw_key(&identifier, None, None), decoded.clone())
                    && other != decoded
                {
                    return Err(format!("{decoded:?} and {other:?}"));
                }
            }
        }
    }
    assert!(keys.values().any(|parts| parts[1] == "no-answer"));
    Ok(())
}
