//! What Unkey knows: a webhook id is an Unkey key, and verifying it gives its binding; verifying an API key gives its holder.
//!
//! The response to `POST /v2/keys.verifyKey` is 200 for invalid keys too, with `data.valid` and `data.code`. The tenant of a
//! binding is `data.identity.externalId`, all else is in `data.meta`
//! (<https://www.unkey.com/docs/api-reference/v2/keys/verify-api-key>).

use super::cache::LookupOutcome;
use super::{CallId, KeyQuestion, LookupFailure, StoreKind, StoreValue};
use crate::api_keys::{KeyHolder, MAX_HOLDER_TEXT};
use crate::call::{Call, CallReply, credential, request_lines};
use crate::codes::Reason;
use crate::identity::{AttributeValue, Project, Tenant};
use crate::json::{Json, is_json, to_text};
use crate::policy::document::Unkey;
use crate::provider::KeyScope;
use crate::webhooks::Binding;
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// The path at which keys are verified.
const VERIFY: &str = "/v2/keys.verifyKey";

/// The body of `keys.verifyKey`.
#[derive(Serialize)]
struct VerifyKey<'k> {
    key: &'k str,
    credits: Credits,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<&'k str>,
}

/// What a verification costs. Results are cached, so it costs nothing: else a key would pay for some of its requests only.
#[derive(Serialize)]
struct Credits {
    cost: u32,
}

/// The call that verifies a webhook id.
pub(super) fn call(unkey: &Unkey, id: CallId) -> (CallId, Call) {
    let body = to_text(&VerifyKey { key: &id.key, credits: Credits { cost: 0 }, permissions: None });
    (id, verification(unkey, body))
}

/// The call that verifies an API key.
pub(super) fn key_call(unkey: &Unkey, id: CallId, question: &KeyQuestion) -> (CallId, Call) {
    let permissions = question.permissions.as_deref();
    let body = to_text(&VerifyKey { key: question.key.expose(), credits: Credits { cost: 0 }, permissions });
    (id, verification(unkey, body))
}

fn verification(unkey: &Unkey, body: String) -> Call {
    let mut headers = request_lines(&unkey.service, "POST", VERIFY.to_owned());
    headers.push(("content-type", "application/json".to_owned()));
    headers.extend(credential(&unkey.service).map(|root_key| ("authorization", format!("Bearer {root_key}"))));
    Call {
        cluster: unkey.service.cluster.clone(),
        headers,
        body: body.into_bytes(),
        timeout_ms: unkey.service.timeout_ms,
    }
}

/// Unkey's verdict about a key: `valid`, `code`, and the reply.
struct Verdict<'b> {
    valid: bool,
    reply: Json<'b>,
}

impl<'b> Verdict<'b> {
    /// Reads the reply to a call for `kind`. `malformed` is the outcome of a reply with duplicate members: parsers disagree
    /// about which of them counts.
    ///
    /// # Errors
    /// There is no verdict: the outcome.
    fn read(reply: &CallReply<'b>, kind: StoreKind, malformed: Reason) -> Result<Self, LookupOutcome> {
        let failed = |reason| LookupOutcome::Failed { reason, down: false };
        let body = match (reply.status, reply.body) {
            (Some(200), Some(body)) => body,
            (Some(200), None) => return Err(failed(Reason::RegistryReplyMalformed)),
            (None, _) => return Err(LookupOutcome::unreachable(kind)),
            (Some(504), _) => return Err(LookupOutcome::Failed { reason: Reason::RegistryTimeout, down: true }),
            // Unkey's own errors are JSON, the gateway's are not.
            (Some(500..), body) if !body.is_some_and(|body| is_json(&Json::parse(body))) => {
                return Err(LookupOutcome::unreachable(kind));
            }
            (Some(500..), _) => return Err(LookupOutcome::Failed { reason: Reason::RegistryError, down: true }),
            (Some(401 | 403), _) => return Err(failed(Reason::RegistryForbidden)),
            (Some(429), _) => return Err(failed(Reason::RegistryThrottled)),
            (Some(_), _) => return Err(failed(Reason::RegistryRefused)),
        };
        let reply = match Json::parse(body) {
            Ok(reply) => reply,
            Err(error) if error.is_duplicate() => {
                return Err(LookupOutcome::Negative(LookupFailure::Unavailable(malformed)));
            }
            Err(_) => return Err(failed(Reason::RegistryReplyMalformed)),
        };
        let verdict = Self { valid: false, reply };
        match (verdict.at(&["valid"]), verdict.code()) {
            (Some(Json::Bool(valid)), Some(_)) => Ok(Self { valid: *valid, ..verdict }),
            _ => Err(failed(Reason::RegistryReplyMalformed)),
        }
    }

    /// A member of `data`.
    fn at(&self, names: &[&str]) -> Option<&Json<'b>> {
        self.reply.at(&["data"])?.at(names)
    }

    fn code(&self) -> Option<&str> {
        self.at(&["code"]).and_then(Json::text)
    }

    /// Whether the key is a webhook id. Those stand in URLs, so they prove nothing about who sends them.
    fn is_webhook(&self) -> bool {
        self.at(&["meta", "kind"]).and_then(Json::text) == Some("webhook")
    }
}

