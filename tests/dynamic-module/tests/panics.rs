//! A panic in each hook (feature `planted-panics`): the request is answered 503 where it still can be, the next one is right, and the
//! panic is counted and logged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{answer, assert_clean, by_alice, policy, start, stores, with_api_key};
use dynamic_module_tests::envoy::{Config, Envoy};
use dynamic_module_tests::side::Direction::{Request, Response};
use dynamic_module_tests::stream::{Stream, StreamInfo, settle};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use testkit::http::{Headers, Message};

/// One panic at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Sends a request that makes the next call of a hook panic, which may be one for itself, to the end of its answer.
fn send(envoy: &Envoy, config: &Arc<Config>, headers: Headers, planted: Option<&str>) -> Stream {
    let stream = Stream::new(config, 0, StreamInfo::default());
    let mut headers = headers;
    if let Some(hook) = planted {
        headers.add("x-test-panic", hook);
    }
    let request = Message::new(headers, "{\"amount\": 1}").with_trailers([("x-sum", "1")]);
    stream.send(Request, &request, 5);
    settle(envoy, config, 0, &stores());
    if stream.awaits_upstream() {
        stream.send(Response, &answer().with_trailers([("x-sum", "2")]), 1);
    }
    stream
}

/// The client's status and code; `None` where its answer breaks off.
fn told(stream: &Stream) -> Option<(u16, String)> {
    let client = stream.client().filter(|client| client.complete)?;
    let problem: serde_json::Value = serde_json::from_slice(&client.body).unwrap_or_default();
    Some((client.headers.status()?, problem["code"].as_str().unwrap_or_default().to_owned()))
}

fn assert_next_is_right(envoy: &Envoy, config: &Arc<Config>) {
    for headers in [by_alice("/strict", "k-next"), with_api_key("/orders", "k-next", "sk_9")] {
        let stream = send(envoy, config, headers, None);
        assert_eq!(told(&stream), Some((200, String::new())));
        assert!(stream.upstream().unwrap().complete);
    }
}

/// The panic stands in the log, and is counted so often.
fn assert_told(envoy: &Envoy, config: &Arc<Config>, hook: &str, times: u64) {
    config.tick();
    let log = envoy.take_log();
    assert!(log.iter().any(|line| line.contains(&format!("planted in {hook}"))), "{hook}: {log:#?}");
    assert_eq!(envoy.count(&["idempotency_problem_total", "code=internal_error"]), times, "{hook}");
}

#[test]
fn a_request_in_which_a_hook_panics_is_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // What the client gets, and whether the upstream gets anything.
    let internal = Some((503, "internal_error".to_owned()));
    for (hook, headers, client, goes_on) in [
        ("request_headers", by_alice("/strict", "k-1"), internal.clone(), false),
        ("request_body", by_alice("/strict", "k-1"), internal.clone(), false),
        ("request_trailers", by_alice("/strict", "k-1"), internal.clone(), false),
        ("scheduled", by_alice("/strict", "k-1"), internal.clone(), false),
        ("scheduled", with_api_key("/orders", "k-1", "sk_1"), internal.clone(), false),
        ("response_headers", by_alice("/strict", "k-1"), internal, true),
        // The answer has begun.
        ("response_trailers", by_alice("/strict", "k-1"), None, true),
        ("destroy", by_alice("/strict", "k-1"), Some((200, String::new())), true),
    ] {
        let (envoy, config) = start(1);
        let stream = send(&envoy, &config, headers, Some(hook));
        assert_eq!(told(&stream), client, "{hook}");
        assert_eq!(stream.upstream().is_some(), goes_on, "{hook}");
        assert!(stream.is_destroyed());
        drop(stream);
        assert_told(&envoy, &config, hook, 1);
        assert_next_is_right(&envoy, &config);
        assert_clean(&envoy);
    }
}

#[test]
fn an_answer_in_whose_body_a_hook_panics_is_no_whole_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (envoy, config) = start(1);
    let error =
        Message::new([(":status", "500"), ("content-type", "application/json")], "{\"message\": \"x\", \"code\": 500}");
    let stream = Stream::new(&config, 0, StreamInfo::default());
    let mut headers = by_alice("/orders", "k-1");
    headers.add("x-test-panic", "response_body");
    stream.headers(Request, headers, true);
    stream.send(Response, &error, 7);
    // The answer waits for its body, so there can be another one.
    assert_eq!(told(&stream), Some((503, "internal_error".to_owned())));
    assert_told(&envoy, &config, "response_body", 1);
    assert_next_is_right(&envoy, &config);
    assert_clean(&envoy);
}

#[test]
fn a_request_whose_stream_cannot_be_made_is_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (envoy, config) = start(1);
    assert_eq!(told(&send(&envoy, &config, by_alice("/orders", "k-1"), Some("new"))), Some((200, String::new())));
    let stream = send(&envoy, &config, by_alice("/orders", "k-2"), None);
    assert_eq!((told(&stream), stream.upstream()), (Some((503, String::new())), None));
    assert_eq!(stream.reply_details().as_deref(), Some("internal_error"));
    assert_told(&envoy, &config, "new", 1);
    assert_next_is_right(&envoy, &config);
    assert_clean(&envoy);
}

#[test]
fn a_call_that_the_main_thread_does_not_make_is_made_at_the_next_tick() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (envoy, config) = start(1);
    let stream = send(&envoy, &config, with_api_key("/orders", "k-1", "sk_1"), Some("config_scheduled"));
    assert!(config.calls().is_empty() && stream.client().is_none() && stream.upstream().is_none());
    assert_told(&envoy, &config, "config_scheduled", 1);
    settle(&envoy, &config, 0, &stores());
    assert!(stream.awaits_upstream());
    assert_next_is_right(&envoy, &config);
    assert_clean(&envoy);
}

#[test]
fn a_reply_that_the_main_thread_does_not_take_is_a_failed_call() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (envoy, config) = start(1);
    let stream = send(&envoy, &config, with_api_key("/orders", "k-1", "sk_1"), Some("config_http_stream_complete"));
    assert_eq!(told(&stream), Some((503, "dependency_unavailable".to_owned())));
    assert!(stream.upstream().is_none());
    assert_told(&envoy, &config, "config_http_stream_complete", 1);
    assert_next_is_right(&envoy, &config);
    assert_clean(&envoy);
}

#[test]
fn a_configuration_that_cannot_be_made_is_refused_and_one_that_cannot_be_ended_is_gone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (envoy, config) = start(1);
    send(&envoy, &config, by_alice("/orders", "k-1"), Some("config_new"));
    assert!(envoy.configure(&policy(), &BTreeMap::new()).is_none());
    let log = envoy.take_log();
    assert!(log.iter().any(|line| line.contains("planted in config_new")), "{log:#?}");
    let next = envoy.configure(&policy(), &BTreeMap::new()).unwrap();
    assert_next_is_right(&envoy, &next);
    send(&envoy, &config, by_alice("/orders", "k-1"), Some("config_destroy"));
    drop(config);
    let log = envoy.take_log();
    assert!(log.iter().any(|line| line.contains("planted in config_destroy")), "{log:#?}");
    assert_next_is_right(&envoy, &next);
    assert_clean(&envoy);
}
