//! Requests that wait share the room for what they hold, and their places.

use super::{DELIVERY, POLICY, RECOVERY, configuration, recovery_policy};
use crate::common::{posting, requesting, statuses};
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::problem::Reason;
use edge_idempotency_engine::{CallReply, Configuration, FilterAction, Stream};

/// Begins a request with a long path on a stream of its own, and gives the statuses of the filter's replies.
fn begin(shared: &mut Configuration, id: u32, gateway: &MemoryGateway<'_>) -> (Stream, Vec<u16>) {
    let mut stream = Stream::new(id, shared);
    assert_eq!(stream.on_request_headers(gateway, shared, false), FilterAction::Pause);
    let replies = statuses(gateway);
    (stream, replies)
}

/// As much as fits eight times into a half of the room.
fn long(path: &str) -> &'static [u8] {
    Box::leak(format!("{path}?{}", "q".repeat(1024 * 1024 - 2000)).into_bytes().into_boxed_slice())
}

/// In shadow mode a request whose body may hold the key waits for it only if there is room: nothing is refused.
#[test]
fn a_watched_request_goes_on_without_room() {
    let route = r#""routes": [{"endpoint": "later", "path": "/later", "policy": "REQUIRED_A", "mode": "shadow", "key": {"from": ["/k"]}}, "#;
    let source = r#""identity": {"sources": [{"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}}]}, "#;
    let document = POLICY.replace(r#""routes": ["#, &[source, route].concat());
    let mut shared = configuration(&document);
    let later = [
        (b":method".as_slice(), b"POST".as_slice()),
        (b":authority", b"a"),
        (b":path", b"/later"),
        (b"content-length", b"9"),
    ];
    let watched = |shared: &mut Configuration, id| {
        let gateway = requesting(&later);
        let mut stream = Stream::new(id, shared);
        let action = stream.on_request_headers(&gateway, shared, false);
        assert_eq!(statuses(&gateway), [0; 0]);
        (stream, action)
    };
    assert_eq!(watched(&mut shared, 1).1, FilterAction::Pause);
    let to = |path: &'static [u8]| {
        requesting(&DELIVERY.map(|(name, value)| (name, if name == b":path" { path } else { value })))
    };
    let looked_up = long("/h/gitlab/wh_looked_up");
    let waiting: Vec<_> = (10..19).map(|id| begin(&mut shared, id, &to(looked_up))).collect();
    assert!(waiting.last().is_some_and(|(_, replies)| replies == &[503]), "there is room");
    let mut actions =
        (100..5000).map(|id| watched(&mut shared, id)).collect::<Vec<_>>().into_iter().map(|(_, action)| action);
    assert!(actions.any(|action| action == FilterAction::Continue), "there is room for all of them");
}

/// A delivery whose webhook has to be looked up needs room, and one whose webhook is in the cache does not.
#[test]
fn a_cached_answer_needs_no_room() {
    let mut shared = configuration(POLICY);
    let to = |path: &'static [u8]| {
        requesting(&DELIVERY.map(|(name, value)| (name, if name == b":path" { path } else { value })))
    };
    let (looked_up, unknown) = (long("/h/gitlab/wh_looked_up"), long("/h/gitlab/wh_unknown"));

    // The registry knows no such webhook.
    let gateway = to(unknown);
    let (mut stream, _) = begin(&mut shared, 1, &gateway);
    let body = br#"{"meta":{"requestId":"req_1"},"data":{"valid":false,"code":"NOT_FOUND"}}"#;
    shared.on_call_reply(&gateway, 0, &CallReply { status: Some(200), body: Some(body) });
    assert_eq!(shared.next_to_wake(), Some(1));
    stream.on_wake(&gateway, &mut shared);
    assert_eq!(statuses(&gateway), [404]);

    let waiting: Vec<_> = (10..18).map(|id| begin(&mut shared, id, &to(looked_up))).collect();
    assert!(waiting.iter().all(|(_, replies)| replies.is_empty()));
    assert_eq!(begin(&mut shared, 20, &to(looked_up)).1, [503]);
    assert_eq!(begin(&mut shared, 21, &to(unknown)).1, [404]);
    // Who was refused does not wait for the answer.
    shared.on_call_reply(&gateway, 0, &CallReply { status: None, body: None });
    let mut answered: Vec<u32> = std::iter::from_fn(|| shared.next_to_wake()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [10, 11, 12, 13, 14, 15, 16, 17]);
    drop(waiting);
}

/// A call that is made for each request is not made for one that finds no room. A request whose body may hold the key takes the same
/// room of its tenant.
#[test]
fn without_room_nothing_is_asked() {
    let guarded = recovery_policy("").replace(r#""cluster": "restate"}"#, r#""cluster": "restate", "guard": {}}"#);
    let guarded =
        guarded.replace(r#""target": "Refunds/create"}"#, r#""target": "Refunds/create", "in_flight": "conflict"}"#);
    let later = r#""routes": [{"endpoint": "later", "path": "/later", "policy": "REQUIRED_A", "target": "Later/create", "key": {"from": ["/k"]}}, "#;
    let guarded = guarded.replace(r#""routes": ["#, later);
    let mut shared = configuration(&guarded);
    let path = long("/refunds");
    let mut waiting = Vec::new();
    loop {
        let gateway = posting(path);
        let (mut stream, replies) = begin(&mut shared, 1, &gateway);
        if replies == [503] {
            assert_eq!(gateway.calls.borrow().len(), 0);
            break;
        }
        // Its body has come, and the filter asks whether the key is in flight.
        gateway.request.body.replace(b"{}".to_vec());
        stream.on_request_body(&gateway, &mut shared, 2, true);
        assert_eq!(gateway.calls.borrow().len(), 1);
        waiting.push(stream);
        assert!(waiting.len() < 100);
    }
    assert!(waiting.len() >= 8, "{}", waiting.len());
    let mut refused = (100..4000).map(|id| begin(&mut shared, id, &posting(b"/later")));
    assert!(refused.any(|(stream, replies)| {
        waiting.push(stream);
        replies == [503]
    }));
}

/// How many requests of a caller may wait.
const WAITS_OF_CALLER: usize = 16;

/// Requests of a configuration share the places of those that wait.
#[test]
fn a_request_beyond_the_bound_does_not_wait() {
    let document = recovery_policy("");
    let asked = |shared: &mut Configuration| {
        let gateway = requesting(&RECOVERY);
        let mut stream = Stream::new(1, shared);
        stream.on_request_headers(&gateway, shared, true);
        stream
    };
    let (mut shared, mut other) = (configuration(&document), configuration(&document));
    let reason = |stream: &Stream| stream.exchange().reason();
    let mut waiting: Vec<Stream> = (0..WAITS_OF_CALLER).map(|_| asked(&mut shared)).collect();
    assert!(waiting.iter().all(|stream| reason(stream).is_none()));
    assert_eq!(reason(&asked(&mut shared)), Some(Reason::CallerWaitsFull));
    // Another configuration has its own.
    assert_eq!(reason(&asked(&mut other)), None);
    waiting.pop().unwrap().on_end(&mut shared);
    assert_eq!(reason(&asked(&mut shared)), None);
}
