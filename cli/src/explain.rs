//! `explain`: the verdict on one request, by the very engine that runs in the gateway.

use crate::request::Request;
use crate::sources::{self, SourceView};
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::problem::Problem;
use edge_idempotency_engine::telemetry::Case;
use edge_idempotency_engine::{Effect, Exchange, Policy};
use serde_json::{Map, Value, json};
use std::fmt;

/// The member with the identity sources.
const IDENTITY: &str = "identity";

/// What the filter does with a request.
#[derive(Debug)]
pub(crate) struct Verdict {
    members: Map<String, Value>,
    /// The identity sources of the request's route.
    identity: Vec<SourceView>,
    forwarded: bool,
}

/// Runs a request through the engine.
pub(crate) fn explain(policy: &Policy, request: &Request) -> Verdict {
    let lines = request.headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
    let headers = Headers::new(lines);
    let mut exchange = Exchange::new();
    let mut effects = Vec::new();
    let whole = (&headers, request.body.as_slice());
    exchange.whole_request(policy, whole, request, &request.stores, request.now_unix_ms, &mut effects);

    let mut path = request.target.clone();
    let (mut set, mut removed) = (Map::new(), Vec::new());
    for effect in &effects {
        match effect {
            Effect::Set { name: ":path", value, .. } => path = String::from_utf8_lossy(value).into_owned(),
            Effect::Set { name, value, .. } => {
                set.insert((*name).to_owned(), String::from_utf8_lossy(value).into());
            }
            Effect::Remove { name, .. } => removed.push(String::from_utf8_lossy(name).into_owned()),
            Effect::Reply(_) | Effect::Body(_) => {}
        }
    }

    let refusal = exchange.refusal();
    // What the core writes is JSON.
    let read = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
    let document = |problem: &Problem| read(problem.document(policy.answers()));
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("action", action(refusal).into());
    put("endpoint", exchange.endpoint(policy).into());
    put("policy", exchange.policy_name().into());
    put("case", exchange.case().map(Case::name).into());
    if let (Some(key), None, None) = (exchange.key(), exchange.shadow(), refusal) {
        put("idempotency_key", key.into());
    }
    if refusal.is_none() {
        put("path", path.into());
    }
    put("set_headers", set.into());
    put("remove_headers", removed.into());
    if let Some(problem) = refusal {
        put("status", problem.status().into());
        put("problem", document(problem));
    }
    if let Some(shadowed) = exchange.shadow() {
        let mut shadow = json!({"action": action(shadowed)});
        if let (Some(problem), Some(shadow)) = (shadowed, shadow.as_object_mut()) {
            shadow.insert("status".to_owned(), problem.status().into());
            shadow.insert("problem".to_owned(), document(problem));
        } else if let (Some(key), Some(shadow)) = (exchange.key(), shadow.as_object_mut()) {
            shadow.insert("idempotency_key".to_owned(), key.into());
        }
        put("shadow", shadow);
    }
    let identity = sources::read(exchange.identity_sources(policy, &headers), &headers, request);
    put(IDENTITY, identity.iter().map(SourceView::to_json).collect());
    put("log", read(exchange.record(policy).to_json()));
    Verdict { forwarded: refusal.is_none(), members, identity }
}

const fn action(refusal: Option<&Problem>) -> &'static str {
    if refusal.is_some() { "reject" } else { "forward" }
}

impl Verdict {
    /// Whether the request goes on to the backend.
    pub(crate) const fn is_forwarded(&self) -> bool {
        self.forwarded
    }

    /// The verdict as JSON.
    pub(crate) fn to_json(&self) -> Value {
        Value::Object(self.members.clone())
    }
}

/// One line a member, for people; a line a part for the identity sources.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, value) in &self.members {
            let label = name.replace('_', " ");
            match value {
                Value::Null => continue,
                _ if name == IDENTITY && !self.identity.is_empty() => {
                    write!(f, "{separator}{label}:")?;
                    self.identity.iter().try_for_each(|source| write!(f, "\n{source}"))?;
                }
                Value::String(text) => write!(f, "{separator}{label}: {text}")?,
                Value::Object(members) if !members.is_empty() => {
                    write!(f, "{separator}{label}:")?;
                    for (name, value) in members {
                        match value {
                            Value::String(text) => write!(f, "\n  {name}: {text}")?,
                            other => write!(f, "\n  {name}: {other}")?,
                        }
                    }
                }
                Value::Array(items) if !items.is_empty() => {
                    let names: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                    write!(f, "{separator}{label}: {}", names.join(", "))?;
                }
                Value::Object(_) | Value::Array(_) => continue,
                other => write!(f, "{separator}{label}: {other}")?,
            }
            separator = "\n";
        }
        Ok(())
    }
}
