//! The fingerprint of a body as canonical JSON.

use direct::attributes::NoAttributes;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::questions::PendingLookup;
use edge_idempotency_engine::{Exchange, PauseEvent, Policy, RequestFlow, Resumed};
use serde_json::Value;
use std::sync::LazyLock;

const POLICY: &str = r#"{
    "version": 1,
    "identity": {"sources": [{"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}}]},
    "backend": {"kind": "generic", "cluster": "backend", "guard": {}},
    "routes": [{"endpoint": "a", "path": "/a", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce", "fingerprint": "json"}]
}"#;

static COMPILED: LazyLock<Policy> = LazyLock::new(|| Policy::from_json(POLICY.as_bytes()).unwrap());

/// The fingerprint of a request with this body.
fn fingerprint(body: &[u8]) -> String {
    let lines = [
        (":path", "/a"),
        (":method", "POST"),
        (":authority", "a"),
        ("x-t", "t"),
        ("x-p", "p"),
        ("x-s", "user:u"),
        ("idempotency-key", "k"),
    ];
    let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
    let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
    let flow = exchange.request_headers(&COMPILED, &headers, &NoAttributes, &mut effects);
    let RequestFlow::Paused(pause) = flow else { panic!("{flow:?}") };
    let event = PauseEvent::Body { body: &Body::of(body), now_unix_ms: 0 };
    let resumed = Resumed { policy: &COMPILED, headers: &headers, event };
    let flow = pause.resume(&mut exchange, resumed, &mut effects);
    let RequestFlow::Paused(pause) = flow else { panic!("{flow:?}") };
    let Some(PendingLookup::Claim(claim)) = pause.lookup() else { panic!("no claim") };
    claim.fingerprint.clone()
}

/// A body: it is hashed as canonical JSON exactly if serde_json reads it, but for limits that only one of them has; then space
/// does not count. Otherwise every byte does.
pub fn claim(body: &[u8]) {
    let own = fingerprint(body);
    assert_eq!(own, fingerprint(body));
    let spaced = [b" \n", body, b"\t\r"].concat();
    let nested = |before: &str, after: &str| fingerprint(&[before.as_bytes(), body, after.as_bytes()].concat());
    if own.starts_with("1j.") {
        assert_eq!(own, fingerprint(&spaced));
        assert_ne!(own, nested("[", "]"));
        let (first, second) = (nested("{\"b\":", ",\"a\":1}"), nested("{ \"\\u0061\" : 1.0,\"b\":", "\n}"));
        // One level more may be one too many.
        assert!(first == second || first.starts_with("1x."), "{first} {second}");
        if let Err(error) = serde_json::from_slice::<Value>(body) {
            assert!(error.to_string().contains("number out of range"), "{error}");
        }
    } else {
        assert!(own.starts_with("1x."), "{own}");
        assert_ne!(own, fingerprint(&spaced));
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            let depth = body.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
            let names = body.iter().filter(|byte| **byte == b':').count();
            let exponent = body.iter().any(|byte| matches!(byte, b'e' | b'E'));
            assert!(depth > 64 || names > 1 || exponent, "{value}");
        }
    }
}
