//! Random interleavings against what has to hold for every one of them.

use std::collections::BTreeMap;

use super::*;

const RUNS: u64 = 3_000;
const EVENTS: usize = 120;
const KEYS: [&str; 3] = ["acme:shop:stripe:ch_1", "acme:shop:stripe:ch_2", "globex:shop:stripe:ch_1"];

/// The world around the machine: state, timers and awakeables as Restate has them, and what callers were told.
struct World {
    random: fastrand::Rng,
    entries: BTreeMap<&'static str, Entry>,
    /// Each of them is delivered once, at any time, in any order.
    timers: Vec<(&'static str, String)>,
    /// What each awakeable got, with the key under which it was registered.
    awakeables: BTreeMap<String, (&'static str, Vec<Option<Completion>>)>,
    /// Completions that were told to be the first, and where they have to arrive: as soon as somebody waits, within their time.
    owed: BTreeMap<&'static str, Completion>,
    /// The awakeable that was told that it has the key, and its number.
    owners: BTreeMap<&'static str, (String, String)>,
    /// How often each answer was given.
    answers: BTreeMap<String, u32>,
    next: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            entries: BTreeMap::new(),
            timers: Vec::new(),
            awakeables: BTreeMap::new(),
            owed: BTreeMap::new(),
            owners: BTreeMap::new(),
            answers: BTreeMap::new(),
            next: 0,
        }
    }

    fn fresh(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}{}", self.next)
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.random.usize(0..KEYS.len())]
    }

    fn event(&mut self) {
        let key = self.key();
        match self.random.u8(0..20) {
            0..5 => {
                let awakeable = self.fresh("sign_");
                self.register(key, awakeable);
            }
            5..7 => {
                // A call that is made again, for any promise there has been.
                let known: Vec<_> = self.awakeables.iter().map(|(id, (key, _))| (*key, id.clone())).collect();
                if let Some((key, awakeable)) = self.random.choice(known) {
                    self.register(key, awakeable);
                }
            }
            7..13 => {
                let completion = self.completion(key);
                let number = self.fresh("n");
                self.complete(key, Event::Complete { number, completion: completion.clone() }, completion);
            }
            13..15 => {
                let numbers: Vec<_> = self.timers.iter().map(|(_, number)| number.clone()).collect();
                let number = self.random.choice(numbers).unwrap_or_default();
                let completion = self.completion(key);
                self.complete(key, Event::CompleteOnly { number, completion: completion.clone() }, completion);
            }
            _ if self.timers.is_empty() => {}
            _ => {
                let (key, number) = self.timers.swap_remove(self.random.usize(0..self.timers.len()));
                self.expire(key, number);
            }
        }
        for (id, (_, got)) in &self.awakeables {
            assert!(got.len() <= 1, "{id} has {got:?}");
        }
    }

    /// A payload says under which key it came.
    fn completion(&mut self, key: &str) -> Completion {
        let name = format!("{key}#");
        let payload = self.fresh(&name);
        if self.random.u8(0..4) == 0 { Completion::Rejected(payload) } else { Completion::Resolved(payload) }
    }

    fn step(&mut self, key: &'static str, event: Event) -> Answer {
        let before = self.entries.remove(key);
        let Step { entry, effect, starts, answer } = step(before.clone(), event);
        if matches!(answer, Answer::Conflict | Answer::NotFirst | Answer::Unknown) {
            assert!(entry == before && effect.is_none() && !starts, "{answer:?} changed something");
        }
        if starts {
            self.timers.push((key, entry.as_ref().expect("what starts is there").number().clone()));
        }
        if let Some(entry) = entry {
            self.entries.insert(key, entry);
        }
        let (awakeable, got) = match effect {
            Some(Effect::Complete { awakeable, completion }) => (awakeable, Some(completion)),
            Some(Effect::Expired { awakeable }) => (awakeable, None),
            Some(Effect::Unclaimed) | None => return answer,
        };
        let registered = self.awakeables.get_mut(&awakeable).expect("nobody registered it");
        assert_eq!(registered.0, key, "{awakeable} waits under another key");
        registered.1.push(got);
        answer
    }

    fn register(&mut self, key: &'static str, awakeable: String) {
        let number = self.fresh("n");
        let was_known = self.awakeables.contains_key(&awakeable);
        // Awakeables are completed once: Restate ignores what comes for one that has its outcome. A handler does not register it again.
        if was_known && self.owners.get(key).is_none_or(|(owner, _)| *owner != awakeable) {
            return;
        }
        self.awakeables.entry(awakeable.clone()).or_insert((key, Vec::new()));
        let event = Event::Await { number: number.clone(), awakeable: awakeable.clone() };
        let answer = self.step(key, event);
        match self.owners.get(key) {
            // Whoever was first has it, and is told so each time.
            Some((owner, _)) => {
                assert_eq!(answer, if *owner == awakeable { Answer::Done } else { Answer::Conflict });
            }
            None => {
                assert_eq!(answer, Answer::Done, "the key was free");
                self.owners.insert(key, (awakeable.clone(), number));
                if let Some(owed) = self.owed.remove(key) {
                    assert_eq!(self.awakeables[&awakeable].1, [Some(owed)], "what was kept did not arrive");
                }
            }
        }
        self.count(answer, if was_known { "again" } else { "await" });
    }

    fn complete(&mut self, key: &'static str, event: Event, completion: Completion) {
        let only = match &event {
            Event::CompleteOnly { number, .. } => Some(number.clone()),
            _ => None,
        };
        let owner = self.owners.get(key).cloned();
        let had = owner.as_ref().is_some_and(|(owner, _)| !self.awakeables[owner].1.is_empty());
        let answer = self.step(key, event);
        let expected = match (&owner, &only) {
            (Some((_, number)), Some(only)) if number != only => Answer::Unknown,
            (None, Some(_)) => Answer::Unknown,
            (Some(_), _) if had => Answer::NotFirst,
            (None, None) if self.owed.contains_key(key) => Answer::NotFirst,
            _ => Answer::Done,
        };
        assert_eq!(answer, expected, "{owner:?} {only:?}");
        if answer == Answer::Done {
            match owner {
                Some((owner, _)) => assert_eq!(self.awakeables[&owner].1, [Some(completion)]),
                None => drop(self.owed.insert(key, completion)),
            }
        }
        self.count(answer, if only.is_some() { "complete only" } else { "complete" });
    }

    fn expire(&mut self, key: &'static str, number: String) {
        let owner = self.owners.get(key).cloned();
        let waited = owner.as_ref().filter(|(owner, _)| self.awakeables[owner].1.is_empty());
        let waited = waited.map(|(owner, _)| owner.clone());
        let kept =
            self.entries.get(key).is_some_and(|entry| matches!(entry, Entry::Kept { .. }) && *entry.number() == number);
        let answer = self.step(key, Event::Expire { number: number.clone() });
        if owner.is_some_and(|(_, owned)| owned == number) {
            assert!(!self.entries.contains_key(key), "the key is not free");
            self.owners.remove(key);
            if let Some(waited) = waited {
                assert_eq!(self.awakeables[&waited].1, [None], "it waits for ever");
            }
        } else if kept {
            assert!(!self.entries.contains_key(key), "the key is not free");
            self.owed.remove(key).expect("something was kept that nobody sent");
        } else {
            assert_eq!(answer, Answer::Unknown, "an old timer ended something");
        }
        self.count(answer, "expire");
    }

    fn count(&mut self, answer: Answer, what: &str) {
        *self.answers.entry(format!("{what}: {answer:?}")).or_default() += 1;
    }

    /// Whoever comes in time gets what is still owed, and nobody waits for ever.
    fn end(mut self) -> BTreeMap<String, u32> {
        for key in KEYS {
            if self.owed.contains_key(key) {
                let awakeable = self.fresh("sign_");
                self.register(key, awakeable);
            }
            assert!(!self.owed.contains_key(key));
        }
        while let Some((key, number)) = self.timers.pop() {
            self.expire(key, number);
        }
        assert!(self.entries.is_empty() && self.owners.is_empty());
        self.answers
    }
}

