//! `explain --log-line`: what one line of a log says about a request, what the line cannot say, and a request that is
//! answered in the same way.

mod print;
mod rebuild;

use crate::explain::explain;
use crate::explain::explanations;
use crate::explain::request::Request;
use crate::material::now_unix_ms;
use crate::record::record_of;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::needs::SEGMENT;
use edge_idempotency_engine::policy::{Mode, Route};
use edge_idempotency_engine::problem::Code;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The beginning of the filter's lines in Envoy's own log.
const FILTER_LINE: &str = "edge-idempotency: ";
/// What follows it before the record.
const KINDS: [&str; 3] = ["refused ", "shadow ", "request "];

/// One line of a log.
#[derive(Debug, Default)]
pub(crate) struct LogLine {
    /// The members of an access log's line; empty for a line of the filter
    line: Map<String, Value>,
    /// The filter's record; `None` if the filter did not see the request, or had not decided about it when it ended
    record: Option<Map<String, Value>>,
}

/// What became of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The filter refused it.
    Refused,
    /// In shadow mode it was forwarded; enforcing would refuse it.
    WouldBeRefused,
    /// It was forwarded, and a problem document took the place of the backend's error.
    ErrorReplaced,
    /// It was forwarded.
    Forwarded,
    /// It is a delivery that the filter acknowledged without a call.
    Acknowledged,
    /// The gateway ended it while the filter waited for its body or for a lookup.
    EndedByGateway,
    /// The filter did not see it, or had not decided about it when it ended.
    Undecided,
}

impl Fate {
    const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::WouldBeRefused => "would_be_refused",
            Self::ErrorReplaced => "error_replaced",
            Self::Forwarded => "forwarded",
            Self::Acknowledged => "acknowledged",
            Self::EndedByGateway => "ended_by_gateway",
            Self::Undecided => "undecided",
        }
    }
}

impl LogLine {
    /// Reads a line of a JSON access log, or of Envoy's own log with a record of the filter.
    ///
    /// # Errors
    /// The line is neither.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(line) = serde_json::from_str::<Map<String, Value>>(text) {
            let record = record_of(&line).cloned();
            // Envoy's own log can be lines of JSON, too.
            let nested = || line.values().filter_map(Value::as_str).find_map(filter_record);
            return Ok(match (record, nested()) {
                (None, Some(record)) => Self { line: Map::new(), record: Some(record) },
                (record, _) => Self { line, record },
            });
        }
        match filter_record(text) {
            Some(record) => Ok(Self { line: Map::new(), record: Some(record) }),
            None if text.contains(" were left out") && text.contains(FILTER_LINE) => {
                Err("this line only counts lines that the filter has left out: take the request from the access log"
                    .to_owned())
            }
            None => Err(
                "expected a line of the JSON access log, or one of the filter's own, `edge-idempotency: refused {…}`: \
                 docs/operate.md, \"The access log\", says what the log's format needs"
                    .to_owned(),
            ),
        }
    }

    /// A member of the record, or of the line; `-` is how Envoy writes what is absent.
    fn text(&self, name: &str) -> Option<String> {
        let value = self.record.as_ref().and_then(|record| record.get(name)).or_else(|| self.line.get(name))?;
        match value {
            Value::String(text) if !text.is_empty() && text != "-" => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        }
    }

    fn code(&self) -> Option<String> {
        self.text("idempotency_code").or_else(|| self.details().map(|(code, _)| code))
    }

    fn reason(&self) -> Option<String> {
        self.text("idempotency_reason").or_else(|| self.details()?.1)
    }

    /// Code and reason from the response code details of a line without a record: `idempotency_key_invalid.length`.
    fn details(&self) -> Option<(String, Option<String>)> {
        let details = self.text("details").filter(|_| self.record.is_none())?;
        let (code, reason) = match details.split_once('.') {
            Some((code, reason)) => (code, Some(reason.to_owned())),
            None => (details.as_str(), None),
        };
        Code::ALL.iter().any(|known| known.name() == code).then(|| (code.to_owned(), reason))
    }

    /// The parts of the identity that were missing or wrong, as the record writes them.
    fn identity_problem(&self) -> Option<String> {
        match self.record.as_ref()?.get("idempotency_identity")? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    fn is_webhook(&self) -> bool {
        self.text("idempotency_policy").as_deref() == Some("REQUIRED_B")
            || self.text("idempotency_case").as_deref() == Some("B")
            || self.code().is_some_and(|code| code.starts_with("webhook_"))
    }

    /// Whether the request asked for a stored result.
    fn is_recovery(&self) -> bool {
        self.text("original_path").is_some_and(|path| path.contains(&format!("/{SEGMENT}/")))
    }

    /// What became of the request.
    pub(crate) fn fate(&self) -> Fate {
        match (self.record.is_some(), self.text("idempotency_outcome").as_deref(), self.code().as_deref()) {
            (false, _, None) => Fate::Undecided,
            // The filter refuses nothing without a code, nor with that of an error that it replaces.
            (true, Some("rejected"), code) if code.is_none_or(|code| code == Code::BackendError.name()) => {
                Fate::EndedByGateway
            }
            (false, ..) | (true, Some("rejected" | "conflict"), _) => Fate::Refused,
            (..) if self.text("idempotency_shadow").as_deref() == Some("refuse") => Fate::WouldBeRefused,
            (_, Some("acknowledged"), _) => Fate::Acknowledged,
            (_, _, Some(_)) => Fate::ErrorReplaced,
            (_, _, None) => Fate::Forwarded,
        }
    }
}

