//! How long answers hold, and who waits for which call.

use super::{CacheSetup, HOOK, OWNER, START, not_found, secret, verified, version};
use edge_idempotency_engine::lookup::{StoreHealth, StoreKind};
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
