//! What the upstream has stored under keys, what it knows of intents, and how it reacts to a request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::answer::{AnswerForm, UpstreamAnswer, next_second};
use super::execution::Execution;
use super::fault::{AttemptFault, EffectTime, Failure, RetryAfter, Schedule};

/// All that is known of an intent.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntentRecord {
    /// Its attempts, in the order in which they came.
    pub(crate) attempts: Vec<RecordedAttempt>,
    /// How often its operation ran, and with which results.
    pub(crate) executions: Vec<Execution>,
    faults_used: usize,
    /// The fault of the last attempt, and the `x-request-id` that the gateway gave it.
    last: (Option<AttemptFault>, Option<String>),
}

/// A request for an intent.
#[derive(Clone, Debug)]
pub(crate) struct RecordedAttempt {
    /// Whether it asks for the result at `Location`, and does not send the intent.
    pub(crate) is_poll: bool,
    /// Its `Idempotency-Key`.
    pub(crate) key: Option<String>,
    /// Its `X-Retry-Attempt`.
    pub(crate) number: Option<u32>,
    /// Its body.
    pub(crate) body: Vec<u8>,
    /// When it came.
    pub(crate) arrived: Instant,
    /// The earliest time of the next attempt, if the backend's answer has `Retry-After`.
    pub(crate) next_not_before: Option<Instant>,
}

impl RecordedAttempt {
    /// A request that sends an intent, and comes now.
    pub(super) fn new(key: Option<&str>, body: &[u8]) -> Self {
        let (key, body) = (key.map(str::to_owned), body.to_owned());
        Self { is_poll: false, key, number: None, body, arrived: Instant::now(), next_not_before: None }
    }
}

/// What the upstream does with a request.
#[derive(Debug)]
pub(super) enum Reaction {
    /// It answers.
    Answers(UpstreamAnswer),
    /// It fails. At most a part of the answer is sent.
    Breaks(Failure, UpstreamAnswer),
}

/// What happened to the operation under a key.
#[derive(Clone, Debug)]
enum KeyState {
    Unused,
    /// An attempt runs the operation, although it has failed for the client.
    InFlight,
    /// The operation is accepted, and runs when its result is asked for.
    Accepted,
    Done(Execution),
}

#[derive(Debug)]
struct KeyEntry {
    schedule: Schedule,
    state: KeyState,
}

/// A request for an intent, as the store needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntentRequest<'a> {
    pub(super) key: &'a str,
    pub(super) number: Option<u32>,
    pub(super) body: &'a [u8],
    pub(super) form: AnswerForm,
    /// Where the result can be asked for, at the origin of the request, without the intent's name.
    pub(super) results: &'a str,
    /// The origin of the upstream itself.
    pub(super) other_origin: &'a str,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) intents: BTreeMap<String, IntentRecord>,
    keys: BTreeMap<String, KeyEntry>,
    /// Keys by the ids of their invocations, where the backend is Restate.
    invocations: Vec<String>,
    executions: usize,
}

impl Store {
    /// Reacts to a request that sends an intent.
    ///
    /// # Errors
    /// The body has no schedule.
    pub(super) fn send(&mut self, request: IntentRequest<'_>) -> Result<Reaction> {
        let IntentRequest { key, number, body, form, .. } = request;
        let schedule = Schedule::read(body)?;
        let intent = schedule.intent.clone();
        self.record(&intent, RecordedAttempt { number, ..RecordedAttempt::new(Some(key), body) });
        if !self.keys.contains_key(key) {
            self.invocations.push(key.to_owned());
            self.keys.insert(key.to_owned(), KeyEntry { schedule: schedule.clone(), state: KeyState::Unused });
        }
        let mut is_new = !matches!(self.state(key)?, KeyState::Done(_));
        if matches!(self.state(key)?, KeyState::InFlight) {
            self.execute(key)?;
            // Restate lets a duplicate wait for the result, which is here now.
            if form == AnswerForm::Generic {
                self.advise(&intent, RetryAfter::Seconds(0));
                return Ok(Reaction::Answers(UpstreamAnswer::in_flight()));
            }
        }
        let invocation = self.invocation(key);
        if let Some(fault) = self.next_fault(&intent, &schedule) {
            self.apply(key, fault.effect)?;
            let execution = match self.state(key)? {
                KeyState::Done(execution) => execution,
                // It never ran, so nobody may be told this.
                _ => Execution {
                    key: key.to_owned(),
                    status: 200,
                    body: json!({"intent": intent, "decoy": true}).to_string(),
                },
            };
            let right = UpstreamAnswer::result(form, &execution, is_new, &invocation);
            return Ok(match fault.failure {
                Failure::Says(said) => {
                    if said.processing && is_new {
                        *self.state_mut(key)? = KeyState::Accepted;
                    }
                    self.advise(&intent, said.retry_after);
                    let location = UpstreamAnswer::location(said, &intent, request.results, request.other_origin);
                    Reaction::Answers(UpstreamAnswer::said(form, said, location))
                }
                broken => Reaction::Breaks(broken, right),
            });
        }
        if form == AnswerForm::RestateSend {
            is_new = matches!(self.state(key)?, KeyState::Unused);
            if is_new {
                *self.state_mut(key)? = KeyState::Accepted;
            }
            return Ok(Reaction::Answers(UpstreamAnswer::accepted(&invocation, is_new)));
        }
        let execution = self.execute(key)?;
        Ok(Reaction::Answers(UpstreamAnswer::result(form, &execution, is_new, &invocation)))
    }

