//! A right history passes, and each way in which it can be wrong is found.

use super::*;

const ALICE: &str = "acme/shop/user:alice";
const BOB: &str = "globex/shop/user:bob";

fn answer(nonce: &str, caller: &str, invocation: &str) -> Answer {
    Answer {
        nonce: nonce.to_owned(),
        caller: caller.to_owned(),
        invocation: invocation.to_owned(),
        account: String::new(),
        event: String::new(),
    }
}

fn settled(nonce: &str, caller: &str, invocation: &str, event: &str) -> Got {
    Got::Answer { answer: Answer { event: event.to_owned(), ..answer(nonce, caller, invocation) }, replayed: true }
}

fn completion(nonce: &str, caller: &str, event: &str, first: bool) -> ClientObservation {
    saw(nonce, caller, RightAnswer::Completion(event.to_owned()), Got::Completed { first })
}

fn answered(nonce: &str, caller: &str, invocation: &str, replayed: bool) -> Got {
    Got::Answer { answer: answer(nonce, caller, invocation), replayed }
}

fn refused(status: u16, code: &str) -> Got {
    Got::Refused { status, code: code.to_owned() }
}

fn saw(nonce: &str, caller: &str, expected: RightAnswer, got: Got) -> ClientObservation {
    ClientObservation {
        nonce: nonce.to_owned(),
        caller: caller.to_owned(),
        account: String::new(),
        act: "test",
        expected,
        got,
        asked_at_ms: 1_000,
    }
}

fn rival(nonce: &str) -> RightAnswer {
    RightAnswer::AnswerOrMismatch(nonce.to_owned())
}

/// Everything that the soak does, as it should be.
fn right() -> (Vec<ClientObservation>, EffectLedger) {
    let seen = vec![
        saw("n1", ALICE, RightAnswer::Answer, answered("n1", ALICE, "inv_1", false)),
        saw("n1", ALICE, RightAnswer::Replay, answered("n1", ALICE, "inv_1", true)),
        saw("n1-other", ALICE, RightAnswer::Mismatch, refused(422, "idempotency_key_reused")),
        saw("n2", ALICE, rival("n2-rival"), answered("n2", ALICE, "inv_2", false)),
        saw("n2-rival", ALICE, rival("n2"), refused(422, "idempotency_key_reused")),
        saw("n3", ALICE, RightAnswer::Answer, answered("n3", ALICE, "inv_3", false)),
        saw("n3-twin", BOB, RightAnswer::Answer, answered("n3-twin", BOB, "inv_4", false)),
        saw("same", ALICE, RightAnswer::Answer, answered("same", ALICE, "inv_7", false)),
        saw("same", BOB, RightAnswer::Answer, answered("same", BOB, "inv_8", false)),
        saw("n4", ALICE, RightAnswer::AnswerOrUnknown, refused(404, "idempotency_key_unknown")),
        saw("n4", ALICE, RightAnswer::Answer, answered("n4", ALICE, "inv_5", false)),
        saw("n4", BOB, RightAnswer::Unknown, refused(404, "idempotency_key_unknown")),
        saw("n5", ALICE, RightAnswer::Acknowledgement, Got::Accepted),
        saw("n5", ALICE, RightAnswer::Answer, answered("n5", ALICE, "inv_6", true)),
        saw("n5", BOB, RightAnswer::Unknown, refused(404, "operation_unknown")),
        saw("n6", ALICE, RightAnswer::Acknowledgement, Got::Accepted),
        completion("n6", ALICE, "evt_a", true),
        completion("n6", ALICE, "evt_a", true),
        completion("n6", ALICE, "evt_b", false),
        saw("n6", ALICE, RightAnswer::Answer, settled("n6", ALICE, "inv_9", "evt_a")),
    ];
    let entries = [
        ("n1", ALICE, 1),
        ("n2", ALICE, 2),
        ("n3", ALICE, 3),
        ("n3-twin", BOB, 4),
        ("n4", ALICE, 5),
        ("n5", ALICE, 6),
        ("same", ALICE, 7),
        ("same", BOB, 8),
        ("n6", ALICE, 9),
    ];
    let entry = |(nonce, caller, number): (&str, &str, u32)| {
        (nonce.to_owned(), answer(nonce, caller, &format!("inv_{number}")))
    };
    let mut effects = BTreeMap::<String, Vec<Entry>>::new();
    for (nonce, entry) in entries.into_iter().map(entry) {
        effects.entry(nonce).or_default().push(entry);
    }
    let ledger = EffectLedger {
        effects,
        completed: (1..=9).map(|number| (format!("inv_{number}"), 2_000)).collect(),
        unfinished: Vec::new(),
    };
    (seen, ledger)
}

