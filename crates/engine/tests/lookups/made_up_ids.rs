//! Identifiers that somebody makes up: they cost the registry a bounded number of calls, and take nothing from those that exist.

use super::{CacheSetup, HOOK, OWNER, not_found, verified};
use edge_idempotency_engine::lookup::{SenderNetwork, StoreKind};
use serde_json::json;

#[test]
fn made_up_ids_keep_nothing_from_being_fetched_that_is_in_use() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    setup.fetch(StoreKind::Bindings, "wh_unknown", 200, &not_found());
    setup.pass(60.0);
    // The registry hangs, and as many ask for nothing as may.
    for number in 0..1024 {
        setup.ask(StoreKind::Bindings, &format!("wh_{number:08}"));
    }
    assert_eq!(setup.calls().len(), 1024);
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_unknown").1.as_deref(), Some("unavailable:lookups_exhausted"));
    for _ in 0..2 {
        let (stream, answer) = setup.ask(StoreKind::Bindings, HOOK);
        assert_eq!(answer, None);
        let call = setup.call();
        setup.reply(&call, 504, &json!({}));
        assert_eq!(setup.answers(), [(stream, format!("stale {OWNER}"))]);
        setup.pass(5.0);
    }
}

#[test]
fn made_up_ids_drop_nothing_that_is_in_use() {
    let mut setup = CacheSetup::with(&json!({"cache_ttl_s": 600}), &json!({}));
    setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    let unknown = not_found().to_string();
    for number in 0..12_000_u32 {
        let id = format!("wh_{:08x}", number.wrapping_mul(2_654_435_761));
        // As fast as they may be asked for.
        setup.pass(0.02);
        assert_eq!(setup.ask(StoreKind::Bindings, &id).1, None);
        let call = setup.call();
        setup.reply_bytes(&call, Some(200), Some(unknown.as_bytes()));
        assert_eq!(setup.answers().len(), 1);
        if number % 1000 == 0 {
            assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
        }
    }
    assert_eq!(setup.lookups.sizes(), [1, 4096, 0]);
    // The latest of them are the ones that are known.
    let last = format!("wh_{:08x}", 11_999_u32.wrapping_mul(2_654_435_761));
    assert_eq!(setup.ask(StoreKind::Bindings, &last).1.as_deref(), Some("unknown:binding_not_found"));
    setup.pass(300.0);
    setup.tick();
    assert_eq!(setup.lookups.sizes(), [1, 0, 0]);
}

fn sender(address: &str) -> Option<SenderNetwork> {
    SenderNetwork::parse(address.as_bytes())
}

/// One sender asks for ids that are made up until it is refused. How many calls that took.
fn make_up(setup: &mut CacheSetup, address: &str, name: &str) -> usize {
    setup.sender = sender(address);
    for number in 0..5000 {
        if let Some(answer) = setup.ask(StoreKind::Bindings, &format!("wh_{name}_{number:08}")).1 {
            assert_eq!(answer, "unavailable:lookups_paced");
            return number;
        }
        let call = setup.call();
        setup.reply(&call, 200, &not_found());
        setup.answers();
    }
    panic!("{name} is never paced");
}

#[test]
fn a_sender_that_makes_ids_up_takes_no_lookup_from_others() {
    let mut setup = CacheSetup::new();
    assert_eq!(make_up(&mut setup, "203.0.113.7:1", "flood"), 1024);
    // Ids that exist and were never asked for, from somebody else: as many as there are.
    setup.sender = sender("198.51.100.1:1");
    for number in 0..500 {
        assert_eq!(setup.fetch(StoreKind::Bindings, &format!("wh_{number:08}"), 200, &verified("acme")), OWNER);
    }
    // Who makes ids up has a small part of the reserve, whatever the port, and gets it back slowly.
    assert_eq!(make_up(&mut setup, "198.51.100.2:1", "second"), 32);
    assert_eq!(make_up(&mut setup, "198.51.100.2:2", "third"), 0);
    setup.pass(1.0);
    // The common part has let 50 more through by then, which belong to whoever comes first.
    assert_eq!(make_up(&mut setup, "203.0.113.7:1", "flood-2"), 50);
    assert_eq!(make_up(&mut setup, "198.51.100.2:1", "fourth"), 1);
    // Who is not known to the gateway has no part in the reserve.
    setup.sender = None;
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_nobody").1.as_deref(), Some("unavailable:lookups_paced"));
}

