//! What a stream does if a gateway ends a request's wait with a response of its own, and if it keeps a body back.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod room;

use crate::common::{StaticLine, logged, path_set, posting, requesting};
use direct::attributes::NoAttributes;
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::problem::Retry;
use edge_idempotency_engine::{
    CallReply, Configuration, Exchange, FilterAction, Headers, Policy, ResponseFlow, Stream, UnreadBody,
};
use std::cell::Cell;
use std::sync::Arc;

const POLICY: &str = r#"{
    "version": 1,
    "backend": {"kind": "restate"},
    "routes": [{"endpoint": "hooks", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
    "webhooks": {"unkey": {"cluster": "unkey"}, "openbao": {"cluster": "openbao"}}
}"#;

/// A policy with a result that can be recovered, and with more members of the document.
fn recovery_policy(more: &str) -> String {
    r#"{
        "version": 1,
        MORE
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
        "identity": {"sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
        ]},
        "routes": [{"endpoint": "refunds", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"}]
    }"#
    .replace("MORE", more)
}

/// A delivery whose webhook has to be looked up.
const DELIVERY: [StaticLine; 4] = [
    (b":method", b"POST"),
    (b":authority", b"a"),
    (b":path", b"/h/gitlab/wh_looked_up"),
    (b"x-gitlab-token", b"token"),
];

/// A caller asks for its result.
const RECOVERY: [StaticLine; 6] = [
    (b":method", b"GET"),
    (b":authority", b"a"),
    (b":path", b"/refunds/by-idempotency-key/k"),
    (b"x-t", b"acme"),
    (b"x-p", b"shop"),
    (b"x-s", b"u1"),
];

/// The configuration of a document.
fn configuration(document: &str) -> Configuration {
    Configuration::of(Arc::new(Policy::from_json(document.as_bytes()).unwrap()))
}

/// The client gets the gateway's response. The lookup's result that comes later changes nothing, and nothing of the request
/// goes to the backend.
#[test]
fn a_result_behind_the_gateways_own_response_is_dropped() {
    let mut shared = configuration(POLICY);
    let gateway = requesting(&DELIVERY);
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(&gateway, &mut shared, false), FilterAction::Pause);
    assert_eq!(stream.on_response_headers(&gateway, &mut shared, true), FilterAction::Continue);

    shared.on_call_reply(&gateway, 0, &CallReply { status: None, body: None });
    assert!(shared.next_to_wake().is_none(), "the request waits for the lookup still");
    assert_eq!(stream.on_request_body(&gateway, &mut shared, 2, true), FilterAction::Pause);
    assert_eq!(stream.on_request_trailers(&gateway, &mut shared), FilterAction::Pause);
    assert_eq!((gateway.replies.borrow().len(), gateway.requests_resumed.get()), (0, 0));
}

