//! What each attempt of an intent is answered, and what the client has to do then. The second part is written from docs/callers.md and
//! the table of clients/README.md, and not from the code of any client.

use super::upstream::{EffectTime, Failure, Location, RetryAfter, Said, Schedule};
use serde_json::json;

use super::setup::Channel;

/// An intent, and all that will happen to it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) channel: Channel,
    pub(super) faults: Vec<String>,
    /// The status of the operation's own answer.
    pub(super) result: u16,
}

impl Plan {
    pub(super) fn new(name: impl Into<String>, channel: Channel, faults: &[&str]) -> Self {
        let faults = faults.iter().map(|&fault| fault.to_owned()).collect();
        Self { name: name.into(), channel, faults, result: 200 }
    }

    /// The request's body, which tells the upstream what to do.
    pub(super) fn body(&self) -> String {
        json!({"intent": self.name, "faults": self.faults, "result": self.result}).to_string()
    }
}

/// What a client gets of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// No answer, or one that is cut off.
    Nothing,
    /// A whole answer.
    Whole(AnswerHead),
}

impl Got {
    /// The head of a whole answer.
    pub(super) const fn head(&self) -> Option<&AnswerHead> {
        match self {
            Self::Nothing => None,
            Self::Whole(head) => Some(head),
        }
    }
}

/// What the rules need of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerHead {
    pub(super) status: u16,
    /// `Idempotency-Retry`.
    pub(super) advice: Option<&'static str>,
    /// Whether the answer is kept under the key.
    kept: bool,
    /// `Idempotency-Status: processing`.
    processing: bool,
    has_retry_after: bool,
    location: Location,
    /// `Idempotent-Replayed: true`.
    pub(super) replayed: bool,
    /// Whether there is `X-Operation-Id`.
    pub(super) has_operation: bool,
    pub(super) body: ShownBody,
}

/// Whose body an answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownBody {
    /// The operation's.
    Result,
    /// The upstream's, which names the fault.
    Fault(&'static str),
    /// A problem document of the filter, with this code.
    Problem(&'static str),
    /// What Envoy says itself.
    Gateway,
}

/// What a client has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The same request again: the intent, or the poll.
    Again,
    /// The intent again, although this was a poll.
    SendAgain,
    /// A request to `Location`.
    Poll,
    /// Nothing more: the caller gets the answer.
    Tell,
}

/// The rules of the guide: what an answer means. `polls`: it answers a request to `Location`.
pub(super) fn next_step(got: &Got, polls: bool) -> Step {
    let Got::Whole(head) = got else { return Step::Again };
    if head.processing {
        return match head.location {
            Location::SameOrigin => Step::Poll,
            Location::Missing | Location::OtherOrigin => Step::Again,
        };
    }
    if polls && head.status == 404 && !head.kept {
        return Step::SendAgain;
    }
    match head.advice {
        Some("same_key" | "wait") => return Step::Again,
        Some(_) => return Step::Tell,
        None if head.kept => return Step::Tell,
        None => {}
    }
    match head.status {
        409 | 425 if head.has_retry_after => Step::Again,
        429 | 502 | 503 | 504 => Step::Again,
        _ => Step::Tell,
    }
}

/// What happened to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationState {
    Unused,
    InFlight,
    Accepted,
    Done,
}

/// The backend and the gateway as a client sees them, for one intent.
#[derive(Clone, Debug)]
pub(super) struct SimulatedBackend {
    channel: Channel,
    schedule: Schedule,
    faults_used: usize,
    state: OperationState,
}

impl SimulatedBackend {
    pub(super) fn new(plan: &Plan) -> anyhow::Result<Self> {
        let schedule = Schedule::read(plan.body().as_bytes())?;
        Ok(Self { channel: plan.channel, schedule, faults_used: 0, state: OperationState::Unused })
    }

    /// How often the operation has run.
    pub(super) fn executions(&self) -> usize {
        usize::from(self.state == OperationState::Done)
    }

    /// What the client gets of the next attempt. `polls`: it asks at `Location`.
    pub(super) fn attempt(&mut self, polls: bool) -> Got {
        let is_new = self.state != OperationState::Done;
        if !polls && self.state == OperationState::InFlight {
            self.state = OperationState::Done;
            match self.channel {
                // Restate gives a duplicate the result of the request that was under way.
                Channel::Restate | Channel::OneWay => {}
                Channel::Conflict => return whole(409, Some("wait"), ShownBody::Problem("idempotency_key_in_flight")),
                _ => return with_retry_after(whole(409, None, ShownBody::Fault("in flight"))),
            }
        }
        self.next(polls, is_new)
    }

