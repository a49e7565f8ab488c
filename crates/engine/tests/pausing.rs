//! A message that waits for its body goes on at the body's end and never before it, whatever parts the body comes in: a gateway
//! whose other filters stream a body can lose the rest of a message that goes on in the middle.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use crate::common::{StaticLine, posting};
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::{Configuration, FilterAction, Policy, Stream};
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::{Arc, LazyLock};

/// Bounds of requests that bodies of a few bytes reach.
static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| {
    let document = r#"{
        "version": 1,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate", "guard": {}},
        "identity": {"sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s", "type": "user"}}
        ]},
        "routes": [
            {"endpoint": "shaped", "path": "/shaped", "policy": "REQUIRED_A", "target": "A/run",
             "answer": {"status": 201, "location": "/shaped/{body:/id}"}},
            {"endpoint": "sent", "path": "/sent", "policy": "REQUIRED_A", "target": "A/send", "one_way": true},
            {"endpoint": "enforced", "path": "/enforced", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce", "max_body_bytes": 40},
            {"endpoint": "json", "path": "/json", "policy": "REQUIRED_A", "target": "A/run", "collision": "enforce", "fingerprint": "json",
             "max_body_bytes": 40},
            {"endpoint": "asked", "path": "/asked", "policy": "REQUIRED_A", "target": "A/run", "in_flight": "conflict", "max_body_bytes": 40},
            {"endpoint": "observed", "path": "/observed", "policy": "REQUIRED_A", "target": "A/run", "collision": "observe", "max_body_bytes": 40}
        ]
    }"#;
    Arc::new(Policy::from_json(document.as_bytes()).unwrap())
});

/// An exchange in a gateway.
struct PausedExchange {
    gateway: MemoryGateway<'static>,
    stream: Stream,
    shared: Configuration,
}

impl PausedExchange {
    /// A request whose headers have come.
    fn of(gateway: MemoryGateway<'static>, has_body: bool) -> (Self, FilterAction) {
        let mut shared = Configuration::of(Arc::clone(&POLICY));
        let mut stream = Stream::new(1, &shared);
        let action = stream.on_request_headers(&gateway, &mut shared, !has_body);
        (Self { gateway, stream, shared }, action)
    }

    /// Every call that was made is answered, and every one that an answer leads to.
    fn answer_calls(&mut self) {
        self.gateway.answer_calls(&mut self.shared, &mut self.stream, |call| (Some(200), call.body.clone()));
    }

    fn replies(&self) -> usize {
        self.gateway.replies.borrow().len()
    }
}

/// The parts of a body, some of them empty, and in which of the pauses between them calls are answered.
fn parts() -> impl Strategy<Value = Vec<(Vec<u8>, bool)>> {
    let part = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..30),
        Just(b"{\"id\":7}".to_vec()),
        Just(vec![b'x'; 600_000])
    ];
    prop::collection::vec((part, any::<bool>()), 1..6)
}

/// An answer's headers.
fn answer() -> impl Strategy<Value = Vec<StaticLine>> {
    let status = select(vec![b"200".as_slice(), b"202", b"402", b"422", b"470", b"500", b"503"]);
    let kind = select(vec![b"application/json".as_slice(), b"text/plain", b"application/problem+json"]);
    let length =
        select(vec![None, Some(b"4".as_slice()), Some(b"4097"), Some(b"70000"), Some(b"1048576"), Some(b"1048577")]);
    (status, kind, length, any::<bool>()).prop_map(|(status, kind, length, of_handler)| {
        let mut lines: Vec<StaticLine> = vec![(b":status", status), (b"content-type", kind)];
        lines.extend(length.map(|length| (b"content-length".as_slice(), length)));
        lines.extend(of_handler.then_some((b"x-restate-id".as_slice(), b"inv_1".as_slice())));
        lines
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_goes_on_at_its_end_or_is_replaced(
        path in select(vec![b"/shaped".as_slice(), b"/sent"]),
        response in answer(),
        parts in parts(),
        has_trailers in any::<bool>(),
        ticks in prop::option::of(0..6usize),
    ) {
        let mut gateway = posting(path);
        gateway.response.headers = response;
        let (mut exchange, action) = PausedExchange::of(gateway, false);
        prop_assert_eq!(action, FilterAction::Continue);
        let PausedExchange { gateway, stream, shared } = &mut exchange;
        let mut is_paused = stream.on_response_headers(gateway, shared, false) == FilterAction::Pause;
        let mut size = 0;
        for (number, (part, _)) in parts.iter().enumerate() {
            if ticks == Some(number) && is_paused {
                // The gateway may keep back what follows. An answer goes on only if nothing of its body has come.
                let is_woken = (0..10).any(|_| {
                    shared.on_tick(gateway);
                    shared.next_to_wake().is_some()
                });
                if is_woken {
                    stream.on_wake(gateway, shared);
                    prop_assert_eq!((number, gateway.responses_resumed.get()), (0, 1));
                    is_paused = false;
                }
            }
            if !gateway.replies.borrow().is_empty() {
                break;
            }
            // Of an answer that is not paused the gateway gives each part alone.
            size = if is_paused { size + part.len() } else { part.len() };
            let is_end = number + 1 == parts.len() && !has_trailers;
            let action = stream.on_response_body(gateway, shared, size, is_end);
            let is_replaced = !gateway.replies.borrow().is_empty();
            if is_paused && !is_end {
                prop_assert_eq!(action, FilterAction::Pause, "part {} of {}", number, parts.len());
            } else {
                prop_assert!(action == FilterAction::Continue || is_replaced);
                is_paused = false;
            }
        }
        if has_trailers && gateway.replies.borrow().is_empty() {
            let action = stream.on_response_trailers(gateway, shared);
            prop_assert!(action == FilterAction::Continue || !gateway.replies.borrow().is_empty());
        }
    }

    #[test]
    fn a_request_goes_on_at_its_end_or_is_refused(
        path in select(vec![b"/enforced".as_slice(), b"/json", b"/asked", b"/shaped", b"/observed"]),
        parts in parts(),
        has_trailers in any::<bool>(),
    ) {
        let (mut exchange, action) = PausedExchange::of(posting(path), true);
        let is_paused = action == FilterAction::Pause;
        prop_assert_eq!(is_paused, !matches!(path, b"/shaped" | b"/observed"));
        let mut went_on = 0;
        for (number, (part, is_answered)) in parts.iter().enumerate() {
            if *is_answered {
                exchange.answer_calls();
            }
            prop_assert_eq!(exchange.gateway.requests_resumed.get(), 0, "before part {}", number);
            if !is_paused {
                exchange.gateway.request.body.borrow_mut().clear();
            }
            exchange.gateway.request.body.borrow_mut().extend(part);
            let size = exchange.gateway.request.body.borrow().len();
            let is_end = number + 1 == parts.len() && !has_trailers;
            let action = exchange.stream.on_request_body(&exchange.gateway, &mut exchange.shared, size, is_end);
            if exchange.replies() > 0 {
                return Ok(());
            }
            if is_paused && !is_end {
                prop_assert_eq!(action, FilterAction::Pause, "part {} of {}", number, parts.len());
            }
            went_on += usize::from(is_end && action == FilterAction::Continue);
        }
        if has_trailers {
            let action = exchange.stream.on_request_trailers(&exchange.gateway, &mut exchange.shared);
            went_on += usize::from(action == FilterAction::Continue);
        }
        exchange.answer_calls();
        if is_paused && exchange.replies() == 0 {
            prop_assert_eq!(went_on + exchange.gateway.requests_resumed.get(), 1, "it goes on once");
        }
    }
}
