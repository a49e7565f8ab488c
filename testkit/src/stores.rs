//! The stores of a case: what a registry, a secret store, the guard and Restate's lookup of invocations answer to the calls that the
//! engine makes.

use edge_idempotency_engine::json::Json;
use edge_idempotency_engine::lookup::{FakeStores, StoreKind};
use serde_json::Value;

use crate::cases::Case;

/// The stores of a case, or what is wrong with its `lookups`.
///
/// # Errors
/// `lookups` is not in the form that `explain` takes.
pub fn fake_stores(case: &Case) -> Result<FakeStores, String> {
    let Some(lookups) = &case.lookups else { return Ok(FakeStores::default()) };
    Json::parse(lookups.to_string().as_bytes())
        .map_err(|error| error.to_string())
        .and_then(|json| FakeStores::read(&json))
        .map_err(|error| format!("`lookups`: {error}"))
}

/// What a store answers to a call; which store it is and what it is asked for is read from the call. The status is `None`
/// for a store that cannot be reached.
pub fn answer(stores: &FakeStores, method: &[u8], path: &[u8], body: &[u8]) -> (Option<u16>, Vec<u8>) {
    let path = String::from_utf8_lossy(path).into_owned();
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    if path == "/restate/lookup" {
        stores.invocation_reply(body)
    } else if path == "/restate/output" {
        stores.in_flight_reply()
    } else if path.starts_with("/restate/call/") {
        stores.guard_reply(body)
    } else if method == b"POST" {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        stores.reply_for(StoreKind::Bindings, body.get("key").and_then(Value::as_str).unwrap_or_default(), false)
    } else {
        stores.reply_for(StoreKind::Secrets, path.rsplit('/').next().unwrap_or_default(), !query.is_empty())
    }
}

/// What Restate answers to the lookup of an invocation with this body, in a case that says nothing else.
pub fn invocation_reply(body: &[u8]) -> Vec<u8> {
    FakeStores::default().invocation_reply(body).1
}
