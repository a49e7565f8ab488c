//! What clients saw against what happened. The check knows nothing of processes: it gets observations and a ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::service::{Answer, Entry};

/// What a client asked for, and what came of it.
#[derive(Clone, Debug)]
pub struct ClientObservation {
    /// Names the effect that was asked for.
    pub nonce: String,
    /// Who asked, as handlers see the caller.
    pub caller: String,
    /// The account that the effect is on: `{tenant}:{project}:{account}`, or an empty text.
    pub account: String,
    /// What the client did, for people.
    pub act: &'static str,
    /// What is right.
    pub expected: RightAnswer,
    /// What came back.
    pub got: Got,
    /// When the attempt that was answered began, in milliseconds since 1970.
    pub asked_at_ms: u64,
}

/// What is right.
#[derive(Clone, Debug, PartialEq)]
pub enum RightAnswer {
    /// The answer to this very order.
    Answer,
    /// The same, as a replay.
    Replay,
    /// An acknowledgement without an answer (`one_way`): the effect comes, exactly once.
    Acknowledgement,
    /// A refusal, because the key belongs to another body.
    Mismatch,
    /// The answer, or a refusal if the order with the other nonce, which has the same key, has the answer.
    AnswerOrMismatch(String),
    /// "There is no such thing": it is another caller's, or nothing was ever sent.
    Unknown,
    /// The answer, or "there is no such thing" if it had none yet.
    AnswerOrUnknown,
    /// What this event does to the promise of its order: it is the first, or it is not.
    Completion(String),
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Got {
    /// A handler's answer.
    Answer {
        /// What the handler said.
        answer: Answer,
        /// Whether it was marked as a replay.
        replayed: bool,
    },
    /// The answer to a webhook for which a handler waits, or will.
    Completed {
        /// Whether it was the first.
        first: bool,
    },
    /// 202: accepted, without an answer.
    Accepted,
    /// A problem document, or another answer that is none of the handler's.
    Refused {
        /// Its status.
        status: u16,
        /// Its `code`, or an empty text.
        code: String,
    },
    /// No answer, however often the client asked.
    Nothing,
}

impl Got {
    fn is_mismatch(&self) -> bool {
        matches!(self, Self::Refused { status: 422, code } if code == "idempotency_key_reused")
    }

    fn is_unknown(&self) -> bool {
        let codes = ["idempotency_key_unknown", "operation_unknown"];
        matches!(self, Self::Refused { status: 404, code } if codes.contains(&code.as_str()))
    }
}

/// What happened, as the backend's own state says.
#[derive(Clone, Debug, Default)]
pub struct EffectLedger {
    /// The effects of each nonce.
    pub effects: BTreeMap<String, Vec<Entry>>,
    /// When invocations were completed, in milliseconds since 1970.
    pub completed: BTreeMap<String, u64>,
    /// Invocations that have not ended.
    pub unfinished: Vec<String>,
}

/// A rule that was broken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Rule {
    /// An acknowledged operation has no effect.
    Lost,
    /// An operation has several effects.
    Doubled,
    /// A refused request has an effect.
    EffectOfRefused,
    /// An effect that nobody asked for.
    UnaskedEffect,
    /// An effect belongs to another caller than those who asked for it, or is on another account.
    ForeignEffect,
    /// A caller got the answer to somebody else's request, or to another one of its own.
    ForeignAnswer,
    /// Two answers to one operation differ.
    ChangedAnswer,
    /// A request with another body was not refused.
    MismatchPassed,
    /// A request with the same body was refused as if it had another one.
    MatchRefused,
    /// A recovery or a lookup said something that is not so.
    Untrue,
    /// A request was refused that should not be.
    Refused,
    /// A client never got an answer.
    Unanswered,
    /// An invocation never ended.
    Unfinished,
    /// A promise has several outcomes, or another one than the senders of webhooks were told.
    SeveralOutcomes,
    /// A process ended, or its code failed, although nobody had hit it.
    Crashed,
}

