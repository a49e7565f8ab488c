//! The registry (Unkey) and the secret store (OpenBao) of webhooks, and the registry of API keys, asked as the filter asks them.

use super::LiveCheck;
use super::upstreams::{as_reply, credential};
use crate::lint::live_list::{LIVE_LOOKUP, LIVE_UNREACHABLE};
use crate::render::upstream::NamedUpstream;
use crate::webhook::records::new_id;
use edge_idempotency_engine::api_keys::ApiKey;
use edge_idempotency_engine::lookup::{KeyQuestion, LookupAnswer, LookupFailure, LookupRequest, Lookups, StoreKind};
use edge_idempotency_engine::policy::needs::{Binding, PolicyNeeds, StoreUse};
use edge_idempotency_engine::problem::Code;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const UNKEY: &str = "/webhooks/unkey";
const OPENBAO: &str = "/webhooks/openbao";
/// An owner that nobody is: a store that may be read has no secret there.
const NOBODY: &str = "edge-idempotency-check:none:stripe";

pub(super) fn check(live: &mut LiveCheck<'_>) {
    let mut owners = static_owners(live.policy.needs());
    let policy = live.policy;
    for store in &policy.needs().stores {
        match store.used_for {
            StoreUse::Bindings => owners.extend(registry(live)),
            StoreUse::Secrets => secrets(live, &owners),
            StoreUse::ApiKeys => api_keys(live, &store.pointer),
        }
    }
}

/// The registry of API keys, as messages name it.
const API_KEYS: &str = "the registry of API keys";

/// The registry of API keys: it answers, and does not know a key that was made up.
fn api_keys(live: &mut LiveCheck<'_>, at: &str) {
    let Some(upstream) = upstream(live, at, API_KEYS) else { return };
    let made_up = match new_id() {
        Ok(id) => id,
        Err(error) => return live.add(&LIVE_UNREACHABLE, at, error, ""),
    };
    let root_key = credential(&["UNKEY_ROOT_KEY"]).map(|key| ("authorization", format!("Bearer {key}")));
    let Some(LookupAnswer::Holder(answer)) = look_up(live, at, &upstream, StoreKind::ApiKeys, &made_up, root_key)
    else {
        return;
    };
    match answer.result {
        Err(LookupFailure::Unknown(_)) => {
            live.works(at, format!("{API_KEYS} answers, and does not know a key that was made up"));
        }
        Err(LookupFailure::Unavailable(reason)) => {
            let help = "UNKEY_ROOT_KEY of this command's environment has to be the root key that the gateway has";
            told(live, at, &format!("{API_KEYS} gives no usable answer"), reason.name(), help);
        }
        Ok(_) | Err(LookupFailure::Forbidden(_) | LookupFailure::RateLimited { .. }) => {
            let help = "the cluster has to lead to Unkey's API";
            live.add(&LIVE_LOOKUP, at, format!("{API_KEYS} says that it knows a key that was made up"), help);
        }
    }
}

/// Owners of secrets that are in the store, of bindings that the document lists, with their places.
fn static_owners(policy: &PolicyNeeds) -> BTreeSet<(String, String)> {
    let stored = policy.bindings.iter().filter(|(_, binding)| binding.secrets.is_empty());
    stored.map(|(id, binding)| (owner(binding), format!("/webhooks/static/{id}"))).collect()
}

fn owner(binding: &Binding) -> String {
    format!("{}:{}:{}", binding.tenant.as_str(), binding.project.as_str(), binding.provider)
}

/// The registry: the owner of the webhook that is asked for.
fn registry(live: &mut LiveCheck<'_>) -> Option<(String, String)> {
    let upstream = upstream(live, UNKEY, "the registry")?;
    let asked = live.args.webhook.clone();
    let id = match asked.clone().map_or_else(new_id, Ok) {
        Ok(id) => id,
        Err(error) => {
            live.add(&LIVE_UNREACHABLE, UNKEY, error, "");
            return None;
        }
    };
    let key = credential(&["UNKEY_ROOT_KEY"]).map(|key| ("authorization", format!("Bearer {key}")));
    let answer = look_up(live, UNKEY, &upstream, StoreKind::Bindings, &id, key)?;
    let LookupAnswer::Binding(answer) = answer else { return None };
    match (answer.result, asked) {
        (Ok(binding), _) => {
            let owner = owner(&binding);
            live.works(UNKEY, format!("the registry knows the webhook of {owner}"));
            Some((owner, OPENBAO.to_owned()))
        }
        (Err(LookupFailure::Unknown(_)), None) => {
            live.works(UNKEY, "the registry answers, and has no webhook with an id that was made up");
            live.not_asked(UNKEY, "the binding of a webhook", "--webhook ID");
            None
        }
        (Err(LookupFailure::Unknown(reason)), Some(id)) => {
            let help = "the id may be another one, or the root key may belong to another API";
            told(live, UNKEY, &format!("the registry gives no binding for {id}"), reason.name(), help);
            None
        }
        // Only API keys have these.
        (Err(LookupFailure::Forbidden(_) | LookupFailure::RateLimited { .. }), _) => None,
        (Err(LookupFailure::Unavailable(reason)), _) => {
            let help = "UNKEY_ROOT_KEY of this command's environment has to be the root key that the gateway has";
            told(live, UNKEY, "the registry gives no usable answer", reason.name(), help);
            None
        }
    }
}