    /// Reacts to a request that asks for the result of an intent, at the place that `Location` named.
    ///
    /// # Errors
    /// Nobody has sent the intent.
    pub(super) fn poll(
        &mut self,
        intent: &str,
        attempt: RecordedAttempt,
        request_id: Option<String>,
        form: AnswerForm,
    ) -> Result<Reaction> {
        let sent = self.keys.iter().find(|(_, entry)| entry.schedule.intent == intent);
        let (sent_with, schedule) =
            sent.map(|(key, entry)| (key.clone(), entry.schedule.clone())).context("an unknown intent")?;
        let last = self.intents.get(intent).map(|record| record.last.clone()).unwrap_or_default();
        // The gateway itself asks Restate once more after a 404.
        let repeats = form == AnswerForm::RestateCall && request_id.is_some() && last.1 == request_id;
        let fault = if repeats {
            last.0
        } else {
            self.record(intent, attempt);
            self.next_fault(intent, &schedule)
        };
        self.intents.entry(intent.to_owned()).or_default().last = (fault, request_id);
        let invocation = self.invocation(&sent_with);
        if let Some(fault) = fault {
            // Only a request that sends the intent can leave it in flight.
            if fault.effect == EffectTime::Before {
                self.execute(&sent_with)?;
            }
            return Ok(match fault.failure {
                Failure::Says(said) => {
                    self.advise(intent, said.retry_after);
                    Reaction::Answers(UpstreamAnswer::said(form, said, None))
                }
                broken => {
                    let decoy = Execution {
                        key: sent_with,
                        status: 200,
                        body: json!({"intent": intent, "decoy": true}).to_string(),
                    };
                    Reaction::Breaks(broken, UpstreamAnswer::result(form, &decoy, false, &invocation))
                }
            });
        }
        let execution = self.execute(&sent_with)?;
        Ok(Reaction::Answers(UpstreamAnswer::result(form, &execution, false, &invocation)))
    }

    /// The intent that is sent with a key.
    pub(super) fn intent_of(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(|entry| entry.schedule.intent.as_str())
    }

    /// The key of an invocation.
    pub(super) fn key_of(&self, invocation: &str) -> Option<&str> {
        let number: usize = invocation.strip_prefix("inv_")?.parse().ok()?;
        self.invocations.get(number).map(String::as_str)
    }

    /// The id of the invocation under a key.
    pub(super) fn invocation(&self, key: &str) -> String {
        let number = self.invocations.iter().position(|known| known == key);
        format!("inv_{}", number.unwrap_or(self.invocations.len()))
    }

    /// Whether the operation under a key runs although its attempt has failed. The question counts as an attempt, and it runs no longer then.
    pub(super) fn asked_in_flight(&mut self, key: &str) -> Result<bool> {
        if !matches!(self.keys.get(key).map(|entry| &entry.state), Some(KeyState::InFlight)) {
            return Ok(false);
        }
        let intent = self.intent_of(key).context("an unknown key")?.to_owned();
        let body = self.intents.get(&intent).and_then(|record| record.attempts.last()).map(|last| last.body.clone());
        self.record(&intent, RecordedAttempt::new(Some(key), &body.unwrap_or_default()));
        self.execute(key)?;
        Ok(true)
    }

    fn record(&mut self, intent: &str, attempt: RecordedAttempt) {
        self.intents.entry(intent.to_owned()).or_default().attempts.push(attempt);
    }

    /// Notes when the next attempt may come.
    fn advise(&mut self, intent: &str, retry_after: RetryAfter) {
        let Some(last) = self.intents.get_mut(intent).and_then(|record| record.attempts.last_mut()) else { return };
        last.next_not_before = match retry_after {
            RetryAfter::Missing => None,
            RetryAfter::Seconds(seconds) => Some(last.arrived + Duration::from_secs(seconds)),
            RetryAfter::Date => {
                let wait = next_second().duration_since(SystemTime::now()).unwrap_or_default();
                Some(Instant::now() + wait)
            }
        };
    }

    fn next_fault(&mut self, intent: &str, schedule: &Schedule) -> Option<AttemptFault> {
        let record = self.intents.get_mut(intent)?;
        let fault = schedule.faults.get(record.faults_used).copied()?;
        record.faults_used += 1;
        fault
    }

    fn apply(&mut self, key: &str, effect: EffectTime) -> Result<()> {
        match (effect, self.state(key)?) {
            (EffectTime::Before, _) => drop(self.execute(key)?),
            (EffectTime::After, KeyState::Unused) => *self.state_mut(key)? = KeyState::InFlight,
            _ => {}
        }
        Ok(())
    }

    /// The result of the operation under a key, which runs unless it has run before.
    fn execute(&mut self, key: &str) -> Result<Execution> {
        let entry = self.keys.get_mut(key).context("an unknown key")?;
        if let KeyState::Done(execution) = &entry.state {
            return Ok(execution.clone());
        }
        self.executions += 1;
        let Schedule { intent, result: status, .. } = &entry.schedule;
        let body = json!({"intent": intent, "execution": self.executions, "key": key}).to_string();
        let execution = Execution { key: key.to_owned(), status: *status, body };
        entry.state = KeyState::Done(execution.clone());
        self.intents.entry(intent.clone()).or_default().executions.push(execution.clone());
        Ok(execution)
    }

    fn state(&self, key: &str) -> Result<KeyState> {
        Ok(self.keys.get(key).context("an unknown key")?.state.clone())
    }

    fn state_mut(&mut self, key: &str) -> Result<&mut KeyState> {
        Ok(&mut self.keys.get_mut(key).context("an unknown key")?.state)
    }
}