impl Rule {
    /// The rule in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Lost => "an acknowledged operation has no effect",
            Self::Doubled => "an operation has several effects",
            Self::EffectOfRefused => "a refused request has an effect",
            Self::UnaskedEffect => "there is an effect that nobody asked for",
            Self::ForeignEffect => "an effect belongs to another caller or account",
            Self::ForeignAnswer => "a caller got an answer that belongs to another request",
            Self::ChangedAnswer => "two answers to one operation differ",
            Self::MismatchPassed => "a key was taken again with another body",
            Self::MatchRefused => "a retry with the same body was refused as a mismatch",
            Self::Untrue => "a recovery or a lookup was wrong",
            Self::Refused => "a request was refused without a reason",
            Self::Unanswered => "a client never got an answer",
            Self::Unfinished => "an invocation never ended",
            Self::SeveralOutcomes => "a promise has several outcomes, or another one than was told",
            Self::Crashed => "a process ended or failed by itself",
        }
    }
}

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Nonce, act and what came back.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.words(), self.detail)
    }
}

/// A nonce and who asked: two callers may send the same order, and each of them has an effect of its own.
type Intent<'a> = (&'a str, &'a str);

/// All that is known of one intent.
#[derive(Default)]
struct Known<'a> {
    account: &'a str,
    invocation: Option<&'a str>,
    acknowledged: bool,
    refused: bool,
}

/// Compares. The result is empty if everything is right.
pub fn check(observations: &[ClientObservation], ledger: &EffectLedger) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut known: BTreeMap<Intent<'_>, Known<'_>> = BTreeMap::new();
    for seen in observations {
        observed(seen, &mut known, ledger, &mut found);
    }
    rivals(observations, &mut found);
    outcomes(observations, &mut found);
    effects(&known, ledger, &mut found);
    let unfinished = ledger.unfinished.iter();
    found.extend(unfinished.map(|id| Violation { rule: Rule::Unfinished, detail: id.clone() }));
    found
}

fn observed<'a>(
    seen: &'a ClientObservation,
    known: &mut BTreeMap<Intent<'a>, Known<'a>>,
    ledger: &EffectLedger,
    found: &mut Vec<Violation>,
) {
    let ClientObservation { nonce, caller, account, act, expected, got, asked_at_ms } = seen;
    let mut broken = |rule, why: &str| {
        found.push(Violation { rule, detail: format!("{nonce} of {caller}, {act}: {got:?}{why}") });
    };
    // Someone else who asks for this operation is no party to it.
    if *expected == RightAnswer::Unknown {
        if !got.is_unknown() {
            broken(if *got == Got::Nothing { Rule::Unanswered } else { Rule::Untrue }, "");
        }
        return;
    }
    let known = known.entry((nonce, caller)).or_insert_with(|| Known { account, ..Known::default() });
    match got {
        Got::Answer { answer, replayed } => {
            if *expected == RightAnswer::Mismatch {
                // What came is the first body's answer, or this body's own.
                broken(Rule::MismatchPassed, "");
                return;
            }
            known.acknowledged = true;
            if answer.nonce != *nonce || answer.caller != *caller || answer.account != *account {
                broken(Rule::ForeignAnswer, "");
            }
            match known.invocation {
                Some(first) if first != answer.invocation => broken(Rule::ChangedAnswer, &format!(", before {first}")),
                _ => known.invocation = Some(&answer.invocation),
            }
            if *expected == RightAnswer::Replay && !replayed {
                broken(Rule::Untrue, ", not marked as a replay");
            }
        }
        Got::Completed { .. } if matches!(expected, RightAnswer::Completion(_)) => {}
        Got::Completed { .. } => broken(Rule::Untrue, ""),
        Got::Accepted if *expected == RightAnswer::Acknowledgement => known.acknowledged = true,
        Got::Accepted => broken(Rule::Unanswered, ""),
        Got::Refused { .. } => match expected {
            RightAnswer::Mismatch | RightAnswer::AnswerOrMismatch(_) if got.is_mismatch() => known.refused = true,
            RightAnswer::AnswerOrUnknown if got.is_unknown() => {
                // It lied if the result was there before the question. Before that both answers are right: a call whose connection
                // broke, and which was never acknowledged, may arrive after the question.
                let effect = ledger.effects.get(nonce).and_then(|all| all.iter().find(|entry| entry.caller == *caller));
                let since = effect.and_then(|entry| ledger.completed.get(&entry.invocation));
                if since.is_some_and(|since| since < asked_at_ms) {
                    broken(Rule::Untrue, ", but it was completed before");
                }
            }
            _ if got.is_mismatch() => broken(Rule::MatchRefused, ""),
            _ if got.is_unknown() => broken(Rule::Untrue, ""),
            _ => broken(Rule::Refused, ""),
        },
        Got::Nothing => broken(Rule::Unanswered, ""),
    }
}

