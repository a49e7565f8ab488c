//! The stores that a policy document names: the registry of webhooks, their secret store, and the registry of API keys.

use serde_json::Value;

/// What a store is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreUse {
    /// Bindings of webhooks, in Unkey
    Bindings,
    /// Secrets of webhooks, in OpenBao
    Secrets,
    /// Holders of API keys, in Unkey
    ApiKeys,
}

/// A store of a document.
#[derive(Debug)]
pub(crate) struct NamedStore<'d> {
    /// What it is for.
    pub(crate) used_for: StoreUse,
    /// Its JSON pointer.
    pub(crate) pointer: String,
    /// Its members.
    pub(crate) value: &'d Value,
}

impl NamedStore<'_> {
    /// The member with its credential.
    pub(crate) const fn credential(&self) -> &'static str {
        match self.used_for {
            StoreUse::Bindings | StoreUse::ApiKeys => "root_key",
            StoreUse::Secrets => "token",
        }
    }

    /// The gateway's cluster.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.value.get("cluster")?.as_str()
    }
}

/// The stores of a document, valid or not.
pub(crate) fn of(document: &Value) -> Vec<NamedStore<'_>> {
    let at = |used_for, pointer: &str| {
        Some(NamedStore { used_for, pointer: pointer.to_owned(), value: document.pointer(pointer)? })
    };
    let webhooks = [at(StoreUse::Bindings, "/webhooks/unkey"), at(StoreUse::Secrets, "/webhooks/openbao")];
    let sources = document.pointer("/identity/sources").and_then(Value::as_array).into_iter().flatten();
    let api_keys =
        (0..sources.count()).find_map(|index| at(StoreUse::ApiKeys, &format!("/identity/sources/{index}/unkey")));
    webhooks.into_iter().flatten().chain(api_keys).collect()
}
