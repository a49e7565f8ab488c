//! What a stream does with the bodies of requests that are compared: which part of a body it reads, when the claim is made,
//! and what ends a wait.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common::{called_with, posting, statuses};
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::{Call, CallReply, Configuration, FilterAction, Policy, Stream};
use std::cell::Cell;
use std::sync::Arc;

/// A request in a gateway, with what it shares with others.
struct ComparedExchange {
    gateway: MemoryGateway<'static>,
    stream: Stream,
    shared: Configuration,
}

impl ComparedExchange {
    /// A request whose headers have come.
    fn of(gateway: MemoryGateway<'static>, end_of_stream: bool) -> (Self, FilterAction) {
        let document = r#"{
            "version": 1,
            "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}},
            "identity": {"sources": [
                {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
            ]},
            "routes": [
                {"endpoint": "enforced", "path": "/enforced", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce", "max_body_bytes": 8},
                {"endpoint": "observed", "path": "/observed", "policy": "REQUIRED_A", "target": "A/run", "collision": "observe", "max_body_bytes": 8},
                {"endpoint": "canonical", "path": "/canonical", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce", "fingerprint": "json"},
                {"endpoint": "kept", "path": "/kept", "policy": "REQUIRED_A", "target": "A/run", "collision": "observe", "fingerprint": "json"}
            ]
        }"#;
        let policy = Policy::from_json(document.as_bytes()).unwrap();
        let mut shared = Configuration::of(Arc::new(policy));
        let mut stream = Stream::new(1, &shared);
        let action = stream.on_request_headers(&gateway, &mut shared, end_of_stream);
        (Self { gateway, stream, shared }, action)
    }

    fn enforced() -> Self {
        let (exchange, action) =
            Self::of(MemoryGateway { received_bytes: Cell::new(Some(1000)), ..posting(b"/enforced") }, false);
        assert_eq!(action, FilterAction::Pause);
        exchange
    }

    fn observed() -> Self {
        Self::passing(b"/observed")
    }

    /// A request that is observed on this path.
    fn passing(path: &'static [u8]) -> Self {
        let (exchange, action) = Self::of(posting(path), false);
        assert_eq!(action, FilterAction::Continue);
        exchange
    }

    /// A part of the body comes; the gateway buffers a request that waits.
    fn part(&mut self, part: &[u8], end_of_stream: bool) -> FilterAction {
        let mut body = self.gateway.request.body.borrow_mut();
        if [&b"/observed"[..], b"/kept"].contains(&self.gateway.request.headers[2].1) {
            body.clear();
        }
        body.extend(part);
        let size = body.len();
        drop(body);
        self.stream.on_request_body(&self.gateway, &mut self.shared, size, end_of_stream)
    }

    /// The guard answers the claim, with this fingerprint or the claim's own.
    fn answer(&mut self, first: Option<&str>) {
        let body = |call: &Call| first.map_or_else(|| call.body.clone(), |first| format!("\"{first}\"").into_bytes());
        self.gateway.answer_calls(&mut self.shared, &mut self.stream, |call| (Some(200), body(call)));
    }

    /// The counters of claims and collisions.
    fn counted(&mut self) -> Vec<(String, u64)> {
        self.shared.on_tick(&self.gateway);
        let short = |(name, count): &(String, u64)| (name.split(";tenant").next().unwrap().to_owned(), *count);
        let metrics = self.gateway.metrics.borrow();
        let is_one = |name: &str| name.contains("store=guard") || name.contains("collision_total;");
        metrics.iter().filter(|(name, _)| name.contains("_total;") && is_one(name)).map(short).collect()
    }

    fn calls(&self) -> usize {
        self.gateway.calls.borrow().len()
    }
}

const MATCH: &str = "idempotency_lookup_total;store=guard;result=match";
const MISMATCH: &str = "idempotency_lookup_total;store=guard;result=mismatch";
const COLLISION: &str = "idempotency_key_collision_total;mode=observe";

#[test]
fn each_part_of_a_body_is_read_once() {
    let mut fingerprints = Vec::new();
    for parts in [&["abc", "de", "f", ""][..], &["abcdef"], &["", "abcdef"]] {
        let mut exchange = ComparedExchange::enforced();
        for (index, part) in parts.iter().enumerate() {
            assert_eq!(exchange.calls(), 0, "a claim before the end");
            let action = exchange.part(part.as_bytes(), index + 1 == parts.len());
            assert_eq!(action, FilterAction::Pause);
        }
        let mut next = 0;
        for (start, length) in exchange.gateway.reads.borrow().iter() {
            assert_eq!(*start, next, "{parts:?}");
            next += length;
        }
        assert_eq!(next, 6);
        fingerprints.push(called_with(&exchange.gateway));
        exchange.answer(None);
        assert_eq!((exchange.gateway.requests_resumed.get(), exchange.gateway.replies.borrow().len()), (1, 0));
    }
    assert_eq!(fingerprints.len(), 3);
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1);
}

#[test]
fn a_body_above_the_limit_makes_no_claim() {
    let mut exchange = ComparedExchange::enforced();
    assert_eq!(exchange.part(b"12345678", false), FilterAction::Pause);
    assert_eq!(exchange.part(b"9", true), FilterAction::Pause);
    assert_eq!((exchange.calls(), statuses(&exchange.gateway).as_slice()), (0, &[413][..]));

    let mut exchange = ComparedExchange::observed();
    for part in ["1234", "5678", "9", "0"] {
        assert_eq!(exchange.part(part.as_bytes(), part == "0"), FilterAction::Continue);
    }
    assert_eq!((exchange.calls(), exchange.gateway.replies.borrow().len()), (0, 0));
    assert_eq!(exchange.counted(), [("idempotency_lookup_total;store=guard;result=body_too_large".to_owned(), 1)]);
}

/// The gateway has answered by itself. The verdict that comes later changes nothing.
#[test]
fn a_verdict_behind_the_gateways_own_response_is_dropped() {
    for first in [None, Some("1r.another")] {
        let mut exchange = ComparedExchange::enforced();
        exchange.part(b"abc", true);
        exchange.stream.on_response_headers(&exchange.gateway, &mut exchange.shared, true);
        exchange.answer(first);
        assert_eq!((exchange.gateway.requests_resumed.get(), exchange.gateway.replies.borrow().len()), (0, 0));
    }
}

/// An answer that nobody has asked for does not take the place of a claim that is still to be made.
#[test]
fn a_claim_that_waits_for_the_body_is_not_dropped() {
    let mut other = ComparedExchange::enforced();
    other.part(b"abc", true);
    let reply = CallReply { status: Some(200), body: Some(&called_with(&other.gateway)) };
    other.shared.on_call_reply(&other.gateway, 0, &reply);
    assert_eq!(other.shared.next_to_wake(), Some(1));

    let mut exchange = ComparedExchange::enforced();
    exchange.stream.on_wake(&exchange.gateway, &mut other.shared);
    exchange.part(b"def", true);
    assert_eq!((exchange.gateway.requests_resumed.get(), statuses(&exchange.gateway).as_slice()), (0, &[503][..]));
}

/// A gateway that keeps the body back ends the wait as for webhooks; while the guard is asked, nothing stalls.
#[test]
fn a_body_that_is_kept_back_ends_the_wait() {
    let mut exchange = ComparedExchange::enforced();
    let is_woken = |exchange: &mut ComparedExchange| {
        exchange.shared.on_tick(&exchange.gateway);
        exchange.shared.next_to_wake().is_some()
    };
    assert_eq!((1..=100).find(|_| is_woken(&mut exchange)), Some(6));
    exchange.stream.on_wake(&exchange.gateway, &mut exchange.shared);
    assert_eq!(statuses(&exchange.gateway).as_slice(), [503]);

    let mut exchange = ComparedExchange::enforced();
    exchange.part(b"abc", true);
    assert!((1..=100).all(|_| !is_woken(&mut exchange)));
}

#[test]
fn an_observed_request_is_counted_although_it_has_ended() {
    for (first, counted) in
        [(None, vec![(MATCH.to_owned(), 1)]), (Some("1r.x"), vec![(MISMATCH.to_owned(), 1), (COLLISION.to_owned(), 1)])]
    {
        let mut exchange = ComparedExchange::observed();
        assert_eq!(exchange.part(b"abc", false), FilterAction::Continue);
        assert_eq!(exchange.calls(), 0, "a claim before the end");
        assert_eq!(exchange.part(b"de", true), FilterAction::Continue);
        assert_eq!(exchange.calls(), 1);
        // The exchange is over, and its stream gone, before the guard has answered.
        std::mem::replace(&mut exchange.stream, Stream::new(2, &exchange.shared)).on_end(&mut exchange.shared);
        exchange.answer(first);
        assert_eq!(exchange.counted(), counted);
    }
}

/// The end of the body never comes, or the backend does not get the request.
#[test]
fn an_observed_request_that_is_not_forwarded_as_a_whole_makes_no_claim() {
    let mut exchange = ComparedExchange::observed();
    exchange.part(b"abc", false);
    exchange.stream.on_response_headers(&exchange.gateway, &mut exchange.shared, false);
    std::mem::replace(&mut exchange.stream, Stream::new(2, &exchange.shared)).on_end(&mut exchange.shared);
    assert_eq!((exchange.calls(), exchange.counted().len()), (0, 0));

    for end_of_stream in [false, true] {
        let gateway = MemoryGateway { refuses_edits: true, ..posting(b"/observed") };
        let (mut exchange, action) = ComparedExchange::of(gateway, end_of_stream);
        assert_eq!(action, FilterAction::Pause);
        if !end_of_stream {
            exchange.part(b"abc", true);
        }
        assert_eq!((exchange.calls(), statuses(&exchange.gateway).as_slice()), (0, &[503][..]));
    }
}

#[test]
fn a_claim_that_the_gateway_does_not_make_is_a_failure_of_the_guard() {
    let (mut exchange, _) = ComparedExchange::of(MemoryGateway { refuses_calls: true, ..posting(b"/observed") }, false);
    exchange.part(b"abc", true);
    assert_eq!(exchange.counted(), [("idempotency_lookup_total;store=guard;result=guard_failed".to_owned(), 1)]);

    let (mut exchange, _) = ComparedExchange::of(MemoryGateway { refuses_calls: true, ..posting(b"/enforced") }, false);
    assert_eq!(exchange.part(b"abc", true), FilterAction::Pause);
    assert_eq!(statuses(&exchange.gateway).as_slice(), [503]);
}

/// The gateway gives less of the body than has come. What was read is another body, so no fingerprint is made of it.
#[test]
fn a_body_that_the_gateway_does_not_give_whole_makes_no_claim() {
    for path in [&b"/enforced"[..], b"/canonical"] {
        for withheld in [1, 100] {
            let (mut exchange, action) = ComparedExchange::of(MemoryGateway { withheld, ..posting(path) }, false);
            assert_eq!(action, FilterAction::Pause);
            exchange.part(b"[1]", false);
            assert_eq!(exchange.part(b" ", true), FilterAction::Pause);
            assert_eq!((exchange.calls(), statuses(&exchange.gateway).as_slice()), (0, &[503][..]));
        }
    }
    for path in [&b"/observed"[..], b"/kept"] {
        let mut exchange = ComparedExchange::passing(path);
        exchange.gateway.withheld = 1;
        assert_eq!(exchange.part(b"[1", false), FilterAction::Continue);
        exchange.gateway.withheld = 0;
        assert_eq!(exchange.part(b"]", true), FilterAction::Continue);
        assert_eq!((exchange.calls(), exchange.gateway.replies.borrow().len()), (0, 0));
    }
}

/// What all observed requests together keep of their bodies is bounded, and given back however a request ends.
#[test]
fn the_bodies_that_are_kept_for_canonical_json_have_a_limit() {
    const FULL: &str = "idempotency_lookup_total;store=guard;result=observing_full";
    let half = vec![b' '; 512 * 1024 - 1];
    let keep = || {
        let mut exchange = ComparedExchange::passing(b"/kept");
        for _ in 0..2 {
            assert_eq!(exchange.part(&half, false), FilterAction::Continue);
        }
        exchange
    };
    let is_kept = |mut exchange: ComparedExchange| {
        let action = exchange.part(b"1", true);
        assert_eq!((action, exchange.calls(), exchange.counted().len()), (FilterAction::Continue, 1, 0));
    };
    let is_not_kept = || {
        let mut exchange = keep();
        let action = exchange.part(b"1", true);
        assert_eq!((action, exchange.calls(), exchange.gateway.replies.borrow().len()), (FilterAction::Continue, 0, 0));
        assert_eq!(exchange.counted(), [(FULL.to_owned(), 1)]);
    };
    let mut waiting: Vec<ComparedExchange> = (0..16).map(|_| keep()).collect();
    is_not_kept();
    is_not_kept();
    // A request without a body, and one whose body is hashed as it comes, need no room.
    for (path, body) in [(&b"/kept"[..], &b""[..]), (b"/observed", b"1")] {
        let mut exchange = ComparedExchange::passing(path);
        exchange.part(body, true);
        assert_eq!(exchange.calls(), 1);
    }
    // Its client is gone.
    drop(waiting.pop());
    waiting.push(keep());
    is_not_kept();
    // It ends.
    is_kept(waiting.pop().unwrap());
    waiting.push(keep());
    is_not_kept();
    // Its body is above the limit.
    let mut exchange = waiting.pop().unwrap();
    exchange.part(b"123", false);
    let too_large = "idempotency_lookup_total;store=guard;result=body_too_large";
    assert_eq!(exchange.counted(), [(too_large.to_owned(), 1)]);
    waiting.push(keep());
    is_not_kept();
    waiting.clear();
    is_kept(keep());
}
