//! How long answers hold, and who waits for which call.

use super::{CacheSetup, HOOK, OWNER, START, not_found, secret, verified, version};
use edge_idempotency_engine::lookup::{SenderNetwork, StoreHealth, StoreKind};
use edge_idempotency_engine::problem::Reason;
use serde_json::{Value, json};

const SEALED: &str = "unavailable:secret_store_sealed";

fn sealed() -> Value {
    json!({"errors": ["Vault is sealed"]})
}

#[test]
fn one_call_is_under_way_however_many_wait_and_whoever_leaves() {
    let mut setup = CacheSetup::new();
    let streams: Vec<u32> = (0..500).map(|_| setup.ask(StoreKind::Bindings, HOOK).0).collect();
    let call = setup.call();
    // The first is gone, and some others.
    for stream in streams.iter().filter(|stream| *stream % 3 == 1) {
        setup.left(*stream, StoreKind::Bindings, HOOK);
    }
    setup.pass(0.5);
    setup.reply(&call, 200, &verified("acme"));
    let answered: Vec<u32> = setup.answers().into_iter().map(|(stream, _)| stream).collect();
    assert_eq!(answered, streams.iter().copied().filter(|stream| stream % 3 != 1).collect::<Vec<_>>());
    // A reply counts once.
    setup.reply(&call, 200, &not_found());
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    assert_eq!(setup.calls().len(), 0);
}

#[test]
fn a_call_whose_askers_have_all_left_still_fills_the_cache() {
    let mut setup = CacheSetup::new();
    let (stream, _) = setup.ask(StoreKind::Bindings, HOOK);
    let call = setup.call();
    setup.left(stream, StoreKind::Bindings, HOOK);
    setup.reply(&call, 200, &verified("acme"));
    assert_eq!(setup.answers(), []);
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
}

#[test]
fn one_who_leaves_with_the_answer_on_its_way_gets_none() {
    let mut setup = CacheSetup::new();
    let (stream, _) = setup.ask(StoreKind::Bindings, HOOK);
    let call = setup.call();
    setup.reply(&call, 200, &verified("acme"));
    setup.left(stream, StoreKind::Bindings, HOOK);
    assert_eq!(setup.answers(), []);
}

#[test]
fn positive_answers_hold_and_expire() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    setup.pass(52.4);
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    assert_eq!(setup.calls().len(), 0);
    // Shortly before it expires whoever asks has it fetched, and does not wait.
    setup.pass(0.2);
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    let call = setup.call();
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    assert_eq!(setup.calls().len(), 0, "it is under way");
    setup.reply(&call, 200, &secret("two"));
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("two"));
    // Unasked it expires.
    setup.pass(60.0);
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1, None);
}

#[test]
fn negative_answers_hold_for_less() {
    let mut setup = CacheSetup::new();
    let unknown = "unknown:binding_not_found";
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 200, &not_found()), unknown);
    setup.pass(9.9);
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(unknown));
    setup.pass(0.1);
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
    setup.pass(9.0);
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    // A negative answer is not used while the store is down.
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Bindings, HOOK, 200, &not_found());
    setup.pass(10.0);
    let error = json!({"error": {}});
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 500, &error), "unavailable:registry_error");
}

#[test]
fn a_tick_fetches_what_is_used_and_about_to_expire() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    setup.fetch(StoreKind::Secrets, "acme:shop:github", 200, &secret("idle"));
    setup.pass(30.0);
    setup.ask(StoreKind::Secrets, OWNER);
    assert_eq!(setup.tick().len(), 0);
    setup.pass(23.0);
    let calls = setup.tick();
    assert_eq!(calls.len(), 1);
    assert_eq!(setup.tick().len(), 0, "it is under way");
    setup.reply(&calls[0], 200, &secret("two"));
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("two"));
    assert_eq!(setup.answers(), []);
    // What is used by nobody goes, in the end.
    setup.pass(400.0);
    assert_eq!(setup.tick().len(), 0);
    assert_eq!(setup.lookups.sizes(), [0, 0, 0]);
}

