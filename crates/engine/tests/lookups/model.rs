//! Whatever happens in whatever order: one call for each key, one answer for everybody who waits, nothing used beyond its
//! time, nothing that grows.

use super::api_keys::held;
use super::{CacheSetup, StoreCall, not_found, secret, verified, version};
use crate::extent::cases;
use edge_idempotency_engine::lookup::{CallId, StoreKind};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
enum LookupEvent {
    LookupRequest { kind: StoreKind, key: u8, force_refresh: bool },
    CallReply { which: usize, reply: usize },
    Leave { which: usize },
    Tick,
    Pass { milliseconds: u64 },
}

fn events() -> impl Strategy<Value = Vec<LookupEvent>> {
    let kind = prop_oneof![Just(StoreKind::Bindings), Just(StoreKind::Secrets), Just(StoreKind::ApiKeys)];
    let event = prop_oneof![
        4 => (kind, 0..6_u8, prop::bool::weighted(0.2)).prop_map(|(kind, key, force_refresh)| LookupEvent::LookupRequest { kind, key, force_refresh }),
        4 => (any::<usize>(), 0..9_usize).prop_map(|(which, reply)| LookupEvent::CallReply { which, reply }),
        1 => any::<usize>().prop_map(|which| LookupEvent::Leave { which }),
        1 => Just(LookupEvent::Tick),
        2 => prop_oneof![0..2000_u64, 0..70_000_u64, Just(400_000)].prop_map(|milliseconds| LookupEvent::Pass { milliseconds }),
    ];
    prop::collection::vec(event, 0..120)
}

fn key_of(kind: StoreKind, key: u8) -> String {
    match kind {
        StoreKind::Bindings => format!("wh_0000000{key}"),
        StoreKind::Secrets => format!("acme:shop:p{key}"),
        StoreKind::ApiKeys => format!("sk_{key}"),
    }
}

/// A reply, marked with when it was made where it is positive.
fn reply(kind: StoreKind, reply: usize, now: u64) -> (Option<u16>, Value) {
    let positive = match kind {
        StoreKind::Bindings => verified(&now.to_string()),
        StoreKind::ApiKeys => held(&now.to_string()),
        StoreKind::Secrets => secret(&now.to_string()),
    };
    match (reply, kind) {
        (0..=2, _) => (Some(200), positive),
        (3, StoreKind::Secrets) => (Some(200), version(&now.to_string(), 2, "2026-01-01T00:00:00Z")),
        (3 | 4, StoreKind::Bindings | StoreKind::ApiKeys) => (Some(200), not_found()),
        (4, StoreKind::Secrets) => (Some(404), json!({"errors": []})),
        (5, _) => (Some(503), json!({})),
        (6, _) => (Some(403), json!({})),
        (7, _) => (Some(200), json!("nonsense")),
        _ => (None, Value::Null),
    }
}

/// When the reply was made that a positive answer is from.
fn made(answer: &str) -> Option<u64> {
    answer.split([':', '+']).next()?.parse().ok()
}

