//! How long answers hold, and who waits for which call.

use super::{HOOK, OWNER, START, World, not_found, secret, verified, version};
use edge_idempotency_engine::lookup::{SenderNetwork, StoreHealth, StoreKind};
use edge_idempotency_engine::problem::Reason;
use serde_json::{Value, json};

const SEALED: &str = "unavailable:secret_store_sealed";

fn sealed() -> Value {
    json!({"errors": ["Vault is sealed"]})
}

#[test]
fn one_call_is_under_way_however_many_wait_and_whoever_leaves() {
    let mut world = World::new();
    let streams: Vec<u32> = (0..500).map(|_| world.ask(StoreKind::Bindings, HOOK).0).collect();
    let call = world.call();
    // The first is gone, and some others.
    for stream in streams.iter().filter(|stream| *stream % 3 == 1) {
        world.left(*stream, StoreKind::Bindings, HOOK);
    }
    world.pass(0.5);
    world.reply(&call, 200, &verified("acme"));
    let answered: Vec<u32> = world.answers().into_iter().map(|(stream, _)| stream).collect();
    assert_eq!(answered, streams.iter().copied().filter(|stream| stream % 3 != 1).collect::<Vec<_>>());
    // A reply counts once.
    world.reply(&call, 200, &not_found());
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    assert_eq!(world.calls().len(), 0);
}

#[test]
fn a_call_whose_askers_have_all_left_still_fills_the_cache() {
    let mut world = World::new();
    let (stream, _) = world.ask(StoreKind::Bindings, HOOK);
    let call = world.call();
    world.left(stream, StoreKind::Bindings, HOOK);
    world.reply(&call, 200, &verified("acme"));
    assert_eq!(world.answers(), []);
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
}

#[test]
fn one_who_leaves_with_the_answer_on_its_way_gets_none() {
    let mut world = World::new();
    let (stream, _) = world.ask(StoreKind::Bindings, HOOK);
    let call = world.call();
    world.reply(&call, 200, &verified("acme"));
    world.left(stream, StoreKind::Bindings, HOOK);
    assert_eq!(world.answers(), []);
}

#[test]
fn positive_answers_hold_and_expire() {
    let mut world = World::new();
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    world.pass(52.4);
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    assert_eq!(world.calls().len(), 0);
    // Shortly before it expires whoever asks has it fetched, and does not wait.
    world.pass(0.2);
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    let call = world.call();
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    assert_eq!(world.calls().len(), 0, "it is under way");
    world.reply(&call, 200, &secret("two"));
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("two"));
    // Unasked it expires.
    world.pass(60.0);
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1, None);
}

#[test]
fn negative_answers_hold_for_less() {
    let mut world = World::new();
    let unknown = "unknown:binding_not_found";
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 200, &not_found()), unknown);
    world.pass(9.9);
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(unknown));
    world.pass(0.1);
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
    world.pass(9.0);
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    // A negative answer is not used while the store is down.
    let mut world = World::new();
    world.fetch(StoreKind::Bindings, HOOK, 200, &not_found());
    world.pass(10.0);
    let error = json!({"error": {}});
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 500, &error), "unavailable:registry_error");
}

#[test]
fn a_tick_fetches_what_is_used_and_about_to_expire() {
    let mut world = World::new();
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    world.fetch(StoreKind::Secrets, "acme:shop:github", 200, &secret("idle"));
    world.pass(30.0);
    world.ask(StoreKind::Secrets, OWNER);
    assert_eq!(world.tick().len(), 0);
    world.pass(23.0);
    let calls = world.tick();
    assert_eq!(calls.len(), 1);
    assert_eq!(world.tick().len(), 0, "it is under way");
    world.reply(&calls[0], 200, &secret("two"));
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("two"));
    assert_eq!(world.answers(), []);
    // What is used by nobody goes, in the end.
    world.pass(400.0);
    assert_eq!(world.tick().len(), 0);
    assert_eq!(world.lookups.sizes(), [0, 0, 0]);
}