#[test]
fn many_senders_that_make_ids_up_get_a_bounded_number_of_calls() {
    let mut setup = CacheSetup::new();
    assert_eq!(make_up(&mut setup, "203.0.113.7:1", "flood"), 1024);
    let calls: usize = (0..400)
        .map(|number| make_up(&mut setup, &format!("10.0.{}.{}:1", number / 200, number % 200), &format!("f{number}")))
        .sum();
    assert_eq!(calls, 1024);
}

#[test]
fn while_the_registry_hangs_a_sender_takes_no_lookup_from_others() {
    let mut setup = CacheSetup::new();
    setup.sender = sender("203.0.113.7:1");
    for number in 0..1024 {
        assert_eq!(setup.ask(StoreKind::Bindings, &format!("wh_{number:08}")).1, None);
    }
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_of_the_same").1.as_deref(), Some("unavailable:lookups_exhausted"));
    setup.calls();
    setup.sender = sender("198.51.100.1:1");
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
}

#[test]
fn an_id_that_existed_is_looked_up_whoever_makes_ids_up() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    setup.fetch(StoreKind::Bindings, "wh_deleted", 200, &verified("acme"));
    // Both are long expired, and one is known to be gone.
    setup.pass(100_000.0);
    setup.tick();
    assert_eq!(setup.lookups.sizes(), [0, 0, 0]);
    setup.fetch(StoreKind::Bindings, "wh_deleted", 200, &not_found());
    setup.pass(20.0);
    assert!(make_up(&mut setup, "203.0.113.7:1", "flood") >= 1023);
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_deleted").1.as_deref(), Some("unavailable:lookups_paced"));
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 503, &json!({})), "unavailable:registry_error");
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
}

/// Made-up ids cost the registry a bounded number of calls a second; what is held, and what exists, is not slowed down.
#[test]
fn made_up_ids_are_paced() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    let mut number = 0;
    // So many in a row as may be: then the answer is 503 and no call is made.
    let mut burst = |setup: &mut CacheSetup| {
        let mut calls = 0;
        loop {
            number += 1;
            let (_, answer) = setup.ask(StoreKind::Bindings, &format!("wh_{number:08}"));
            if let Some(answer) = answer {
                assert_eq!(answer, "unavailable:lookups_paced");
                assert_eq!(setup.calls().len(), 0);
                return calls;
            }
            let call = setup.call();
            setup.reply(&call, 200, &not_found());
            setup.answers();
            calls += 1;
        }
    };
    assert_eq!(burst(&mut setup), 1024);
    assert_eq!(burst(&mut setup), 0);
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    setup.pass(0.5);
    assert_eq!(burst(&mut setup), 25);
    setup.pass(2.0);
    assert_eq!(burst(&mut setup), 100);
    setup.pass(3600.0);
    assert_eq!(burst(&mut setup), 1024);
    // Ids that exist free their places at once.
    setup.pass(1.0);
    for number in 0..2000 {
        setup.fetch(StoreKind::Bindings, &format!("wh_real_{number:08}"), 200, &verified("acme"));
    }
}

#[test]
fn the_same_made_up_ids_again_and_again_do_not_grow_anything() {
    let mut setup = CacheSetup::new();
    for round in 0..200 {
        for number in 0..100 {
            setup.fetch(StoreKind::Bindings, &format!("wh_{number:08}"), 200, &not_found());
        }
        assert_eq!(setup.lookups.sizes(), [0, 100, 0], "{round}");
        setup.pass(10.0);
    }
}

#[test]
fn no_more_calls_are_under_way_than_a_bound() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    let streams: Vec<u32> =
        (0..1024).map(|number| setup.ask(StoreKind::Bindings, &format!("wh_{number:08}")).0).collect();
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_one_too_many").1.as_deref(), Some("unavailable:lookups_exhausted"));
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_00000007").1, None, "joins the call that is under way");
    // What is held is served and kept fresh.
    setup.pass(53.0);
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    let calls = setup.calls();
    assert_eq!(calls.len(), 1025);
    for call in &calls {
        setup.reply(call, 200, &verified("acme"));
    }
    assert_eq!(setup.answers().len(), streams.len() + 1);
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_one_too_many").1, None);
}