#[test]
fn while_the_store_is_down_answers_are_used_longer_and_it_is_asked_now_and_then() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    setup.pass(60.0);
    assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), "stale one");
    assert_eq!(
        setup.ask(StoreKind::Secrets, OWNER).1.as_deref(),
        Some("stale one"),
        "nobody waits for a store that is down"
    );
    assert_eq!(setup.calls().len(), 0);
    setup.pass(5.0);
    let (stream, answer) = setup.ask(StoreKind::Secrets, OWNER);
    assert_eq!(answer, None);
    let call = setup.call();
    setup.fail(&call);
    assert_eq!(setup.answers(), [(stream, "stale one".to_owned())]);
    // Up to the bound, 360 seconds after it was fetched.
    setup.pass(294.9);
    assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 504, &json!({})), "stale one");
    setup.pass(0.1);
    assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED);
    assert_eq!(setup.lookups.sizes(), [0, 0, 0]);
}

#[test]
fn only_a_store_that_is_down_has_answers_used_longer() {
    for (status, reason) in [
        (403, "unavailable:secret_store_forbidden"),
        (429, "unavailable:secret_store_throttled"),
        (307, "unavailable:secret_store_moved"),
        (400, "unavailable:secret_store_refused"),
        (200, "unavailable:secret_store_reply_malformed"),
    ] {
        let mut setup = CacheSetup::new();
        setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        setup.pass(60.0);
        assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, status, &json!({})), reason);
        // Nor does it come back once it is down.
        assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED, "{status}");
    }
}

#[test]
fn a_refresh_that_fails_takes_nothing_away_before_its_time() {
    for status in [403, 429, 503] {
        let mut setup = CacheSetup::new();
        setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        setup.pass(53.0);
        setup.ask(StoreKind::Secrets, OWNER);
        let call = setup.call();
        setup.reply(&call, status, &json!({"errors": []}));
        assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"), "{status}");
        assert_eq!(setup.calls().len(), 0, "{status}: not at once again");
        setup.pass(5.0);
        setup.ask(StoreKind::Secrets, OWNER);
        assert_eq!(setup.calls().len(), 1, "{status}");
    }
}

#[test]
fn what_is_gone_goes_at_once() {
    for body in [json!({"errors": []}), json!({"data": {"data": null, "metadata": {"version": 2}}})] {
        let mut setup = CacheSetup::new();
        setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        setup.pass(53.0);
        setup.ask(StoreKind::Secrets, OWNER);
        let call = setup.call();
        setup.reply(&call, 404, &body);
        assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("unavailable:secret_missing"));
        setup.pass(10.0);
        assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED, "nothing is left to be used longer");
    }
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    setup.pass(53.0);
    setup.ask(StoreKind::Bindings, HOOK);
    let call = setup.call();
    setup.reply(&call, 200, &json!({"data": {"valid": false, "code": "DISABLED"}}));
    assert_eq!(setup.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some("unknown:binding_not_valid"));
}

#[test]
fn a_secret_that_fails_is_fetched_anew_once_in_thirty_seconds() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some("one"), "it has just been fetched");
    setup.pass(2.0);
    let (first, answer) = setup.ask_how(StoreKind::Secrets, OWNER, true);
    let (second, _) = setup.ask_how(StoreKind::Secrets, OWNER, true);
    assert_eq!(answer, None);
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"), "others need not wait");
    let call = setup.call();
    setup.reply(&call, 200, &version("two", 1, "2026-01-01T00:00:00Z"));
    assert_eq!(setup.answers(), [(first, "two".to_owned()), (second, "two".to_owned())]);
    for seconds in [0.0, 1.5, 28.0] {
        setup.pass(seconds);
        assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some("two"));
        assert_eq!(setup.calls().len(), 0);
    }
    setup.pass(0.5);
    assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1, None);
    assert_eq!(setup.calls().len(), 1);
}

#[test]
fn whoever_needs_something_newer_is_told_that_it_cannot_be_had() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    setup.pass(2.0);
    let (stream, _) = setup.ask_how(StoreKind::Secrets, OWNER, true);
    let call = setup.call();
    setup.reply(&call, 503, &sealed());
    assert_eq!(setup.answers(), [(stream, SEALED.to_owned())]);
    assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some(SEALED));
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    assert_eq!(setup.calls().len(), 0);
}

