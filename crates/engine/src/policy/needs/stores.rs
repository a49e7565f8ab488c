//! The stores and the secrets of a document.

use super::{SecretNeeds, SecretOrigin, StoreUse};
use crate::json::cursor::child;
use crate::policy::document::{Document, Secret, Service};

/// The stores that the filter asks, each with its JSON pointer.
pub(super) fn services<'d>(document: &'d Document) -> Vec<(StoreUse, String, &'d Service)> {
    let mut found = Vec::new();
    if let Some(webhooks) = &document.webhooks {
        let of_webhooks = [
            (StoreUse::Bindings, "unkey", webhooks.unkey.as_ref().map(|unkey| &unkey.service)),
            (StoreUse::Secrets, "openbao", webhooks.openbao.as_ref().map(|openbao| &openbao.service)),
        ];
        for (used_for, name, service) in of_webhooks {
            found.extend(service.map(|service| (used_for, child("/webhooks", name), service)));
        }
    }
    if let Some(rules) = &document.identity
        && let Some(index) = rules.sources.iter().position(|source| source.api_key.is_some())
        && let Some((_, Some(registry))) = &rules.registry
    {
        found.push((StoreUse::ApiKeys, format!("/identity/sources/{index}/unkey"), &registry.service));
    }
    found
}

/// Every place that names a secret.
pub(super) fn secrets(document: &Document) -> Vec<SecretNeeds> {
    let mut found = Vec::new();
    let mut add = |pointer: String, secret: &Secret| {
        let origin = match secret {
            Secret::Env(name) => SecretOrigin::Variable(name.clone()),
            Secret::Sds(live) => {
                SecretOrigin::Discovered { name: live.name.clone(), is_asked: !live.source.is_empty() }
            }
            Secret::Value(_) => SecretOrigin::Document,
        };
        found.push(SecretNeeds { pointer, origin });
    };
    for (used_for, pointer, service) in services(document) {
        if let Some(secret) = &service.credential {
            add(child(&pointer, used_for.credential()), secret);
        }
    }
    for backend in document.backends.iter() {
        let Some(operations) = &backend.operations else { continue };
        let at = child(&backend.pointer("operations"), "secret");
        match operations.secrets.as_slice() {
            [secret] => add(at, secret),
            several => add_all(&at, several, &mut add),
        }
    }
    for (id, binding) in document.webhooks.iter().flat_map(|webhooks| &webhooks.bindings) {
        add_all(&child(&child("/webhooks/static", id), "secrets"), &binding.secrets, &mut add);
    }
    for caller in &document.callers {
        add_all(&child(&child("/callers", &caller.name), "secrets"), &caller.secrets, &mut add);
    }
    found
}

#[inline(never)]
fn add_all(at: &str, secrets: &[Secret], add: &mut dyn FnMut(String, &Secret)) {
    secrets.iter().enumerate().for_each(|(index, secret)| add(child(at, &index.to_string()), secret));
}