fn model(events: Vec<LookupEvent>) -> Result<(), TestCaseError> {
    let mut setup = CacheSetup::new();
    let mut calls: Vec<(StoreKind, StoreCall)> = Vec::new();
    let mut waiting: BTreeMap<u32, (StoreKind, String)> = BTreeMap::new();
    let check = |kind: StoreKind, now: u64, answer: &str| {
        let age = made(answer).map_or(0, |made| now - made);
        // A revoked API key is used for no longer than the time of its cache.
        let most = if kind == StoreKind::ApiKeys { 30_000 } else { 360_000 };
        prop_assert!(age < most, "{answer} is {age} ms old");
        Ok(())
    };
    for event in events {
        match event {
            LookupEvent::LookupRequest { kind, key, force_refresh } => {
                let key = key_of(kind, key);
                match setup.ask_how(kind, &key, force_refresh) {
                    (_, Some(answer)) => check(kind, setup.now, &answer)?,
                    (stream, None) => drop(waiting.insert(stream, (kind, key))),
                }
            }
            LookupEvent::CallReply { which, reply: number } => {
                if !calls.is_empty() {
                    let (kind, call) = calls.swap_remove(which % calls.len());
                    let (status, body) = reply(kind, number, setup.now);
                    setup.reply_bytes(&call, status, Some(body.to_string().as_bytes()));
                }
            }
            LookupEvent::Leave { which } => {
                if let Some(stream) = waiting.keys().copied().nth(which % waiting.len().max(1)) {
                    let (kind, key) = waiting.remove(&stream).unwrap();
                    setup.left(stream, kind, &key);
                }
            }
            LookupEvent::Tick => setup.lookups.tick(setup.now),
            LookupEvent::Pass { milliseconds } => setup.now += milliseconds,
        }
        let new = setup.calls().into_iter().map(|call| {
            let kind = match call.1.cluster.as_str() {
                "unkey" => StoreKind::Bindings,
                "openbao" => StoreKind::Secrets,
                _ => StoreKind::ApiKeys,
            };
            (kind, call)
        });
        calls.extend(new);
        for (stream, answer) in setup.answers() {
            let waiter = waiting.remove(&stream);
            prop_assert!(waiter.is_some(), "{stream} was answered {answer} and waits for nothing");
            check(waiter.map_or(StoreKind::Bindings, |(kind, _)| kind), setup.now, &answer)?;
        }
        // Those that were given up may still be answered, and then change nothing.
        let under_way = setup.lookups.sizes()[2];
        let keys: BTreeSet<String> = waiting.values().map(|(kind, key)| format!("{kind:?} {key}")).collect();
        prop_assert!(keys.len() <= under_way && under_way <= 18, "{} {under_way}", keys.len());
        prop_assert!(calls.len() >= under_way);
    }
    // Once nothing is heard any more everybody has been answered.
    setup.now += 10_000;
    setup.lookups.tick(setup.now);
    for (stream, _) in setup.answers() {
        prop_assert!(waiting.remove(&stream).is_some());
    }
    prop_assert!(waiting.is_empty(), "{waiting:?} wait for ever");
    Ok(())
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn whatever_happens(events in events()) {
        model(events)?;
    }

    #[test]
    fn any_reply_gives_an_answer(
        kind in prop_oneof![Just(StoreKind::Bindings), Just(StoreKind::Secrets), Just(StoreKind::ApiKeys)],
        status in prop::option::of(prop_oneof![Just(200), Just(404), Just(503), 0..1000_u16]),
        body in prop::option::of(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[{}\\[\\]\":,a-z0-9\\\\]{0,80}".prop_map(String::into_bytes),
            r#"\{"data":\{"(data|valid|code)":(null|true|"[a-z\\u]{0,4}"|\{"secrets?":(\[|"|1)[a"\],]{0,6}\}?)\}?\}?"#
                .prop_map(String::into_bytes),
        ]),
    ) {
        let mut setup = CacheSetup::new();
        let key = key_of(kind, 1);
        setup.ask(kind, &key);
        // A new version has a second call.
        for _ in 0..2 {
            for call in setup.calls() {
                setup.reply_bytes(&call, status, body.as_deref());
            }
        }
        prop_assert_eq!(setup.answers().len(), 1);
        prop_assert_eq!(setup.lookups.sizes()[2], 0);
    }
}

/// Tickets of different calls are different: a late reply is not taken for another's.
#[test]
fn call_ids_are_unique() {
    let mut setup = CacheSetup::new();
    let mut seen: Vec<CallId> = Vec::new();
    for number in 0..50_u8 {
        setup.ask(StoreKind::Secrets, &format!("acme:shop:p{}", number % 5));
        for call in setup.calls() {
            assert!(!seen.contains(&call.0));
            setup.fail(&call);
            seen.push(call.0);
        }
        setup.answers();
    }
    assert_eq!(seen.len(), 50);
}