#[test]
fn while_it_cannot_be_fetched_anew_no_secret_is_called_wrong() {
    for (status, reason) in
        [(503, SEALED), (403, "unavailable:secret_store_forbidden"), (429, "unavailable:secret_store_throttled")]
    {
        let mut setup = CacheSetup::new();
        setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        setup.pass(2.0);
        let (stream, _) = setup.ask_how(StoreKind::Secrets, OWNER, true);
        let call = setup.call();
        setup.reply(&call, status, &sealed());
        assert_eq!(setup.answers(), [(stream, reason.to_owned())]);
        for seconds in [0.0, 4.9, 0.2, 24.8] {
            setup.pass(seconds);
            assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some(reason), "{status}");
            assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"), "{status}");
            assert_eq!(setup.calls().len(), 0, "{status}");
        }
        setup.pass(0.1);
        let (stream, _) = setup.ask_how(StoreKind::Secrets, OWNER, true);
        let call = setup.call();
        setup.reply(&call, 200, &secret("two"));
        assert_eq!(setup.answers(), [(stream, "two".to_owned())]);
        // It answers again: what fails now is wrong.
        assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some("two"));
    }
}

#[test]
fn without_the_version_before_it_no_secret_is_called_wrong() {
    let mut setup = CacheSetup::new();
    setup.ask(StoreKind::Secrets, OWNER);
    let call = setup.call();
    setup.reply(&call, 200, &version("two", 2, "2026-01-01T00:00:00Z"));
    let call = setup.call();
    setup.reply(&call, 503, &sealed());
    assert_eq!(setup.answers(), [(1, "two".to_owned())]);
    assert_eq!(setup.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("two"));
    assert_eq!(setup.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some(SEALED));
    assert_eq!(setup.calls().len(), 0);
}

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

#[test]
fn positive_answers_are_bounded_too_and_the_idle_ones_go() {
    let mut setup = CacheSetup::with(&json!({"cache_ttl_s": 600}), &json!({}));
    for number in 0..10_050 {
        setup.fetch(StoreKind::Bindings, &format!("wh_{number:08}"), 200, &verified("acme"));
        setup.pass(0.001);
        if number % 50 == 0 {
            assert_eq!(setup.ask(StoreKind::Bindings, "wh_00000000").1.as_deref(), Some(OWNER), "{number}");
        }
    }
    assert_eq!(setup.lookups.sizes(), [10_000, 0, 0]);
    assert_eq!(setup.ask(StoreKind::Bindings, "wh_00000001").1, None);
}

#[test]
fn a_call_of_which_nothing_is_heard_is_lost() {
    let mut setup = CacheSetup::new();
    let (stream, _) = setup.ask(StoreKind::Secrets, OWNER);
    let call = setup.call();
    setup.pass(5.9);
    assert_eq!(setup.tick().len(), 0);
    assert_eq!(setup.answers(), []);
    setup.pass(0.1);
    assert_eq!(setup.tick().len(), 0);
    assert_eq!(setup.answers(), [(stream, "unavailable:secret_store_unreachable".to_owned())]);
    // A reply after all changes nothing.
    setup.reply(&call, 200, &secret("late"));
    assert_eq!((setup.answers().len(), setup.lookups.sizes()), (0, [0, 0, 0]));
    assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one")), "one");
}

#[test]
fn a_reply_that_comes_too_late_is_none() {
    let mut setup = CacheSetup::new();
    let (stream, _) = setup.ask(StoreKind::Secrets, OWNER);
    let call = setup.call();
    setup.pass(6.0);
    setup.reply(&call, 200, &secret("late"));
    assert_eq!(setup.answers(), [(stream, "unavailable:secret_store_unreachable".to_owned())]);
}

#[test]
fn a_clock_that_goes_back_makes_nothing_last_longer() {
    let mut setup = CacheSetup::new();
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    setup.fetch(StoreKind::Bindings, HOOK, 200, &not_found());
    setup.now = START - 3_600_000;
    assert_eq!(setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED);
    assert_eq!(setup.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
    setup.now = 0;
    setup.tick();
    assert_eq!(setup.lookups.sizes(), [0, 0, 0]);
}

#[test]
fn the_health_of_a_store_is_told_when_it_changes() {
    let mut setup = CacheSetup::new();
    assert_eq!(setup.lookups.changed_health(), None);
    setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed());
    setup.fetch(StoreKind::Bindings, HOOK, 200, &not_found());
    let sealed_now = StoreHealth { kind: StoreKind::Secrets, trouble: Some(Reason::SecretStoreSealed) };
    assert_eq!(setup.lookups.changed_health(), Some(sealed_now));
    setup.fetch(StoreKind::Secrets, OWNER, 503, &sealed());
    assert_eq!(setup.lookups.changed_health(), None);
    setup.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    assert_eq!(setup.lookups.changed_health(), Some(StoreHealth { kind: StoreKind::Secrets, trouble: None }));
    assert_eq!(setup.lookups.changed_health(), None);
}
