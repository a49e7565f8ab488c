//! The steps in which the filter decides about one request, in its order (docs/contract.md section 2), for people: what each
//! looked at, what it found, and where it ended.
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

use crate::request::Request;
use crate::sources::SourceView;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::policy::Route;
use edge_idempotency_engine::problem::{Code, Problem};
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
    name: StepName,
    result: StepResult,
    /// One sentence
    text: String,
    /// What was looked at
    details: Vec<String>,
}

/// The steps that can be there, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepName {
    Path,
    Route,
    Policy,
    Signature,
    Key,
    Identity,
    Stores,
    Body,
}

impl StepName {
    const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Route => "route",
            Self::Policy => "policy",
            Self::Signature => "signature",
            Self::Key => "key",
            Self::Identity => "identity",
            Self::Stores => "stores",
            Self::Body => "body",
        }
    }

    /// The step that refuses with a code.
    const fn of(code: Code, is_webhook: bool, is_closed: bool) -> Self {
        match code {
            Code::PathAmbiguous => Self::Path,
            Code::NotFound if is_closed => Self::Path,
            Code::NotFound | Code::MethodNotAllowed | Code::PolicyInvalid => Self::Route,
            Code::KeyRequired | Code::KeyInvalid | Code::KeyProhibited => Self::Key,
            Code::IdentityMissing | Code::IdentityInvalid | Code::IdentityReserved => Self::Identity,
            Code::BodyTooLarge | Code::RequestInvalid => Self::Body,
            Code::SignatureInvalid => Self::Signature,
            _ if is_webhook => Self::Signature,
            _ => Self::Stores,
        }
    }
}

/// What the steps are told from.
struct Decided<'a> {
    policy: &'a Policy,
    /// The policy document, for what the compiled policy does not keep
    document: &'a Value,
    request: &'a Request,
    headers: &'a Headers<'a>,
    exchange: &'a Exchange,
    /// The route that counts
    route: Option<&'a Route>,
    /// The refusal, also one that shadow mode does not carry out
    problem: Option<&'a Problem>,
    sources: &'a [SourceView],
}

/// The steps of a decided request, and what the caller or the operator has to change.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    /// Hints for this request; empty if nothing has to change
    pub(crate) hints: Vec<String>,
}

/// Tells the steps of a request that the engine has decided. `document` is the policy document.
pub(crate) fn of(
    policy: &Policy,
    document: &Value,
    (request, headers): (&Request, &Headers<'_>),
    exchange: &Exchange,
    sources: &[SourceView],
) -> Steps {
    let route = exchange.endpoint(policy).and_then(|endpoint| policy.endpoint(endpoint));
    let problem = exchange.refusal().or_else(|| exchange.shadow().flatten());
    let decided = Decided { policy, document, request, headers, exchange, route, problem, sources };
    let mut hints = Vec::new();
    let path = decided.path();
    let is_webhook = route.is_some_and(|route| route.webhook.is_some());
    let is_closed = path.as_deref().is_some_and(|path| policy.is_closed(path));
    let last = problem.map(|problem| StepName::of(problem.code, is_webhook, is_closed));
    let mut steps = vec![decided.path_step(path.as_deref(), is_closed)];
    if let Some(path) = &path {
        steps.push(decided.route_step(path, &mut hints));
    }
    steps.extend(decided.policy_step());
    steps.extend(decided.signature_step());
    steps.extend(decided.key_step(&mut hints));
    steps.extend(decided.identity_step(&mut hints));
    steps.extend(decided.stores_step());
    steps.extend(decided.body_step(last));
    if let Some(last) = last {
        // What comes behind a refusal was not looked at.
        steps.retain(|step| step.name <= last);
        let result = if exchange.refusal().is_some() { StepResult::Refused } else { StepResult::WouldRefuse };
        if let Some(step) = steps.iter_mut().find(|step| step.name == last) {
            step.result = result;
        }
    }
    Steps { steps, hints }
}

impl Step {
    fn new(name: StepName, text: impl Into<String>) -> Self {
        Self { name, result: StepResult::Passed, text: text.into(), details: Vec::new() }
    }

    fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    /// `{"step", "result", "text", "details": […]}`
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "step": self.name.name(),
            "result": self.result.name(),
            "text": self.text,
            "details": self.details,
        })
    }
}

impl Decided<'_> {
    /// The values of a header, in order.
    fn values(&self, name: &str) -> Vec<String> {
        let lines = self.headers.iter().filter(|(line, _)| *line == name.as_bytes());
        lines.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    fn is_refused_by(&self, codes: &[Code]) -> Option<&Problem> {
        self.problem.filter(|problem| codes.contains(&problem.code))
    }
}