#[test]
fn while_the_store_is_down_answers_are_used_longer_and_it_is_asked_now_and_then() {
    let mut world = World::new();
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    world.pass(60.0);
    assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), "stale one");
    assert_eq!(
        world.ask(StoreKind::Secrets, OWNER).1.as_deref(),
        Some("stale one"),
        "nobody waits for a store that is down"
    );
    assert_eq!(world.calls().len(), 0);
    world.pass(5.0);
    let (stream, answer) = world.ask(StoreKind::Secrets, OWNER);
    assert_eq!(answer, None);
    let call = world.call();
    world.fail(&call);
    assert_eq!(world.answers(), [(stream, "stale one".to_owned())]);
    // Up to the bound, 360 seconds after it was fetched.
    world.pass(294.9);
    assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 504, &json!({})), "stale one");
    world.pass(0.1);
    assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED);
    assert_eq!(world.lookups.sizes(), [0, 0, 0]);
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
        let mut world = World::new();
        world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        world.pass(60.0);
        assert_eq!(world.fetch(StoreKind::Secrets, OWNER, status, &json!({})), reason);
        // Nor does it come back once it is down.
        assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED, "{status}");
    }
}

#[test]
fn a_refresh_that_fails_takes_nothing_away_before_its_time() {
    for status in [403, 429, 503] {
        let mut world = World::new();
        world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        world.pass(53.0);
        world.ask(StoreKind::Secrets, OWNER);
        let call = world.call();
        world.reply(&call, status, &json!({"errors": []}));
        assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"), "{status}");
        assert_eq!(world.calls().len(), 0, "{status}: not at once again");
        world.pass(5.0);
        world.ask(StoreKind::Secrets, OWNER);
        assert_eq!(world.calls().len(), 1, "{status}");
    }
}

#[test]
fn what_is_gone_goes_at_once() {
    for body in [json!({"errors": []}), json!({"data": {"data": null, "metadata": {"version": 2}}})] {
        let mut world = World::new();
        world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        world.pass(53.0);
        world.ask(StoreKind::Secrets, OWNER);
        let call = world.call();
        world.reply(&call, 404, &body);
        assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("unavailable:secret_missing"));
        world.pass(10.0);
        assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED, "nothing is left to be used longer");
    }
    let mut world = World::new();
    world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    world.pass(53.0);
    world.ask(StoreKind::Bindings, HOOK);
    let call = world.call();
    world.reply(&call, 200, &json!({"data": {"valid": false, "code": "DISABLED"}}));
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some("unknown:binding_not_valid"));
}

#[test]
fn a_secret_that_fails_is_fetched_anew_once_in_thirty_seconds() {
    let mut world = World::new();
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some("one"), "it has just been fetched");
    world.pass(2.0);
    let (first, answer) = world.ask_how(StoreKind::Secrets, OWNER, true);
    let (second, _) = world.ask_how(StoreKind::Secrets, OWNER, true);
    assert_eq!(answer, None);
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"), "others need not wait");
    let call = world.call();
    world.reply(&call, 200, &version("two", 1, "2026-01-01T00:00:00Z"));
    assert_eq!(world.answers(), [(first, "two".to_owned()), (second, "two".to_owned())]);
    for seconds in [0.0, 1.5, 28.0] {
        world.pass(seconds);
        assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some("two"));
        assert_eq!(world.calls().len(), 0);
    }
    world.pass(0.5);
    assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1, None);
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn whoever_needs_something_newer_is_told_that_it_cannot_be_had() {
    let mut world = World::new();
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    world.pass(2.0);
    let (stream, _) = world.ask_how(StoreKind::Secrets, OWNER, true);
    let call = world.call();
    world.reply(&call, 503, &sealed());
    assert_eq!(world.answers(), [(stream, SEALED.to_owned())]);
    assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some(SEALED));
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"));
    assert_eq!(world.calls().len(), 0);
}

#[test]
fn while_it_cannot_be_fetched_anew_no_secret_is_called_wrong() {
    for (status, reason) in
        [(503, SEALED), (403, "unavailable:secret_store_forbidden"), (429, "unavailable:secret_store_throttled")]
    {
        let mut world = World::new();
        world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
        world.pass(2.0);
        let (stream, _) = world.ask_how(StoreKind::Secrets, OWNER, true);
        let call = world.call();
        world.reply(&call, status, &sealed());
        assert_eq!(world.answers(), [(stream, reason.to_owned())]);
        for seconds in [0.0, 4.9, 0.2, 24.8] {
            world.pass(seconds);
            assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some(reason), "{status}");
            assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("one"), "{status}");
            assert_eq!(world.calls().len(), 0, "{status}");
        }
        world.pass(0.1);
        let (stream, _) = world.ask_how(StoreKind::Secrets, OWNER, true);
        let call = world.call();
        world.reply(&call, 200, &secret("two"));
        assert_eq!(world.answers(), [(stream, "two".to_owned())]);
        // It answers again: what fails now is wrong.
        assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some("two"));
    }
}

