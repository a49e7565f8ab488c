//! Orders of threads, chosen by hand; and many streams on real threads.

use crate::common::{answer, assert_clean, by_alice, policy, set_clock, start, stores, with_api_key};
use dynamic_module_tests::side::Direction::{Request, Response};
use dynamic_module_tests::stream::{Stream, StreamInfo};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use testkit::http::Message;

/// The main thread makes the calls and hands over the replies.
fn answer_all(envoy: &dynamic_module_tests::envoy::Envoy, config: &dynamic_module_tests::envoy::Config) -> usize {
    envoy.run_main();
    let (calls, answer) = (config.calls(), stores());
    calls.iter().for_each(|call| config.answer(call.id, answer(call).as_ref()));
    calls.len()
}

#[test]
fn two_workers_share_a_lookup() {
    let (envoy, config) = start(2);
    let streams = [0, 1].map(|worker| Stream::new(&config, worker, StreamInfo::default()));
    for stream in &streams {
        stream.headers(Request, with_api_key("/orders", "k-1", "sk_1"), true);
        assert!(stream.upstream().is_none());
    }
    assert_eq!(answer_all(&envoy, &config), 1, "both ask at once, and the registry is asked once");
    // Each goes on when its own worker comes to it.
    assert_eq!(envoy.run_worker(1), 1);
    assert_eq!(streams.each_ref().map(Stream::awaits_upstream), [false, true]);
    assert_eq!(envoy.run_worker(0), 1);
    assert_eq!(streams.each_ref().map(Stream::awaits_upstream), [true, true]);
    // A third one finds the answer in the cache that all have.
    let third = Stream::new(&config, 0, StreamInfo::default());
    third.headers(Request, with_api_key("/orders", "k-2", "sk_1"), true);
    assert!(third.awaits_upstream() && answer_all(&envoy, &config) == 0);
    assert_clean(&envoy);
}

#[test]
fn the_time_of_a_call_is_in_the_series_of_its_store() {
    let (envoy, config) = start(2);
    // The worker's second series, the main thread's first.
    let refused = Stream::new(&config, 1, StreamInfo::default());
    refused.headers(Request, by_alice("/nowhere", "k-1"), true);
    let stream = Stream::new(&config, 1, StreamInfo::default());
    stream.headers(Request, with_api_key("/orders", "k-1", "sk_1"), true);
    answer_all(&envoy, &config);
    config.tick();
    let histograms = envoy.histograms();
    let time = "idempotency_lookup_milliseconds;store=unkey_api_keys;tenant=_none;project=_none;endpoint=orders";
    assert_eq!(histograms.keys().collect::<Vec<_>>(), [time]);
    assert_clean(&envoy);
}

#[test]
fn a_client_that_goes_during_its_lookup_is_forgotten() {
    let (envoy, config) = start(1);
    let [gone, stays] = [(); 2].map(|()| Stream::new(&config, 0, StreamInfo::default()));
    for stream in [&gone, &stays] {
        stream.headers(Request, with_api_key("/orders", "k-1", "sk_1"), true);
    }
    gone.close();
    assert_eq!(answer_all(&envoy, &config), 1);
    assert_eq!(envoy.run_worker(0), 1);
    assert!(gone.upstream().is_none() && stays.awaits_upstream());
    // Another one goes between the reply and its worker's turn.
    let late = Stream::new(&config, 0, StreamInfo::default());
    late.headers(Request, with_api_key("/orders", "k-1", "sk_2"), true);
    assert_eq!(answer_all(&envoy, &config), 1);
    late.close();
    assert_eq!(envoy.run_worker(0), 0);
    assert_clean(&envoy);
}

#[test]
fn a_reply_that_comes_before_the_worker_can_be_woken_wakes_it() {
    let (envoy, config) = start(1);
    let (of_main, config_of_main) = (envoy.clone(), Arc::downgrade(&config));
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    envoy.before_scheduler(move || {
        let main = thread::spawn(move || {
            set_clock();
            count.store(answer_all(&of_main, &config_of_main.upgrade().unwrap()), Ordering::SeqCst);
        });
        main.join().unwrap();
    });
    let stream = Stream::new(&config, 0, StreamInfo::default());
    stream.headers(Request, with_api_key("/orders", "k-1", "sk_1"), true);
    assert_eq!(answered.load(Ordering::SeqCst), 1, "the reply has come in the middle of the hook");
    assert_eq!(envoy.run_worker(0), 1);
    assert!(stream.awaits_upstream());
    assert_clean(&envoy);
}

#[test]
fn a_configuration_lives_as_long_as_its_streams() {
    let (envoy, config) = start(1);
    let [waits, goes] = [(); 2].map(|()| Stream::new(&config, 0, StreamInfo::default()));
    waits.headers(Request, with_api_key("/orders", "k-1", "sk_1"), true);
    goes.headers(Request, by_alice("/orders", "k-1"), true);
    envoy.run_main();
    let call = config.calls().remove(0);
    drop(config);
    goes.send(Response, &answer(), 1);
    assert_eq!(goes.client().unwrap().headers.status(), Some(200));
    drop(goes);
    // Nobody answers any more; the client waits until it goes.
    assert_eq!((call.cluster.as_str(), envoy.run_main(), envoy.run_worker(0)), ("unkey", 0, 0));
    assert_eq!(envoy.count(&["idempotency_key_present_total"]), 0, "counts wait for a tick");
    drop(waits);
    assert_eq!(envoy.count(&["idempotency_key_present_total", "tenant=acme"]), 1, "or for the end");
    assert_clean(&envoy);
}