/// The record behind `edge-idempotency: refused` and the like.
fn filter_record(text: &str) -> Option<Map<String, Value>> {
    // Envoy writes the names of the plugin before the filter's line, and they can be equal to its beginning.
    let (_, record) = KINDS.iter().find_map(|kind| text.split_once(&format!("{FILTER_LINE}{kind}")))?;
    serde_json::Deserializer::from_str(record).into_iter().next()?.ok()
}

/// All that can be said about a line.
#[derive(Debug)]
pub(crate) struct Explanation {
    line: LogLine,
    fate: Fate,
    /// What the log does not have.
    not_in_log: Vec<&'static str>,
    meaning: Option<explanations::CauseAndCure>,
    reason_meaning: Option<String>,
    /// The retry advice of the code.
    retry: Option<&'static str>,
    /// The page that the policy's `docs_url` names.
    docs_url: Option<String>,
    /// Where the log and the policy do not agree.
    disagreements: Vec<String>,
    /// The path of the endpoint in the policy.
    template: Option<String>,
    /// A request of the same kind; `None` if the line does not even have its method and path.
    request: Option<Value>,
    /// What the policy says about that request.
    verdict: Option<Value>,
    /// Whether that is what the log says.
    is_same: bool,
}

impl Explanation {
    /// Explains a line, by the policy if there is one.
    pub(crate) fn of(line: LogLine, policy: Option<&Arc<Policy>>) -> Self {
        let fate = line.fate();
        let (code, reason) = (line.code().unwrap_or_default(), line.reason());
        let endpoint = line.text("endpoint");
        let route = policy.zip(endpoint.as_deref()).and_then(|(policy, endpoint)| policy.endpoint(endpoint));
        let mut disagreements = policy.map(|_| disagreements(&line, route)).unwrap_or_default();
        let request =
            if fate == Fate::Undecided { None } else { rebuild::request(&line, policy.map(Arc::as_ref), route) };
        let verdict = policy.zip(request.as_ref()).and_then(|(policy, request)| {
            let request = Request::parse(request.to_string().as_bytes(), now_unix_ms()).ok()?;
            Some(explain(policy, &request).without_steps())
        });
        let is_same = verdict.as_ref().is_some_and(|verdict| is_same(&line, fate, verdict));
        if let (Some(now), Some(before)) = (verdict.as_ref().and_then(|verdict| logged(verdict, "endpoint")), &endpoint)
            && now != before
            && route.is_some()
        {
            disagreements.push(format!("a request for this path belongs to the endpoint {now} in this policy"));
        }
        Self {
            fate,
            not_in_log: not_in_log(&line),
            meaning: explanations::of_code(&code, line.is_webhook()),
            reason_meaning: reason.and_then(|reason| explanations::of_reason(&code, &reason)),
            retry: advice(&code),
            docs_url: policy
                .and_then(|policy| policy.answers.docs_url.as_ref())
                .filter(|_| !code.is_empty())
                .map(|url| format!("{url}#{code}")),
            disagreements,
            template: route.map(|route| route.template.to_string()),
            request,
            verdict,
            is_same,
            line,
        }
    }