/// The rules that are broken after a change of the right history.
fn broken(change: impl FnOnce(&mut Vec<ClientObservation>, &mut EffectLedger)) -> Vec<Rule> {
    let (mut seen, mut ledger) = right();
    change(&mut seen, &mut ledger);
    let mut rules: Vec<_> = check(&seen, &ledger).into_iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

/// Another answer to the observation at a place.
fn instead(place: usize, got: Got) -> impl FnOnce(&mut Vec<ClientObservation>, &mut EffectLedger) {
    move |seen, _| seen[place].got = got
}

#[test]
fn what_is_right_passes() {
    assert_eq!(broken(|_, _| {}), []);
}

#[test]
fn a_wrong_ledger_is_found() {
    let lost = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| drop(ledger.effects.remove("n1"));
    assert_eq!(broken(lost), [Rule::Lost]);
    let lost_scheduled = |seen: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        seen.remove(13);
        ledger.effects.remove("n5");
    };
    assert_eq!(broken(lost_scheduled), [Rule::Lost]);
    let doubled = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        let entries = ledger.effects.get_mut("n1").unwrap();
        entries.push(entries[0].clone());
    };
    assert_eq!(broken(doubled), [Rule::Doubled]);
    let by_another = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        ledger.effects.get_mut("n1").unwrap().push(answer("n1", ALICE, "inv_9"));
    };
    assert_eq!(broken(by_another), [Rule::Doubled, Rule::ChangedAnswer]);
    let of_refused = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        ledger.effects.insert("n1-other".to_owned(), vec![answer("n1-other", ALICE, "inv_9")]);
    };
    assert_eq!(broken(of_refused), [Rule::EffectOfRefused]);
    let unasked = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        ledger.effects.insert("n99".to_owned(), vec![answer("n99", ALICE, "inv_9")]);
    };
    assert_eq!(broken(unasked), [Rule::UnaskedEffect]);
    let foreign = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        ledger.effects.get_mut("n1").unwrap()[0].caller = BOB.to_owned()
    };
    assert_eq!(broken(foreign), [Rule::Lost, Rule::ForeignEffect]);
    let elsewhere = |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        ledger.effects.get_mut("n1").unwrap()[0].account = "globex:shop:7".to_owned();
    };
    assert_eq!(broken(elsewhere), [Rule::ForeignEffect]);
    let unfinished =
        |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| ledger.unfinished.push("inv_7".to_owned());
    assert_eq!(broken(unfinished), [Rule::Unfinished]);
}

#[test]
fn another_ones_answer_is_found() {
    assert_eq!(broken(instead(5, answered("n3-twin", BOB, "inv_3", false))), [Rule::ForeignAnswer]);
    assert_eq!(broken(instead(1, answered("n1", BOB, "inv_1", true))), [Rule::ForeignAnswer]);
    assert_eq!(broken(instead(11, answered("n4", ALICE, "inv_5", true))), [Rule::Untrue]);
    assert_eq!(broken(instead(14, answered("n5", ALICE, "inv_6", true))), [Rule::Untrue]);
    assert_eq!(broken(instead(11, Got::Nothing)), [Rule::Unanswered]);
}

#[test]
fn the_same_order_of_another_caller_is_another_operation() {
    let shared = answered("same", ALICE, "inv_7", true);
    assert_eq!(broken(instead(8, shared.clone())), [Rule::ForeignAnswer, Rule::ChangedAnswer]);
    let one_effect = |seen: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        seen[8].got = shared;
        ledger.effects.get_mut("same").unwrap().pop();
    };
    assert_eq!(broken(one_effect), [Rule::ForeignAnswer, Rule::Lost]);
}

#[test]
fn a_changed_or_unmarked_replay_is_found() {
    assert_eq!(broken(instead(1, answered("n1", ALICE, "inv_9", true))), [Rule::ChangedAnswer]);
    assert_eq!(broken(instead(1, answered("n1", ALICE, "inv_1", false))), [Rule::Untrue]);
}

#[test]
fn collisions_are_judged() {
    assert_eq!(broken(instead(2, answered("n1", ALICE, "inv_1", true))), [Rule::MismatchPassed]);
    assert_eq!(broken(instead(1, refused(422, "idempotency_key_reused"))), [Rule::MatchRefused]);
    // Both bodies of a race were taken, or none was.
    let both = |seen: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        seen[4].got = answered("n2-rival", ALICE, "inv_9", false);
        ledger.effects.insert("n2-rival".to_owned(), vec![answer("n2-rival", ALICE, "inv_9")]);
    };
    assert_eq!(broken(both), [Rule::MismatchPassed]);
    let none = |seen: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| {
        seen[3].got = refused(422, "idempotency_key_reused");
        ledger.effects.remove("n2");
    };
    assert_eq!(broken(none), [Rule::MatchRefused]);
}

#[test]
fn a_lie_of_a_recovery_is_found() {
    let existed =
        |_: &mut Vec<ClientObservation>, ledger: &mut EffectLedger| *ledger.completed.get_mut("inv_5").unwrap() = 999;
    assert_eq!(broken(existed), [Rule::Untrue]);
    assert_eq!(broken(instead(13, refused(404, "operation_unknown"))), [Rule::Untrue]);
    assert_eq!(broken(instead(10, refused(404, "idempotency_key_unknown"))), [Rule::Untrue]);
}

#[test]
fn refusals_and_silence_are_found() {
    assert_eq!(broken(instead(0, refused(401, "identity_missing"))), [Rule::Refused]);
    assert_eq!(broken(instead(2, refused(500, ""))), [Rule::Refused]);
    assert_eq!(broken(instead(0, Got::Nothing)), [Rule::Unanswered]);
    assert_eq!(broken(instead(0, Got::Accepted)), [Rule::Unanswered]);
}

#[test]
fn several_outcomes_are_found() {
    let [again, other, result] = [17, 18, 19];
    assert_eq!(broken(instead(again, Got::Completed { first: false })), [Rule::SeveralOutcomes]);
    assert_eq!(broken(instead(other, Got::Completed { first: true })), [Rule::SeveralOutcomes]);
    assert_eq!(broken(instead(result, settled("n6", ALICE, "inv_9", "evt_b"))), [Rule::SeveralOutcomes]);
    assert_eq!(broken(instead(result, settled("n7", ALICE, "inv_9", "evt_a"))), [Rule::ForeignAnswer]);
    assert_eq!(broken(instead(other, refused(404, ""))), [Rule::Refused]);
}