#[test]
fn interleavings() {
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..RUNS {
        let mut world = World::new(seed);
        (0..EVENTS).for_each(|_| world.event());
        world.end().into_iter().for_each(|(answer, times)| *answers.entry(answer).or_default() += times);
    }
    // Every answer was seen, so every way through the machine was taken.
    for answer in [
        "await: Done",
        "await: Conflict",
        "again: Done",
        "complete: Done",
        "complete: NotFirst",
        "complete only: Done",
        "complete only: NotFirst",
        "complete only: Unknown",
        "expire: Done",
        "expire: Unknown",
    ] {
        assert!(answers.get(answer).is_some_and(|times| *times > 100), "{answer} in {answers:?}");
    }
}

#[test]
fn what_is_stored_can_be_read_again() {
    let completion = Completion::Resolved("{\"a\": 1}".to_owned());
    let (number, awakeable) = ("00".to_owned(), "sign_1".to_owned());
    // What Restate holds from an earlier release.
    for (entry, text) in [
        (
            Entry::Kept { number: number.clone(), completion },
            r#"{"kept":{"number":"00","completion":{"resolved":"{\"a\": 1}"}}}"#,
        ),
        (
            Entry::Waiting { number: number.clone(), awakeable: awakeable.clone() },
            r#"{"waiting":{"number":"00","awakeable":"sign_1"}}"#,
        ),
        (
            Entry::Completed { number, awakeable, outcome: Outcome::Rejected },
            r#"{"completed":{"number":"00","awakeable":"sign_1","outcome":"rejected"}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
        assert_eq!(serde_json::from_str::<Entry>(text).unwrap(), entry);
    }
}