/// The secret store: the secrets of these owners, or that it may be read where none is known.
fn secrets(live: &mut LiveCheck<'_>, owners: &BTreeSet<(String, String)>) {
    let Some(upstream) = upstream(live, OPENBAO, "the secret store") else { return };
    let token = credential(&["BAO_TOKEN", "VAULT_TOKEN"]).map(|token| ("x-vault-token", token));
    let nobody = BTreeSet::from([(NOBODY.to_owned(), OPENBAO.to_owned())]);
    for (owner, at) in if owners.is_empty() { &nobody } else { owners } {
        let answer = look_up(live, at, &upstream, StoreKind::Secrets, owner, token.clone());
        let Some(LookupAnswer::Secrets(answer)) = answer else { return };
        let path = live.policy.secret_path(owner).unwrap_or_default();
        match answer.result {
            Ok(secrets) => live.works(at, format!("the secret store has {} of {owner}", count(secrets.len()))),
            Err(LookupFailure::Unavailable(reason)) if reason.name() == MISSING && owner == NOBODY => {
                live.works(at, "the secret store may be read");
            }
            Err(LookupFailure::Unavailable(reason) | LookupFailure::Unknown(reason)) => {
                let help = "BAO_TOKEN or VAULT_TOKEN of this command's environment has to be the token that the gateway has, or one with \
                            the same rights";
                told(live, at, &format!("the secret store gives no secret at {path}"), reason.name(), help);
            }
            // Only API keys have these.
            Err(LookupFailure::Forbidden(_) | LookupFailure::RateLimited { .. }) => {}
        }
    }
}

/// The reason of a secret that is not there.
const MISSING: &str = "secret_missing";

fn count(number: usize) -> String {
    if number == 1 { "a secret".to_owned() } else { format!("{number} secrets") }
}

fn told(live: &mut LiveCheck<'_>, at: &str, what: &str, reason: &str, help: &str) {
    let codes = [Code::DependencyUnavailable, Code::WebhookUnknown];
    let meaning = codes.iter().find_map(|code| crate::explain::explanations::of_reason(code.name(), reason));
    let meaning = meaning.map(|meaning| format!(": {meaning}")).unwrap_or_default();
    live.add(&LIVE_LOOKUP, at, format!("{what} (`{reason}`{meaning})"), help);
}

/// The address of a store's cluster.
fn upstream(live: &mut LiveCheck<'_>, at: &str, what: &str) -> Option<NamedUpstream> {
    let cluster = &live.policy.needs().stores.iter().find(|store| store.pointer == at)?.cluster;
    let found = live.upstreams.named(cluster).cloned();
    if found.is_none() {
        live.not_asked(at, what, &format!("--upstream {cluster}=URL"));
    }
    found
}

/// What the filter's own lookup gives.
fn look_up(
    live: &mut LiveCheck<'_>,
    at: &str,
    upstream: &NamedUpstream,
    kind: StoreKind,
    key: &str,
    credential: Option<(&str, String)>,
) -> Option<LookupAnswer> {
    let mut lookups = Lookups::of(live.policy)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let now = u64::try_from(now.as_millis()).ok()?;
    let request = match kind {
        StoreKind::ApiKeys => LookupRequest::about_key(KeyQuestion { key: ApiKey::new(key)?, permissions: None }),
        StoreKind::Bindings | StoreKind::Secrets => LookupRequest::new(kind, Arc::from(key), false),
    };
    if let Some(answer) = lookups.look_up(0, &request, &|| None, now) {
        return Some(answer);
    }
    while let Some((id, call)) = lookups.next_call() {
        match live.upstreams.send(upstream, &call, credential.clone()) {
            Ok(reply) => lookups.replied(&id, &as_reply(&reply), now),
            Err(error) => {
                let what = match kind {
                    StoreKind::Bindings => "the registry",
                    StoreKind::Secrets => "the secret store",
                    StoreKind::ApiKeys => API_KEYS,
                };
                live.add(&LIVE_UNREACHABLE, at, format!("{what}: {error}"), "");
                return None;
            }
        }
    }
    lookups.next_answer().map(|(_, answer)| answer)
}
