//! What happens to a promise, without Restate and without a clock: an entry and an event give the next entry, and what has to be done.

use serde::{Deserialize, Serialize};

/// What is kept under a key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// A completion that came before anybody waited.
    Kept {
        /// Tells it from other entries under the key.
        number: String,
        /// What came.
        completion: Completion,
    },
    /// A handler waits.
    Waiting {
        /// The same, and a part of the promise's id.
        number: String,
        /// What the handler waits for. Whoever knows it could complete it, so it leaves the service for Restate only.
        awakeable: String,
    },
    /// The handler has its outcome. The payload is the handler's, and not kept.
    Completed {
        /// That of the promise.
        number: String,
        /// That of the handler, so that the handler's repeated call is told from another one's.
        awakeable: String,
        /// The first outcome.
        outcome: Outcome,
    },
}

/// What the waiting handler gets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Completion {
    /// A payload in JSON.
    Resolved(String),
    /// A reason.
    Rejected(String),
}

/// Which of the two it was.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Resolved.
    Resolved,
    /// Rejected.
    Rejected,
}

impl Completion {
    /// Which of the two it is.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Resolved(_) => Outcome::Resolved,
            Self::Rejected(_) => Outcome::Rejected,
        }
    }
}

/// What happens. `number` is new with each event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// A handler registers its awakeable.
    Await {
        /// For the promise, if there will be one.
        number: String,
        /// What the handler waits for.
        awakeable: String,
    },
    /// A webhook, or somebody else, completes what is waited for under this key.
    Complete {
        /// For what is kept, if nobody waits yet.
        number: String,
        /// What came.
        completion: Completion,
    },
    /// The same, for the promise with this number only.
    CompleteOnly {
        /// The promise's.
        number: String,
        /// What came.
        completion: Completion,
    },
    /// The time of the entry with this number is over.
    Expire {
        /// The entry's.
        number: String,
    },
}

/// What an event does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Step {
    /// What is under the key now.
    pub(super) entry: Option<Entry>,
    /// What has to be done.
    pub(super) effect: Option<Effect>,
    /// The entry is new: its time begins, and its number is what [`Event::Expire`] has.
    pub(super) starts: bool,
    /// What the caller is told.
    pub(super) answer: Answer,
}

/// What has to be done besides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    /// The awakeable is completed.
    Complete {
        /// Which one.
        awakeable: String,
        /// With what.
        completion: Completion,
    },
    /// The awakeable is rejected, because its time is over.
    Expired {
        /// Which one.
        awakeable: String,
    },
    /// Nobody came for a completion that was kept.
    Unclaimed,
}

/// What the caller is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// It was done, or had been done by the same call before.
    Done,
    /// Another completion was first.
    NotFirst,
    /// Another handler has the key.
    Conflict,
    /// There is no such promise.
    Unknown,
}

/// What `event` makes of what is under the key.
pub(super) fn step(entry: Option<Entry>, event: Event) -> Step {
    match event {
        Event::Await { number, awakeable } => register(entry, number, awakeable),
        Event::Complete { number, completion } => match entry {
            None => {
                let kept = Entry::Kept { number, completion };
                Step { entry: Some(kept), effect: None, starts: true, answer: Answer::Done }
            }
            Some(entry) => complete(entry, completion),
        },
        Event::CompleteOnly { number, completion } => match entry {
            Some(entry) if entry.promise() == Some(&number) => complete(entry, completion),
            other => unchanged(other, Answer::Unknown),
        },
        Event::Expire { number } => match entry {
            Some(entry) if *entry.number() == number => {
                let effect = match entry {
                    Entry::Kept { .. } => Some(Effect::Unclaimed),
                    Entry::Waiting { awakeable, .. } => Some(Effect::Expired { awakeable }),
                    Entry::Completed { .. } => None,
                };
                Step { entry: None, effect, starts: false, answer: Answer::Done }
            }
            // The timer of an entry that has been replaced.
            other => unchanged(other, Answer::Unknown),
        },
    }
}

fn register(entry: Option<Entry>, number: String, awakeable: String) -> Step {
    match entry {
        None => {
            let waiting = Entry::Waiting { number, awakeable };
            Step { entry: Some(waiting), effect: None, starts: true, answer: Answer::Done }
        }
        Some(Entry::Kept { completion, .. }) => {
            let completed = Entry::Completed { number, awakeable: awakeable.clone(), outcome: completion.outcome() };
            let effect = Effect::Complete { awakeable, completion };
            Step { entry: Some(completed), effect: Some(effect), starts: true, answer: Answer::Done }
        }
        Some(entry) => {
            let answer = if entry.awakeable() == Some(&awakeable) { Answer::Done } else { Answer::Conflict };
            unchanged(Some(entry), answer)
        }
    }
}

fn complete(entry: Entry, completion: Completion) -> Step {
    match entry {
        Entry::Waiting { number, awakeable } => {
            let outcome = completion.outcome();
            let completed = Entry::Completed { number, awakeable: awakeable.clone(), outcome };
            let effect = Effect::Complete { awakeable, completion };
            Step { entry: Some(completed), effect: Some(effect), starts: false, answer: Answer::Done }
        }
        other => unchanged(Some(other), Answer::NotFirst),
    }
}

fn unchanged(entry: Option<Entry>, answer: Answer) -> Step {
    Step { entry, effect: None, starts: false, answer }
}

impl Entry {
    /// Tells the entry from others under its key.
    pub(super) fn number(&self) -> &String {
        match self {
            Self::Kept { number, .. } | Self::Waiting { number, .. } | Self::Completed { number, .. } => number,
        }
    }

    /// The number of the promise; nothing as long as there is none.
    pub(super) fn promise(&self) -> Option<&String> {
        self.awakeable().map(|_| self.number())
    }

    /// The first outcome, if there is one.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Kept { completion, .. } => Some(completion.outcome()),
            Self::Waiting { .. } => None,
            Self::Completed { outcome, .. } => Some(*outcome),
        }
    }

    /// The word for the state.
    pub(super) fn state(&self) -> &'static str {
        match self {
            Self::Kept { .. } => "kept",
            Self::Waiting { .. } => "waiting",
            Self::Completed { .. } => "completed",
        }
    }

    fn awakeable(&self) -> Option<&String> {
        match self {
            Self::Kept { .. } => None,
            Self::Waiting { awakeable, .. } | Self::Completed { awakeable, .. } => Some(awakeable),
        }
    }
}

#[cfg(test)]
mod tests;