#[test]
fn without_the_version_before_it_no_secret_is_called_wrong() {
    let mut world = World::new();
    world.ask(StoreKind::Secrets, OWNER);
    let call = world.call();
    world.reply(&call, 200, &version("two", 2, "2026-01-01T00:00:00Z"));
    let call = world.call();
    world.reply(&call, 503, &sealed());
    assert_eq!(world.answers(), [(1, "two".to_owned())]);
    assert_eq!(world.ask(StoreKind::Secrets, OWNER).1.as_deref(), Some("two"));
    assert_eq!(world.ask_how(StoreKind::Secrets, OWNER, true).1.as_deref(), Some(SEALED));
    assert_eq!(world.calls().len(), 0);
}

#[test]
fn made_up_ids_keep_nothing_from_being_fetched_that_is_in_use() {
    let mut world = World::new();
    world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    world.fetch(StoreKind::Bindings, "wh_unknown", 200, &not_found());
    world.pass(60.0);
    // The registry hangs, and as many ask for nothing as may.
    for number in 0..1024 {
        world.ask(StoreKind::Bindings, &format!("wh_{number:08}"));
    }
    assert_eq!(world.calls().len(), 1024);
    assert_eq!(world.ask(StoreKind::Bindings, "wh_unknown").1.as_deref(), Some("unavailable:lookups_exhausted"));
    for _ in 0..2 {
        let (stream, answer) = world.ask(StoreKind::Bindings, HOOK);
        assert_eq!(answer, None);
        let call = world.call();
        world.reply(&call, 504, &json!({}));
        assert_eq!(world.answers(), [(stream, format!("stale {OWNER}"))]);
        world.pass(5.0);
    }
}

#[test]
fn made_up_ids_drop_nothing_that_is_in_use() {
    let mut world = World::with(&json!({"cache_ttl_s": 600, "negative_ttl_s": 300}), &json!({}));
    world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    let unknown = not_found().to_string();
    for number in 0..12_000_u32 {
        let id = format!("wh_{:08x}", number.wrapping_mul(2_654_435_761));
        // As fast as they may be asked for.
        world.pass(0.02);
        assert_eq!(world.ask(StoreKind::Bindings, &id).1, None);
        let call = world.call();
        world.reply_bytes(&call, Some(200), Some(unknown.as_bytes()));
        assert_eq!(world.answers().len(), 1);
        if number % 1000 == 0 {
            assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
        }
    }
    assert_eq!(world.lookups.sizes(), [1, 4096, 0]);
    // The latest of them are the ones that are known.
    let last = format!("wh_{:08x}", 11_999_u32.wrapping_mul(2_654_435_761));
    assert_eq!(world.ask(StoreKind::Bindings, &last).1.as_deref(), Some("unknown:binding_not_found"));
    world.pass(300.0);
    world.tick();
    assert_eq!(world.lookups.sizes(), [1, 0, 0]);
}

fn sender(address: &str) -> Option<SenderNetwork> {
    SenderNetwork::parse(address.as_bytes())
}

/// One sender asks for ids that are made up until it is refused. How many calls that took.
fn make_up(world: &mut World, address: &str, name: &str) -> usize {
    world.sender = sender(address);
    for number in 0..5000 {
        if let Some(answer) = world.ask(StoreKind::Bindings, &format!("wh_{name}_{number:08}")).1 {
            assert_eq!(answer, "unavailable:lookups_paced");
            return number;
        }
        let call = world.call();
        world.reply(&call, 200, &not_found());
        world.answers();
    }
    panic!("{name} is never paced");
}