#[test]
fn a_configuration_that_workers_remove_during_lookups_ends_them_on_the_main_thread() {
    const WORKERS: usize = 2;
    let (rounds, lookups) = if cfg!(miri) { (1, 2) } else { (500, 8) };
    let (envoy, mut config) = start(WORKERS);
    for round in 0..rounds {
        let under_way = Arc::new(Barrier::new(WORKERS + 1));
        let workers = [0, 1].map(|worker| {
            let (config, under_way) = (config.clone(), under_way.clone());
            thread::spawn(move || {
                set_clock();
                let streams: Vec<Stream> = (0..lookups)
                    .map(|number| {
                        let stream = Stream::new(&config, worker, StreamInfo::default());
                        let api_key = format!("sk_{round}_{worker}_{number}");
                        stream.headers(Request, with_api_key("/orders", "k-1", &api_key), true);
                        stream
                    })
                    .collect();
                drop(config);
                under_way.wait();
                // Their clients hang up.
                drop(streams);
            })
        });
        under_way.wait();
        envoy.run_main();
        assert_eq!(config.calls().len(), WORKERS * lookups);
        // The policy is replaced, and in every second round some replies come at the same time.
        let calls = if round % 2 == 0 { Vec::new() } else { config.calls() };
        let replaced = std::mem::replace(&mut config, envoy.configure(&policy(), &BTreeMap::new()).unwrap());
        calls.iter().take(3).for_each(|call| replaced.answer(call.id, stores()(call).as_ref()));
        drop(replaced);
        while !workers.iter().all(thread::JoinHandle::is_finished) {
            envoy.wait_main();
            envoy.run_main();
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_clean(&envoy);
    }
    assert_eq!(envoy.count(&["idempotency_problem_total"]), 0);
}

#[test]
fn a_request_that_is_answered_while_it_goes_on_ends() {
    let (envoy, config) = start(1);
    let unhealthy = Message::new([(":status", "503"), ("content-type", "text/plain")], "no healthy upstream");
    let info = || StreamInfo { answered_at_once: Some(unhealthy.clone()), ..StreamInfo::default() };
    // In the hook for events of other threads, and in that for the end of a body.
    let waits = Stream::new(&config, 0, info());
    waits.headers(Request, with_api_key("/orders", "k-1", "sk_1"), true);
    answer_all(&envoy, &config);
    envoy.run_worker(0);
    let reads = Stream::new(&config, 0, info());
    reads.headers(Request, by_alice("/strict", "k-1"), false);
    reads.body(Request, b"{}", true);
    answer_all(&envoy, &config);
    envoy.run_worker(0);
    for stream in [waits, reads] {
        assert!(stream.is_destroyed() && stream.client().unwrap().complete);
        assert_eq!(stream.client().unwrap().headers.status(), Some(503));
    }
    assert_clean(&envoy);
}

#[test]
fn many_streams_on_four_workers_are_all_answered_and_counted() {
    const WORKERS: usize = 4;
    let rounds = if cfg!(miri) { 1 } else { 400 };
    let (envoy, config) = start(WORKERS);
    let running = Arc::new(AtomicUsize::new(WORKERS));
    let workers = [0, 1, 2, 3].map(|worker| {
        let (envoy, config, running) = (envoy.clone(), config.clone(), running.clone());
        thread::spawn(move || {
            set_clock();
            for round in 0..rounds {
                let key = format!("k-{worker}-{round}");
                let api_key = format!("sk_{}", round % 10);
                let requests = [
                    by_alice("/orders", &key),
                    with_api_key("/orders", &key, &api_key),
                    with_api_key("/strict", &key, &api_key),
                    // Nobody's, and one whose client goes.
                    with_api_key("/orders", &key, "sk_unknown"),
                    with_api_key("/strict", &key, &api_key),
                ];
                let streams = requests.map(|headers| {
                    let stream = Stream::new(&config, worker, StreamInfo::default());
                    stream.headers(Request, headers, false);
                    stream
                });
                streams.iter().for_each(|stream| stream.body(Request, b"{\"a\":", false));
                streams[4].close();
                streams.iter().for_each(|stream| stream.body(Request, b"1}", true));
                while !streams
                    .iter()
                    .all(|stream| stream.awaits_upstream() || stream.client().is_some() || stream.is_destroyed())
                {
                    envoy.wait_worker(worker);
                    envoy.run_worker(worker);
                }
                for stream in &streams[..3] {
                    let upstream = stream.upstream().unwrap();
                    assert_eq!((upstream.body.as_slice(), upstream.complete), (&b"{\"a\":1}"[..], true));
                    stream.send(Response, &answer(), 1);
                    assert_eq!(stream.client().unwrap().headers.status(), Some(200));
                }
                assert_eq!(streams[3].client().unwrap().headers.status(), Some(401));
            }
            running.fetch_sub(1, Ordering::SeqCst);
        })
    });
    while running.load(Ordering::SeqCst) > 0 {
        envoy.wait_main();
        answer_all(&envoy, &config);
        config.tick();
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    config.tick();
    let all = (WORKERS * rounds) as u64;
    let present = ["idempotency_key_present_total", "tenant=acme", "project=shop"];
    assert_eq!(envoy.count(&[&present[..], &["endpoint=orders"]].concat()), 2 * all);
    assert_eq!(envoy.count(&[&present[..], &["endpoint=strict"]].concat()), all);
    assert_eq!(envoy.count(&["idempotency_problem_total", "code=api_key_invalid"]), all);
    assert_eq!(envoy.count(&["idempotency_problem_total"]), all);
    assert_eq!(envoy.count(&["idempotency_answer_total"]), 3 * all);
    assert_clean(&envoy);
}
