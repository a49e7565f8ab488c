//! Stored results for people, and as JSON (docs/contract.md section 11).

use super::claims::StoredClaim;
use super::durations::short;
use super::invocations::{Invocation, ResultState};
use crate::explain::terminal_text::printable;
use comfy_table::{ContentArrangement, Table, presets};
use edge_idempotency_engine::key;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// A table with a row for each invocation.
pub(crate) fn table(invocations: &[Invocation], now: Timestamp) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["id", "key", "operation", "result", "age", "expires in"]);
    for invocation in invocations {
        let key = invocation.idempotency_key.as_deref().unwrap_or_default();
        table.add_row([
            invocation.id.to_string(),
            printable(key).into_owned(),
            printable(&invocation.operation()).into_owned(),
            result(invocation),
            age(invocation, now),
            expiry(invocation, now),
        ]);
    }
    let text = table.to_string();
    text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect::<Vec<_>>().join("\n")
}

/// `succeeded`, `failed 402`, or how far the invocation is.
fn result(invocation: &Invocation) -> String {
    match (invocation.state(), invocation.error_code()) {
        (ResultState::Succeeded, _) => "succeeded".to_owned(),
        (ResultState::Failed, Some(code)) => format!("failed {code}"),
        (ResultState::Failed, None) => "failed".to_owned(),
        (ResultState::InFlight, _) => printable(&invocation.status).into_owned(),
    }
}

fn age(invocation: &Invocation, now: Timestamp) -> String {
    invocation.age(now).map_or_else(|| "?".to_owned(), |seconds| short(u64::try_from(seconds).unwrap_or_default()))
}

/// Restate removes what has expired within an hour (`worker.cleanup-interval`), and answers with it until then.
fn expiry(invocation: &Invocation, now: Timestamp) -> String {
    match (invocation.state(), invocation.expires_at()) {
        (ResultState::InFlight, _) => "-".to_owned(),
        (_, None) => "?".to_owned(),
        (_, Some(time)) => match u64::try_from(time.duration_since(now).as_secs()) {
            Ok(seconds) if seconds > 0 => short(seconds),
            _ => "expired".to_owned(),
        },
    }
}

/// All that is known of one invocation. `claims`: `None` if they were not looked for.
pub(crate) fn details(invocation: &Invocation, claims: Option<&[StoredClaim]>, now: Timestamp) -> String {
    let stored = invocation.idempotency_key.as_deref().unwrap_or_default();
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:12} {}", printable(value));
    };
    line("id", &invocation.id);
    line("stored key", stored);
    if let Some(parts) = parts_of(invocation) {
        line("tenant", parts.identity.tenant.as_str());
        line("project", parts.identity.project.as_str());
        line("subject", &readable_subject(&parts.identity.subject));
        line("key", parts.raw);
    }
    line("operation", &invocation.operation());
    if let Some(object) = &invocation.target_service_key {
        line("object key", object);
    }
    line("result", &result(invocation));
    if let Some(message) = invocation.error_message() {
        line("error", message);
    }
    if let Some(failure) = invocation.last_failure.as_deref().filter(|_| invocation.state() == ResultState::InFlight) {
        line("last failure", failure);
    }
    if let Some(tries) = invocation.retry_count.filter(|_| invocation.state() == ResultState::InFlight) {
        line("attempts", &tries.to_string());
    }
    let at = |time: Option<&str>| time.unwrap_or("?").to_owned();
    line("came", &format!("{} ({} ago)", at(invocation.created_at.as_deref()), age(invocation, now)));
    if invocation.state() != ResultState::InFlight {
        let time = invocation.expires_at().map(|time| time.to_string());
        line(
            "expires",
            &format!("{} (in {})", at(time.as_deref()), expiry(invocation, now)).replace("(in expired)", "(expired)"),
        );
    }
    for claim in claims.into_iter().flatten().filter(|claim| claim.about == stored) {
        line("claim", &claim.invocation.id);
    }
    text.truncate(text.trim_end().len());
    text
}

/// `{type}:{id}` with the id as the identity source gave it.
pub(crate) fn readable_subject(subject: &edge_idempotency_engine::identity::Subject) -> String {
    let (kind, id) = subject.parts();
    format!("{kind}:{}", String::from_utf8_lossy(&id))
}

/// The parts of the key that the filter sent; `None` if it is none of the filter's.
fn parts_of(invocation: &Invocation) -> Option<key::Decoded<'_>> {
    key::decode(invocation.sent_key()?.0).ok()
}

/// An invocation as JSON.
pub(crate) fn to_json(invocation: &Invocation, now: Timestamp) -> Map<String, Value> {
    let stored = invocation.idempotency_key.as_deref().unwrap_or_default();
    let parts = parts_of(invocation);
    let mut members = Map::new();
    let mut add = |name: &str, value: Value| {
        members.insert(name.to_owned(), value);
    };
    add("id", json!(invocation.id));
    add("service", json!(invocation.target_service_name));
    add("object_key", json!(invocation.target_service_key));
    add("handler", json!(invocation.target_handler_name));
    add("namespaced_key", json!(stored));
    add("tenant", json!(parts.as_ref().map(|parts| parts.identity.tenant.as_str())));
    add("project", json!(parts.as_ref().map(|parts| parts.identity.project.as_str())));
    add("subject", json!(parts.as_ref().map(|parts| readable_subject(&parts.identity.subject))));
    add("key", json!(parts.as_ref().map(|parts| parts.raw)));
    add("state", json!(invocation.state().name()));
    add("status", json!(invocation.status));
    add("error_code", json!(invocation.error_code()));
    add("created_at", json!(invocation.created_at));
    add("completed_at", json!(invocation.completed_at));
    add("expires_at", json!(invocation.expires_at().map(|time| time.to_string())));
    add("age_seconds", json!(invocation.age(now)));
    members
}

/// An invocation as JSON, with its error and its claims; `null` if they were not looked for.
pub(crate) fn details_to_json(invocation: &Invocation, claims: Option<&[StoredClaim]>, now: Timestamp) -> Value {
    let stored = invocation.idempotency_key.as_deref().unwrap_or_default();
    let mut members = to_json(invocation, now);
    members.insert("error_message".to_owned(), json!(invocation.error_message()));
    members.insert("attempts".to_owned(), json!(invocation.retry_count));
    members.insert("last_failure".to_owned(), json!(invocation.last_failure));
    let to_json = |claim: &StoredClaim| json!({"id": claim.invocation.id});
    let of_this = |claims: &[StoredClaim]| claims.iter().filter(|claim| claim.about == stored).map(to_json).collect();
    members.insert("claims".to_owned(), claims.map_or(Value::Null, of_this));
    Value::Object(members)
}

/// A call of a handler as JSON.
pub(crate) fn call_to_json(call: &Invocation) -> Value {
    json!({"id": call.id, "service": call.target_service_name, "handler": call.target_handler_name, "state": call.state().name(),
        "called_by": call.invoked_by_id})
}

/// A line about a call of a handler.
pub(crate) fn call_to_text(call: &Invocation) -> String {
    let caller = call.invoked_by_id.as_deref().unwrap_or("?");
    let text = format!("call {}  {}  {}  called by {caller}", call.id, call.operation(), result(call));
    printable(&text).into_owned()
}
