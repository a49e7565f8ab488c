//! Provider files: a document with one, and a delivery to it.

use crate::{applied, lines};
use direct::attributes::TimeOnly;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::Delivery;
use edge_idempotency_engine::{Effect, Exchange, PauseEvent, Policy, RequestFlow, Resumed, key};
use serde_json::json;

/// Between the parts of an input.
const BETWEEN: &[u8] = b"\n---\n";
const BINDING: &str = "wh_01JFUZZ";

/// A provider file, a secret, the clock in Unix milliseconds, header lines, and a body, with `---` between them. What is
/// no provider file has errors with places. A delivery that is forwarded is verified, goes on
/// under its identifier if it has one, without its signature's headers, and does not verify with another secret.
pub fn provider(input: &[u8]) {
    let mut parts = split(input);
    let file = parts.next().unwrap_or_default();
    let secret = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let now_ms = parts.next().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or_default();
    let (head, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Some(policy) = policy(file, &secret) else { return };
    let provider = policy.provider("own").unwrap();
    assert_eq!(provider.name(), "own");

    let mut given = lines(head);
    given.retain(|(name, _)| !name.starts_with(b":"));
    given.extend(
        [(":method", "POST"), (":scheme", "https"), (":authority", "h"), (":path", "/h")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    let headers = Headers::new(given.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect());
    let delivery = Delivery { method: b"POST", url: b"https://h/h", headers: &headers, body: &Body::of(body) };
    let verified = provider.verify(&delivery, &[secret.as_bytes()], now_ms);
    let identifier = verified.map(|verified| provider.identifier(&delivery, &verified));

    let mut effects = Vec::new();
    let mut exchange = Exchange::new();
    let clock = TimeOnly(now_ms);
    let mut flow = exchange.request_headers(&policy, &headers, &clock, &mut effects);
    if let RequestFlow::Paused(pause) = flow {
        assert!(effects.iter().all(|effect| matches!(effect, Effect::Remove { .. })));
        let event = PauseEvent::Body { body: &Body::of(body), now_unix_ms: now_ms };
        flow = pause.resume(&mut exchange, Resumed { policy: &policy, headers: &headers, event }, &mut effects);
    } else {
        assert!(matches!(flow, RequestFlow::Replied));
    }
    let _ = exchange.record(&policy).to_json();
    if matches!(flow, RequestFlow::Replied) {
        // Lengths and codings are looked at before anything is verified.
        let long = given.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > 8192;
        let early = long || given.iter().any(|(name, _)| name == b"content-length" || name == b"content-encoding");
        assert!(early || !matches!(identifier, Ok(Ok(Some(_)))));
        return;
    }
    // Without a key only a delivery that has no identifier goes on.
    match (exchange.key(), identifier.unwrap()) {
        (None, found) => assert!(!matches!(found, Ok(Some(_)))),
        (Some(key), found) => {
            let raw = key::decode(key).unwrap().raw;
            assert_eq!(raw, provider.raw_key(&found.unwrap().unwrap(), None, None));
            assert!(raw.starts_with("own-"));
        }
    }
    let forwarded = applied(&effects, given.clone());
    for name in provider.signature_headers() {
        let gone = |line: &[u8]| match name.strip_suffix('*') {
            Some(prefix) => !line.starts_with(prefix.as_bytes()),
            None => line != name.as_bytes(),
        };
        // A signature in the header of the key is replaced by the key.
        let forwarded = forwarded.iter().filter(|(line, _)| line != b"idempotency-key" || exchange.key().is_none());
        assert!(forwarded.into_iter().all(|(line, _)| gone(line)), "{name}");
    }
    let other = format!("{secret}x");
    assert!(provider.verify(&delivery, &[other.as_bytes()], now_ms).is_err());
}

fn split(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.windows(BETWEEN.len()).position(|bytes| bytes == BETWEEN) {
            Some(at) => {
                rest = Some(&text[at + BETWEEN.len()..]);
                Some(&text[..at])
            }
            None => rest.take(),
        }
    })
}

/// The policy with this provider file.
fn policy(file: &[u8], secret: &str) -> Option<Policy> {
    let frame = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "allow_inline_secrets": true,
        "routes": [{"endpoint": "hook", "path": "/h", "policy": "ACCEPTED",
                    "webhook": {"provider": "own", "id": BINDING}}],
        "webhooks": {
            "static": {BINDING: {"tenant": "t", "project": "p", "provider": "own", "secrets": [secret],
                                 "key_scope": "project", "bind_body": false}},
            "providers": {"own": "FILE"},
        },
    })
    .to_string();
    let (before, after) = frame.rsplit_once("\"FILE\"").unwrap();
    let document = [before.as_bytes(), file, after.as_bytes()].concat();
    let mut policy = Policy::from_json(&document)
        .map_err(|errors| assert!(errors.0.iter().all(|error| !error.message.is_empty()) && !errors.0.is_empty()))
        .ok()?;
    policy.read_secrets(|_| None, |_| true, "").unwrap();
    Some(policy)
}
