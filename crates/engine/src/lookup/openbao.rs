//! Secrets from OpenBao's KV engine, version 2, which is Vault's: `GET /v1/{mount}/data/{path}`
//! (<https://openbao.org/api-docs/secret/kv/kv-v2/>).
//!
//! A secret's data is `{"secret": "…"}`, or `{"secrets": ["…", …]}` with the newest first.

use super::cache::LookupOutcome;
use super::{CallId, LookupFailure, StoreKind, StoreValue};
use crate::call::{Call, CallReply, credential, request_lines};
use crate::codes::Reason;
use crate::json::{Json, is_json};
use crate::policy::document::{OpenBao, Secret};
use crate::time::{self, Unit};
use std::sync::Arc;

/// The most items that `secrets` may have.
const MAX_SECRETS: usize = 8;

/// The call for the secrets under a key; `version` 0 is the newest.
pub(super) fn call(openbao: &OpenBao, id: CallId, version: u64) -> (CallId, Call) {
    let mut path = openbao.request_path(&id.key);
    if version > 0 {
        path.push_str("?version=");
        path.push_str(&version.to_string());
    }
    let mut headers = request_lines(&openbao.service, "GET", path);
    headers.push(("x-vault-request", "true".to_owned()));
    headers.extend(credential(&openbao.service).map(|token| ("x-vault-token", token)));
    let call = Call {
        cluster: openbao.service.cluster.clone(),
        headers,
        body: Vec::new(),
        timeout_ms: openbao.service.timeout_ms,
    };
    (id, call)
}

/// What follows from the reply for the newest version.
pub(super) enum Read {
    Outcome(LookupOutcome),
    /// Within the rotation grace: the number of the previous version, to be fetched too, and the current secrets.
    AlsoVersion(u64, Vec<Secret>),
}

/// Reads the reply for the newest version. If that version is younger than `grace_ms`, the previous one is valid too.
pub(super) fn read(reply: &CallReply<'_>, now: u64, grace_ms: u64) -> Read {
    let (secrets, version) = match parse(reply) {
        Ok(found) => found,
        Err(outcome) => return Read::Outcome(outcome),
    };
    match version.filter(|version| version.number > 1 && now < version.created.saturating_add(grace_ms)) {
        Some(version) => Read::AlsoVersion(version.number - 1, secrets),
        None => Read::Outcome(found(secrets, None)),
    }
}

/// Reads the reply for the previous version and adds its secrets to `current`. A deleted version adds none. If the call
/// failed, the result is partial, so that it is fetched again soon.
pub(super) fn with_previous(mut current: Vec<Secret>, reply: &CallReply<'_>) -> LookupOutcome {
    let partial = match parse(reply) {
        Ok((previous, _)) => {
            current.extend(previous);
            None
        }
        Err(LookupOutcome::Failed { reason, .. }) => Some(reason),
        Err(_) => None,
    };
    found(current, partial)
}

fn found(secrets: Vec<Secret>, partial: Option<Reason>) -> LookupOutcome {
    LookupOutcome::Found { value: StoreValue::Secrets(Arc::new(secrets)), partial }
}

/// A version of a secret.
struct Version {
    number: u64,
    /// Unix time in milliseconds
    created: u64,
}

fn parse(reply: &CallReply<'_>) -> Result<(Vec<Secret>, Option<Version>), LookupOutcome> {
    let failed = |reason| Err(LookupOutcome::Failed { reason, down: false });
    let Some(status) = reply.status else { return Err(LookupOutcome::unreachable(StoreKind::Secrets)) };
    let json = reply.body.map(Json::parse);
    let is_json = json.as_ref().is_some_and(is_json);
    match (status, json) {
        (504, _) => Err(LookupOutcome::Failed { reason: Reason::SecretStoreTimeout, down: true }),
        // OpenBao's own errors are JSON, the gateway's are not.
        (500.., _) if !is_json => Err(LookupOutcome::unreachable(StoreKind::Secrets)),
        (503, Some(Ok(json))) if is_sealed(&json) => {
            Err(LookupOutcome::Failed { reason: Reason::SecretStoreSealed, down: true })
        }
        (500.., _) => Err(LookupOutcome::Failed { reason: Reason::SecretStoreError, down: true }),
        (401 | 403, _) => failed(Reason::SecretStoreForbidden),
        (429, _) => failed(Reason::SecretStoreThrottled),
        (300..=399, _) => failed(Reason::SecretStoreMoved),
        (404, Some(Ok(json))) if is_gone(&json) => {
            Err(LookupOutcome::Negative(LookupFailure::Unavailable(Reason::SecretMissing)))
        }
        (404, _) => failed(Reason::SecretStoreRefused),
        (200, Some(Ok(json))) => read_data(&json),
        // The JSON has a duplicate member. Parsers disagree about which one counts.
        (200, _) if is_json => Err(LookupOutcome::Negative(LookupFailure::Unavailable(Reason::SecretMalformed))),
        (200, _) => failed(Reason::SecretStoreReplyMalformed),
        _ => failed(Reason::SecretStoreRefused),
    }
}

fn is_sealed(json: &Json) -> bool {
    let Some(Json::Array(errors)) = json.at(&["errors"]) else { return false };
    errors.first().and_then(Json::text).is_some_and(|text| text.to_ascii_lowercase().contains("sealed"))
}

/// Whether a 404 means that there is no secret, and not that the mount is missing. The body is `{"errors": []}` for a
/// secret that never existed, and `{"data": {"data": null, "metadata": {…}}}` for a deleted version.
fn is_gone(json: &Json) -> bool {
    let is_empty = matches!(json.at(&["errors"]), Some(Json::Array(errors)) if errors.is_empty());
    let is_deleted = json.at(&["data", "data"]) == Some(&Json::Null)
        && matches!(json.at(&["data", "metadata"]), Some(Json::Object(_)));
    is_empty || is_deleted
}

fn read_data(json: &Json) -> Result<(Vec<Secret>, Option<Version>), LookupOutcome> {
    let Some(data @ Json::Object(_)) = json.at(&["data", "data"]) else {
        return Err(LookupOutcome::Failed { reason: Reason::SecretStoreReplyMalformed, down: false });
    };
    let texts: Option<Vec<&str>> = match (data.at(&["secret"]), data.at(&["secrets"])) {
        (Some(Json::String(text)), None) => Some(vec![text]),
        (None, Some(Json::Array(items))) => items.iter().map(Json::text).collect(),
        _ => None,
    };
    let Some(texts) = texts.filter(|texts| (1..=MAX_SECRETS).contains(&texts.len())) else {
        return Err(LookupOutcome::Negative(LookupFailure::Unavailable(Reason::SecretMalformed)));
    };
    let secrets = texts.iter().map(|text| Secret::Value(text.as_bytes().to_vec())).collect();
    let of = |name| json.at(&["data", "metadata", name]);
    let version = || {
        let created = of("created_time").and_then(Json::text)?;
        let created = u64::try_from(time::parse(Unit::Rfc3339, created.as_bytes())?).ok()?;
        Some(Version { number: of("version").and_then(Json::integer)?, created })
    };
    Ok((secrets, version()))
}