#[test]
fn a_sender_that_makes_ids_up_takes_no_lookup_from_others() {
    let mut world = World::new();
    assert_eq!(make_up(&mut world, "203.0.113.7:1", "flood"), 1024);
    // Ids that exist and were never asked for, from somebody else: as many as there are.
    world.sender = sender("198.51.100.1:1");
    for number in 0..500 {
        assert_eq!(world.fetch(StoreKind::Bindings, &format!("wh_{number:08}"), 200, &verified("acme")), OWNER);
    }
    // Who makes ids up has a small part of the reserve, whatever the port, and gets it back slowly.
    assert_eq!(make_up(&mut world, "198.51.100.2:1", "second"), 32);
    assert_eq!(make_up(&mut world, "198.51.100.2:2", "third"), 0);
    world.pass(1.0);
    // The common part has let 50 more through by then, which belong to whoever comes first.
    assert_eq!(make_up(&mut world, "203.0.113.7:1", "flood-2"), 50);
    assert_eq!(make_up(&mut world, "198.51.100.2:1", "fourth"), 1);
    // Who is not known to the gateway has no part in the reserve.
    world.sender = None;
    assert_eq!(world.ask(StoreKind::Bindings, "wh_nobody").1.as_deref(), Some("unavailable:lookups_paced"));
}

#[test]
fn many_senders_that_make_ids_up_get_a_bounded_number_of_calls() {
    let mut world = World::new();
    assert_eq!(make_up(&mut world, "203.0.113.7:1", "flood"), 1024);
    let calls: usize = (0..400)
        .map(|number| make_up(&mut world, &format!("10.0.{}.{}:1", number / 200, number % 200), &format!("f{number}")))
        .sum();
    assert_eq!(calls, 1024);
}

#[test]
fn while_the_registry_hangs_a_sender_takes_no_lookup_from_others() {
    let mut world = World::new();
    world.sender = sender("203.0.113.7:1");
    for number in 0..1024 {
        assert_eq!(world.ask(StoreKind::Bindings, &format!("wh_{number:08}")).1, None);
    }
    assert_eq!(world.ask(StoreKind::Bindings, "wh_of_the_same").1.as_deref(), Some("unavailable:lookups_exhausted"));
    world.calls();
    world.sender = sender("198.51.100.1:1");
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
}

#[test]
fn an_id_that_existed_is_looked_up_whoever_makes_ids_up() {
    let mut world = World::new();
    world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    world.fetch(StoreKind::Bindings, "wh_deleted", 200, &verified("acme"));
    // Both are long expired, and one is known to be gone.
    world.pass(100_000.0);
    world.tick();
    assert_eq!(world.lookups.sizes(), [0, 0, 0]);
    world.fetch(StoreKind::Bindings, "wh_deleted", 200, &not_found());
    world.pass(20.0);
    assert!(make_up(&mut world, "203.0.113.7:1", "flood") >= 1023);
    assert_eq!(world.ask(StoreKind::Bindings, "wh_deleted").1.as_deref(), Some("unavailable:lookups_paced"));
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 503, &json!({})), "unavailable:registry_error");
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
}

/// Made-up ids cost the registry a bounded number of calls a second; what is held, and what exists, is not slowed down.
#[test]
fn made_up_ids_are_paced() {
    let mut world = World::new();
    world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    let mut number = 0;
    // So many in a row as may be: then the answer is 503 and no call is made.
    let mut burst = |world: &mut World| {
        let mut calls = 0;
        loop {
            number += 1;
            let (_, answer) = world.ask(StoreKind::Bindings, &format!("wh_{number:08}"));
            if let Some(answer) = answer {
                assert_eq!(answer, "unavailable:lookups_paced");
                assert_eq!(world.calls().len(), 0);
                return calls;
            }
            let call = world.call();
            world.reply(&call, 200, &not_found());
            world.answers();
            calls += 1;
        }
    };
    assert_eq!(burst(&mut world), 1024);
    assert_eq!(burst(&mut world), 0);
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    world.pass(0.5);
    assert_eq!(burst(&mut world), 25);
    world.pass(2.0);
    assert_eq!(burst(&mut world), 100);
    world.pass(3600.0);
    assert_eq!(burst(&mut world), 1024);
    // Ids that exist free their places at once.
    world.pass(1.0);
    for number in 0..2000 {
        world.fetch(StoreKind::Bindings, &format!("wh_real_{number:08}"), 200, &verified("acme"));
    }
}

#[test]
fn the_same_made_up_ids_again_and_again_do_not_grow_anything() {
    let mut world = World::new();
    for round in 0..200 {
        for number in 0..100 {
            world.fetch(StoreKind::Bindings, &format!("wh_{number:08}"), 200, &not_found());
        }
        assert_eq!(world.lookups.sizes(), [0, 100, 0], "{round}");
        world.pass(10.0);
    }
}

