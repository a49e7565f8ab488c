//! Secrets from OpenBao's KV engine, version 2, which is Vault's: `GET /v1/{mount}/data/{path}`
//! (<https://openbao.org/api-docs/secret/kv/kv-v2/>).
//!
//! A secret's data is `{"secret": "…"}`, or `{"secrets": ["…", …]}` with the newest first.

use super::cache::LookupOutcome;
use super::{CallId, LookupResult, StoreKind, places, text};
use crate::call::{Call, CallReply, credential, request_lines};
use crate::json::scan::{JsonScalar, PointerResult};
use crate::policy::document::{OpenBao, Secret};
use crate::time::{self, Unit};
use std::sync::Arc;

/// The most items that `secrets` may have.
const MAX_SECRETS: usize = 8;

/// Asks for the secrets of an owner: this version of them, or the newest (0).
pub(super) fn call(openbao: &OpenBao, id: CallId, version: u64) -> Call<CallId> {
    let mut path = openbao.request_path(&id.key);
    if version > 0 {
        path.push_str("?version=");
        path.push_str(&version.to_string());
    }
    let mut headers = request_lines(&openbao.service, "GET", path);
    headers.push(("x-vault-request", "true".to_owned()));
    headers.extend(openbao.namespace.clone().map(|namespace| ("x-vault-namespace", namespace)));
    headers.extend(credential(&openbao.service).map(|token| ("x-vault-token", token)));
    Call {
        cluster: openbao.service.cluster.clone(),
        headers,
        body: Vec::new(),
        timeout_ms: openbao.service.timeout_ms,
        id,
    }
}

/// What a reply comes to.
pub(super) enum Read {
    Outcome(LookupOutcome),
    /// These secrets, and those of this version.
    AlsoVersion(u64, Vec<Secret>),
}

/// Reads the reply for the newest version; one that is younger than `grace_ms` brings the version before it along.
pub(super) fn read(reply: &CallReply<'_>, now: u64, grace_ms: u64) -> Read {
    let (secrets, version) = match parse(reply) {
        Ok(found) => found,
        Err(verdict) => return Read::Outcome(verdict),
    };
    match version.filter(|version| version.number > 1 && now < version.created.saturating_add(grace_ms)) {
        Some(version) => Read::AlsoVersion(version.number - 1, secrets),
        None => Read::Outcome(found(secrets, None)),
    }
}

/// Reads the reply for the version before the current one, whose secrets are `current`. That it is gone is fine; that it
/// could not be had is not, and soon it is asked for again.
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

fn found(secrets: Vec<Secret>, partial: Option<&'static str>) -> LookupOutcome {
    LookupOutcome::Found { answer: LookupResult::Secrets(Arc::new(secrets)), partial }
}

/// A version of a secret.
struct Version {
    number: u64,
    /// Unix time in milliseconds
    created: u64,
}

fn parse(reply: &CallReply<'_>) -> Result<(Vec<Secret>, Option<Version>), LookupOutcome> {
    let failed = |reason| Err(LookupOutcome::Failed { reason, down: false });
    let malformed = failed("secret_store_reply_malformed");
    let Some(status) = reply.status else { return Err(LookupOutcome::unreachable(StoreKind::Secrets)) };
    let body = reply.body.filter(|body| places(body, &[]).is_some());
    match (status, body) {
        (504, _) => Err(LookupOutcome::Failed { reason: "secret_store_timeout", down: true }),
        // Its errors are JSON, those that a gateway makes for it are not.
        (500.., None) => Err(LookupOutcome::unreachable(StoreKind::Secrets)),
        (503, Some(body)) if is_sealed(body) => {
            Err(LookupOutcome::Failed { reason: "secret_store_sealed", down: true })
        }
        (500.., Some(_)) => Err(LookupOutcome::Failed { reason: "secret_store_error", down: true }),
        (401 | 403, _) => failed("secret_store_forbidden"),
        (429, _) => failed("secret_store_throttled"),
        (300..=399, _) => failed("secret_store_moved"),
        (404, Some(body)) if is_gone(body) => Err(LookupOutcome::Negative(LookupResult::Unavailable("secret_missing"))),
        (404, _) => failed("secret_store_refused"),
        (200, Some(body)) => read_data(body),
        (200, None) => malformed,
        _ => failed("secret_store_refused"),
    }
}

fn is_sealed(body: &[u8]) -> bool {
    let found = places(body, &["/errors/0"]);
    found
        .into_iter()
        .flatten()
        .find_map(text)
        .is_some_and(|text| text.to_ascii_lowercase().windows(6).any(|word| word == b"sealed"))
}

/// Whether a 404 says that there is no secret, and not that there is no such mount: `{"errors": []}` where there never was
/// one, `{"data": {"data": null, "metadata": {…}}}` where its version is deleted.
fn is_gone(body: &[u8]) -> bool {
    let found = places(body, &["/errors", "/errors/0", "/data/data", "/data/metadata"]);
    let Some(&[errors, first, data, metadata]) = found.as_deref() else { return false };
    let container = PointerResult::Value(JsonScalar::Container);
    (errors == container && first == PointerResult::Missing)
        || (data == PointerResult::Value(JsonScalar::Null) && metadata == container)
}

fn read_data(body: &[u8]) -> Result<(Vec<Secret>, Option<Version>), LookupOutcome> {
    let lacking = |reason| Err(LookupOutcome::Negative(LookupResult::Unavailable(reason)));
    let found = places(
        body,
        &[
            "/data/data",
            "/data/data/secret",
            "/data/data/secrets",
            "/data/metadata/version",
            "/data/metadata/created_time",
        ],
    );
    let Some(&[data, one, list, number, created]) = found.as_deref() else {
        return Err(LookupOutcome::Failed { reason: "secret_store_reply_malformed", down: false });
    };
    if data != PointerResult::Value(JsonScalar::Container) {
        return Err(LookupOutcome::Failed { reason: "secret_store_reply_malformed", down: false });
    }
    let secrets = match (one, list) {
        (one, PointerResult::Missing) => text(one).map(|text| vec![text]),
        (PointerResult::Missing, PointerResult::Value(JsonScalar::Container)) => items(body),
        _ => None,
    };
    let Some(secrets) = secrets.filter(|secrets| !secrets.is_empty()) else { return lacking("secret_malformed") };
    let version = || {
        let PointerResult::Value(JsonScalar::Number(number)) = number else { return None };
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        let created = u64::try_from(time::parse(Unit::Rfc3339, &text(created)?)?).ok()?;
        Some(Version { number, created })
    };
    Ok((secrets.into_iter().map(Secret::Value).collect(), version()))
}

/// The items of `secrets`; none if there are too many or one is no string.
fn items(body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: Vec<String> = (0..=MAX_SECRETS).map(|index| format!("/data/data/secrets/{index}")).collect();
    let found = places(body, &all.iter().map(String::as_str).collect::<Vec<_>>())?;
    let items: Vec<Vec<u8>> =
        found.iter().filter(|item| **item != PointerResult::Missing).map(|item| text(*item)).collect::<Option<_>>()?;
    (items.len() <= MAX_SECRETS).then_some(items)
}
