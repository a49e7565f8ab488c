//! Bodies in parts: what the module reads, and what goes on.

use crate::common::{answer, assert_clean, by_alice, start, stores, with_api_key};
use dynamic_module_tests::envoy::{Config, Envoy};
use dynamic_module_tests::side::Direction::{Request, Response};
use dynamic_module_tests::stream::{Stream, StreamInfo, settle};
use std::sync::Arc;
use testkit::http::{Headers, Message};

const BODY: &[u8] = b"{\"amount\": 1, \"text\": \"a body that is not so short that it comes at once\"}";

/// A way in which a body comes.
type Arrival = fn(&Stream);

/// The ways in which [`BODY`] can come, each with its name.
const ARRIVALS: [(&str, Arrival); 7] = [
    ("at once", |stream| stream.body(Request, BODY, true)),
    ("with an end of its own", |stream| {
        stream.body(Request, BODY, false);
        stream.body(Request, b"", true);
    }),
    ("in parts of one byte", |stream| parts(stream, 1)),
    ("in parts of seven bytes", |stream| parts(stream, 7)),
    ("with trailers", |stream| {
        stream.body(Request, &BODY[..11], false);
        stream.body(Request, &BODY[11..], false);
        stream.trailers(Request, [("x-sum", "1")]);
    }),
    ("buffered by a filter in front", |stream| stream.buffered_body(Request, BODY, true)),
    ("buffered in part by a filter in front", |stream| {
        stream.buffered_body(Request, &BODY[..11], false);
        stream.body(Request, &BODY[11..30], false);
        stream.body(Request, &BODY[30..], true);
    }),
];

fn parts(stream: &Stream, size: usize) {
    let last = BODY.chunks(size).len() - 1;
    for (index, part) in BODY.chunks(size).enumerate() {
        stream.body(Request, part, index == last);
    }
}

fn claims(envoy: &Envoy, config: &Arc<Config>) -> Vec<Vec<u8>> {
    envoy.run_main();
    config.calls().into_iter().map(|call| call.body).collect()
}

#[test]
fn a_body_is_read_and_goes_on_however_it_comes() {
    for path in ["/strict", "/seen"] {
        let mut expected = None;
        for (name, arrive) in ARRIVALS {
            let (envoy, config) = start(1);
            let stream = Stream::new(&config, 0, StreamInfo::default());
            stream.headers(Request, by_alice(path, "k-1"), false);
            arrive(&stream);
            // The guard is told a fingerprint of the body.
            let asked = claims(&envoy, &config);
            assert_eq!(asked.len(), 1, "{path} {name}");
            assert_eq!(*expected.get_or_insert(asked.clone()), asked, "{path} {name}");
            settle(&envoy, &config, 0, &stores());
            let upstream = stream.upstream().unwrap();
            assert!(upstream.complete && upstream.body == BODY, "{path} {name}: {upstream:?}");
            stream.send(Response, &answer(), 1);
            assert_eq!(stream.client().unwrap().headers.status(), Some(200));
            assert_clean(&envoy);
        }
    }
}

#[test]
fn a_body_that_comes_while_the_owner_of_a_key_is_looked_up_goes_on() {
    for (name, arrive) in ARRIVALS {
        // All of it before the answer, or after it.
        for is_before in [true, false] {
            let (envoy, config) = start(1);
            let stream = Stream::new(&config, 0, StreamInfo::default());
            stream.headers(Request, with_api_key("/orders", "k-1", "sk_1"), false);
            if is_before {
                arrive(&stream);
            }
            assert!(stream.upstream().is_none(), "{name}");
            settle(&envoy, &config, 0, &stores());
            if !is_before {
                arrive(&stream);
            }
            let upstream = stream.upstream().unwrap();
            assert!(upstream.complete && upstream.body == BODY, "{name}, before: {is_before}: {upstream:?}");
            assert_clean(&envoy);
        }
    }
}

#[test]
fn a_body_of_which_a_part_comes_before_the_answer_goes_on() {
    for path in ["/orders", "/seen", "/strict"] {
        let (envoy, config) = start(1);
        let stream = Stream::new(&config, 0, StreamInfo::default());
        stream.headers(Request, with_api_key(path, "k-1", "sk_1"), false);
        stream.body(Request, &BODY[..11], false);
        settle(&envoy, &config, 0, &stores());
        stream.body(Request, &BODY[11..], true);
        settle(&envoy, &config, 0, &stores());
        let upstream = stream.upstream().unwrap();
        assert!(upstream.complete && upstream.body == BODY, "{path}: {upstream:?}");
        assert_clean(&envoy);
    }
}

#[test]
fn a_body_longer_than_envoy_buffers_is_refused_by_envoy() {
    let (envoy, config) = start(1);
    let stream = Stream::new(&config, 0, StreamInfo { buffer_limit: Some(20), ..StreamInfo::default() });
    stream.headers(Request, by_alice("/strict", "k-1"), false);
    parts(&stream, 7);
    assert_eq!(stream.client().unwrap().headers.status(), Some(413));
    assert!(stream.upstream().is_none() && stream.is_destroyed());
    assert_clean(&envoy);
}

#[test]
fn an_error_of_the_backend_is_read_however_it_comes() {
    let error = Message::new(
        [(":status", "500"), ("content-type", "application/json")],
        "{\"message\": \"an error of the handler's\", \"code\": 500, \"stacktrace\": \"at /srv/x.js:1\"}",
    );
    let mut expected: Option<Message> = None;
    for part in [1, 7, usize::MAX] {
        for trailers in [None, Some(Headers::from([("x-sum", "1")]))] {
            let (envoy, config) = start(1);
            let stream = Stream::new(&config, 0, StreamInfo::default());
            stream.headers(Request, by_alice("/orders", "k-1"), true);
            let message = Message { trailers: trailers.clone(), ..error.clone() };
            stream.send(Response, &message, part);
            let client = Message { trailers: None, ..stream.client().unwrap() };
            assert!(client.complete);
            assert_eq!(*expected.get_or_insert(client.clone()), client, "{part} {trailers:?}");
            assert_clean(&envoy);
        }
    }
    assert_ne!(expected.unwrap().body, error.body, "the filter shows a problem document");
}
