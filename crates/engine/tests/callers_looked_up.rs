//! A stream whose caller has an API key that is looked up: what the gateway is told to hold back, and when the request goes on.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common::{StaticLine, requesting, statuses};
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::{CallReply, Configuration, FilterAction, Policy, Stream};
use std::sync::Arc;

const POLICY: &str = r#"{
    "version": 1,
    "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {"retention": "48h"}},
    "identity": {"sources": [{
        "name": "partner", "unkey": {"cluster": "unkey", "header": "x-key"}, "tenant": "/identity/externalId",
        "project": {"value": "shop"}, "subject": {"field": "/keyId", "type": "client"}
    }]},
    "routes": [
        {"endpoint": "plain", "path": "/plain", "policy": "REQUIRED_A"},
        {"endpoint": "compared", "path": "/compared", "policy": "REQUIRED_A", "target": "A/b", "collision": "enforce",
         "recovery": false, "max_body_bytes": 100}
    ]
}"#;

const HELD: &str = r#"{"data": {"valid": true, "code": "VALID", "keyId": "k", "identity": {"externalId": "acme"}}}"#;
/// The bytes of the names and values of the request's head.
const HEAD: u64 = 63;

fn request(path: &'static [u8]) -> [StaticLine; 5] {
    [(b":method", b"POST"), (b":authority", b"a"), (b":path", path), (b"x-key", b"sk_1"), (b"idempotency-key", b"k-1")]
}

fn begin(gateway: &MemoryGateway<'_>) -> (Stream, Configuration, FilterAction) {
    let mut shared = Configuration::of(Arc::new(Policy::from_json(POLICY.as_bytes()).unwrap()));
    let mut stream = Stream::new(1, &shared);
    let action = stream.on_request_headers(gateway, &mut shared, false);
    assert_eq!(gateway.calls.borrow().len(), 1);
    (stream, shared, action)
}

fn answer(stream: &mut Stream, shared: &mut Configuration, gateway: &MemoryGateway<'_>, body: &str) {
    let reply = CallReply { status: Some(200), body: Some(body.as_bytes()) };
    shared.on_call_reply(gateway, 0, &reply);
    while shared.next_to_wake().is_some() {
        stream.on_wake(gateway, shared);
    }
}

#[test]
fn a_request_that_needs_no_body_has_none_of_it_read_and_goes_on_with_the_answer() {
    let gateway = requesting(&request(b"/plain"));
    let (mut stream, mut shared, action) = begin(&gateway);
    assert_eq!(action, FilterAction::PauseReading);
    answer(&mut stream, &mut shared, &gateway, HELD);
    assert_eq!((gateway.requests_resumed.get(), gateway.replies.borrow().len()), (1, 0));
    // The body passes behind the headers, however long it is.
    assert_eq!(stream.on_request_body(&gateway, &mut shared, 5000, true), FilterAction::Continue);
}

#[test]
fn a_request_that_needs_its_body_waits_for_both() {
    for body_first in [true, false] {
        let gateway = requesting(&request(b"/compared"));
        let (mut stream, mut shared, action) = begin(&gateway);
        assert_eq!(action, FilterAction::Pause);
        *gateway.request.body.borrow_mut() = b"{}".to_vec();
        if body_first {
            assert_eq!(stream.on_request_body(&gateway, &mut shared, 2, true), FilterAction::Pause);
            assert_eq!(gateway.calls.borrow().len(), 1);
            answer(&mut stream, &mut shared, &gateway, HELD);
        } else {
            answer(&mut stream, &mut shared, &gateway, HELD);
            assert_eq!(gateway.calls.borrow().len(), 1);
            assert_eq!(stream.on_request_body(&gateway, &mut shared, 2, true), FilterAction::Pause);
        }
        // The claim at the guard.
        assert_eq!(
            (gateway.calls.borrow().len(), gateway.requests_resumed.get(), gateway.replies.borrow().len()),
            (2, 0, 0)
        );
    }
}

#[test]
fn a_body_that_is_too_long_is_refused_before_and_behind_the_answer() {
    for body_first in [true, false] {
        let gateway = requesting(&request(b"/compared"));
        let (mut stream, mut shared, _) = begin(&gateway);
        if !body_first {
            answer(&mut stream, &mut shared, &gateway, HELD);
        }
        assert_eq!(stream.on_request_body(&gateway, &mut shared, 101, false), FilterAction::Pause);
        assert_eq!(statuses(&gateway), [413]);
        answer(&mut stream, &mut shared, &gateway, HELD);
        assert_eq!((gateway.requests_resumed.get(), gateway.replies.borrow().len()), (0, 1));
    }
}

/// A client that sends its body slowly is no sign that the gateway keeps bodies back.
#[test]
fn a_slow_client_whose_caller_is_known_is_waited_for() {
    let gateway = requesting(&request(b"/compared"));
    let (mut stream, mut shared, _) = begin(&gateway);
    answer(&mut stream, &mut shared, &gateway, HELD);
    for (received, replies) in [(HEAD, 0), (HEAD + 1, 1)] {
        gateway.received_bytes.set(Some(received));
        let woken = (1..=100).any(|_| {
            shared.on_tick(&gateway);
            shared.next_to_wake().is_some()
        });
        assert!(woken);
        stream.on_wake(&gateway, &mut shared);
        assert_eq!(gateway.replies.borrow().len(), replies, "{received}");
    }
}

#[test]
fn a_caller_that_is_refused_is_told_so_once() {
    let gateway = requesting(&request(b"/plain"));
    let (mut stream, mut shared, _) = begin(&gateway);
    answer(&mut stream, &mut shared, &gateway, r#"{"data": {"valid": false, "code": "NOT_FOUND"}}"#);
    assert_eq!((gateway.requests_resumed.get(), statuses(&gateway).as_slice()), (0, [401].as_slice()));
    // From the cache at once.
    let (mut other, gateway) = (Stream::new(2, &shared), requesting(&request(b"/plain")));
    assert_eq!(other.on_request_headers(&gateway, &mut shared, false), FilterAction::Pause);
    assert_eq!((gateway.calls.borrow().len(), gateway.replies.borrow().len()), (0, 1));
}

/// The gateway ends the wait with a response of its own.
#[test]
fn an_answer_behind_the_gateways_own_response_is_dropped() {
    let gateway = requesting(&request(b"/plain"));
    let (mut stream, mut shared, _) = begin(&gateway);
    assert_eq!(stream.on_response_headers(&gateway, &mut shared, true), FilterAction::Continue);
    answer(&mut stream, &mut shared, &gateway, HELD);
    assert_eq!((gateway.requests_resumed.get(), gateway.replies.borrow().len()), (0, 0));
    stream.on_end(&mut shared);
}