/// Each stream gets its own answer, also if a host wakes those that were named in another order, or one that was not named.
#[test]
fn a_stream_goes_on_with_its_own_answer() {
    let mut shared = configuration(&recovery_policy(""));
    let gateways = [requesting(&RECOVERY), requesting(&RECOVERY), requesting(&RECOVERY)];
    let mut streams: Vec<Stream> = (0..3).map(|id| Stream::new(id, &shared)).collect();
    for (index, (stream, gateway)) in streams.iter_mut().zip(&gateways).enumerate() {
        stream.on_request_headers(gateway, &mut shared, true);
        if index < 2 {
            let body = format!(r#"{{"invocationId":"inv_{index}"}}"#);
            shared.on_call_reply(gateway, 0, &CallReply { status: Some(200), body: Some(body.as_bytes()) });
        }
    }
    let mut named: Vec<u32> = std::iter::from_fn(|| shared.next_to_wake()).collect();
    named.sort_unstable();
    assert_eq!(named, [0, 1]);
    for index in [2, 0, 1, 0] {
        streams[index].on_wake(&gateways[index], &mut shared);
    }
    let paths: Vec<String> = gateways.iter().map(|gateway| path_set(gateway)).collect();
    assert_eq!(paths, ["/restate/attach/inv_0", "/restate/attach/inv_1", ""]);
    assert_eq!(gateways.each_ref().map(|gateway| gateway.requests_resumed.get()), [1, 1, 0]);
}

/// A stream that waits for the body of its request. Its headers have 49 bytes without the token, which is removed before the
/// wait.
fn awaits_body(gateway: &MemoryGateway<'_>) -> (Stream, Configuration) {
    let binding = r#"{"tenant": "acme", "project": "shop", "provider": "gitlab", "secrets": ["token"]}"#;
    let webhooks = format!(r#""allow_inline_secrets": true, "webhooks": {{"static": {{"wh_looked_up": {binding}}}, "#);
    let mut shared = configuration(&POLICY.replace(r#""webhooks": {"#, &webhooks));
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(gateway, &mut shared, false), FilterAction::Pause);
    (stream, shared)
}

/// How many ticks pass until a stream is woken.
fn ticks(shared: &mut Configuration, gateway: &MemoryGateway<'_>) -> Option<usize> {
    (1..=100).find(|_| {
        shared.on_tick(gateway);
        shared.next_to_wake().is_some()
    })
}

#[test]
fn a_request_is_refused_if_its_body_has_come_and_is_kept_back() {
    let gateway = requesting(&DELIVERY);
    let (mut stream, mut shared) = awaits_body(&gateway);
    assert_eq!(ticks(&mut shared, &gateway), Some(6));
    for received in [None, Some(49)] {
        gateway.received_bytes.set(received);
        stream.on_wake(&gateway, &mut shared);
        assert!(gateway.replies.borrow().is_empty(), "the client has sent no body yet");
        assert_eq!(ticks(&mut shared, &gateway), Some(1));
    }
    gateway.received_bytes.set(Some(50));
    stream.on_wake(&gateway, &mut shared);
    assert_eq!((gateway.replies.borrow().len(), gateway.requests_resumed.get()), (1, 0));
    assert_eq!(ticks(&mut shared, &gateway), None);
    assert_eq!(logged(&gateway, "did not come within 5 s"), 1);
    // The log says so once.
    let mut other = Stream::new(2, &shared);
    let gateway = MemoryGateway { received_bytes: Cell::new(Some(50)), ..requesting(&DELIVERY) };
    other.on_request_headers(&gateway, &mut shared, false);
    assert_eq!(ticks(&mut shared, &gateway), Some(6));
    other.on_wake(&gateway, &mut shared);
    assert_eq!((gateway.replies.borrow().len(), logged(&gateway, "did not come within 5 s")), (1, 0));
}

/// No later wait is ended, and none that began before.
#[test]
fn a_body_that_arrives_proves_that_bodies_arrive() {
    let gateway = requesting(&DELIVERY);
    let (mut stream, mut shared) = awaits_body(&gateway);
    let mut other = Stream::new(2, &shared);
    other.on_request_headers(&requesting(&DELIVERY), &mut shared, false);
    assert_eq!(stream.on_request_body(&gateway, &mut shared, 2, false), FilterAction::Pause);
    Stream::new(3, &shared).on_request_headers(&requesting(&DELIVERY), &mut shared, false);
    assert_eq!(ticks(&mut shared, &gateway), None);
}

/// A stream whose wait has ended in another way is left alone.
#[test]
fn a_wait_that_has_ended_is_not_ended_again() {
    let gateway = MemoryGateway { received_bytes: Cell::new(Some(50)), ..requesting(&DELIVERY) };
    let (mut stream, mut shared) = awaits_body(&gateway);
    assert_eq!(stream.on_response_headers(&gateway, &mut shared, true), FilterAction::Continue);
    assert_eq!(ticks(&mut shared, &gateway), Some(6));
    stream.on_wake(&gateway, &mut shared);
    assert_eq!((gateway.replies.borrow().len(), logged(&gateway, "did not come")), (0, 0));
    assert_eq!(ticks(&mut shared, &gateway), None);
}

/// A request that waits for a lookup is no sign either.
#[test]
fn a_lookup_may_take_its_time() {
    let mut shared = configuration(POLICY);
    let gateway = requesting(&DELIVERY);
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(&gateway, &mut shared, false), FilterAction::Pause);
    assert_eq!(ticks(&mut shared, &gateway), None);
}

/// The same for a recovery whose invocation is looked up, and what happens without such a response.
#[test]
fn a_recovery_goes_on_when_its_invocation_is_known() {
    let reply = CallReply { status: Some(200), body: Some(br#"{"invocationId":"inv_1"}"#) };
    for ended_by_gateway in [false, true] {
        let mut shared = configuration(&recovery_policy(""));
        let gateway = requesting(&RECOVERY);
        let mut stream = Stream::new(1, &shared);
        assert_eq!(stream.on_request_headers(&gateway, &mut shared, true), FilterAction::Pause);
        assert_eq!(gateway.calls.borrow().len(), 1);
        if ended_by_gateway {
            stream.on_response_headers(&gateway, &mut shared, true);
        }
        shared.on_call_reply(&gateway, 0, &reply);
        while let Some(id) = shared.next_to_wake() {
            assert_eq!(id, 1);
            stream.on_wake(&gateway, &mut shared);
        }
        shared.on_call_reply(&gateway, 0, &reply);
        assert!(shared.next_to_wake().is_none(), "one reply is enough");
        let expected = if ended_by_gateway { (0, "") } else { (1, "/restate/attach/inv_1") };
        assert_eq!((gateway.requests_resumed.get(), path_set(&gateway).as_str()), expected);
        assert_eq!((gateway.replies.borrow().len(), gateway.calls.borrow().len()), (0, 1));
    }
}

/// The counters that the gateway has after a flush, with their values.
fn counted(gateway: &MemoryGateway<'_>, shared: &mut Configuration) -> Vec<(String, u64)> {
    shared.on_tick(gateway);
    gateway.metrics.borrow().clone()
}

/// Such a request is neither forwarded nor refused, and its key is not known yet.
#[test]
fn a_request_that_the_gateway_ends_during_its_wait_is_not_counted() {
    for request in [DELIVERY.as_slice(), &RECOVERY] {
        let policy = if request == RECOVERY { recovery_policy("") } else { POLICY.to_owned() };
        let mut shared = configuration(&policy);
        let gateway = requesting(request);
        let mut stream = Stream::new(1, &shared);
        assert_eq!(stream.on_request_headers(&gateway, &mut shared, false), FilterAction::Pause);
        stream.on_response_headers(&gateway, &mut shared, true);
        assert_eq!(counted(&gateway, &mut shared), []);
    }
}

/// The filter has decided to forward the request, and the gateway refuses an edit.
#[test]
fn a_refusal_after_the_decision_is_one_problem() {
    let mut shared = configuration(&recovery_policy(""));
    let mut gateway = MemoryGateway { refuses_edits: true, ..requesting(&RECOVERY) };
    gateway.request.headers[0].1 = b"POST";
    gateway.request.headers[2].1 = b"/refunds";
    gateway.request.headers.push((b"idempotency-key", b"k"));
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(&gateway, &mut shared, true), FilterAction::Pause);
    // The reply passes the response's callbacks.
    stream.on_response_headers(&gateway, &mut shared, true);
    let labels = "tenant=acme;project=shop;endpoint=refunds";
    let expected = [
        (format!("idempotency_key_present_total;case=A;form=bare;{labels}"), 1),
        (format!("idempotency_problem_total;code=internal_error;{labels}"), 1),
    ];
    assert_eq!((gateway.replies.borrow().len(), counted(&gateway, &mut shared).as_slice()), (1, expected.as_slice()));
}

/// The host has failed while the request waits: what was decided of it says nothing any more.
#[test]
fn a_failure_drops_what_was_decided_before_the_wait() {
    let document = recovery_policy("");
    let (mut shared, policy) = (configuration(&document), Policy::from_json(document.as_bytes()).unwrap());
    let gateway = requesting(&RECOVERY);
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(&gateway, &mut shared, true), FilterAction::Pause);
    stream.on_failure(&gateway, &mut shared);
    let record = stream.exchange().record(&policy).to_json();
    assert!(record.contains("internal_error") && !record.contains("acme"), "{record}");
}

/// In shadow mode what enforcing would refuse is noted, unless the request is really refused.
#[test]
fn a_failed_edit_is_told_in_shadow_mode_too() {
    let policy = Arc::new(Policy::from_json(SHADOW.as_bytes()).unwrap());
    for (refuses_edits, code) in [(false, "idempotency_key_required"), (true, "internal_error")] {
        let mut shared = Configuration::of(Arc::clone(&policy));
        let mut gateway = MemoryGateway { refuses_edits, ..posting(b"/a") };
        gateway.request.headers.retain(|(name, _)| *name != b"idempotency-key");
        gateway.request.headers.push((b"x-edge-idempotency", b"1"));
        let mut stream = Stream::new(1, &shared);
        stream.on_request_headers(&gateway, &mut shared, true);
        let record = stream.exchange().record(&policy).to_json();
        assert!(record.contains(&format!(r#""idempotency_code":"{code}""#)), "{record}");
    }
}

const SHADOW: &str = r#"{"version": 1, "mode": "shadow", "backend": {"kind": "generic"},
    "identity": {"sources": [{"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}]},
    "routes": [{"endpoint": "a", "path": "/a", "policy": "REQUIRED_A"}]}"#;

/// The backend answers before the request has ended, and the gateway refuses an edit of the request's trailers.
#[test]
fn a_refusal_after_the_response_has_begun_leaves_the_response_to_be_cleaned() {
    let mut shared = configuration(&recovery_policy(""));
    let mut gateway = requesting(&RECOVERY);
    gateway.request.trailers = vec![(b"idempotency-key", b"x")];
    gateway.request.headers[0].1 = b"POST";
    gateway.request.headers[2].1 = b"/refunds";
    gateway.request.headers.push((b"idempotency-key", b"k"));
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(&gateway, &mut shared, false), FilterAction::Continue);
    assert_eq!(stream.on_response_headers(&gateway, &mut shared, false), FilterAction::Pause);
    gateway.refuses_edits = true;
    assert_eq!(stream.on_request_trailers(&gateway, &mut shared), FilterAction::Pause);
    stream.on_response_body(&gateway, &mut shared, 2, true);
    assert_eq!((gateway.replies.borrow().len(), gateway.response_bodies.get()), (1, 1));
}

/// The backend may have done the work of a request without a key, so nobody should send it again.
#[test]
fn a_fault_in_trailers_says_whether_the_request_can_be_sent_again() {
    for (key, expected) in [(true, Retry::SameKey), (false, Retry::Never)] {
        let mut shared = configuration(&recovery_policy("").replace("REQUIRED_A", "ACCEPTED"));
        let mut gateway = posting(b"/refunds");
        gateway.request.trailers = vec![(b"idempotency-key", b"x")];
        gateway.request.headers.retain(|(name, _)| key || *name != b"idempotency-key");
        let mut stream = Stream::new(1, &shared);
        assert_eq!(stream.on_request_headers(&gateway, &mut shared, false), FilterAction::Continue);
        gateway.refuses_edits = true;
        assert_eq!(stream.on_request_trailers(&gateway, &mut shared), FilterAction::Pause);
        assert_eq!(stream.exchange().refusal().unwrap().retry(), expected);
    }
}

/// The route whose answers have a `Location` from their bodies.
fn shaped_policy() -> String {
    let route = r#""target": "Refunds/create", "answer": {"location": "/refunds/{body:/id}"}"#;
    recovery_policy("").replace(r#""target": "Refunds/create""#, route)
}

/// A success of this route, with more headers.
fn success(more: &[StaticLine]) -> MemoryGateway<'static> {
    let mut gateway = posting(b"/refunds");
    gateway.response.headers =
        vec![(b":status", b"200"), (b"x-restate-id", b"inv_1"), (b"content-type", b"application/json")];
    gateway.response.headers.extend(more);
    gateway
}

/// A success whose `Location` needs a body that the gateway keeps back passes as it is.
#[test]
fn a_success_whose_body_is_kept_back_passes_unshaped() {
    let gateway = success(&[]);
    let mut shared = configuration(&shaped_policy());
    let mut stream = Stream::new(1, &shared);
    assert_eq!(stream.on_request_headers(&gateway, &mut shared, true), FilterAction::Continue);
    assert_eq!(stream.on_response_headers(&gateway, &mut shared, false), FilterAction::Pause);
    assert_eq!(ticks(&mut shared, &gateway), Some(6));
    stream.on_wake(&gateway, &mut shared);
    let unshaped = "idempotency_answer_unshaped_total;reason=body_kept_back;tenant=acme;project=shop;endpoint=refunds";
    assert!(counted(&gateway, &mut shared).contains(&(unshaped.to_owned(), 1)), "{:?}", gateway.metrics);
    assert_eq!(
        (gateway.responses_resumed.get(), gateway.replies.borrow().len(), gateway.response_bodies.get()),
        (1, 0, 0)
    );
}

/// A success that is too long for a `Location`, as its `content-length` tells, passes at once.
#[test]
fn a_success_that_is_known_to_be_too_long_is_not_awaited() {
    for (length, expected) in [(b"1048576", FilterAction::Pause), (b"1048577", FilterAction::Continue)] {
        let gateway = success(&[(b"content-length", length)]);
        let mut shared = configuration(&shaped_policy());
        let mut stream = Stream::new(1, &shared);
        assert_eq!(stream.on_request_headers(&gateway, &mut shared, true), FilterAction::Continue);
        assert_eq!(stream.on_response_headers(&gateway, &mut shared, false), expected);
    }
}

/// A host is asked for the endpoint of its route only by a policy that uses it.
#[test]
fn route_metadata_is_read_on_demand() {
    let others = [b"/refunds".as_slice(), b"/elsewhere", b"/refunds/by-idempotency-key/k"];
    for (more, asked) in [("", 0), (r#""gateway_routes": false,"#, 0), (r#""gateway_routes": true,"#, 1)] {
        for path in others {
            let mut shared = configuration(&recovery_policy(more));
            let mut gateway = requesting(&RECOVERY);
            gateway.request.headers[2].1 = path;
            let mut stream = Stream::new(1, &shared);
            stream.on_request_headers(&gateway, &mut shared, true);
            assert_eq!(gateway.endpoints.get(), asked, "{more} {}", path.escape_ascii());
        }
    }
}

/// A success that has become too long while it came. A request that the backend has stored gets it when it is sent again.
#[test]
fn a_lost_answer_tells_whether_the_request_can_be_repeated() {
    let policy = Policy::from_json(shaped_policy().replace("REQUIRED_A", "ACCEPTED").as_bytes()).unwrap();
    let gateway = success(&[]);
    let of = |name: &[u8]| gateway.request.headers.iter().filter(|(other, _)| *other != name).copied().collect();
    for (left_out, expected) in [(&b"x-other"[..], Retry::SameKey), (b"idempotency-key", Retry::Never)] {
        let (mut exchange, mut effects) = (Exchange::new(), Vec::new());
        exchange.request_headers(&policy, &Headers::new(of(left_out)), &NoAttributes, &mut effects);
        let response = Headers::new(gateway.response.headers.clone());
        let flow = exchange.response_headers(&policy, &response, &mut effects);
        let ResponseFlow::AwaitBody(awaited) = flow else { panic!("{flow:?}") };
        exchange.response_body_unread(awaited, UnreadBody::IsLost, &policy, &mut effects);
        assert_eq!(exchange.refusal().unwrap().retry(), expected);
    }
}
