//! CORS, for scripts in browsers (`--cors-origin`; docs/clients.md, "From a browser").

use super::needs::GatewayNeeds;
use crate::lints::backends::{BackendAt, Backends};
use edge_idempotency_engine::policy::OPERATION_ID;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Headers of answers that a client reads (docs/contract.md, section 6), besides that of the operation's id.
const EXPOSED: [&str; 6] = [
    "idempotency-status",
    "idempotent-replayed",
    "idempotency-expires",
    "idempotency-retry",
    "retry-after",
    "location",
];
/// What a client needs to send a request with a key and a token.
const ALLOWED: [&str; 3] = ["authorization", "content-type", "idempotency-key"];

/// Reads an origin: a scheme, a host and perhaps a port, as browsers write it.
///
/// # Errors
/// It is something else; the sentence says what to write.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    match host {
        Some(host) if !host.is_empty() && host.bytes().all(plain) => Ok(text.to_owned()),
        _ => Err("write the origin as browsers do, such as https://app.example.com or http://localhost:3000: no path, and small \
                  letters"
            .to_owned()),
    }
}

/// The rules for a gateway; null without origins.
pub(crate) fn cors(document: &Value, needs: &GatewayNeeds, origins: &[String]) -> Value {
    if origins.is_empty() {
        return Value::Null;
    }
    let rejects = document.get("unmatched").and_then(Value::as_str).is_none_or(|unmatched| unmatched == "REJECT");
    let mut methods: BTreeSet<&str> = needs
        .routes
        .iter()
        .filter(|route| !route.webhook)
        .flat_map(|route| &route.methods)
        .map(String::as_str)
        .collect();
    if needs.waits_for_results() {
        methods.insert("GET");
    }
    if !rejects {
        methods.extend(["GET", "POST", "PUT", "PATCH", "DELETE"]);
    }
    methods.retain(|method| *method != "OPTIONS");
    let origins: Vec<Value> = origins.iter().map(|origin| json!({"exact": origin})).collect();
    json!({
        "origins": origins,
        "methods": methods.into_iter().collect::<Vec<_>>().join(", "),
        "allowed": ALLOWED.into_iter().chain(needs.api_keys.as_deref()).collect::<Vec<_>>().join(", "),
        "exposed": exposed(document).join(", "),
    })
}

/// The headers of answers that clients of a policy read. A backend of another kind than Restate has operation ids only where the policy
/// says so.
pub(crate) fn exposed(document: &Value) -> Vec<String> {
    let retry = document.pointer("/answers/retry_headers").and_then(Value::as_array).into_iter().flatten();
    let backends = Backends::<Value>::deserialize(document);
    let operation = |backend: BackendAt<'_, Value>| {
        let is_restate = backend.value.get("kind").is_some_and(|kind| kind == "restate");
        let named = backend.value.get("operation_id").is_some();
        (named || is_restate).then(|| OPERATION_ID.to_owned())
    };
    let operations: BTreeSet<String> = backends.iter().flat_map(Backends::iter).filter_map(operation).collect();
    let retry = retry.filter_map(Value::as_str).map(str::to_ascii_lowercase);
    EXPOSED.into_iter().map(str::to_owned).chain(operations).chain(retry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_as_browsers_write_it() {
        for text in ["https://app.example.com", "http://localhost:3000", "http://[::1]:3000"] {
            assert_eq!(origin(text).unwrap(), text);
        }
        for text in
            ["", "*", "null", "app.example.com", "https://", "https://app.example.com/", "https://App.example.com"]
        {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