/// Reads the reply to [`call`].
pub(super) fn read(reply: &CallReply<'_>) -> LookupOutcome {
    let unknown = |reason| LookupOutcome::Negative(LookupFailure::Unknown(reason));
    let verdict = match Verdict::read(reply, StoreKind::Bindings, Reason::BindingMalformed) {
        Ok(verdict) => verdict,
        Err(outcome) => return outcome,
    };
    match (verdict.valid, verdict.code()) {
        (true, Some("VALID")) => {}
        // Unkey says this too if the root key belongs to another API.
        (_, Some("NOT_FOUND")) => return unknown(Reason::BindingNotFound),
        (_, Some("RATE_LIMITED")) => return LookupOutcome::Failed { reason: Reason::RegistryThrottled, down: false },
        // The key is disabled, expired, forbidden or used up, or the code is one of a later version of Unkey.
        _ => return unknown(Reason::BindingNotValid),
    }
    if !verdict.is_webhook() {
        return unknown(Reason::BindingOfAnotherKind);
    }
    match binding(|names| verdict.at(names)) {
        Some(binding) => LookupOutcome::Found { value: StoreValue::Binding(Arc::new(binding)), partial: None },
        None => LookupOutcome::Negative(LookupFailure::Unavailable(Reason::BindingMalformed)),
    }
}

/// Reads the reply to [`key_call`]. `members` are those of tenant, project and subject. `now`: Unix time in milliseconds.
pub(super) fn read_holder(reply: &CallReply<'_>, members: &[Option<Vec<String>>; 3], now: u64) -> LookupOutcome {
    let verdict = match Verdict::read(reply, StoreKind::ApiKeys, Reason::RegistryReplyMalformed) {
        Ok(verdict) => verdict,
        Err(outcome) => return outcome,
    };
    let failure = match (verdict.valid, verdict.code()) {
        (true, Some("VALID")) if verdict.is_webhook() => LookupFailure::Unknown(Reason::ApiKeyOfAnotherKind),
        (true, Some("VALID")) => {
            let holder = KeyHolder(std::array::from_fn(|part| {
                let names = members.get(part).and_then(Option::as_deref);
                names.map_or(AttributeValue::Absent, |names| text_at(&verdict, names))
            }));
            return LookupOutcome::Found { value: StoreValue::Holder(Arc::new(holder)), partial: None };
        }
        (_, Some("NOT_FOUND")) => LookupFailure::Unknown(Reason::ApiKeyNotFound),
        (_, Some("RATE_LIMITED")) => LookupFailure::RateLimited { seconds: wait_seconds(&verdict, now) },
        (_, Some("INSUFFICIENT_PERMISSIONS")) => LookupFailure::Forbidden(Reason::ApiKeyPermissions),
        (_, Some("FORBIDDEN")) => LookupFailure::Forbidden(Reason::ApiKeyForbidden),
        (_, Some("USAGE_EXCEEDED" | "INSUFFICIENT_CREDITS")) => LookupFailure::Forbidden(Reason::ApiKeyUsedUp),
        // The key is disabled or expired, or the code is one of a later version of Unkey.
        _ => LookupFailure::Unknown(Reason::ApiKeyNotValid),
    };
    LookupOutcome::Negative(failure)
}

/// The value of a member as a part of an identity. Only a JSON string can be one.
fn text_at(verdict: &Verdict<'_>, names: &[String]) -> AttributeValue<'static> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match verdict.at(&names) {
        None | Some(Json::Null) => AttributeValue::Absent,
        Some(Json::String(text)) if text.is_empty() => AttributeValue::Absent,
        Some(Json::String(text)) if text.len() <= MAX_HOLDER_TEXT => {
            AttributeValue::Text(Cow::Owned(text.as_bytes().to_vec()))
        }
        Some(_) => AttributeValue::Unusable,
    }
}

/// The longest wait that a caller is told, in seconds: a day.
const MAX_WAIT_S: u64 = 86_400;

/// How long a caller waits whose key is above a rate limit, in seconds: until the last of the limits that it has exceeded
/// begins anew.
fn wait_seconds(verdict: &Verdict<'_>, now: u64) -> u32 {
    let limits = match verdict.at(&["ratelimits"]) {
        Some(Json::Array(limits)) => limits.as_slice(),
        _ => &[],
    };
    let exceeded = limits.iter().filter(|limit| matches!(limit.at(&["exceeded"]), Some(Json::Bool(true))));
    let reset = exceeded.filter_map(|limit| limit.at(&["reset"])?.integer()).max();
    let seconds = reset.map_or(1, |reset| reset.saturating_sub(now).div_ceil(1000).clamp(1, MAX_WAIT_S));
    u32::try_from(seconds).unwrap_or(1)
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