/// Of two bodies that race for one key, exactly one has an answer. If the winner's client got none, that is told elsewhere.
fn rivals(observations: &[ClientObservation], found: &mut Vec<Violation>) {
    let answered: BTreeMap<&str, bool> = observations
        .iter()
        .filter(|seen| matches!(seen.expected, RightAnswer::AnswerOrMismatch(_)) && seen.got != Got::Nothing)
        .map(|seen| (seen.nonce.as_str(), matches!(seen.got, Got::Answer { .. })))
        .collect();
    for seen in observations {
        let RightAnswer::AnswerOrMismatch(rival) = &seen.expected else { continue };
        let both = (answered.get(seen.nonce.as_str()), answered.get(rival.as_str()));
        // Each pair is told once.
        if seen.nonce < *rival {
            let detail = format!("{} and {rival} raced for one key", seen.nonce);
            match both {
                (Some(true), Some(true)) => found.push(Violation { rule: Rule::MismatchPassed, detail }),
                (Some(false), Some(false)) => found.push(Violation { rule: Rule::MatchRefused, detail }),
                _ => {}
            }
        }
    }
}

/// Of the events about an order exactly one is told to be the first, each time it is delivered, and the handler got that one.
fn outcomes(observations: &[ClientObservation], found: &mut Vec<Violation>) {
    let mut promises: BTreeMap<Intent<'_>, (BTreeMap<&str, bool>, Option<&str>)> = BTreeMap::new();
    let mut broken = |detail: String| found.push(Violation { rule: Rule::SeveralOutcomes, detail });
    for seen in observations {
        let (told, arrived) = promises.entry((&seen.nonce, &seen.caller)).or_default();
        match (&seen.expected, &seen.got) {
            (RightAnswer::Completion(event), Got::Completed { first }) => {
                let before = told.insert(event, *first).unwrap_or(*first);
                if before != *first {
                    broken(format!("{} of {}: {event} was the first, and was not", seen.nonce, seen.caller));
                }
            }
            (_, Got::Answer { answer, .. }) if !answer.event.is_empty() => *arrived = Some(&answer.event),
            _ => {}
        }
    }
    for ((nonce, caller), (told, arrived)) in promises {
        let first: Vec<&str> = told.iter().filter(|(_, first)| **first).map(|(event, _)| *event).collect();
        if first.len() > 1 || arrived.is_some_and(|arrived| first != [arrived]) {
            broken(format!("{nonce} of {caller}: the first was {first:?}, and the handler got {arrived:?}"));
        }
    }
}

fn effects(known: &BTreeMap<Intent<'_>, Known<'_>>, ledger: &EffectLedger, found: &mut Vec<Violation>) {
    let mut broken = |rule, detail: String| found.push(Violation { rule, detail });
    for ((nonce, caller), known) in known {
        let all = ledger.effects.get(*nonce).map_or(&[][..], Vec::as_slice);
        let entries: Vec<&Entry> = all.iter().filter(|entry| entry.caller == *caller).collect();
        if known.acknowledged && entries.is_empty() {
            broken(Rule::Lost, format!("{nonce} of {caller}"));
        }
        if known.refused && !known.acknowledged && !entries.is_empty() {
            broken(Rule::EffectOfRefused, format!("{nonce} of {caller}: {entries:?}"));
        }
        if entries.len() > 1 {
            broken(Rule::Doubled, format!("{nonce} of {caller}: {entries:?}"));
        }
        for entry in entries {
            if entry.nonce != *nonce || entry.account != known.account {
                broken(Rule::ForeignEffect, format!("{nonce} of {caller}: {entry:?}"));
            }
            if let Some(invocation) = known.invocation
                && invocation != entry.invocation
            {
                broken(
                    Rule::ChangedAnswer,
                    format!("{nonce} of {caller}: the effect is {entry:?}, the answer {invocation}"),
                );
            }
        }
    }
    let asked: BTreeSet<&str> = known.keys().map(|(nonce, _)| *nonce).collect();
    for (nonce, entries) in &ledger.effects {
        for entry in entries.iter().filter(|entry| !known.contains_key(&(nonce.as_str(), entry.caller.as_str()))) {
            let rule = if asked.contains(nonce.as_str()) { Rule::ForeignEffect } else { Rule::UnaskedEffect };
            broken(rule, format!("{nonce}: {entry:?}"));
        }
    }
}

#[cfg(test)]
mod tests;