    /// Whether the request was refused, by the filter or by the gateway while the filter waited.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.fate, Fate::Refused | Fate::EndedByGateway)
    }
}

/// The retry advice of a code. An error of the backend has advice of its own, which the log does not have.
fn advice(code: &str) -> Option<&'static str> {
    let code = Code::ALL.iter().find(|known| known.name() == code && **known != Code::BackendError)?;
    Some(code.retry().name())
}

/// What nobody finds in a log, because it is a secret or the client's own text.
fn not_in_log(line: &LogLine) -> Vec<&'static str> {
    let key = line.text("idempotency_key_namespaced");
    let key = match key {
        Some(digest) if digest.starts_with("sha256:") => Some("the key (only its digest)"),
        Some(_) => None,
        None if line.code().as_deref() == Some("idempotency_key_required") => None,
        None => Some("the key, if there was one"),
    };
    let path = match line.text("original_path") {
        None => Some("the path"),
        Some(path) => path.contains('{').then_some("the values in the path"),
    };
    let parts = [
        key,
        Some(line.text("payload_hash").map_or("the body", |_| "the body (only a digest)")),
        Some("the token, signature and other credentials"),
        Some("the host, the query and the other headers"),
        path,
    ];
    parts.into_iter().flatten().collect()
}

/// The endpoint of requests for operations, which no route has (docs/contract.md section 9).
const OPERATIONS: &str = "_operations";

/// Where the line and the policy do not agree, before the policy is asked about the request.
fn disagreements(line: &LogLine, route: Option<&Route>) -> Vec<String> {
    let Some(endpoint) = line.text("endpoint").filter(|endpoint| endpoint != OPERATIONS) else { return Vec::new() };
    let Some(route) = route else {
        return vec![format!(
            "the policy has no endpoint {endpoint}: the line was written under another policy document"
        )];
    };
    let mut found = Vec::new();
    let policy = route.policy.name();
    if let Some(logged) = line.text("idempotency_policy").filter(|logged| logged != policy) {
        found.push(format!("the line says {logged}, and the policy has {policy} for {endpoint}"));
    }
    if let Some(method) = line.text("method").filter(|method| !line.is_recovery() && !route.methods.contains(method)) {
        found.push(format!("{endpoint} takes {}, and the line has {method}", route.methods.join(", ")));
    }
    match (line.fate(), route.mode) {
        (Fate::WouldBeRefused, Mode::Enforce) => {
            found.push(format!(
                "the line is from shadow mode, and this policy enforces: {endpoint} would refuse the request"
            ));
        }
        (Fate::Refused, Mode::Shadow) if line.code().is_some_and(|code| code.starts_with("idempotency_key_")) => {
            found.push(format!("the request was refused, and {endpoint} is in shadow mode in this policy"));
        }
        _ => {}
    }
    found
}

/// A log field of a verdict.
fn logged<'v>(verdict: &'v Value, name: &str) -> Option<&'v str> {
    verdict.get("log")?.get(name)?.as_str()
}

/// Whether the policy says about the rebuilt request what the log says about the real one.
fn is_same(line: &LogLine, fate: Fate, verdict: &Value) -> bool {
    let log = |name: &str| logged(verdict, name).map(str::to_owned);
    let is_refused = verdict.get("action").is_some_and(|action| action == "reject");
    let agrees = ["endpoint", "idempotency_policy"].iter().all(|name| log(name) == line.text(name));
    let decision = (log("idempotency_code"), log("idempotency_reason"));
    agrees
        && match fate {
            // Whether shadow mode holds is told as a disagreement.
            Fate::Refused | Fate::WouldBeRefused => decision == (line.code(), line.reason()),
            // No backend answers here, so its error cannot come again.
            Fate::ErrorReplaced | Fate::Forwarded => !is_refused && decision == (None, None),
            // Nobody knows how the filter would have decided.
            // A line has no body, so it cannot show the same again.
            Fate::Acknowledged | Fate::EndedByGateway | Fate::Undecided => false,
        }
}
