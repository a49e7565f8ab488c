//! The verdict on one request.

mod gateway;

use crate::explain::request::Request;
use crate::explain::sources::{self, SourceView};
use crate::explain::trace::{self, Step, Steps};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::exchange::Case;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::memory_gateway::HeaderEdit;
use edge_idempotency_engine::problem::Problem;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What the filter does with a request.
#[derive(Debug)]
pub struct Verdict {
    members: Map<String, Value>,
    steps: Steps,
    forwarded: bool,
}

/// Runs a request through the engine, as a gateway does.
pub fn explain(policy: &Arc<Policy>, request: &Request) -> Verdict {
    let headers = Headers::new(request.lines());
    let (stream, edits) = gateway::run(policy, request);
    let exchange = stream.exchange();

    let mut path = request.target.clone();
    let (mut set, mut removed) = (Map::new(), Vec::new());
    for HeaderEdit { name, value, .. } in edits {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match value {
            Some(value) if name == b":path" => path = text(&value),
            Some(value) => {
                set.insert(text(&name), text(&value).into());
            }
            None => removed.push(text(&name)),
        }
    }

    let refusal = exchange.refusal();
    // What the core writes is JSON.
    let read = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
    let shown = |problem: &Problem| read(problem.document(&policy.answers));
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    let acknowledged = exchange.is_acknowledged();
    put("action", if acknowledged { "acknowledge" } else { action(refusal) }.into());
    put("endpoint", exchange.endpoint(policy).into());
    put("policy", exchange.policy_name().into());
    put("case", exchange.case().map(Case::name).into());
    if let (Some(key), None, None) = (exchange.key(), exchange.shadow(), refusal) {
        put("idempotency_key", key.into());
    }
    let forwarded = refusal.is_none() && !acknowledged;
    if forwarded {
        put("path", path.into());
    }
    put("set_headers", set.into());
    put("remove_headers", removed.into());
    if let Some(problem) = refusal {
        put("status", problem.status().into());
        put("problem", shown(problem));
        if let Some(note) = exchange.protocol().rpc_name().map(|protocol| rpc_note(protocol, problem)) {
            put("rpc", note);
        }
    }
    if acknowledged {
        put("status", 200.into());
    }
    if let Some(shadowed) = exchange.shadow() {
        let mut shadow = json!({"action": action(shadowed)});
        if let (Some(problem), Some(shadow)) = (shadowed, shadow.as_object_mut()) {
            shadow.insert("status".to_owned(), problem.status().into());
            shadow.insert("problem".to_owned(), shown(problem));
        } else if let (Some(key), Some(shadow)) = (exchange.key(), shadow.as_object_mut()) {
            shadow.insert("idempotency_key".to_owned(), key.into());
        }
        put("shadow", shadow);
    }
    let identity = sources::read(exchange.identity_sources(policy, &headers), &headers, request, exchange.key_holder());
    put("identity", identity.iter().map(SourceView::to_json).collect());
    put("log", read(exchange.record(policy).to_json()));
    let steps = trace::of(policy, (request, &headers), exchange, &identity);
    Verdict { forwarded, members, steps }
}

/// What a client of gRPC or Connect gets in the place of the problem document.
fn rpc_note(protocol: &str, problem: &Problem) -> Value {
    let status = problem.rpc_status();
    json!({"protocol": protocol, "code": status.name(), "grpc_status": status.number()})
}

const fn action(refusal: Option<&Problem>) -> &'static str {
    if refusal.is_some() { "reject" } else { "forward" }
}

impl Verdict {
    /// Whether the request goes on to the backend.
    pub const fn is_forwarded(&self) -> bool {
        self.forwarded
    }

    /// The verdict as JSON. `notes` say what was left out of the request; without any there is no such member.
    pub fn to_json(&self, notes: &[String]) -> Value {
        let mut members = self.members.clone();
        members.insert("steps".to_owned(), self.steps.steps.iter().map(Step::to_json).collect());
        if !notes.is_empty() {
            members.insert("notes".to_owned(), json!(notes));
        }
        Value::Object(members)
    }

    /// The verdict as JSON, without the steps that led to it.
    pub fn without_steps(&self) -> Value {
        Value::Object(self.members.clone())
    }

    /// The verdict for people.
    pub fn to_text(&self, notes: &[String]) -> String {
        self.steps.to_text(&self.to_json(notes), notes)
    }
}
