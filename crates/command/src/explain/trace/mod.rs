//! The engine's trace of one request, for people: a sentence for each step in which the filter decided (docs/contract.md section 2),
//! what the step looked at and found, and where it ended.
//!
//! | module | subject |
//! |---|---|
//! | `routes` | path, closed paths, route, and the routes that nearly matched |
//! | `keys` | policy and key |
//! | `callers` | signature, identity, stores, body |
//! | `print` | text |

mod callers;
mod keys;
mod print;
mod routes;

use crate::explain::request::Request;
use crate::explain::sources::SourceView;
use edge_idempotency_engine::exchange::{Trace, TraceEvent, TraceStep};
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::identity::Identity;
use edge_idempotency_engine::policy::Route;
use edge_idempotency_engine::problem::Problem;
use edge_idempotency_engine::{Exchange, Policy};
use serde_json::{Value, json};

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepResult {
    /// The request goes on.
    Passed,
    /// The request is refused here.
    Refused,
    /// Enforcing would refuse the request here; in shadow mode it goes on.
    WouldRefuse,
}

impl StepResult {
    const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::WouldRefuse => "would_refuse",
        }
    }
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    step: TraceStep,
    result: StepResult,
    /// One sentence
    text: String,
    /// What was looked at
    details: Vec<String>,
}

/// The step as the verdict names it.
const fn name(step: TraceStep) -> &'static str {
    match step {
        TraceStep::Path => "path",
        TraceStep::Route => "route",
        TraceStep::Policy => "policy",
        TraceStep::Signature => "signature",
        TraceStep::Key => "key",
        TraceStep::Identity => "identity",
        TraceStep::Stores => "stores",
        TraceStep::Body => "body",
    }
}

/// What the sentences are made of, beside the trace.
struct Told<'a> {
    policy: &'a Policy,
    request: &'a Request,
    headers: &'a Headers<'a>,
    exchange: &'a Exchange,
    /// The path in its normal form
    path: Option<&'a str>,
    /// The route that counts
    route: Option<&'a Route>,
    sources: &'a [SourceView],
}

/// What one step found.
struct Found<'a> {
    step: TraceStep,
    events: Vec<&'a TraceEvent>,
    /// The refusal that the step made, also one that shadow mode does not carry out
    problem: Option<&'a Problem>,
    result: StepResult,
}

impl<'a> Found<'a> {
    const fn new(step: TraceStep) -> Self {
        Self { step, events: Vec::new(), problem: None, result: StepResult::Passed }
    }

    fn has(&self, is_it: impl Fn(&TraceEvent) -> bool) -> bool {
        self.events.iter().any(|event| is_it(event))
    }

    /// The first thing that `read` takes from an event.
    fn find<T>(&self, read: impl Fn(&'a TraceEvent) -> Option<T>) -> Option<T> {
        self.events.iter().find_map(|event| read(event))
    }

    fn namespaced(&self) -> Option<&'a str> {
        self.find(|event| if let TraceEvent::KeyNamespaced(key) = event { Some(key.as_str()) } else { None })
    }

    fn identity(&self) -> Option<&'a Identity> {
        self.find(|event| if let TraceEvent::Identity(identity) = event { Some(&**identity) } else { None })
    }
}

/// The steps of a trace, with what each found. A step that begins again is one with its first part, unless it refuses then.
fn found(events: &[TraceEvent]) -> Vec<Found<'_>> {
    let mut steps: Vec<Found<'_>> = Vec::new();
    let mut at = None;
    for event in events {
        let refusal = match event {
            TraceEvent::Step(step) => {
                at = Some(*step);
                if !steps.iter().any(|known| known.step == *step) {
                    steps.push(Found::new(*step));
                }
                continue;
            }
            TraceEvent::Refused(problem) => Some((&**problem, StepResult::Refused)),
            TraceEvent::WouldBeRefused(problem) => Some((&**problem, StepResult::WouldRefuse)),
            _ => None,
        };
        let Some(step) = at else { continue };
        if let Some((problem, result)) = refusal {
            if steps.last().is_some_and(|last| last.step != step) {
                steps.push(Found::new(step));
            }
            if let Some(last) = steps.last_mut() {
                (last.problem, last.result) = (Some(problem), result);
            }
        } else if let Some(found) = steps.iter_mut().find(|found| found.step == step) {
            found.events.push(event);
        }
    }
    steps
}

/// The steps of a decided request, and what the caller or the operator has to change.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    /// Hints for this request; empty if nothing has to change
    pub(crate) hints: Vec<String>,
}

/// Tells the trace of a request.
pub(crate) fn of(
    policy: &Policy,
    (request, headers): (&Request, &Headers<'_>),
    exchange: &Exchange,
    sources: &[SourceView],
) -> Steps {
    let events = exchange.trace().map(Trace::events).unwrap_or_default();
    let path = events
        .iter()
        .find_map(|event| if let TraceEvent::NormalPath(path) = event { Some(path.as_str()) } else { None });
    let route = events.iter().find_map(|event| match event {
        TraceEvent::Route(id) | TraceEvent::Recovery(id) => policy.route(*id),
        _ => None,
    });
    let told = Told { policy, request, headers, exchange, path, route, sources };
    let mut hints = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for found in found(events) {
        let is_again = steps.iter().any(|step| step.step == found.step);
        let step = match found.problem {
            // What the step found before has a sentence already.
            Some(problem) if is_again => Some(Step::new(found.step, problem.detail.clone())),
            _ => told.step(&found, &mut hints),
        };
        steps.extend(step.map(|step| Step { result: found.result, ..step }));
    }
    Steps { steps, hints }
}

impl Step {
    fn new(step: TraceStep, text: impl Into<String>) -> Self {
        Self { step, result: StepResult::Passed, text: text.into(), details: Vec::new() }
    }

    fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    /// `{"step", "result", "text", "details": […]}`
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "step": name(self.step),
            "result": self.result.name(),
            "text": self.text,
            "details": self.details,
        })
    }
}

impl Told<'_> {
    fn step(&self, found: &Found<'_>, hints: &mut Vec<String>) -> Option<Step> {
        match found.step {
            TraceStep::Path => Some(self.path_step(found)),
            TraceStep::Route => Some(self.route_step(found, hints)),
            TraceStep::Policy => self.policy_step(found),
            TraceStep::Signature => Some(self.signature_step(found)),
            TraceStep::Key => self.key_step(found, hints),
            TraceStep::Identity => Some(self.identity_step(found, hints)),
            TraceStep::Stores => Some(self.stores_step(found)),
            TraceStep::Body => Some(self.body_step(found)),
        }
    }

    /// The values of a header, in order.
    fn values(&self, name: &str) -> Vec<String> {
        let lines = self.headers.iter().filter(|(line, _)| *line == name.as_bytes());
        lines.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }
}
