//! The headers of deliveries that handlers read. KrakenD lets only listed headers through.

use crate::webhook::provider::KnownProvider;
use edge_idempotency_engine::policy::needs::{PolicyNeeds, RouteNeeds};
use serde_json::Value;
use std::collections::BTreeSet;

/// Headers that the filter takes out of every delivery, whatever the provider's file reads from them.
const NEVER: [&str; 4] = ["idempotency-key", "authorization", "cookie", "x-api-key"];

/// The providers whose deliveries a route takes, as far as they are known: that of the route, or those of the policy's bindings and
/// `given`.
pub(super) fn providers(needs: &PolicyNeeds, route: &RouteNeeds, given: &[String]) -> BTreeSet<String> {
    if let Some(name) = &route.provider {
        return BTreeSet::from([name.clone()]);
    }
    needs.bindings.values().map(|binding| &binding.provider).chain(given).cloned().collect()
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
