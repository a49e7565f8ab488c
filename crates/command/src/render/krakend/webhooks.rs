//! The headers of deliveries that handlers read. KrakenD lets only listed headers through.

use crate::webhook::provider::KnownProvider;
use serde_json::Value;
use std::collections::BTreeSet;

/// Headers that the filter takes out of every delivery, whatever the provider's file reads from them.
const NEVER: [&str; 4] = ["idempotency-key", "authorization", "cookie", "x-api-key"];

/// The providers whose deliveries a route takes, as far as they are known: that of the route, or those of the policy's bindings and
/// `given`.
pub(super) fn providers(document: &Value, endpoint: &str, given: &[String]) -> BTreeSet<String> {
    let listed = document.get("routes").and_then(Value::as_array).into_iter().flatten();
    let route = listed.into_iter().find(|route| route.get("endpoint").is_some_and(|name| name == endpoint));
    if let Some(name) = route.and_then(|route| route.pointer("/webhook/provider")?.as_str()) {
        return BTreeSet::from([name.to_owned()]);
    }
    let bindings = document.pointer("/webhooks/static").and_then(Value::as_object).into_iter().flatten();
    let bound = bindings.filter_map(|(_, binding)| binding.get("provider")?.as_str()).map(str::to_owned);
    bound.chain(given.iter().cloned()).collect()
}

/// What the providers' files leave to handlers: the header with the identifier, and `handler_headers`.
///
/// # Errors
/// There is no provider of a name.
pub(super) fn headers(document: &Value, providers: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for name in providers {
        for header in KnownProvider::named(name, Some(document))?.file.headers_for_handlers() {
            let is = |other: &str| header.eq_ignore_ascii_case(other);
            if !NEVER.iter().any(|never| is(never)) && !all.iter().any(|other| is(other)) {
                all.push(header.to_owned());
            }
        }
    }
    Ok(all)
}
