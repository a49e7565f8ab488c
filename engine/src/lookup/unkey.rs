//! Bindings from Unkey: a webhook id is an Unkey key, and verifying the key gives its owner.
//!
//! The response to `POST /v2/keys.verifyKey` is 200 for invalid keys too, with `data.valid` and `data.code`. The tenant is
//! `data.identity.externalId`, all else is in `data.meta`
//! (<https://www.unkey.com/docs/api-reference/v2/keys/verify-api-key>).

use super::cache::LookupOutcome;
use super::{CallId, LookupFailure, StoreKind, StoreValue};
use crate::call::{Call, CallReply, credential, request_lines};
use crate::codes::Reason;
use crate::identity::{Project, Tenant};
use crate::json::{Json, is_json, to_text};
use crate::policy::document::{Binding, Unkey};
use crate::provider::KeyScope;
use serde::Serialize;
use std::sync::Arc;

/// The body of `keys.verifyKey`.
#[derive(Serialize)]
struct VerifyKey<'k> {
    key: &'k str,
    credits: Credits,
}

/// What a verification costs.
#[derive(Serialize)]
struct Credits {
    cost: u32,
}

/// The call that verifies a webhook id, at a cost of no credits.
pub(super) fn call(unkey: &Unkey, id: CallId) -> (CallId, Call) {
    let mut headers = request_lines(&unkey.service, "POST", unkey.path.clone());
    headers.push(("content-type", "application/json".to_owned()));
    headers.extend(credential(&unkey.service).map(|root_key| ("authorization", format!("Bearer {root_key}"))));
    let call = Call {
        cluster: unkey.service.cluster.clone(),
        headers,
        body: to_text(&VerifyKey { key: &id.key, credits: Credits { cost: 0 } }).into_bytes(),
        timeout_ms: unkey.service.timeout_ms,
    };
    (id, call)
}

/// Reads the reply to [`call`].
pub(super) fn read(reply: &CallReply<'_>) -> LookupOutcome {
    let failed = |reason| LookupOutcome::Failed { reason, down: false };
    let body = match (reply.status, reply.body) {
        (Some(200), Some(body)) => body,
        (Some(200), None) => return failed(Reason::RegistryReplyMalformed),
        (None, _) => return LookupOutcome::unreachable(StoreKind::Bindings),
        (Some(504), _) => return LookupOutcome::Failed { reason: Reason::RegistryTimeout, down: true },
        // Unkey's own errors are JSON, the gateway's are not.
        (Some(500..), body) if !body.is_some_and(|body| is_json(&Json::parse(body))) => {
            return LookupOutcome::unreachable(StoreKind::Bindings);
        }
        (Some(500..), _) => return LookupOutcome::Failed { reason: Reason::RegistryError, down: true },
        (Some(401 | 403), _) => return failed(Reason::RegistryForbidden),
        (Some(429), _) => return failed(Reason::RegistryThrottled),
        (Some(_), _) => return failed(Reason::RegistryRefused),
    };
    let malformed = LookupOutcome::Negative(LookupFailure::Unavailable(Reason::BindingMalformed));
    let reply = match Json::parse(body) {
        Ok(reply) => reply,
        // Parsers disagree about which one of two duplicate members counts.
        Err(error) if error.is_duplicate() => return malformed,
        Err(_) => return failed(Reason::RegistryReplyMalformed),
    };
    let of = |names: &[&str]| reply.at(&["data"]).and_then(|data| data.at(names));
    let (Some(Json::Bool(valid)), Some(Json::String(code))) = (of(&["valid"]), of(&["code"])) else {
        return failed(Reason::RegistryReplyMalformed);
    };
    match (valid, code.as_ref()) {
        (true, "VALID") => {}
        // Unkey says this too if the root key belongs to another API.
        (_, "NOT_FOUND") => return LookupOutcome::Negative(LookupFailure::Unknown(Reason::BindingNotFound)),
        (_, "RATE_LIMITED") => return failed(Reason::RegistryThrottled),
        // The key is disabled, expired, forbidden or used up, or the code is one of a later version of Unkey.
        _ => return LookupOutcome::Negative(LookupFailure::Unknown(Reason::BindingNotValid)),
    }
    if of(&["meta", "kind"]).and_then(Json::text) != Some("webhook") {
        return LookupOutcome::Negative(LookupFailure::Unknown(Reason::BindingOfAnotherKind));
    }
    match binding(of) {
        Some(binding) => LookupOutcome::Found { value: StoreValue::Binding(Arc::new(binding)), partial: None },
        None => malformed,
    }
}

/// Reads a binding from the members of `data`; `None` if one is missing or malformed.
fn binding<'j>(of: impl Fn(&[&str]) -> Option<&'j Json<'j>>) -> Option<Binding> {
    let text = |names: &[&str]| of(names).and_then(Json::text);
    Some(Binding {
        tenant: Tenant::parse(text(&["identity", "externalId"])?.as_bytes()).ok()?,
        project: Project::parse(text(&["meta", "project_id"])?.as_bytes()).ok()?,
        provider: text(&["meta", "provider"])?.to_owned(),
        secrets: Vec::new(),
        key_scope: match of(&["meta", "key_scope"]).map(Json::text) {
            None => None,
            Some(Some("project")) => Some(KeyScope::Project),
            Some(Some("webhook")) => Some(KeyScope::Webhook),
            Some(_) => return None,
        },
        bind_body: match of(&["meta", "bind_body"]) {
            None => None,
            Some(Json::Bool(value)) => Some(*value),
            Some(_) => return None,
        },
    })
}