#[test]
fn no_more_calls_are_under_way_than_a_bound() {
    let mut world = World::new();
    world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme"));
    let streams: Vec<u32> =
        (0..1024).map(|number| world.ask(StoreKind::Bindings, &format!("wh_{number:08}")).0).collect();
    assert_eq!(world.ask(StoreKind::Bindings, "wh_one_too_many").1.as_deref(), Some("unavailable:lookups_exhausted"));
    assert_eq!(world.ask(StoreKind::Bindings, "wh_00000007").1, None, "joins the call that is under way");
    // What is held is served and kept fresh.
    world.pass(53.0);
    assert_eq!(world.ask(StoreKind::Bindings, HOOK).1.as_deref(), Some(OWNER));
    let calls = world.calls();
    assert_eq!(calls.len(), 1025);
    for call in &calls {
        world.reply(call, 200, &verified("acme"));
    }
    assert_eq!(world.answers().len(), streams.len() + 1);
    assert_eq!(world.ask(StoreKind::Bindings, "wh_one_too_many").1, None);
}

#[test]
fn positive_answers_are_bounded_too_and_the_idle_ones_go() {
    let mut world = World::with(&json!({"cache_ttl_s": 600}), &json!({}));
    for number in 0..10_050 {
        world.fetch(StoreKind::Bindings, &format!("wh_{number:08}"), 200, &verified("acme"));
        world.pass(0.001);
        if number % 50 == 0 {
            assert_eq!(world.ask(StoreKind::Bindings, "wh_00000000").1.as_deref(), Some(OWNER), "{number}");
        }
    }
    assert_eq!(world.lookups.sizes(), [10_000, 0, 0]);
    assert_eq!(world.ask(StoreKind::Bindings, "wh_00000001").1, None);
}

#[test]
fn a_call_of_which_nothing_is_heard_is_lost() {
    let mut world = World::new();
    let (stream, _) = world.ask(StoreKind::Secrets, OWNER);
    let call = world.call();
    world.pass(5.9);
    assert_eq!(world.tick().len(), 0);
    assert_eq!(world.answers(), []);
    world.pass(0.1);
    assert_eq!(world.tick().len(), 0);
    assert_eq!(world.answers(), [(stream, "unavailable:secret_store_unreachable".to_owned())]);
    // A reply after all changes nothing.
    world.reply(&call, 200, &secret("late"));
    assert_eq!((world.answers().len(), world.lookups.sizes()), (0, [0, 0, 0]));
    assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one")), "one");
}

#[test]
fn a_reply_that_comes_too_late_is_none() {
    let mut world = World::new();
    let (stream, _) = world.ask(StoreKind::Secrets, OWNER);
    let call = world.call();
    world.pass(6.0);
    world.reply(&call, 200, &secret("late"));
    assert_eq!(world.answers(), [(stream, "unavailable:secret_store_unreachable".to_owned())]);
}

#[test]
fn a_clock_that_goes_back_makes_nothing_last_longer() {
    let mut world = World::new();
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    world.fetch(StoreKind::Bindings, HOOK, 200, &not_found());
    world.now = START - 3_600_000;
    assert_eq!(world.fetch(StoreKind::Secrets, OWNER, 503, &sealed()), SEALED);
    assert_eq!(world.fetch(StoreKind::Bindings, HOOK, 200, &verified("acme")), OWNER);
    world.now = 0;
    world.tick();
    assert_eq!(world.lookups.sizes(), [0, 0, 0]);
}

#[test]
fn the_health_of_a_store_is_told_when_it_changes() {
    let mut world = World::new();
    assert_eq!(world.lookups.changed_health(), None);
    world.fetch(StoreKind::Secrets, OWNER, 503, &sealed());
    world.fetch(StoreKind::Bindings, HOOK, 200, &not_found());
    let sealed_now = StoreHealth { kind: StoreKind::Secrets, trouble: Some(Reason::SecretStoreSealed) };
    assert_eq!(world.lookups.changed_health(), Some(sealed_now));
    world.fetch(StoreKind::Secrets, OWNER, 503, &sealed());
    assert_eq!(world.lookups.changed_health(), None);
    world.fetch(StoreKind::Secrets, OWNER, 200, &secret("one"));
    assert_eq!(world.lookups.changed_health(), Some(StoreHealth { kind: StoreKind::Secrets, trouble: None }));
    assert_eq!(world.lookups.changed_health(), None);
}
