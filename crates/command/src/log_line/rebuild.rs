//! A request document for `explain` that is answered like a request of which only a line of a log is left. What the log does
//! not have is made up.

use super::{Fate, LogLine};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::identity::{IdentityPart, IdentityPlace, IdentitySource};
use edge_idempotency_engine::policy::Route;
use serde_json::{Map, Value, json};

/// A key that every grammar takes.
const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
/// The raw key's place in a namespaced one: `t-{tenant}:{project}:{type}:{id}:{raw}`.
const NAMESPACED_PARTS: usize = 5;

/// The request document; `None` if neither the line nor the policy has a path, as for a request that no route declares.
pub(super) fn request(line: &LogLine, policy: Option<&Policy>, route: Option<&Route>) -> Option<Value> {
    let template = || route.map(|route| route.template.to_string());
    // Without `"key_in_logs": "full"` the line has the path of the route, and not the request's.
    let path = fill(&line.text("original_path").filter(|path| path.starts_with('/')).or_else(template)?);
    let method = line.text("method").or_else(|| route.and_then(|route| route.methods.first().cloned()));
    let mut headers: Vec<Value> = keys(line).into_iter().map(|key| json!(["idempotency-key", key])).collect();
    headers.extend(line.text("attempt").map(|attempt| json!(["x-retry-attempt", attempt])));
    let (mut metadata, mut payload, mut holder) = (Value::Null, Value::Null, Value::Object(Map::new()));
    let source = policy.filter(|_| !line.is_webhook()).and_then(|policy| policy.identity_of(route).sources.first());
    if let Some(source) = source {
        for (part, place) in source.places() {
            if let (Some(place), Some(value)) = (place, identity(line, source, part)) {
                match place {
                    IdentityPlace::Header(name) => headers.push(json!([name, value])),
                    IdentityPlace::Claim(claim) => put_below(&mut payload, claim.names(), value),
                    IdentityPlace::Metadata(path) => put_below(&mut metadata, path.segments(), value),
                    IdentityPlace::Key(member) => put_below(&mut holder, &member.names, value),
                    IdentityPlace::Constant(_) => {}
                }
            }
        }
        if let (Some(name), true) = (source.payload_header(), payload.is_object()) {
            headers.push(json!([name, URL_SAFE_NO_PAD.encode(payload.to_string())]));
        }
    }
    let mut request = Map::from_iter([
        ("method".to_owned(), json!(method.unwrap_or_else(|| "POST".to_owned()))),
        ("url".to_owned(), json!(format!("https://api.example.com{path}"))),
        ("headers".to_owned(), Value::Array(headers)),
    ]);
    if metadata.is_object() {
        request.insert("metadata".to_owned(), metadata);
    }
    if let Some(place) = source.and_then(|source| source.api_key.as_ref()) {
        let key = format!("{}{KEY}", place.prefix);
        let sent = if place.is_bearer() { format!("Bearer {key}") } else { key.clone() };
        if let Some(headers) = request.get_mut("headers").and_then(Value::as_array_mut) {
            headers.push(json!([place.header, sent]));
        }
        request.insert("lookups".to_owned(), json!({"api_keys": {key: holder}}));
    }
    if line.is_webhook() {
        request.insert("body".to_owned(), json!("{}"));
    }
    Some(Value::Object(request))
}

/// The template with a value for each parameter: `/orders/{order_id}` becomes `/orders/order_id`.
fn fill(template: &str) -> String {
    template.replace(['{', '}'], "")
}

/// The values of the `Idempotency-Key` lines: the real key if the log has it, else keys that are refused for the same reason.
fn keys(line: &LogLine) -> Vec<String> {
    let one = |key: &str| vec![key.to_owned()];
    // The key of a delivery is made of its body and its other headers; that of a recovery is in its path.
    if line.is_webhook() || line.is_recovery() {
        return Vec::new();
    }
    let logged = line.text("idempotency_key_namespaced").filter(|key| key.starts_with("t-"));
    if let Some(raw) = logged.as_deref().and_then(|key| key.splitn(NAMESPACED_PARTS, ':').nth(NAMESPACED_PARTS - 1)) {
        // A value that begins with a quote is read as a Structured Field string.
        let string = || format!("\"{}\"", raw.replace('\\', r"\\").replace('"', r#"\""#));
        return if raw.starts_with('"') { vec![string()] } else { one(raw) };
    }
    match (line.code().as_deref(), line.reason().as_deref()) {
        (Some("idempotency_key_required"), _) => Vec::new(),
        (Some("idempotency_key_invalid"), Some(reason)) => match reason {
            "multiple" => vec![KEY.to_owned(), "another".to_owned()],
            "empty" => one(""),
            "syntax" => one("\"8e03978e"),
            "length" => one(&"a".repeat(256)),
            "charset" => one("a b"),
            "reserved_prefix" => one("t-8e03978e"),
            "format" => one("no-such-form"),
            // A UUID of version 7 from 1970.
            "expired" => one("00000000-0000-7000-8000-000000000000"),
            _ => one(KEY),
        },
        (Some(_), _) if line.text("idempotency_policy").as_deref() != Some("PROHIBITED") => one(KEY),
        (Some("idempotency_key_prohibited"), _) => one(KEY),
        _ if line.text("idempotency_case").as_deref() == Some("A") => one(KEY),
        _ => Vec::new(),
    }
}

/// The value of a part of the identity; `None` if the request had none.
fn identity(line: &LogLine, source: &IdentitySource, part: IdentityPart) -> Option<String> {
    let code = line.code().unwrap_or_default();
    let is_refused = matches!(line.fate(), Fate::Refused | Fate::WouldBeRefused);
    // A log that does not say which part it was leaves all of them. A source's name can hold that of a part.
    let named = format!(".{}:", part.name());
    let is_wrong = line.identity_problem().is_none_or(|problem| problem.contains(&named));
    match (part, code.as_str()) {
        (_, "identity_missing") if is_refused && is_wrong => None,
        (_, "identity_invalid") if is_refused && is_wrong => Some("not/valid,\u{1}".to_owned()),
        (IdentityPart::Subject, _) => Some(subject(line, source)),
        (part, _) => {
            // A name that begins with `_` stands for the scope of the route, and is nobody's.
            let logged = line.text(part.name()).filter(|name| !name.starts_with('_'));
            Some(logged.unwrap_or_else(|| "unknown".to_owned()))
        }
    }
}

/// The subject, as the source has it. The log has it only in a key that is written in full, percent-encoded.
fn subject(line: &LogLine, source: &IdentitySource) -> String {
    let key = line.text("idempotency_key_namespaced").filter(|key| key.starts_with("t-")).unwrap_or_default();
    let mut parts = key.splitn(NAMESPACED_PARTS, ':').skip(2);
    let (kind, id) = (parts.next().unwrap_or("user"), parts.next().filter(|id| !id.contains('%')));
    let id = id.unwrap_or("unknown");
    if source.subject.kind.is_some() { id.to_owned() } else { format!("{kind}:{id}") }
}

/// Puts a value into members below `at`.
fn put_below(mut at: &mut Value, names: &[String], value: String) {
    for name in names {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Some(members) = at.as_object_mut() else { return };
        at = members.entry(name.as_str()).or_insert(Value::Null);
    }
    *at = Value::String(value);
}
