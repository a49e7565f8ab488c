//! CORS, for scripts in browsers (`--cors-origin`; docs/callers.md, "From a browser").

use super::needs::GatewayNeeds;
use edge_idempotency_engine::policy::needs::PolicyNeeds;
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
pub(crate) fn cors(needs: &GatewayNeeds, origins: &[String]) -> Value {
    if origins.is_empty() {
        return Value::Null;
    }
    let mut methods: BTreeSet<&str> = needs
        .routes
        .iter()
        .filter(|route| !route.webhook)
        .flat_map(|route| &route.methods)
        .map(String::as_str)
        .collect();
    if needs.backends.iter().any(|backend| backend.waits) {
        methods.insert("GET");
    }
    if needs.forwards_unmatched().is_some() {
        methods.extend(["GET", "POST", "PUT", "PATCH", "DELETE"]);
    }
    methods.retain(|method| *method != "OPTIONS");
    let origins: Vec<Value> = origins.iter().map(|origin| json!({"exact": origin})).collect();
    json!({
        "origins": origins,
        "methods": methods.into_iter().collect::<Vec<_>>().join(", "),
        "allowed": ALLOWED.into_iter().chain(needs.api_keys()).collect::<Vec<_>>().join(", "),
        "exposed": exposed(needs).join(", "),
    })
}

/// The headers of answers that clients of a policy read.
pub(crate) fn exposed(needs: &PolicyNeeds) -> Vec<&str> {
    EXPOSED.into_iter().chain(needs.answer_headers.iter().map(String::as_str)).collect()
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
