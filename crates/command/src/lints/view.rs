//! The members of a policy document that lints read. The document has been accepted by the engine, so what is not here, or
//! has a default there, is left out.

use crate::lints::backends::{BackendAt, Backends};
use edge_idempotency_engine::policy::target_parts;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A policy document.
#[derive(Debug, Deserialize)]
pub(super) struct DocumentView {
    #[serde(default)]
    pub(super) unmatched: Option<String>,
    #[serde(default)]
    pub(super) mode: Option<String>,
    #[serde(default)]
    pub(super) gateway_routes: bool,
    #[serde(flatten)]
    pub(super) backends: Backends<BackendView>,
    pub(super) routes: Vec<RouteView>,
    #[serde(default)]
    pub(super) webhooks: WebhooksView,
    #[serde(default)]
    pub(super) callers: BTreeMap<String, SecretsView>,
    #[serde(default)]
    pub(super) retention: RetentionView,
    #[serde(default)]
    pub(super) key: Option<KeyView>,
    #[serde(default)]
    pub(super) identity: Option<IdentityView>,
}

/// `identity`.
#[derive(Debug, Deserialize)]
pub(super) struct IdentityView {
    pub(super) sources: Vec<SourceView>,
}

/// An identity source.
#[derive(Debug, Deserialize)]
pub(super) struct SourceView {
    pub(super) name: String,
    pub(super) subject: SubjectView,
}

/// `subject` of a source.
#[derive(Debug, Deserialize)]
pub(super) struct SubjectView {
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) value: Option<String>,
}

/// A backend.
#[derive(Debug, Deserialize)]
pub(super) struct BackendView {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) rewrite_path: bool,
    #[serde(default)]
    pub(super) guard: Option<GuardView>,
    #[serde(default)]
    pub(super) operations: Option<OperationsView>,
}

/// `guard` of a backend.
#[derive(Debug, Deserialize)]
pub(super) struct GuardView {
    #[serde(default)]
    pub(super) retention: Option<String>,
}

/// `operations` of a backend: one secret or several.
#[derive(Debug, Deserialize)]
pub(super) struct OperationsView {
    #[serde(default)]
    pub(super) secret: Option<Value>,
    #[serde(default)]
    pub(super) secrets: Vec<Value>,
}

/// A route.
#[derive(Debug, Deserialize)]
pub(super) struct RouteView {
    pub(super) endpoint: String,
    pub(super) path: String,
    pub(super) policy: String,
    #[serde(default)]
    pub(super) backend: Option<String>,
    #[serde(default)]
    pub(super) mode: Option<String>,
    #[serde(default)]
    pub(super) methods: Option<Vec<String>>,
    #[serde(default)]
    pub(super) hosts: Vec<String>,
    #[serde(default)]
    pub(super) target: Option<String>,
    #[serde(default)]
    pub(super) collision: Option<String>,
    #[serde(default)]
    pub(super) webhook: Option<WebhookView>,
    #[serde(default)]
    pub(super) max_body_bytes: Option<u64>,
    #[serde(default)]
    pub(super) key: Option<KeyView>,
    #[serde(default)]
    pub(super) encoded_slash: bool,
    #[serde(default)]
    pub(super) subject: Option<String>,
    #[serde(default)]
    pub(super) scope: Option<String>,
    #[serde(default)]
    pub(super) identity: Option<IdentityView>,
}

/// `webhook` of a route.
#[derive(Debug, Deserialize)]
pub(super) struct WebhookView {
    #[serde(default)]
    pub(super) provider: Option<String>,
    #[serde(default)]
    pub(super) id: Option<String>,
}

/// `key`.
#[derive(Debug, Deserialize)]
pub struct KeyView {
    /// `charset`
    #[serde(default)]
    pub charset: Option<String>,
    /// `max_age`
    #[serde(default)]
    pub max_age: Option<String>,
}

/// `webhooks`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WebhooksView {
    #[serde(default, rename = "static")]
    pub(super) bindings: BTreeMap<String, BindingView>,
    #[serde(default)]
    pub(super) providers: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) unkey: Option<Value>,
    #[serde(default)]
    pub(super) openbao: Option<Value>,
}

/// A member of `webhooks.static`.
#[derive(Debug, Deserialize)]
pub(super) struct BindingView {
    pub(super) tenant: String,
    pub(super) project: String,
    pub(super) provider: String,
    #[serde(default)]
    pub(super) secrets: Vec<Value>,
    #[serde(default)]
    pub(super) key_scope: Option<String>,
    #[serde(default)]
    pub(super) bind_body: Option<bool>,
}

/// A signed caller.
#[derive(Debug, Deserialize)]
pub(super) struct SecretsView {
    #[serde(default)]
    pub(super) secrets: Vec<Value>,
}

/// `retention`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RetentionView {
    #[serde(default)]
    pub(super) classes: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) services: BTreeMap<String, ServiceView>,
}

/// A member of `retention.services`.
#[derive(Debug, Deserialize)]
pub(super) struct ServiceView {
    pub(super) class: String,
}

impl DocumentView {
    /// The backend of a route, or of requests that no route declares.
    pub(super) fn backend_of(&self, route: Option<&RouteView>) -> Option<BackendAt<'_, BackendView>> {
        self.backends.of(route.and_then(|route| route.backend.as_deref()))
    }

    /// Whether this backend is Restate.
    pub(super) fn is_restate(&self, route: Option<&RouteView>) -> bool {
        self.backend_of(route).is_some_and(|backend| backend.value.kind == "restate")
    }
}

impl RouteView {
    /// Whether one of its methods changes something.
    pub(super) fn writes(&self) -> bool {
        let reads = |method: &String| ["GET", "HEAD", "OPTIONS"].contains(&method.as_str());
        self.methods.as_ref().is_none_or(|methods| methods.iter().any(|method| !reads(method)))
    }

    /// Whether the filter sends keys to the backend for it.
    pub(super) fn has_keys(&self) -> bool {
        ["REQUIRED_A", "REQUIRED_B", "ACCEPTED"].contains(&self.policy.as_str())
    }

    /// Service, object key and handler of its target.
    pub(super) fn target_parts(&self) -> Option<(&str, Option<&str>, &str)> {
        target_parts(self.target.as_ref()?)
    }
}

/// A token of a JSON pointer (RFC 6901).
pub fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Reads a duration of the policy document, such as `24h`, into seconds.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    units.iter().find_map(|(unit, factor)| text.strip_suffix(*unit)?.parse::<u64>().ok()?.checked_mul(*factor))
}

/// Writes seconds as a duration of the policy document, in the greatest unit that fits. One day is `24h`.
pub fn duration(seconds: u64) -> String {
    for (unit, factor, least) in [("d", 86_400, 2), ("h", 3_600, 1), ("m", 60, 1)] {
        if seconds >= least * factor && seconds.is_multiple_of(factor) {
            return format!("{}{unit}", seconds / factor);
        }
    }
    format!("{seconds}s")
}
