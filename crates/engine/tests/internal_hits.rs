//! Responses that are read as they pass, for the member that reports work which was done before: in which parts they may come,
//! and how much of them is kept.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common::posting;
use edge_idempotency_engine::memory_gateway::MemoryGateway;
use edge_idempotency_engine::{Configuration, FilterAction, Policy, Stream};
use std::sync::Arc;

/// A response in a gateway, with what it shares with others.
struct PassingResponse {
    gateway: MemoryGateway<'static>,
    stream: Stream,
    shared: Configuration,
}

impl PassingResponse {
    /// A response whose headers have passed. `length`: its `content-length`.
    fn begin(length: Option<&'static [u8]>) -> Self {
        let document = r#"{
            "version": 1,
            "backend": {"kind": "generic"},
            "routes": [{"endpoint": "devices", "path": "/devices", "policy": "HANDLER_INTERNAL_C", "internal_hit": "/duplicate"}]
        }"#;
        let mut shared = Configuration::of(Arc::new(Policy::from_json(document.as_bytes()).unwrap()));
        let mut response = vec![(b":status".as_slice(), b"200".as_slice()), (b"content-type", b"application/json")];
        response.extend(length.map(|length| (b"content-length".as_slice(), length)));
        let mut gateway = posting(b"/devices");
        gateway.response.headers = response;
        let mut stream = Stream::new(1, &shared);
        assert_eq!(stream.on_request_headers(&gateway, &mut shared, true), FilterAction::Continue);
        assert_eq!(stream.on_response_headers(&gateway, &mut shared, false), FilterAction::Continue);
        Self { gateway, stream, shared }
    }

    /// A part of the body comes, and passes at once.
    fn part(&mut self, part: &[u8], end_of_stream: bool) {
        self.gateway.response.body.replace(part.to_vec());
        let action = self.stream.on_response_body(&self.gateway, &mut self.shared, part.len(), end_of_stream);
        assert_eq!((action, self.gateway.response_bodies.get()), (FilterAction::Continue, 0));
    }

    fn trailers(&mut self) {
        let action = self.stream.on_response_trailers(&self.gateway, &mut self.shared);
        assert_eq!(action, FilterAction::Continue);
    }

    /// How many hits have been counted.
    fn hits(&mut self) -> u64 {
        self.shared.on_tick(&self.gateway);
        let metrics = self.gateway.metrics.borrow();
        metrics.iter().filter(|(name, _)| name.starts_with("handler_internal")).map(|(_, count)| count).sum()
    }
}

const BODY: &str = r#"{"duplicate":true}"#;

#[test]
fn a_body_in_parts_counts_once_at_its_end() {
    for parts in [
        &[BODY][..],
        &[BODY, ""],
        &["", BODY],
        &["{", "\"dupl", "icate\":t", "rue", "}"],
        &["{\"duplicate\":true", "}"],
    ] {
        let mut response = PassingResponse::begin(None);
        for (index, part) in parts.iter().enumerate() {
            assert_eq!(response.hits(), 0, "{parts:?}");
            response.part(part.as_bytes(), index + 1 == parts.len());
        }
        assert_eq!(response.hits(), 1, "{parts:?}");
        response.part(b"", true);
        response.trailers();
        assert_eq!(response.hits(), 1, "{parts:?}");
    }
    let mut response = PassingResponse::begin(None);
    response.part(BODY.as_bytes(), false);
    assert_eq!(response.hits(), 0);
    response.trailers();
    assert_eq!(response.hits(), 1);
}

/// What follows a body's first JSON value, or a part that the gateway does not give, leaves nothing to count.
#[test]
fn what_was_not_read_as_a_whole_is_not_counted() {
    let mut response = PassingResponse::begin(None);
    response.part(BODY.as_bytes(), false);
    response.part(b"{}", true);
    assert_eq!(response.hits(), 0);

    let mut response = PassingResponse::begin(None);
    response.gateway.withheld = 1;
    response.part(b"  ", false);
    response.gateway.withheld = 0;
    response.part(BODY.as_bytes(), true);
    assert_eq!(response.hits(), 0);

    // The response ends before its body does.
    let mut response = PassingResponse::begin(None);
    response.part(BODY.as_bytes(), false);
    let PassingResponse { gateway, mut stream, mut shared } = response;
    stream.on_end(&mut shared);
    shared.on_tick(&gateway);
    assert!(gateway.metrics.borrow().iter().all(|(name, _)| !name.starts_with("handler_internal")));
}

/// What all responses together keep is bounded, and given back however a response ends.
#[test]
fn the_bodies_that_are_kept_have_a_limit() {
    let half = vec![b' '; 512 * 1024 - BODY.len()];
    let keep = || {
        let mut response = PassingResponse::begin(None);
        response.part(&half, false);
        response.part(&half, false);
        response
    };
    let ends = |mut response: PassingResponse| {
        response.part(BODY.as_bytes(), true);
        response.hits()
    };
    let mut passing: Vec<PassingResponse> = (0..16).map(|_| keep()).collect();
    assert_eq!((ends(keep()), ends(keep())), (0, 0));
    // The client is gone.
    drop(passing.pop());
    passing.push(keep());
    assert_eq!(ends(keep()), 0);
    assert_eq!(ends(passing.pop().unwrap()), 1);
    passing.push(keep());
    assert_eq!(ends(keep()), 0);
    // The body is above the limit.
    passing.last_mut().unwrap().part(&half, false);
    assert_eq!(ends(keep()), 1);
    // A body whose length says that it is above the limit, and one without a length that is at once.
    drop(passing);
    let mut response = PassingResponse::begin(Some(b"1048577"));
    response.part(BODY.as_bytes(), true);
    assert_eq!(response.hits(), 0);
    let mut response = PassingResponse::begin(None);
    response.part(&[half.as_slice(), &half, BODY.as_bytes(), b" "].concat(), false);
    response.part(BODY.as_bytes(), true);
    assert_eq!(response.hits(), 0);
    let mut response = PassingResponse::begin(Some(b"1048576"));
    response.part(BODY.as_bytes(), true);
    assert_eq!(response.hits(), 1);
}
