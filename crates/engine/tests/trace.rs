//! The trace of a request has the steps in the order in which the exchange takes them, and ends with the refusal.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{StaticLine, requesting};
use edge_idempotency_engine::exchange::TraceEvent;
use edge_idempotency_engine::{Configuration, Policy, Stream};
use std::sync::Arc;

const POLICY: &str = r#"{
    "version": 1,
    "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
    "identity": {"sources": [
        {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
    ]},
    "routes": [
        {"endpoint": "refunds", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"},
        {"endpoint": "quiet", "path": "/quiet", "policy": "REQUIRED_A", "mode": "shadow"},
        {"endpoint": "hooks", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}
    ],
    "allow_inline_secrets": true,
    "webhooks": {"static": {"wh_gitlab1": {"tenant": "acme", "project": "shop", "provider": "gitlab", "secrets": ["s"]}}}
}"#;

/// The steps with what was found in them, each in a word.
fn traced(lines: &[StaticLine]) -> String {
    let mut configuration = Configuration::of(Arc::new(Policy::from_json(POLICY.as_bytes()).unwrap()));
    let gateway = requesting(lines);
    let mut stream = Stream::traced(1, &configuration);
    stream.on_request_headers(&gateway, &mut configuration, false);
    stream.on_request_body(&gateway, &mut configuration, 2, true);
    let told = stream.exchange().trace().unwrap().events().iter().map(|event| match event {
        TraceEvent::Step(step) => format!("\n{step:?}:"),
        TraceEvent::Refused(problem) => format!(" refused {}", problem.code.name()),
        TraceEvent::WouldBeRefused(problem) => format!(" would be refused {}", problem.code.name()),
        TraceEvent::NormalPath(path) => format!(" {path}"),
        TraceEvent::Policy(name) => format!(" {name}"),
        TraceEvent::KeyRead(key) | TraceEvent::KeyNamespaced(key) => format!(" {key}"),
        TraceEvent::Route(_) => " route".to_owned(),
        TraceEvent::Identity(_) => " identity".to_owned(),
        event => format!(" {event:?}"),
    });
    told.collect::<String>().trim().to_owned()
}

/// A request with these lines beside method, host and path.
fn request(path: &'static [u8], more: &[StaticLine]) -> String {
    let lines: [StaticLine; 3] = [(b":method", b"POST"), (b":authority", b"a"), (b":path", path)];
    traced(&[&lines, more].concat())
}

const CALLER: [StaticLine; 3] = [(b"x-t", b"acme"), (b"x-p", b"shop"), (b"x-s", b"u1")];
const KEY: StaticLine = (b"idempotency-key", b"k");

#[test]
fn a_trace_has_the_steps_in_their_order_and_ends_with_the_refusal() {
    let refunds = "Path: /refunds\nRoute: route\nPolicy: REQUIRED_A\nKey:";
    assert_eq!(request(b"/refunds", &CALLER), format!("{refunds} NoKey refused idempotency_key_required"));
    let with_key = [&CALLER[..], &[KEY]].concat();
    assert_eq!(
        request(b"/refunds", &with_key),
        format!("{refunds} KeySent(Bare) k\nIdentity: identity\nKey: t-acme:shop:user:u1:k")
    );
    assert_eq!(request(b"/refunds", &[KEY]), format!("{refunds} KeySent(Bare) k\nIdentity: refused identity_missing"));
    assert_eq!(
        request(b"/quiet", &CALLER),
        "Path: /quiet\nRoute: route\nPolicy: REQUIRED_A\nKey: NoKey would be refused idempotency_key_required"
    );
    assert_eq!(request(b"/a;b", &[]), "Path: refused path_ambiguous");
    assert_eq!(request(b"/restate/health", &[]), "Path: /restate/health Closed refused not_found");
    assert_eq!(request(b"/none", &[]), "Path: /none\nRoute: refused not_found");
    let hook = "Path: /h/gitlab/wh_gitlab1\nRoute: route\nPolicy: REQUIRED_B\nSignature:";
    assert_eq!(
        request(b"/h/gitlab/wh_gitlab1", &[(b"content-length", b"99999999")]),
        format!("{hook}\nBody: refused body_too_large")
    );
    assert_eq!(
        request(b"/h/gitlab/wh_gitlab1", &[(b"x-gitlab-token", b"t")]),
        format!("{hook} refused webhook_signature_invalid")
    );
    assert_eq!(
        request(b"/h/gitlab/wh_gitlab1", &[(b"x-gitlab-token", b"s")]),
        format!("{hook} Verified\nKey: refused transport_translation_failed")
    );
}

#[test]
fn a_stream_of_a_gateway_has_no_trace() {
    assert!(Stream::new(1, &Configuration::default()).exchange().trace().is_none());
}