    fn next(&mut self, polls: bool, is_new: bool) -> Got {
        let fault = self.schedule.faults.get(self.faults_used).copied().flatten();
        self.faults_used += 1;
        let Some(fault) = fault else { return self.right_answer(polls, is_new) };
        match (fault.effect, self.state) {
            (EffectTime::Before, _) => self.state = OperationState::Done,
            (EffectTime::After, OperationState::Unused) if !polls => self.state = OperationState::InFlight,
            _ => {}
        }
        match fault.failure {
            Failure::Hang if self.channel == Channel::Brief => self.of_gateway(504, polls),
            Failure::Garbage if self.channel != Channel::Direct => self.of_gateway(502, polls),
            Failure::Reset if self.channel != Channel::Direct => self.of_gateway(503, polls),
            Failure::Says(said) => {
                if said.processing && self.state == OperationState::Unused {
                    self.state = OperationState::Accepted;
                }
                self.said(said, polls)
            }
            _ => Got::Nothing,
        }
    }

    fn right_answer(&mut self, polls: bool, is_new: bool) -> Got {
        if self.channel == Channel::OneWay && !polls {
            let is_first = self.state == OperationState::Unused;
            if is_first {
                self.state = OperationState::Accepted;
            }
            return Got::Whole(AnswerHead {
                processing: true,
                location: Location::SameOrigin,
                replayed: !is_first,
                ..head(202, None, ShownBody::Problem("processing"))
            });
        }
        self.state = OperationState::Done;
        let status = self.schedule.result;
        let of_restate = self.of_restate();
        // What is asked for at `Location` was there before.
        let replayed = polls || !is_new;
        let advice = match status {
            ..400 => None,
            _ if of_restate || replayed && !polls && self.is_filtered() => Some("new_key"),
            429 | 500.. if !polls && self.is_filtered() => Some("same_key"),
            _ => None,
        };
        Got::Whole(AnswerHead {
            kept: replayed || of_restate,
            replayed,
            has_operation: of_restate,
            ..head(status, advice, ShownBody::Result)
        })
    }

    /// An answer of the upstream that is not the operation's.
    fn said(&self, said: &'static Said, polls: bool) -> Got {
        let advice = (!polls && self.is_filtered() && matches!(said.status, 429 | 500..)).then_some("same_key");
        let problem = |status, advice, code| whole(status, Some(advice), ShownBody::Problem(code));
        if self.of_restate() {
            return match said.status {
                404 if said.name == "404" && polls => problem(404, "same_key", "operation_unknown"),
                404 if said.name == "404" => with_retry_after(problem(503, "same_key", "policy_invalid")),
                404 => problem(503, "never", "policy_invalid"),
                429 | 500.. => with_retry_after(problem(503, "same_key", "dependency_unavailable")),
                status => problem(status, "never", "request_invalid"),
            };
        }
        Got::Whole(AnswerHead {
            processing: said.processing,
            location: said.location,
            has_retry_after: said.retry_after != RetryAfter::Missing,
            ..head(said.status, advice, ShownBody::Fault(said.name))
        })
    }

    /// An answer of the gateway, which has none of the upstream.
    fn of_gateway(&self, status: u16, polls: bool) -> Got {
        if self.of_restate() {
            return whole(503, Some("same_key"), ShownBody::Problem("dependency_unavailable"));
        }
        let advice = (!polls && self.is_filtered()).then_some("same_key");
        whole(status, advice, ShownBody::Gateway)
    }

    fn of_restate(&self) -> bool {
        matches!(self.channel, Channel::Restate | Channel::Conflict | Channel::OneWay)
    }

    fn is_filtered(&self) -> bool {
        !matches!(self.channel, Channel::Direct | Channel::Unfiltered)
    }
}

const fn head(status: u16, advice: Option<&'static str>, body: ShownBody) -> AnswerHead {
    AnswerHead {
        status,
        advice,
        kept: false,
        processing: false,
        has_retry_after: false,
        location: Location::Missing,
        replayed: false,
        has_operation: false,
        body,
    }
}

const fn whole(status: u16, advice: Option<&'static str>, body: ShownBody) -> Got {
    Got::Whole(head(status, advice, body))
}

fn with_retry_after(got: Got) -> Got {
    match got {
        Got::Whole(head) => Got::Whole(AnswerHead { has_retry_after: true, ..head }),
        Got::Nothing => Got::Nothing,
    }
}

/// How an intent goes if nothing else goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prediction {
    /// The answer that the caller gets; `None` if the budget ends first.
    pub(super) told: Option<AnswerHead>,
    /// For each attempt, whether it is a poll.
    pub(super) polls: Vec<bool>,
}

/// Plays an intent by the rules, with so many attempts at most.
pub(super) fn predict(plan: &Plan, attempts: u32) -> anyhow::Result<Prediction> {
    let mut backend = SimulatedBackend::new(plan)?;
    let (mut polls, mut is_poll) = (Vec::new(), false);
    for _ in 0..attempts {
        polls.push(is_poll);
        let got = backend.attempt(is_poll);
        match (next_step(&got, is_poll), got) {
            (Step::Tell, Got::Whole(head)) => return Ok(Prediction { told: Some(head), polls }),
            (Step::Poll, _) => is_poll = true,
            (Step::SendAgain, _) => is_poll = false,
            (Step::Again | Step::Tell, _) => {}
        }
    }
    Ok(Prediction { told: None, polls })
}
