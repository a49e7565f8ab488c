//! Bindings from Unkey: a webhook id is a key there, and its verification says whose it is.
//!
//! `POST /v2/keys.verifyKey` answers every verdict with 200 and `data.valid`, `data.code`; the tenant is
//! `data.identity.externalId`, the rest stands in `data.meta`
//! (<https://www.unkey.com/docs/api-reference/v2/keys/verify-api-key>).

use super::cache::LookupOutcome;
use super::{CallId, LookupResult, StoreKind, places, text};
use crate::call::{Call, CallReply, credential, request_lines};
use crate::identity::{Project, Tenant};
use crate::json::scan::{JsonScalar, PointerResult};
use crate::policy::document::{Binding, Unkey};
use crate::provider::KeyScope;
use std::sync::Arc;

/// Asks for a webhook id. Verifying it costs no credits.
pub(super) fn call(unkey: &Unkey, id: CallId) -> Call<CallId> {
    let mut headers = request_lines(&unkey.service, "POST", unkey.path.clone());
    headers.push(("content-type", "application/json".to_owned()));
    headers.extend(credential(&unkey.service).map(|root_key| ("authorization", format!("Bearer {root_key}"))));
    Call {
        cluster: unkey.service.cluster.clone(),
        headers,
        // A webhook id holds nothing that JSON would have to escape.
        body: format!(r#"{{"key":"{}","credits":{{"cost":0}}}}"#, id.key).into_bytes(),
        timeout_ms: unkey.service.timeout_ms,
        id,
    }
}

/// The members that are read.
const MEMBERS: [&str; 8] = [
    "/data/valid",
    "/data/code",
    "/data/identity/externalId",
    "/data/meta/project_id",
    "/data/meta/provider",
    "/data/meta/kind",
    "/data/meta/key_scope",
    "/data/meta/bind_body",
];

/// What a reply says of a webhook id.
pub(super) fn read(reply: &CallReply<'_>) -> LookupOutcome {
    let failed = |reason| LookupOutcome::Failed { reason, down: false };
    let body = match (reply.status, reply.body) {
        (Some(200), Some(body)) => body,
        (Some(200), None) => return failed("registry_reply_malformed"),
        (None, _) => return LookupOutcome::unreachable(StoreKind::Bindings),
        (Some(504), _) => return LookupOutcome::Failed { reason: "registry_timeout", down: true },
        // Unkey's errors are JSON, those that a gateway makes for it are not.
        (Some(500..), body) if body.is_none_or(|body| places(body, &[]).is_none()) => {
            return LookupOutcome::unreachable(StoreKind::Bindings);
        }
        (Some(500..), _) => return LookupOutcome::Failed { reason: "registry_error", down: true },
        (Some(401 | 403), _) => return failed("registry_forbidden"),
        (Some(429), _) => return failed("registry_throttled"),
        (Some(_), _) => return failed("registry_refused"),
    };
    let found = places(body, &MEMBERS);
    let Some(&[valid, code, tenant, project, provider, kind, key_scope, bind_body]) = found.as_deref() else {
        return failed("registry_reply_malformed");
    };
    let (PointerResult::Value(JsonScalar::Boolean(valid)), Some(code)) = (valid, text(code)) else {
        return failed("registry_reply_malformed");
    };
    match (valid, code.as_slice()) {
        (b"true", b"VALID") => {}
        // Also what a root key of another API is told.
        (_, b"NOT_FOUND") => return LookupOutcome::Negative(LookupResult::Unknown("binding_not_found")),
        (_, b"RATE_LIMITED") => return failed("registry_throttled"),
        // Disabled, expired, forbidden, used up, and whatever codes there will be.
        _ => return LookupOutcome::Negative(LookupResult::Unknown("binding_not_valid")),
    }
    if text(kind).as_deref() != Some(b"webhook") {
        return LookupOutcome::Negative(LookupResult::Unknown("binding_of_another_kind"));
    }
    match binding(tenant, project, provider, key_scope, bind_body) {
        Some(binding) => LookupOutcome::Found { answer: LookupResult::Binding(Arc::new(binding)), partial: None },
        None => LookupOutcome::Negative(LookupResult::Unavailable("binding_malformed")),
    }
}

fn binding(
    tenant: PointerResult<'_>,
    project: PointerResult<'_>,
    provider: PointerResult<'_>,
    key_scope: PointerResult<'_>,
    bind_body: PointerResult<'_>,
) -> Option<Binding> {
    Some(Binding {
        tenant: Tenant::parse(&text(tenant)?).ok()?,
        project: Project::parse(&text(project)?).ok()?,
        provider: String::from_utf8(text(provider)?).ok()?,
        secrets: Vec::new(),
        key_scope: match (key_scope, text(key_scope).as_deref()) {
            (PointerResult::Missing, _) => None,
            (_, Some(b"project")) => Some(KeyScope::Project),
            (_, Some(b"webhook")) => Some(KeyScope::Webhook),
            _ => return None,
        },
        bind_body: match bind_body {
            PointerResult::Missing => None,
            PointerResult::Value(JsonScalar::Boolean(value)) => Some(value == b"true"),
            _ => return None,
        },
    })
}
